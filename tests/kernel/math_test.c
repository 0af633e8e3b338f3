#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "base/number.h"
#include "kernel/math.h"
#include "kernel_check.h"

// |got - exact| in spacings of float32 at the exact value.
static double ulps(float got, double exact) {
    int exponent = exact == 0 || fabs(exact) < 0x1p-126 ? -126 : ilogb(exact);
    return fabs((double)got - exact) / ldexp(1.0, exponent - 23);
}

static void exp_stays_within_one_ulp_over_its_whole_range(void **state) {
    (void)state;
    struct lf_check_rng rng = {.state = 1};
    double worst = 0;
    for (int i = 0; i < 2000000; i++) {
        float x = (float)(lf_check_uniform(&rng) * 192.7 - 104.0);
        if (exp((double)x) < 0x1.fffffep127)
            worst = fmax(worst, ulps(lf_exp(x), exp((double)x)));
        x = (float)ldexp(lf_check_normal(&rng), -(int)lf_check_below(&rng, 30));
        worst = fmax(worst, ulps(lf_exp(x), exp((double)x)));
    }
    assert_true(worst <= 1.0);
}

static void exp_of_the_edges(void **state) {
    (void)state;
    assert_true(lf_exp(0.0f) == 1.0f && lf_exp(-0.0f) == 1.0f);
    assert_true(isinf(lf_exp(89.0f)) && isinf(lf_exp(INFINITY)) && isinf(lf_exp(3e38f)));
    assert_true(lf_exp(-104.0f) == 0.0f && lf_exp(-INFINITY) == 0.0f && lf_exp(-3e38f) == 0.0f);
    assert_true(lf_exp(88.72283f) < INFINITY);
    assert_true(isnan(lf_exp(NAN)));
}

static void sigmoid_stays_within_three_ulp(void **state) {
    (void)state;
    struct lf_check_rng rng = {.state = 2};
    double worst = 0;
    for (int i = 0; i < 1000000; i++) {
        float x = (float)(lf_check_uniform(&rng) * 174 - 87);
        worst = fmax(worst, ulps(lf_sigmoid(x), 1 / (1 + exp(-(double)x))));
    }
    assert_true(worst <= 3.0);
    assert_true(lf_sigmoid(0.0f) == 0.5f && lf_sigmoid(INFINITY) == 1.0f);
    assert_true(lf_sigmoid(-INFINITY) == 0.0f && isnan(lf_sigmoid(NAN)));
}

static void softplus_is_correctly_rounded_to_within_a_hair(void **state) {
    (void)state;
    struct lf_check_rng rng = {.state = 3};
    double worst = 0;
    for (int i = 0; i < 500000; i++) {
        float x = (float)(lf_check_uniform(&rng) * 120 - 100);
        worst = fmax(worst, ulps(lf_softplus(x), log1p(exp((double)x))));
        x = (float)ldexp(lf_check_normal(&rng), -(int)lf_check_below(&rng, 40));
        worst = fmax(worst, ulps(lf_softplus(x), log1p(exp((double)x))));
    }
    assert_true(worst <= 0.5001);
    assert_true(lf_softplus(20.0f) == 20.0f && lf_softplus(25.5f) == 25.5f);
    assert_true(lf_softplus(INFINITY) == INFINITY && lf_softplus(-INFINITY) == 0.0f);
    assert_true(isnan(lf_softplus(NAN)));
}

// engine.md S-11: both were checked within 2 ulp.
static void log64_and_exp64_stay_within_two_ulp(void **state) {
    (void)state;
    struct lf_check_rng rng = {.state = 4};
    for (int i = 0; i < 1000000; i++) {
        double x = ldexp(1.0 + lf_check_uniform(&rng), (int)lf_check_below(&rng, 2098) - 1074);
        if (isfinite(x) && log(x) != 0)
            assert_true(fabs(lf_log64(x) / log(x) - 1) <= 0x1p-51);
        x = -exp(lf_check_uniform(&rng) * 46.5 - 40);
        double want = exp(x);
        if (x >= -708)
            assert_true(fabs(lf_exp64(x) / want - 1) <= 0x1p-51);
        else
            assert_true(lf_exp64(x) == 0);
    }
}

// The split by bits must be the split by frexp and ldexp that S-11 names.
static double log64_by_frexp(double x) {
    int e;
    double m = frexp(x, &e), p = 1.0 / 23.0;
    if (m < 0.70710678118654752440) {
        m = m + m;
        e = e - 1;
    }
    double f = m - 1.0, s = f / (2.0 + f), z = s * s;
    for (int n = 21; n >= 3; n -= 2)
        p = p * z + 1.0 / (double)n;
    double r = s * z;
    r = r * p;
    r = r + r;
    double t = s + s;
    return e * 0x1.62e42feep-1 + (t + (r + e * 0x1.a39ef35793c76p-33));
}

static double exp64_by_ldexp(double x) {
    double k = nearbyint(x * 0x1.71547652b82fep+0), factorial[14] = {1}, p;
    double r = (x - k * 0x1.62e42feep-1) - k * 0x1.a39ef35793c76p-33;
    for (int i = 1; i < 14; i++)
        factorial[i] = factorial[i - 1] * i;
    p = 1.0 / factorial[13];
    for (int i = 12; i >= 0; i--)
        p = p * r + 1.0 / factorial[i];
    return ldexp(p, (int)k);
}

static void the_bit_forms_equal_frexp_and_ldexp(void **state) {
    (void)state;
    struct lf_check_rng rng = {.state = 5};
    for (int i = 0; i < 1000000; i++) {
        double x = ldexp(1.0 + lf_check_uniform(&rng), (int)lf_check_below(&rng, 2097) - 1074);
        assert_true(lf_log64(x) == log64_by_frexp(x));
        x = -lf_check_uniform(&rng) * 708;
        assert_true(lf_exp64(x) == exp64_by_ldexp(x));
    }
    assert_true(lf_exp64(-708.0) == exp64_by_ldexp(-708.0));
    assert_true(lf_exp64(0.0) == 1.0 && lf_exp64(-INFINITY) == 0.0 && lf_log64(1.0) == 0.0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exp_stays_within_one_ulp_over_its_whole_range),
        cmocka_unit_test(exp_of_the_edges),
        cmocka_unit_test(sigmoid_stays_within_three_ulp),
        cmocka_unit_test(softplus_is_correctly_rounded_to_within_a_hair),
        cmocka_unit_test(log64_and_exp64_stay_within_two_ulp),
        cmocka_unit_test(the_bit_forms_equal_frexp_and_ldexp),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
