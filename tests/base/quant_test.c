// Do the three quantizers give the vectors' bits and the rule's codes (model.md 3.2)?
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <string.h>
#include "../support/vectors.h"
#include "base/number.h"
#include "base/quant.h"

typedef uint8_t quantizer(const uint16_t *x, uint8_t *codes);

static float e8_scale(uint8_t byte) {
    return lf_ue8m0_to_f32(byte);
}

static const struct kind {
    const char *list, *scale_key;
    int group;
    quantizer *quantize;
    float (*scale)(uint8_t byte);
    float (*value)(uint8_t code);
} kinds[] = {
    {"fp8_group32_ue8m0", "scale_byte", 32, lf_qa8_group, e8_scale, lf_e4m3_to_f32},
    {"fp4_group32_ue8m0", "scale_byte", 32, lf_qf4e_group, e8_scale, lf_e2m1_to_f32},
    {"fp4_group16_e4m3", "scale_code", 16, lf_qf4s_group, lf_e4m3_to_f32, lf_e2m1_to_f32},
};
enum { QA8, QF4E, QF4S, KINDS };

static void check_vector(const struct kind *kind, const json_t *entry) {
    const json_t *x = vectors_get(entry, "x"), *dequant = vectors_get(entry, "dequant");
    uint16_t in[32];
    uint8_t codes[32];
    assert_int_equal(json_array_size(x), kind->group);
    for (int i = 0; i < kind->group; i++) {
        in[i] = lf_bf16_from_f32((float)vectors_number(x, (size_t)i));
        assert_true((double)lf_bf16_to_f32(in[i]) == vectors_number(x, (size_t)i));
    }
    uint8_t byte = kind->quantize(in, codes);
    assert_int_equal(byte, json_integer_value(vectors_get(entry, kind->scale_key)));
    for (int i = 0; i < kind->group; i++) {
        float expected = (float)vectors_number(dequant, (size_t)i);
        float found = kind->value(codes[i]) * kind->scale(byte);
        assert_int_equal(codes[i], (int)vectors_number(vectors_get(entry, "codes"), (size_t)i));
        assert_int_equal(lf_f32_bits(found), lf_f32_bits(expected));
    }
}

static void vectors_are_met_to_the_bit(void **state) {
    json_t *file = vectors_load("quant");
    (void)state;
    for (int k = 0; k < KINDS; k++) {
        const json_t *list = vectors_get(file, kinds[k].list);
        assert_true(json_array_size(list) >= 4);
        for (size_t i = 0; i < json_array_size(list); i++)
            check_vector(&kinds[k], json_array_get(list, i));
    }
    json_decref(file);
}

static void e4m3_table_and_nibble_order_are_the_vectors(void **state) {
    json_t *file = vectors_load("quant");
    const json_t *values = vectors_get(file, "e4m3_values_0_to_126");
    const json_t *unpack = vectors_get(file, "weight_unpack");
    uint8_t byte = (uint8_t)json_integer_value(vectors_get(unpack, "byte"));
    (void)state;
    assert_int_equal(json_array_size(values), 127);
    for (size_t code = 0; code < 127; code++)
        assert_true((double)lf_e4m3_to_f32((uint8_t)code) == vectors_number(values, code));
    assert_true((double)lf_e2m1_to_f32(byte) ==
                json_real_value(vectors_get(unpack, "even_element")));
    assert_true((double)lf_e2m1_to_f32(byte >> 4) ==
                json_real_value(vectors_get(unpack, "odd_element")));
    json_decref(file);
}

// The smallest k with a <= top * 2^k, by comparing in float64.
static int exact_exponent(double a, double top) {
    int k = -127;
    while (a > ldexp(top, k))
        k++;
    return k;
}

