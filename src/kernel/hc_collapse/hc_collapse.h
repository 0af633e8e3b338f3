// hc_collapse: its arguments and its contract (model.md 7).
#pragma once
#include <stdint.h>
#include "kernel/declare.h"

#define LF_HC_COLLAPSE_CONTRACT                                                                    \
    "y = bf(sum_i pre_i * X_i), i ascending: first product plain, then fused multiply-adds "       \
    "(model.md 7). Error before bf: g(streams) sum|pre_i X_i|. NaN has one pattern."

struct lf_hc_collapse_args {
    uint32_t rows, streams, dim;
    const uint16_t *x; // bf16 [rows][streams][dim]
    const float *pre;  // [rows][streams]
    uint16_t *y;       // bf16 [rows][dim]
};

LF_DECLARE_KERNEL(hc_collapse);
