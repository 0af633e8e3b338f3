// cache_pack: its arguments and its contract (model.md).
#pragma once
#include <stdint.h>
#include "kernel/declare.h"

#define LF_CACHE_PACK_CONTRACT                                                                     \
    "quantize a bf16 row and store it packed (kernel/row.h layouts; model.md 8.2, 8.5, 8.6, "      \
    "12.1). Codes and scales bit-equal to base/quant for every bf16 input, NaN and infinity "      \
    "included. No sums."

enum lf_cache_format { LF_CACHE_QA8, LF_CACHE_QF4S, LF_CACHE_QF4E };

struct lf_cache_pack_args {
    enum lf_cache_format format;
    uint32_t rows, dim;  // dim a multiple of 32
    const uint16_t *x;   // bf16 [rows][dim]
    uint8_t *const *dst; // [rows]: where each packed row goes, any alignment
};

LF_DECLARE_KERNEL(cache_pack);
