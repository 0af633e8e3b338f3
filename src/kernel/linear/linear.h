// linear: its arguments and its contract (model.md 3.3).
#pragma once
#include <stddef.h>
#include <stdint.h>
#include "format/matrix.h"
#include "kernel/declare.h"

#define LF_LINEAR_CONTRACT                                                                         \
    "y = x . W^T for the weight formats of format/matrix.h, several maps in one launch. x is "     \
    "bf16 and already what the map reads: QA8 values for FP8 and MXFP4 weights, plain bf16 "       \
    "else (model.md 3.3). Sum order (engine.md X-7, cpu-probe.md 2): 16 float32 partials; "        \
    "partial i takes the 32-bit words i, i+16, ... of the packed weight row, elements of a "       \
    "word ascending, one fused multiply-add a product; for MXFP4 the sum of a word's 8 "           \
    "products is exact, rounded once to float32, then one fused multiply-add with the block's "    \
    "scale. A row's end that is no multiple of 16 words is padded with zero products. Then "       \
    "partials i and i+8 are added, i and i+4, i and i+2, i and i+1. Output: bf16 nearest "         \
    "even, or the float32 total."

struct lf_linear_job {
    const struct lf_matrix *w;
    uint32_t rows;           // 0 is allowed
    const uint16_t *x;       // bf16; row r is at x + (x_index ? x_index[r] : r) * x_stride
    size_t x_stride;         // elements
    const uint32_t *x_index; // [rows] or NULL
    void *y;                 // bf16 or float32 [rows][y_stride]; row r of the job at r * y_stride
    size_t y_stride;         // elements
    int y_f32;               // 0: bf(dot), 1: float32
};

struct lf_linear_args {
    uint32_t n_jobs;
    const struct lf_linear_job *job;
};

LF_DECLARE_KERNEL(linear);
