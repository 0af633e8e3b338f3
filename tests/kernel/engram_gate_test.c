#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "base/number.h"
#include "kernel/engram_gate/engram_gate.h"
#include "kernel_check.h"
#include "vectors.h"

static void the_example_of_the_vectors_gates_as_published(void **state) {
    (void)state;
    json_t *file = vectors_load("blocks"), *part = vectors_get(file, "engram_gate");
    uint16_t x[8], kv[12], q[8], k[8];
    float gate[2];
    for (size_t i = 0; i < 8; i++) {
        x[i] = lf_bf16_from_f32(
            (float)vectors_number(json_array_get(vectors_get(part, "h"), i / 4), i % 4));
        kv[i] = lf_bf16_from_f32(
            (float)vectors_number(json_array_get(vectors_get(part, "key"), i / 4), i % 4));
        q[i] = lf_bf16_from_f32(
            (float)vectors_number(json_array_get(vectors_get(part, "q_weight"), i / 4), i % 4));
        k[i] = lf_bf16_from_f32(
            (float)vectors_number(json_array_get(vectors_get(part, "k_weight"), i / 4), i % 4));
        if (i < 4)
            kv[8 + i] = lf_bf16_from_f32((float)vectors_number(vectors_get(part, "value"), i));
    }
    struct lf_engram_gate_args args = {.rows = 1, .streams = 2, .dim = 4, .x = x, .kv = kv};
    args.q_weight = q, args.k_weight = k, args.dot_scale = 0.5f, args.eps = 1e-20f;
    args.gate = gate;
    struct lf_device *device = lf_check_device(1);
    lf_engram_gate_portable(device, &args);
    for (size_t i = 0; i < 2; i++) {
        json_t *want = json_array_get(vectors_get(part, "result"), i);
        assert_true(fabs((double)gate[i] - json_number_value(vectors_get(want, "gate"))) < 2e-3);
        for (size_t d = 0; d < 4; d++)
            assert_true(fabs((double)lf_bf16_to_f32(x[i * 4 + d]) -
                             vectors_number(vectors_get(want, "out"), d)) < 8e-3);
    }
    lf_check_device_close(device);
    json_decref(file);
}

// The gate of one stream of 16 whose key is the stream times sign.
static float simple_gate(float value, float sign, uint8_t dead, uint16_t x[16]) {
    uint16_t kv[32], weight[16];
    float gate;
    for (int d = 0; d < 16; d++) {
        x[d] = lf_bf16_from_f32(value);
        kv[d] = lf_bf16_from_f32(value * sign);
        kv[16 + d] = lf_bf16_from_f32(2.0f);
        weight[d] = lf_bf16_from_f32(1.0f);
    }
    struct lf_engram_gate_args args = {.rows = 1, .streams = 1, .dim = 16, .x = x, .kv = kv};
    args.q_weight = weight, args.k_weight = weight, args.dot_scale = 0.25f, args.eps = 1e-20f;
    args.gate = &gate, args.dead = &dead;
    struct lf_device *device = lf_check_device(1);
    lf_engram_gate_portable(device, &args);
    lf_check_device_close(device);
    return gate;
}

static void the_sign_of_the_dot_survives_the_square_root(void **state) {
    (void)state;
    uint16_t x[16];
    // dot = 16 * 1 * 0.25 = 4, its root 2
    assert_true(fabs((double)simple_gate(1.0f, 1.0f, 0, x) - 1 / (1 + exp(-2.0))) < 1e-6);
    assert_true(fabs((double)simple_gate(1.0f, -1.0f, 0, x) - 1 / (1 + exp(2.0))) < 1e-6);
}

static void a_zero_row_has_the_least_gate_and_no_nan(void **state) {
    (void)state;
    uint16_t x[16];
    json_t *file = vectors_load("blocks");
    double want = json_number_value(
        vectors_get(vectors_get(file, "engram_gate"), "gate_when_dot_is_plus_zero"));
    assert_true(fabs((double)simple_gate(0.0f, 1.0f, 0, x) - want) < 1e-6);
    json_decref(file);
}

static void a_dead_row_keeps_its_streams(void **state) {
    (void)state;
    uint16_t x[16];
    assert_true(simple_gate(1.5f, 1.0f, 1, x) == 0.0f);
    for (int d = 0; d < 16; d++)
        assert_int_equal(x[d], lf_bf16_from_f32(1.5f));
}

static void a_nan_shows_in_its_stream(void **state) {
    (void)state;
    uint16_t x[16];
    assert_true(isnan(simple_gate(NAN, 1.0f, 0, x)));
    for (int d = 0; d < 16; d++)
        assert_int_equal(x[d], 0x7FC0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_example_of_the_vectors_gates_as_published),
        cmocka_unit_test(the_sign_of_the_dot_survives_the_square_root),
        cmocka_unit_test(a_zero_row_has_the_least_gate_and_no_nan),
        cmocka_unit_test(a_dead_row_keeps_its_streams),
        cmocka_unit_test(a_nan_shows_in_its_stream),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
