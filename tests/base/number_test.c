// Do the number formats convert as their tables say, at every code and every tie (model.md 3.1)?
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdbool.h>
#include "base/number.h"

// A format as its definition in float64: a sign, `exponents` bits of bias, `mantissas` bits.
struct format {
    const char *name;
    int mantissas, bias;
    uint32_t last;     // largest finite magnitude code
    bool saturates;    // else the code after last is infinity
    uint32_t sign_bit; // of a code
    float (*widen)(uint32_t code);
    uint32_t (*narrow)(float x);
};

static float widen_bf16(uint32_t code) {
    return lf_bf16_to_f32((uint16_t)code);
}
static uint32_t narrow_bf16(float x) {
    return lf_bf16_from_f32(x);
}
static float widen_f16(uint32_t code) {
    return lf_f16_to_f32((uint16_t)code);
}
static uint32_t narrow_f16(float x) {
    return lf_f16_from_f32(x);
}
static float widen_e4m3(uint32_t code) {
    return lf_e4m3_to_f32((uint8_t)code);
}
static uint32_t narrow_e4m3(float x) {
    return lf_e4m3_from_f32(x);
}
static float widen_e2m1(uint32_t code) {
    return lf_e2m1_to_f32((uint8_t)code);
}
static uint32_t narrow_e2m1(float x) {
    return lf_e2m1_from_f32(x);
}

static const struct format formats[] = {
    {"bf16", 7, 127, 0x7F7F, false, 0x8000, widen_bf16, narrow_bf16},
    {"f16", 10, 15, 0x7BFF, false, 0x8000, widen_f16, narrow_f16},
    {"e4m3", 3, 7, 0x7E, true, 0x80, widen_e4m3, narrow_e4m3},
    {"e2m1", 1, 1, 7, true, 8, widen_e2m1, narrow_e2m1},
};
enum { FORMATS = sizeof formats / sizeof *formats };

// The magnitude of a code by the definition; one past the last finite code counts on.
static double magnitude(const struct format *f, uint32_t code) {
    int exponent = (int)(code >> f->mantissas);
    double fraction = ldexp((double)(code & ((1u << f->mantissas) - 1)), -f->mantissas);
    return exponent ? ldexp(1 + fraction, exponent - f->bias) : ldexp(fraction, 1 - f->bias);
}

// Nearest by distance in float64 over the table of values, ties to the even code.
static uint32_t nearest(const struct format *f, float x) {
    double a = fabs((double)x);
    uint32_t low = 0, high = f->saturates ? f->last : f->last + 1;
    uint32_t sign = signbit(x) ? f->sign_bit : 0;
    if (a >= magnitude(f, high))
        return sign | high;
    while (high - low > 1) {
        uint32_t middle = low + (high - low) / 2;
        if (magnitude(f, middle) <= a)
            low = middle;
        else
            high = middle;
    }
    double below = a - magnitude(f, low), above = magnitude(f, high) - a;
    bool up = above < below || (above == below && (low & 1));
    return sign | (up ? high : low);
}

static void check_narrow(const struct format *f, float x) {
    for (int negative = 0; negative < 2; negative++) {
        float signed_x = negative ? -x : x;
        uint32_t found = f->narrow(signed_x), expected = nearest(f, signed_x);
        if (found != expected)
            fail_msg("%s(%a) is code 0x%X, expected 0x%X", f->name, (double)signed_x, found,
                     expected);
    }
}

static void every_code_widens_to_its_value(void **state) {
    (void)state;
    for (int i = 0; i < FORMATS; i++)
        for (uint32_t code = 0; code <= formats[i].last; code++) {
            double value = magnitude(&formats[i], code);
            float plus = formats[i].widen(code);
            float minus = formats[i].widen(code | formats[i].sign_bit);
            assert_true((double)plus == value && !signbit(plus));
            assert_true((double)minus == -value && signbit(minus));
        }
}

