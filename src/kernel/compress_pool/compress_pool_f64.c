#include "kernel/compress_pool/compress_pool.h"

#include <math.h>
#include <stddef.h>

// out [entries][dim]
void lf_compress_pool_f64(const struct lf_compress_pool_args *args, double *out) {
    for (uint32_t entry = 0; entry < args->entries; entry++) {
        const float *first = args->first[entry], *second = args->second[entry];
        for (uint32_t i = 0; i < args->dim; i++) {
            double gap = (double)first[args->dim + i] - (double)second[args->dim + i];
            double a = 1.0 / (1.0 + exp(-gap)), b = 1.0 / (1.0 + exp(gap));
            *out++ = a * (double)first[i] + b * (double)second[i];
        }
    }
}
