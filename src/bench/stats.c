#include "bench/stats.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static int by_size(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

// A sorted copy without NAN; the caller frees it.
static double *sorted(const double *value, size_t n, size_t *kept) {
    double *copy = malloc((n ? n : 1) * sizeof *copy);
    *kept = 0;
    for (size_t i = 0; copy && i < n; i++)
        if (!isnan(value[i]))
            copy[(*kept)++] = value[i];
    if (copy)
        qsort(copy, *kept, sizeof *copy, by_size);
    return copy;
}

double lf_stats_median(const double *value, size_t n) {
    size_t kept;
    double *copy = sorted(value, n, &kept), median = NAN;
    if (copy && kept)
        median = kept % 2 ? copy[kept / 2] : (copy[kept / 2 - 1] + copy[kept / 2]) / 2;
    free(copy);
    return median;
}

// The largest k with P(Binomial(n, 1/2) < k) <= 0.05: the k-th smallest value bounds the median.
static size_t order_of_bound(size_t n) {
    double term = pow(0.5, (double)n), sum = 0;
    size_t k = 0;
    while (k < n && sum + term <= 0.05) {
        sum += term;
        term *= (double)(n - k) / (double)(k + 1);
        k++;
    }
    return k;
}

void lf_stats_bounds(const double *value, size_t n, double *low, double *high) {
    size_t kept, k;
    double *copy = sorted(value, n, &kept);
    *low = -INFINITY;
    *high = INFINITY;
    if (copy && (k = order_of_bound(kept)) > 0) {
        *low = copy[k - 1];
        *high = copy[kept - k];
    }
    free(copy);
}

enum lf_stats_verdict lf_stats_ratio(const double *ratio, size_t n, double tolerance) {
    double low, high;
    lf_stats_bounds(ratio, n, &low, &high);
    if (low >= 1 - tolerance)
        return LF_STATS_PASS;
    return high < 1 - tolerance ? LF_STATS_SLOWER : LF_STATS_NOISY;
}
