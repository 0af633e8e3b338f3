#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <string.h>
#include "base/number.h"
#include "kernel/hc_expand/hc_expand.h"
#include "kernel_check.h"
#include "vectors.h"

static void the_sum_runs_over_the_first_index_of_comb(void **state) {
    (void)state;
    uint16_t x[2] = {lf_bf16_from_f32(1.0f), lf_bf16_from_f32(10.0f)}, b[1] = {0};
    float post[2] = {0, 0}, comb[4] = {0.5f, 0.25f, 0.0f, 0.75f};
    struct lf_hc_expand_args args = {.rows = 1, .streams = 2, .dim = 1, .x = x, .b = b};
    args.post = post, args.comb = comb;
    struct lf_device *device = lf_check_device(1);
    lf_hc_expand_portable(device, &args);
    assert_int_equal(x[0], lf_bf16_from_f32(0.5f));
    assert_int_equal(x[1], lf_bf16_from_f32(7.75f));
    lf_check_device_close(device);
}

static void the_example_of_the_vectors_expands_as_published(void **state) {
    (void)state;
    json_t *file = vectors_load("hc"), *part = vectors_get(file, "expand");
    json_t *split = vectors_get(file, "split"), *result = vectors_get(part, "Y");
    uint16_t x[12], b[3];
    float post[4], comb[16];
    for (size_t i = 0; i < 12; i++)
        x[i] = lf_bf16_from_f32((float)vectors_number(
            json_array_get(vectors_get(part, "X"), i / 3), i % 3));
    for (size_t d = 0; d < 3; d++)
        b[d] = lf_bf16_from_f32((float)vectors_number(vectors_get(part, "b"), d));
    for (size_t i = 0; i < 4; i++)
        post[i] = (float)vectors_number(vectors_get(split, "post"), i);
    for (size_t i = 0; i < 16; i++)
        comb[i] = (float)vectors_number(
            json_array_get(vectors_get(split, "comb"), i / 4), i % 4);
    struct lf_hc_expand_args args = {.rows = 1, .streams = 4, .dim = 3, .x = x, .b = b};
    args.post = post, args.comb = comb;
    struct lf_device *device = lf_check_device(1);
    lf_hc_expand_portable(device, &args);
    for (size_t i = 0; i < 12; i++) {
        double want = vectors_number(json_array_get(result, i / 3), i % 3);
        // b is not a bf16 number in the vectors: half a spacing of b, then of the result.
        double allowed = 0x1p-9 * fabs((double)post[i / 3] * 1.2) + 0x1p-8 * fabs(want);
        assert_true(fabs((double)lf_bf16_to_f32(x[i]) - want) <= allowed);
    }
    lf_check_device_close(device);
    json_decref(file);
}

static void experts_are_added_in_the_order_of_the_pairs_and_shared_is_last(void **state) {
    (void)state;
    uint16_t big = lf_bf16_from_f32(0x1p30f), one = lf_bf16_from_f32(1.0f), x[1] = {0};
    uint16_t expert[3] = {big, one, (uint16_t)(big ^ 0x8000)}, shared[1] = {one};
    uint32_t pair[3] = {0, 1, 2}, other[3] = {0, 2, 1};
    float post[1] = {1.0f}, comb[1] = {0.0f};
    struct lf_hc_expand_args args = {.rows = 1, .streams = 1, .dim = 1, .x = x, .post = post,
                                     .comb = comb, .top = 3, .expert = expert, .shared = shared};
    struct lf_device *device = lf_check_device(1);
    args.pair = pair;
    lf_hc_expand_portable(device, &args);
    assert_int_equal(x[0], one);
    args.pair = other;
    lf_hc_expand_portable(device, &args);
    assert_int_equal(x[0], lf_bf16_from_f32(2.0f));
    lf_check_device_close(device);
}

static void what_follows_in_the_call_has_the_bits_of_calls_one_by_one(void **state) {
    enum { ROWS = 3, STREAMS = 4, DIM = 96, N = ROWS * DIM };
    uint16_t x[2][STREAMS * N], b[N], w[DIM], y[2][N], values[2][N];
    float post[ROWS * STREAMS], comb[ROWS * STREAMS * STREAMS], pre[ROWS * STREAMS];
    struct lf_check_rng rng = {8};
    struct lf_device *device = lf_check_device(2);
    (void)state;
    lf_check_fill_bf16(&rng, LF_STYLE_NORMAL, 1.0f, w, DIM);
    lf_check_fill_bf16(&rng, LF_STYLE_WIDE, 1.0f, b, N);
    lf_check_fill_f32(&rng, LF_STYLE_NORMAL, 1.0f, post, ROWS * STREAMS);
    lf_check_fill_f32(&rng, LF_STYLE_NORMAL, 1.0f, pre, ROWS * STREAMS);
    lf_check_fill_f32(&rng, LF_STYLE_NORMAL, 1.0f, comb, ROWS * STREAMS * STREAMS);
    for (enum lf_isa isa = LF_ISA_PORTABLE; isa < LF_ISAS; isa++) {
        if (!lf_isa_present(isa))
            continue;
        const struct lf_kernels *k = lf_check_kernels(isa);
        lf_check_fill_bf16(&rng, LF_STYLE_WIDE, 1.0f, x[0], STREAMS * N);
        memcpy(x[1], x[0], sizeof x[0]);
        struct lf_hc_expand_args args = {.rows = ROWS, .streams = STREAMS, .dim = DIM, .x = x[0],
                                         .b = b, .post = post, .comb = comb};
        k->hc_expand(device, &args);
        k->hc_collapse(device, &(struct lf_hc_collapse_args){
                                   .rows = ROWS, .streams = STREAMS, .dim = DIM, .x = x[0],
                                   .pre = pre, .y = y[0], .norm = w, .eps = 1e-6f,
                                   .quantized = values[0]});
        args.x = x[1], args.pre = pre, args.norm = w, args.eps = 1e-6f, args.y = y[1];
        args.quantized = values[1];
        k->hc_expand(device, &args);
        lf_check_same("streams", x[1], x[0], sizeof x[0]);
        lf_check_same("normed", y[1], y[0], sizeof y[0]);
        lf_check_same("quantized", values[1], values[0], sizeof values[0]);
    }
    lf_check_device_close(device);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_sum_runs_over_the_first_index_of_comb),
        cmocka_unit_test(the_example_of_the_vectors_expands_as_published),
        cmocka_unit_test(experts_are_added_in_the_order_of_the_pairs_and_shared_is_last),
        cmocka_unit_test(what_follows_in_the_call_has_the_bits_of_calls_one_by_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
