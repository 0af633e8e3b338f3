// ring_store: its arguments and its contract (model.md 12.1, engine.md L-12, L-15).
#pragma once
#include <stddef.h>
#include <stdint.h>
#include "kernel/declare.h"
#include "kernel/row.h"

#define LF_RING_STORE_CONTRACT                                                                     \
    "row r of x, byte for byte, to its lane's ring at position mod ring_rows (model.md 12.1). "    \
    "Rows of less depth than depth_min are left out, and where spans are given those that are "    \
    "not among the last `kept` positions of their lane's span, so that two rows never meet. "      \
    "Nothing else of a ring is written (engine.md L-12). No arithmetic."

struct lf_ring_store_args {
    uint32_t rows;
    const struct lf_row *row;    // [rows]
    uint32_t depth_min;          // 0: every row
    const struct lf_span *span;  // by lane; NULL: the positions are known to lie within kept
    uint32_t kept;               // at most ring_rows
    const void *x;               // [rows][row_bytes]
    uint32_t row_bytes;
    uint8_t *const *ring;        // by lane: ring_rows rows, any alignment
    uint32_t ring_rows;          // a power of two
    size_t ring_pitch;           // bytes from one row of a ring to the next, at least row_bytes
};

LF_DECLARE_KERNEL(ring_store);
