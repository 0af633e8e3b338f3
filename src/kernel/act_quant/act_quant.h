// act_quant: its arguments and its contract (model.md 3.2).
#pragma once
#include <stddef.h>
#include <stdint.h>
#include "kernel/declare.h"

#define LF_ACT_QUANT_CONTRACT                                                                      \
    "quantize and dequantize bf16 rows in groups of 32 (model.md 3.2). Codes bit-equal to "        \
    "base/quant; the value times the scale is exact in bf16. A group that holds a NaN or an "      \
    "infinity becomes 7FC0 throughout. No sums."

enum lf_act_format { LF_ACT_QA8, LF_ACT_QF4E };

struct lf_act_quant_args {
    enum lf_act_format format;
    uint32_t rows, dim; // dim a multiple of 32
    const uint16_t *x;  // bf16 [rows][x_stride]
    size_t x_stride;
    uint16_t *y; // bf16 [rows][y_stride]: value * scale, exact in bf16; may be x
    size_t y_stride;
};

LF_DECLARE_KERNEL(act_quant);
