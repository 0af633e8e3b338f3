// hc_mix: its arguments and its contract (model.md 7).
#pragma once
#include <stdint.h>
#include "kernel/declare.h"

#define LF_HC_MIX_CONTRACT                                                                         \
    "pre, post and comb of one sublayer from the streams (model.md 7), all float32. m = (fn . "    \
    "x) * rho: dot by linear's float32 word order (16 partials by element mod 16, fused), "        \
    "mean(x^2) likewise. exp and sigmoid are kernel/math.h; softmax and Sinkhorn sums ascend "     \
    "over the index."

struct lf_hc_mix_args {
    uint32_t rows, streams, dim;
    const uint16_t *x;  // bf16 [rows][streams][dim]
    const float *fn;    // [streams*(2+streams)][streams*dim]; any alignment
    const float *base;  // [streams*(2+streams)]
    const float *scale; // [3]
    uint32_t sinkhorn_iters;
    float hc_eps, norm_eps;
    float *pre;  // [rows][streams]
    float *post; // [rows][streams]
    float *comb; // [rows][streams][streams], first index = old stream
};

LF_DECLARE_KERNEL(hc_mix);
