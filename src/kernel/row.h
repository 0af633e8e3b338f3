// Rows: a forward call is a list of rows, and nothing else exists (design 2, engine.md 2.1).
#pragma once
#include <stdint.h>
#include "base/number.h"

enum { LF_WANT_LOGITS = 1 };

struct lf_row {
    uint32_t lane;     // whose state it reads and writes
    uint32_t token;    // id; below the vocabulary
    uint64_t position; // absolute, 0-based
    uint32_t index;    // its place in the call, before any row was dropped by the prompt cone
    uint32_t depth;    // layers it runs in full at and above the last KV source (model.md 12.3)
    uint32_t wants;    // LF_WANT_* bits
};

// The rows of one lane in a call: positions pos0 .. pos0+rows-1 at call places first, first+1 ...
struct lf_span {
    uint32_t first, rows; // rows 0: the lane is not in the call
    uint64_t pos0;        // equals the lane's committed length
};

// A growing cache stored in pages of LF_PAGE_ROWS rows: row j is at page[j / LF_PAGE_ROWS].
enum { LF_PAGE_ROWS = 128 };
struct lf_paged {
    uint8_t **page;
};
LF_HOST_DEVICE static inline uint8_t *lf_paged_row(const struct lf_paged *paged, uint64_t row,
                                    uint32_t row_bytes) {
    return paged->page[row / LF_PAGE_ROWS] + row % LF_PAGE_ROWS * row_bytes;
}

// Packed cache rows (model.md 12.1): codes of the whole row first, then its scales.
LF_HOST_DEVICE static inline uint32_t lf_qa8_row_bytes(uint32_t dim) {
    return dim + dim / 32; // dim e4m3 codes, dim/32 UE8M0
}
LF_HOST_DEVICE static inline uint32_t lf_qf4s_row_bytes(uint32_t dim) {
    return dim / 2 + dim / 16; // two e2m1 codes a byte (low nibble even), dim/16 e4m3
}
LF_HOST_DEVICE static inline uint32_t lf_qf4e_row_bytes(uint32_t dim) {
    return dim / 2 + dim / 32; // two e2m1 codes a byte (low nibble even), dim/32 UE8M0
}
