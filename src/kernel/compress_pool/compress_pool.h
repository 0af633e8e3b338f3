// compress_pool: its arguments and its contract (model.md 8.4).
#pragma once
#include <stdint.h>
#include "kernel/declare.h"

#define LF_COMPRESS_POOL_CONTRACT                                                                  \
    "one ratio-2 entry from its two rows (model.md 8.4), per dim: (a, b) = softmax(g0, g1) "       \
    "with the maximum subtracted: e = exp(g - max), a = e0 / (e0 + e1), b = e1 / (e0 + "           \
    "e1); y = bf(fma(b, v1, a*v0)). NaN is stored as 0x7FC0; +infinity as a gate, or "             \
    "-infinity as both, gives it. Error bound, u = 2^-24, exp within 1 ulp: (min(|g0 - g1|, "      \
    "104) + 7) * u * (a|v0| + b|v1|), and 2^-148 * (|v0| + |v1| + 1/2) for weights below "         \
    "float32's normal range; then the bf16 store."

struct lf_compress_pool_args {
    uint32_t entries, dim;
    const float *const *first;  // [entries]: v[dim] then g[dim] of position 2j
    const float *const *second; // [entries]: the same of position 2j+1
    uint16_t *y;                // bf16 [entries][dim]
};

LF_DECLARE_KERNEL(compress_pool);
