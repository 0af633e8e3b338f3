// engram_gather: its arguments and its contract (model.md 6.4 step 1).
#pragma once
#include <stdint.h>
#include "kernel/declare.h"

#define LF_ENGRAM_GATHER_CONTRACT                                                                  \
    "E[r][c] = bf(e4m3 * 2^(scale-127)) of table row number[r][c] (model.md 6.4 step 1). Bit- "    \
    "equal to the exact product rounded once; e4m3 NaN and scale 255 give the one NaN."

struct lf_engram_gather_args {
    uint32_t rows, columns, dim; // dim a multiple of 32
    const uint64_t *number;      // [rows][columns], below the table's rows
    const uint8_t *value;        // e4m3 [table rows][dim]
    const uint8_t *scale;        // UE8M0 [table rows][dim/32]
    uint16_t *y;                 // bf16 [rows][columns*dim]
};

LF_DECLARE_KERNEL(engram_gather);
