// rope: its arguments and its contract (model.md 3.5).
#pragma once
#include <stddef.h>
#include <stdint.h>
#include "kernel/declare.h"

#define LF_ROPE_CONTRACT                                                                           \
    "rotates the last rope_dim elements of each head in adjacent pairs (model.md 3.5): e' "        \
    "= e*c - o*s, o' = e*s + o*c, float32 products and sums without fusing, stored as "            \
    "bf16. inverse uses -s. The other elements are not written; NaN is stored as 0x7FC0. "         \
    "Error bound: g(2) * (|e*c| + |o*s|), and |e*s| + |o*c| for o', then the bf16 store."

struct lf_rope_args {
    uint32_t rows, heads, head_dim, rope_dim;
    uint16_t *x;      // bf16 [rows][x_stride], heads x head_dim of it, in place
    size_t x_stride;  // elements
    const float *cos; // [rows][rope_dim/2], already of each row's position
    const float *sin;
    int inverse;
};

LF_DECLARE_KERNEL(rope);
