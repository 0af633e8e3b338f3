#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include "base/number.h"
#include "kernel/hc_collapse/hc_collapse.h"
#include "kernel_check.h"
#include "vectors.h"

static void the_example_of_the_vectors_collapses_as_published(void **state) {
    (void)state;
    json_t *file = vectors_load("hc"), *part = vectors_get(file, "collapse");
    uint16_t x[12], y[3];
    float pre[4];
    for (size_t i = 0; i < 12; i++)
        x[i] = lf_bf16_from_f32((float)vectors_number(
            json_array_get(vectors_get(part, "X"), i / 3), i % 3));
    for (size_t i = 0; i < 4; i++)
        pre[i] = (float)vectors_number(vectors_get(part, "pre_in"), i);
    struct lf_hc_collapse_args args = {.rows = 1, .streams = 4, .dim = 3};
    args.x = x, args.pre = pre, args.y = y;
    struct lf_device *device = lf_check_device(1);
    lf_hc_collapse_portable(device, &args);
    for (size_t d = 0; d < 3; d++)
        assert_int_equal(y[d], lf_bf16_from_f32((float)vectors_number(vectors_get(part, "y"), d)));
    lf_check_device_close(device);
    json_decref(file);
}

static void the_first_mix_of_a_model_returns_stream_0(void **state) {
    (void)state;
    uint16_t x[4 * 64], y[64];
    float pre[4] = {1, 0, 0, 0};
    struct lf_check_rng rng = {.state = 5};
    lf_check_fill_bf16(&rng, LF_STYLE_WIDE, 1.0f, x, 4 * 64);
    struct lf_hc_collapse_args args = {.rows = 1, .streams = 4, .dim = 64};
    args.x = x, args.pre = pre, args.y = y;
    struct lf_device *device = lf_check_device(1);
    lf_hc_collapse_portable(device, &args);
    lf_check_same("stream 0", y, x, sizeof y);
    lf_check_device_close(device);
}

static void a_norm_in_the_call_has_the_bits_of_calls_one_by_one(void **state) {
    enum { ROWS = 3, STREAMS = 4, DIM = 96, N = ROWS * DIM };
    uint16_t x[STREAMS * N], w[DIM], y[N], values[N], fused[N], fused_values[N];
    float pre[ROWS * STREAMS];
    struct lf_check_rng rng = {6};
    struct lf_device *device = lf_check_device(2);
    (void)state;
    lf_check_fill_bf16(&rng, LF_STYLE_NORMAL, 1.0f, w, DIM);
    lf_check_fill_f32(&rng, LF_STYLE_NORMAL, 1.0f, pre, ROWS * STREAMS);
    for (enum lf_isa isa = LF_ISA_PORTABLE; isa < LF_ISAS; isa++) {
        if (!lf_isa_present(isa))
            continue;
        const struct lf_kernels *k = lf_check_kernels(isa);
        lf_check_fill_bf16(&rng, LF_STYLE_WIDE, 1.0f, x, STREAMS * N);
        struct lf_hc_collapse_args args = {.rows = ROWS, .streams = STREAMS, .dim = DIM, .x = x,
                                           .pre = pre, .y = y};
        k->hc_collapse(device, &args);
        k->rms_norm(device, &(struct lf_rms_norm_args){.rows = ROWS, .dim = DIM, .x = y,
                                                       .x_stride = DIM, .w = w, .eps = 1e-6f,
                                                       .y = y, .y_stride = DIM});
        k->act_quant(device, &(struct lf_act_quant_args){LF_ACT_QA8, ROWS, DIM, y, DIM, values,
                                                         DIM});
        args.norm = w, args.eps = 1e-6f, args.y = fused, args.quantized = fused_values;
        k->hc_collapse(device, &args);
        lf_check_same("normed", fused, y, sizeof y);
        lf_check_same("quantized", fused_values, values, sizeof values);
    }
    lf_check_device_close(device);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_example_of_the_vectors_collapses_as_published),
        cmocka_unit_test(the_first_mix_of_a_model_returns_stream_0),
        cmocka_unit_test(a_norm_in_the_call_has_the_bits_of_calls_one_by_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
