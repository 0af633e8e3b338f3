// Medians and the order statistics of the sign test; NAN stands for unmeasured.
#pragma once
#include <stddef.h>

// The median of the values that are numbers; NAN when there are none or memory ran out.
double lf_stats_median(const double *value, size_t n);
// One-sided 95 % bounds of the median: infinite while n is too small to have any.
void lf_stats_bounds(const double *value, size_t n, double *low, double *high);

enum lf_stats_verdict { LF_STATS_PASS, LF_STATS_SLOWER, LF_STATS_NOISY };
// Whether the median ratio is at least 1 - tolerance (bench.md section 5).
enum lf_stats_verdict lf_stats_ratio(const double *ratio, size_t n, double tolerance);
