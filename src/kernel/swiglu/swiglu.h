// swiglu: its arguments and its contract (model.md 9.2).
#pragma once
#include <stdint.h>
#include "kernel/declare.h"

#define LF_SWIGLU_CONTRACT                                                                         \
    "u = clamp(u, -limit, limit), g = min(g, limit); h = (g*sigmoid(g))*u; times weight if "       \
    "given; bf (model.md 9.2). float32, no fusing. NaN passes through the clamps. Error "          \
    "before bf: g(9)|h|; sigmoid is 0 below -89, where it is under 2^-126. NaN has one "           \
    "pattern."

struct lf_swiglu_args {
    uint32_t rows, dim;
    const uint16_t *gate; // bf16 [rows][dim]
    const uint16_t *up;   // bf16 [rows][dim]
    float limit;
    const float *weight; // [rows] or NULL (shared expert)
    uint16_t *y;         // bf16 [rows][dim]; may be gate or up
};

LF_DECLARE_KERNEL(swiglu);
