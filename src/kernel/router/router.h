// router: its arguments and its contract (model.md 9.1).
#pragma once
#include <stdint.h>
#include "kernel/declare.h"

#define LF_ROUTER_CONTRACT                                                                         \
    "s = sqrt(softplus(logit)); the top experts by s + bias, ties to the lower id, listed by "     \
    "ascending id; weight = s / (sum of chosen s + 1e-20) * route_scale, the sum ascending by "    \
    "id (model.md 9.1). softplus(v) = v for v > 20 else log1p(exp v), kernel/math.h. NaN "         \
    "scores order below every number. Errors: a key g(3) (s + |bias|); a weight g(top + 7) of "    \
    "itself. NaN has one pattern."

struct lf_router_args {
    uint32_t rows, experts, top;
    const float *logits;     // [rows][experts]
    const float *bias;       // [experts]; any alignment
    float route_scale;
    uint32_t *id;  // [rows][top] ascending
    float *weight; // [rows][top]
};

LF_DECLARE_KERNEL(router);
