// attention: its arguments and its contract (model.md 8.2, 8.8).
#pragma once
#include <stdint.h>
#include "kernel/declare.h"
#include "kernel/row.h"

#define LF_ATTENTION_CONTRACT                                                                      \
    "window rows oldest to newest, then the selected compressed entries ascending, one list a "    \
    "row (model.md 8.2, 8.8). Key and value are the same dequantized row, shared by all "          \
    "heads. The list is cut into blocks of 64 from its first entry. z_t = (q . k_t) * scale: "     \
    "16 partials by element mod 16, fused, tree i+8, i+4, i+2, i+1. Per block: m' = max(m, "       \
    "max z); P_t = exp(z_t - m'); the denominator adds P_t in float32, the value sum adds "        \
    "bf(P_t)*k_t, both over t in 16 partials by (t mod 16) and the same tree within the "          \
    "block; earlier sums are scaled by exp(m - m') and the block's are added. m starts at "        \
    "-1e30. At the end o = bf(value / (denominator + exp(sink - m))). The list without sink "      \
    "entries is never empty (own row)."

struct lf_attention_args {
    uint32_t rows, heads, head_dim;
    const struct lf_row *row;    // [rows]
    const uint16_t *q;           // bf16 [rows][heads][head_dim], rotated
    float scale;                 // head_dim^-0.5 rounded once
    const float *sink;           // [heads]
    uint32_t window;             // W: positions max(0, p-W+1) .. p
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

LF_DECLARE_KERNEL(attention);
