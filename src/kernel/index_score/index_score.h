// index_score: its arguments and its contract (model.md 8.6).
#pragma once
#include <stddef.h>
#include <stdint.h>
#include "kernel/candidates.h"
#include "kernel/declare.h"
#include "kernel/row.h"

#define LF_INDEX_SCORE_CONTRACT                                                                    \
    "I[s] = sum_h w_h * max(0, q_h . k_s) for the visible entries of each row, or where "          \
    "candidate blocks are given for those of its blocks alone (model.md 8.6, 8.7; "                \
    "kernel/candidates.h). q . k: products of dequantized values, 16 partials by element "         \
    "mod 16, fused, "                                                                              \
    "tree as linear. Heads ascend: total = fma(w_h, relu_h, total) from 0. w_h = bf16 "            \
    "weight * scale, one float32 product. A NaN dot product stays NaN through the ReLU; a "        \
    "NaN score is 0x7FC00000. Error bound: sum_h |w_h| * (g(dim/16+4) * sum|q k_s| + "             \
    "g(heads+1) * relu_h)."

struct lf_index_score_args {
    uint32_t rows, heads, dim;
    const struct lf_row *row;    // [rows], lane
    const uint16_t *q;           // bf16 [rows][heads][dim], QF4e values
    const uint16_t *head_weight; // bf16 [rows][heads]
    float weight_scale;          // index_heads^-0.5 * index_dim^-0.5 rounded once
    const struct lf_paged *keys; // [lanes]: QF4e rows of dim (kernel/row.h)
    const uint32_t *visible;     // [rows]: entries 0 .. visible-1
    float *score;                // [rows][score_stride], by item; what is past them is not written
    size_t score_stride;
    struct lf_candidates candidates; // whose items are scored; zeros: all visible entries
};

// Rows that share a block of keys.
enum { LF_INDEX_SCORE_ROWS = 8 };

// What one worker needs of lf_pool_scratch: keys and queries as codes, and as numbers one head's.
static inline size_t lf_index_score_scratch_bytes(uint32_t heads, uint32_t dim) {
    size_t queries = (size_t)LF_INDEX_SCORE_ROWS * heads, groups = dim / 32, wide = dim;
    size_t floats = 64 * wide + wide + 2 * 64 + queries + groups * 64 + 2 * queries * groups;
    return sizeof(float) * (floats + wide / 8 * 64) + 64 * wide + queries * (wide + 64);
}

LF_DECLARE_KERNEL(index_score);
