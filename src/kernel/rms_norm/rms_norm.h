// rms_norm: its arguments and its contract (model.md 3.4).
#pragma once
#include <stddef.h>
#include <stdint.h>
#include "kernel/declare.h"

#define LF_RMS_NORM_CONTRACT                                                                       \
    "y = bf(w * (x * r)), r = 1/sqrt(mean(x^2) + eps), all float32 (model.md 3.4). Sum "           \
    "order: x^2 by fused multiply-add into 16 partials by element index mod 16, then the "         \
    "tree i+8, i+4, i+2, i+1. The mean is sum / n by IEEE division, the root and the "             \
    "reciprocal are IEEE sqrt and division; NaN is stored as 0x7FC0. Error bound, u = "            \
    "2^-24: |y| * (g(dim/16+4)/2 + 6u), then the bf16 store. quantized: "            \
    "the QA8 values of what is stored, as act_quant's."

struct lf_rms_norm_args {
    uint32_t rows, dim;
    const uint16_t *x; // bf16 [rows][x_stride]
    size_t x_stride;   // elements
    const uint16_t *w; // bf16 [dim]; any alignment
    float eps;
    uint16_t *y; // bf16 [rows][y_stride]; may be x
    size_t y_stride;
    uint16_t *quantized; // bf16 [rows][y_stride], dim a multiple of 32; NULL: none
};

LF_DECLARE_KERNEL(rms_norm);