// A group whose largest magnitude is top_bits, the others spread below it.
static void fill_group(uint16_t *x, int group, uint16_t top_bits, uint32_t seed) {
    for (int i = 0; i < group; i++) {
        seed = seed * 1664525u + 1013904223u;
        uint16_t magnitude = (uint16_t)(top_bits - (seed >> 20) % 700u % (top_bits + 1u));
        x[i] = (uint16_t)(magnitude | (seed & 0x8000u));
    }
    x[seed % (uint32_t)group] = top_bits;
}

// The code whose value times the scale lies nearest to x, found by trying all; ties to even.
static uint8_t nearest_code(float ratio, uint8_t last, float (*value)(uint8_t)) {
    uint8_t best = 0;
    double a = fmin(fabs((double)ratio), (double)value(last)); // saturates
    for (unsigned code = 1; code <= last; code++) {
        double gain = fabs(a - (double)value(best)) - fabs(a - (double)value((uint8_t)code));
        if (gain > 0 || (gain == 0 && !(code & 1)))
            best = (uint8_t)code;
    }
    return best;
}

static void every_largest_magnitude_gets_the_exact_ceiling(void **state) {
    static const double tops[] = {448, 6}, floors[] = {(double)1e-4f, 6 * 0x1p-126};
    static const uint8_t last[] = {0x7E, 7}, sign[] = {0x80, 8};
    (void)state;
    for (uint32_t top = 0; top < 0x7F80; top++)
        for (int k = QA8; k <= QF4E; k++) {
            uint16_t x[32];
            uint8_t codes[32];
            fill_group(x, 32, (uint16_t)top, top);
            uint8_t byte = kinds[k].quantize(x, codes);
            double a = (double)lf_bf16_to_f32((uint16_t)top);
            int exponent = exact_exponent(a < floors[k] ? floors[k] : a, tops[k]);
            assert_int_equal(byte, exponent + 127);
            for (int i = 0; i < 32 && top % 16 == 0; i++) {
                float v = lf_bf16_to_f32(x[i]);
                uint8_t expected =
                    nearest_code((float)ldexp((double)v, -exponent), last[k], kinds[k].value);
                assert_int_equal(codes[i], expected | (signbit(v) ? sign[k] : 0));
            }
        }
}

static void qf4s_divides_by_the_rounded_scale(void **state) {
    (void)state;
    for (uint32_t top = 0; top < 0x7F80; top++) {
        uint16_t x[16];
        uint8_t codes[16];
        fill_group(x, 16, (uint16_t)top, top);
        uint8_t byte = lf_qf4s_group(x, codes);
        float a = lf_bf16_to_f32((uint16_t)top), floor = 6 * 0x1p-9f;
        assert_int_equal(byte, nearest_code((a < floor ? floor : a) / 6.0f, 0x7E, lf_e4m3_to_f32));
        assert_true(byte >= 1);
        for (int i = 0; i < 16 && top % 16 == 0; i++) {
            float ratio = lf_bf16_to_f32(x[i]) / lf_e4m3_to_f32(byte);
            assert_int_equal(codes[i],
                             nearest_code(ratio, 7, lf_e2m1_to_f32) | (signbit(ratio) ? 8 : 0));
        }
    }
}

static void a_nan_in_a_group_does_not_vanish(void **state) {
    (void)state;
    for (int k = 0; k < KINDS; k++)
        for (int at = 0; at < kinds[k].group; at++) {
            uint16_t x[32] = {0};
            uint8_t codes[32];
            x[kinds[k].group / 2] = 0x3F80;
            x[at] = 0x7FC0;
            uint8_t byte = kinds[k].quantize(x, codes);
            assert_true(isnan(kinds[k].scale(byte)));
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(vectors_are_met_to_the_bit),
        cmocka_unit_test(e4m3_table_and_nibble_order_are_the_vectors),
        cmocka_unit_test(every_largest_magnitude_gets_the_exact_ceiling),
        cmocka_unit_test(qf4s_divides_by_the_rounded_scale),
        cmocka_unit_test(a_nan_in_a_group_does_not_vanish),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