static void every_code_and_every_tie_narrows_to_the_nearest_even(void **state) {
    (void)state;
    for (int i = 0; i < FORMATS; i++)
        for (uint32_t code = 0; code <= formats[i].last; code++) {
            double here = magnitude(&formats[i], code), next = magnitude(&formats[i], code + 1);
            float exact = (float)here, tie = (float)(here + (next - here) / 2);
            check_narrow(&formats[i], exact);
            check_narrow(&formats[i], nextafterf(exact, INFINITY));
            check_narrow(&formats[i], tie);
            check_narrow(&formats[i], nextafterf(tie, 0.0f));
            check_narrow(&formats[i], nextafterf(tie, INFINITY));
        }
}

static void floats_of_any_size_narrow_to_the_nearest(void **state) {
    uint32_t seed = 1;
    (void)state;
    for (int n = 0; n < 300000; n++) {
        seed = seed * 1664525u + 1013904223u;
        float x = lf_f32_from_bits(seed >> 1);
        // Half of them near 1, where the small formats have their codes.
        if (n & 1)
            x = lf_f32_from_bits(0x3A000000u + (seed >> 1) % 0x0B000000u);
        for (int i = 0; i < FORMATS && !isnan(x); i++)
            check_narrow(&formats[i], x);
    }
    for (int i = 0; i < FORMATS; i++) {
        check_narrow(&formats[i], INFINITY);
        check_narrow(&formats[i], 0x1.fffffep127f);
        check_narrow(&formats[i], 0x1p-149f);
    }
}

static void nan_stays_nan_where_the_format_has_one(void **state) {
    static const uint32_t nans[] = {0x7FC00000, 0x7F800001, 0x7FFFFFFF, 0x7FA00000, 0x7F80FFFF};
    (void)state;
    for (size_t i = 0; i < sizeof nans / sizeof *nans; i++) {
        float plus = lf_f32_from_bits(nans[i]), minus = lf_f32_from_bits(nans[i] | 0x80000000u);
        assert_true(isnan(lf_bf16_to_f32(lf_bf16_from_f32(plus))));
        assert_true(isnan(lf_f16_to_f32(lf_f16_from_f32(plus))));
        assert_true(lf_bf16_from_f32(minus) & 0x8000 && lf_f16_from_f32(minus) & 0x8000);
        assert_int_equal(lf_e4m3_from_f32(plus), 0x7F);
        assert_int_equal(lf_e4m3_from_f32(minus), 0xFF);
        assert_int_equal(lf_e2m1_from_f32(plus), 7);
        assert_int_equal(lf_e2m1_from_f32(minus), 15);
    }
    assert_true(isnan(lf_e4m3_to_f32(0x7F)) && isnan(lf_e4m3_to_f32(0xFF)));
    for (uint32_t code = 0x7C01; code <= 0x7FFF; code++)
        assert_true(isnan(lf_f16_to_f32((uint16_t)code)));
    assert_true(isinf(lf_f16_to_f32(0x7C00)) && lf_f16_to_f32(0xFC00) == -INFINITY);
}

static void scale_bytes_are_powers_of_two_and_255_is_nan(void **state) {
    (void)state;
    for (int b = 0; b < 255; b++)
        assert_true((double)lf_ue8m0_to_f32((uint8_t)b) == ldexp(1, b - 127));
    assert_true(isnan(lf_ue8m0_to_f32(255)));
}

static void only_the_low_nibble_of_an_e2m1_code_counts(void **state) {
    (void)state;
    for (int code = 0; code < 256; code++)
        assert_true(lf_f32_bits(lf_e2m1_to_f32((uint8_t)code)) ==
                    lf_f32_bits(lf_e2m1_to_f32((uint8_t)(code & 15))));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_code_widens_to_its_value),
        cmocka_unit_test(every_code_and_every_tie_narrows_to_the_nearest_even),
        cmocka_unit_test(floats_of_any_size_narrow_to_the_nearest),
        cmocka_unit_test(nan_stays_nan_where_the_format_has_one),
        cmocka_unit_test(scale_bytes_are_powers_of_two_and_255_is_nan),
        cmocka_unit_test(only_the_low_nibble_of_an_e2m1_code_counts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
