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
    args.y = &y, args.weight = weight;
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

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_examples_of_the_vectors_come_out_as_published),
        cmocka_unit_test(up_is_clamped_on_both_sides_and_gate_only_above),
        cmocka_unit_test(a_nan_passes_the_clamps),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
