// Weights and rows of no meaning for timing linear maps; what maps compute is thrown away.
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "kernel/table.h"

enum { LINEAR_SET_ROWS = 512, LINEAR_SET_IN = 16384, LINEAR_SET_OUT = 131072 };

struct linear_set {
    size_t weight_bytes;
    uint8_t *weights, *scales;
    uint16_t *x;
    float *y;
};

// No NaN code in any format, ordinary scales, normal rows of x as maps read them; false: no memory.
bool linear_set_open(struct linear_set *set, size_t weight_bytes, const struct lf_kernels *k,
                     struct lf_device *device);
// n maps of one shape and format side by side in the weights: they must fit.
void linear_set_maps(const struct linear_set *set, struct lf_matrix shape, struct lf_matrix *m,
                     uint32_t n);
struct lf_linear_job linear_set_job(const struct linear_set *set, const struct lf_matrix *m,
                                    uint32_t rows);
// "bf16", "fp8" or "mxfp4".
bool linear_set_format(enum lf_weight_format *out, const char *name);
