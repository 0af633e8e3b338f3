// hc_mix: its arguments and its contract (model.md 7).
#pragma once
#include <stdint.h>
#include "kernel/declare.h"

#define LF_HC_MIX_CONTRACT                                                                         \
    "pre, post and comb of one sublayer from the streams (model.md 7), all float32. m = (fn . "    \
    "x) * rho: the dot in 16 partials by element mod 16, fused, tree i+8, i+4, i+2, i+1; "         \
    "mean(x^2) likewise, sum / n, then + norm_eps, sqrt, 1/. m * rho * scale + base: each "        \
    "step rounded, none fused. exp and sigmoid are kernel/math.h; softmax and Sinkhorn sums "      \
    "ascend over the index, + eps last. Errors: a logit (m * scale + base) within e = g(n/16 "     \
    "+ 5) sum|fn x| rho scale + g(n/32 + 10)|m scale| + g(1)|base|; pre e/4 + g(5), post "         \
    "twice that, comb (2 iters + 1)(e + g(streams + 4)) of itself. NaN has one pattern."

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
