// hc_expand: its arguments and its contract (model.md 7).
#pragma once
#include <stdint.h>
#include "kernel/declare.h"

#define LF_HC_EXPAND_CONTRACT                                                                      \
    "X'_j = bf(post_j*b + sum_i comb[i][j]*X_i), in place (model.md 7). First index of comb = "    \
    "old stream. Order: post_j*b plain, then fused multiply-adds, i ascending. Error before "      \
    "bf: g(streams + 1) (|post_j b| + sum|comb[i][j] X_i|). NaN has one pattern."

struct lf_hc_expand_args {
    uint32_t rows, streams, dim;
    uint16_t *x;       // bf16 [rows][streams][dim], in place
    const uint16_t *b; // bf16 [rows][dim]
    const float *post; // [rows][streams]
    const float *comb; // [rows][streams][streams]
};

LF_DECLARE_KERNEL(hc_expand);
