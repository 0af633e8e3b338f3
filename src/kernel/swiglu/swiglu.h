// swiglu: its arguments and its contract (model.md 9.2).
#pragma once
#include <stdint.h>
#include "kernel/declare.h"

#define LF_SWIGLU_CONTRACT                                                                         \
    "u = clamp(u, -limit, limit), g = min(g, limit); h = (g*sigmoid(g))*u; times the row's "       \
    "weight if it has one; bf (model.md 9.2). float32, no fusing. NaN passes through the "         \
    "clamps. Error before bf: g(9)|h|; sigmoid is 0 below -89, where it is under 2^-126. NaN "     \
    "has one pattern. quantized: the QA8 values of what is stored, as act_quant's."

struct lf_swiglu_args {
    uint32_t rows, dim;
    const uint16_t *gate; // bf16 [rows][dim]
    const uint16_t *up;   // bf16 [rows][dim]
    float limit;
    const float *weight; // [weighted]
    uint32_t weighted;   // rows from the first that have one; those of the shared expert have none
    uint16_t *y;         // bf16 [rows][dim]; may be gate or up
    uint16_t *quantized; // bf16 [rows][dim], dim a multiple of 32; may be up; NULL: none
};

LF_DECLARE_KERNEL(swiglu);
