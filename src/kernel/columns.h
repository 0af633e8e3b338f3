// Rows in blocks of columns that stay in the first cache: bf16 widened on the way in, rounded out.
#pragma once
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include "base/number.h"
#include "kernel/settle.h"

enum { LF_COLUMNS = 256 };

// Columns of the block that starts at column d.
static inline uint32_t lf_columns_at(uint32_t d, uint32_t dim) {
    return dim - d < LF_COLUMNS ? dim - d : LF_COLUMNS;
}

// x may have any alignment.
static inline void lf_columns_widen(float *restrict out, const void *restrict x, uint32_t n) {
    const unsigned char *restrict bytes = x;
    for (uint32_t c = 0; c < n; c++) {
        uint16_t v;
        memcpy(&v, bytes + 2 * (size_t)c, sizeof v);
        out[c] = lf_bf16_to_f32(v);
    }
}

static inline void lf_columns_round(uint16_t *restrict y, const float *restrict x, uint32_t n) {
    for (uint32_t c = 0; c < n; c++)
        y[c] = lf_bf16_settle(x[c]);
}
