#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include "base/number.h"
#include "kernel/swiglu/swiglu.h"
#include "kernel_check.h"
#include "vectors.h"

static float one(float gate, float up, float limit, const float *weight, struct lf_device *device) {
    uint16_t g = lf_bf16_from_f32(gate), u = lf_bf16_from_f32(up), y;
    struct lf_swiglu_args args = {.rows = 1, .dim = 1, .limit = limit, .gate = &g, .up = &u};
    args.y = &y, args.weight = weight, args.weighted = weight != NULL;
    lf_swiglu_portable(device, &args);
    return lf_bf16_to_f32(y);
}

static void the_examples_of_the_vectors_come_out_as_published(void **state) {
    (void)state;
    json_t *file = vectors_load("blocks"), *list = vectors_get(file, "expert_activation"), *item;
    struct lf_device *device = lf_check_device(1);
    size_t i;
    json_array_foreach(list, i, item) {
        double want = json_number_value(vectors_get(item, "h"));
        double got = (double)one((float)json_number_value(vectors_get(item, "gate")),
                                 (float)json_number_value(vectors_get(item, "up")), 10.0f, NULL,
                                 device);
        assert_true(fabs(got - want) <= 0x1p-7 * fabs(want));
    }
    assert_true(i >= 5);
    lf_check_device_close(device);
    json_decref(file);
}

static void up_is_clamped_on_both_sides_and_gate_only_above(void **state) {
    (void)state;
    struct lf_device *device = lf_check_device(1);
    assert_true(one(0.5f, 12.0f, 10.0f, NULL, device) == one(0.5f, 10.0f, 10.0f, NULL, device));
    assert_true(one(0.5f, -12.0f, 10.0f, NULL, device) == one(0.5f, -10.0f, 10.0f, NULL, device));
    assert_true(one(12.0f, 1.0f, 10.0f, NULL, device) == one(10.0f, 1.0f, 10.0f, NULL, device));
    assert_true(one(-12.0f, 1.0f, 10.0f, NULL, device) != one(-10.0f, 1.0f, 10.0f, NULL, device));
    assert_true(one(INFINITY, 1.0f, 10.0f, NULL, device) == one(10.0f, 1.0f, 10.0f, NULL, device));
    assert_true(one(0.5f, -INFINITY, 10.0f, NULL, device) ==
                one(0.5f, -10.0f, 10.0f, NULL, device));
    lf_check_device_close(device);
}

static void a_nan_passes_the_clamps(void **state) {
    (void)state;
    struct lf_device *device = lf_check_device(1);
    float weight = NAN;
    assert_true(isnan(one(NAN, 1.0f, 10.0f, NULL, device)));
    assert_true(isnan(one(1.0f, NAN, 10.0f, NULL, device)));
    assert_true(isnan(one(1.0f, 1.0f, 10.0f, &weight, device)));
    lf_check_device_close(device);
}

// Rows of pairs, a row of the shared expert, and its values quantized in the memory of up.
static void rows_past_the_weights_have_none_and_values_are_act_quants(void **state) {
    enum { ROWS = 7, DIM = 288, N = ROWS * DIM };
    uint16_t gate[N], up[N], plain[N], y[N], values[N];
    float weight[ROWS];
    struct lf_check_rng rng = {9};
    struct lf_device *device = lf_check_device(2);
    (void)state;
    lf_check_fill_bf16(&rng, LF_STYLE_NORMAL, 4.0f, gate, N);
    lf_check_fill_f32(&rng, LF_STYLE_NORMAL, 1.0f, weight, ROWS);
    for (enum lf_isa isa = LF_ISA_PORTABLE; isa < LF_ISAS; isa++) {
        if (!lf_isa_present(isa))
            continue;
        const struct lf_kernels *k = lf_check_kernels(isa);
        lf_check_fill_bf16(&rng, LF_STYLE_NORMAL, 4.0f, up, N);
        struct lf_swiglu_args args = {.rows = ROWS - 1, .dim = DIM, .limit = 10.0f, .gate = gate,
                                      .up = up, .weight = weight, .weighted = ROWS - 1, .y = plain};
        k->swiglu(device, &args);
        args.rows = 1, args.weighted = 0, args.y += N - DIM, args.gate += N - DIM;
        args.up += N - DIM;
        k->swiglu(device, &args);
        k->act_quant(device, &(struct lf_act_quant_args){LF_ACT_QA8, ROWS, DIM, plain, DIM, values,
                                                         DIM});
        k->swiglu(device, &(struct lf_swiglu_args){
                              .rows = ROWS, .dim = DIM, .limit = 10.0f, .gate = gate, .up = up,
                              .weight = weight, .weighted = ROWS - 1, .y = y, .quantized = up});
        lf_check_same("in one call", y, plain, sizeof y);
        lf_check_same("quantized", up, values, sizeof values);
    }
    lf_check_device_close(device);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_examples_of_the_vectors_come_out_as_published),
        cmocka_unit_test(up_is_clamped_on_both_sides_and_gate_only_above),
        cmocka_unit_test(a_nan_passes_the_clamps),
        cmocka_unit_test(rows_past_the_weights_have_none_and_values_are_act_quants),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
