// Are medians, the sign test's bounds and the verdict of bench.md section 5 what they are by hand?
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include "bench/stats.h"

static void median_is_the_middle_and_skips_unmeasured(void **state) {
    (void)state;
    double odd[] = {5, 1, 3}, even[] = {4, 1, 3, 2}, holes[] = {NAN, 7, NAN, 9, 8};
    double none[] = {NAN, NAN};
    assert_true(lf_stats_median(odd, 3) == 3);
    assert_true(odd[0] == 5 && odd[1] == 1);
    assert_true(lf_stats_median(even, 4) == 2.5);
    assert_true(lf_stats_median(holes, 5) == 8);
    assert_true(isnan(lf_stats_median(none, 2)));
    assert_true(isnan(lf_stats_median(none, 0)));
}

// P(Binomial(n, 1/2) < k) <= 0.05 gives k = 0 below 5, 1 from 5, 2 from 8, 3 from 11.
static void bounds_are_the_order_statistics_of_the_sign_test(void **state) {
    (void)state;
    static const size_t order[] = {0, 0, 0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 4};
    double value[13], low, high;
    for (size_t n = 0; n < sizeof order / sizeof *order; n++) {
        // In falling order, so that the bounds show the sorting too.
        for (size_t i = 0; i < n; i++)
            value[i] = (double)(n - i);
        lf_stats_bounds(value, n, &low, &high);
        if (!order[n]) {
            assert_true(isinf(low) && low < 0 && isinf(high) && high > 0);
            continue;
        }
        assert_true(low == (double)order[n]);
        assert_true(high == (double)(n - order[n] + 1));
    }
}

static void verdict_is_pass_slower_or_noisy(void **state) {
    (void)state;
    double good[] = {0.98, 1.2, 1.1, 1.3, 1.0}, bad[] = {0.9, 0.95, 0.8, 0.96, 0.7};
    double mixed[] = {0.9, 1.1, 1.2, 1.3, 1.4};
    assert_int_equal(lf_stats_ratio(good, 5, 0.03), LF_STATS_PASS);
    assert_int_equal(lf_stats_ratio(good, 4, 0.03), LF_STATS_NOISY);
    assert_int_equal(lf_stats_ratio(good, 5, 0.01), LF_STATS_NOISY);
    assert_int_equal(lf_stats_ratio(bad, 5, 0.03), LF_STATS_SLOWER);
    assert_int_equal(lf_stats_ratio(bad, 5, 0.31), LF_STATS_PASS);
    assert_int_equal(lf_stats_ratio(mixed, 5, 0.03), LF_STATS_NOISY);
    // The bound itself passes: at least 1 - tolerance.
    double edge[] = {0.75, 0.75, 0.75, 0.75, 0.75};
    assert_int_equal(lf_stats_ratio(edge, 5, 0.25), LF_STATS_PASS);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(median_is_the_middle_and_skips_unmeasured),
        cmocka_unit_test(bounds_are_the_order_statistics_of_the_sign_test),
        cmocka_unit_test(verdict_is_pass_slower_or_noisy),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
