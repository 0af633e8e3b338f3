// hc_collapse: its arguments and its contract (model.md 7).
#pragma once
#include <stdint.h>
#include "kernel/declare.h"
#include "kernel/rms_norm/rms_norm.h"

#define LF_HC_COLLAPSE_CONTRACT                                                                    \
    "y = bf(sum_i pre_i * X_i), i ascending: first product plain, then fused multiply-adds "       \
    "(model.md 7). Error before bf: g(streams) sum|pre_i X_i|. NaN has one pattern. With a "       \
    "norm: rms_norm of that y, and its quantized values, with the bits of calls one by one."

struct lf_hc_collapse_args {
    uint32_t rows, streams, dim;
    const uint16_t *x; // bf16 [rows][streams][dim]
    const float *pre;  // [rows][streams]
    uint16_t *y;       // bf16 [rows][dim]
    // Of an rms_norm of what y would be, which y gets instead; norm NULL: none.
    const uint16_t *norm; // bf16 [dim]; any alignment
    float eps;
    uint16_t *quantized; // bf16 [rows][dim], the norm's; NULL: none
};

// The norm as a call of its own, from y to y.
static inline struct lf_rms_norm_args
lf_hc_collapse_norm(const struct lf_hc_collapse_args *a) {
    struct lf_rms_norm_args norm = {a->rows, a->dim, a->y,   a->dim,      a->norm,
                                    a->eps,  a->y,   a->dim, a->quantized};
    return norm;
}

LF_DECLARE_KERNEL(hc_collapse);
