// attention: its arguments and its contract (model.md 8.2, 8.8).
#pragma once
#include <stddef.h>
#include <stdint.h>
#include "kernel/declare.h"
#include "kernel/row.h"

#define LF_ATTENTION_CONTRACT                                                                      \
    "window rows oldest to newest, then the selected compressed entries ascending, one "           \
    "list a row (model.md 8.2, 8.8). Key and value are the same dequantized row, shared by "       \
    "all heads. The list is cut into blocks of 64 from its first entry. z_t = (q . k_t) * "        \
    "scale: 16 partials by element mod 16, fused, tree i+8, i+4, i+2, i+1, then one "              \
    "product. Per block: m' = max(m, max z); P_t = exp(z_t - m'); the denominator's block "        \
    "sum adds P_t in float32, the value's adds bf(P_t)*k_t, both over t in 16 partials by "        \
    "(t mod 16), a partial's first term plain and the others fused onto it, and the same "         \
    "tree; the last block is filled up to a multiple of 16 with zero terms. sum = fma(sum, "       \
    "exp(m - m'), block sum) from 0; m starts at -1e30. At the end o = bf(value / "                \
    "(denominator + exp(sink - m))), an IEEE division. A z_t that is not finite (NaN or "          \
    "infinity in q or a key) makes that head of that row NaN, stored as 0x7FC0. The list "         \
    "without sink is never empty (own row). Error bound per element, u = 2^-24, B blocks, "        \
    "z the exact scores: term t of both sums is off by e_t = g(head_dim/16+5) * scale * "          \
    "sum|q k_t| + u * (|z_t| + |z_t - max z|) + (3B+4) * u, the sums by g(8+B), bf(P_t) by "       \
    "2^-8; then the quotient, u, and the bf16 store."

// The CUDA column's two sums of products are its own, the same in every launch.
#define LF_ATTENTION_CUDA_CONTRACT                                                                 \
    "As LF_ATTENTION_CONTRACT but for q . k_t and a block's sum of bf(P_t)*k_t, chains from zero " \
    "of the k16 steps that LF_LINEAR_CUDA_CONTRACT describes. Steps of q . k_t have elements 0 "   \
    "to 15, 16 to 31 and so on; those of a block's sum its keys 0 to 15 and so on, four with "     \
    "zero terms past the list's end. A key's elements are bf(value): exact but for QA8 scale "     \
    "bytes 0 to 2 (multiples of 2^-133), infinity past float32's range; an e4m3 NaN code or a "    \
    "scale that is NaN gives NaN. An operand that is not finite, or a sum from 2^128 on, makes "   \
    "its step infinite or NaN, and so z_t not finite: NaN in that head of that row. Bound: e_t "   \
    "has what the steps of q . k_t cut in place of g(head_dim/16+5) * sum|q k_t|, added up along " \
    "the exact sum; a block's sum is off by 5 * 2^-21 * sum|P_t k_t| in place of g(8)."

// CUDA: a whole span has at most so many rows, or those of the launch.
enum { LF_ATTENTION_SPAN_ROWS = 128 };

struct lf_attention_args {
    uint32_t rows, heads, head_dim; // head_dim a multiple of 32
    const struct lf_row *row;    // [rows]
    const uint16_t *q;           // bf16 [rows][heads][head_dim], rotated
    float scale;                 // head_dim^-0.5 rounded once
    const float *sink;           // [heads], any alignment
    uint32_t window;             // W: positions max(0, p-W+1) .. p
    int whole_span;              // drafter (model.md 11.4): max(0, pos0-W) .. end of the span
    const struct lf_span *span;  // [lanes]: window rows at positions >= pos0 come from call_keys
    const uint8_t *call_keys;    // QA8 rows of this call, in row.index order
    uint8_t *const *ring;        // [lanes]: QA8 ring, position p at row p % ring_rows
    uint32_t ring_rows;          // a power of two
    const struct lf_paged *entries; // [lanes]: QF4s rows, or NULL for layers of ratio 0
    const uint32_t *selected;    // [rows][topk] ascending; unused when entries is NULL
    const uint32_t *n_selected;  // [rows]
    uint32_t topk;
    uint16_t *o;                 // bf16 [rows][heads][head_dim]
};

// What one worker needs of lf_pool_scratch: 64 keys, queries, values, weights, all padded.
static inline size_t lf_attention_scratch_bytes(uint32_t heads, uint32_t head_dim) {
    size_t padded = (size_t)heads + 2, columns = head_dim / 32;
    return sizeof(float) * (columns * 32 * (72 + 2 * (padded + 1)) + padded * (64 + 3));
}

LF_DECLARE_KERNEL(attention);
