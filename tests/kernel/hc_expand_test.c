#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
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

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_sum_runs_over_the_first_index_of_comb),
        cmocka_unit_test(the_example_of_the_vectors_expands_as_published),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
