// hc_expand: its arguments and its contract (model.md 7).
#pragma once
#include <stddef.h>
#include <stdint.h>
#include "kernel/declare.h"
#include "kernel/hc_collapse/hc_collapse.h"

#define LF_HC_EXPAND_CONTRACT                                                                      \
    "X'_j = bf(post_j*b + sum_i comb[i][j]*X_i), in place (model.md 7). First index of comb = "    \
    "old stream. Order: post_j*b plain, then fused multiply-adds, i ascending. Error before "      \
    "bf: g(streams + 1) (|post_j b| + sum|comb[i][j] X_i|). NaN has one pattern. With pair: b = "  \
    "bf(sum of the chosen experts' outputs by ascending id + shared), float32 adds from 0 "        \
    "(model.md 9.3). With pre: hc_collapse of the new streams with a norm, with the bits of "      \
    "calls one by one."

struct lf_hc_expand_args {
    uint32_t rows, streams, dim;
    uint16_t *x;       // bf16 [rows][streams][dim], in place
    const uint16_t *b; // bf16 [rows][dim]; unused with pair
    const float *post; // [rows][streams]
    const float *comb; // [rows][streams][streams]
    // Of experts; pair NULL: none.
    const uint32_t *pair;   // [rows][top]: the pair of each chosen expert, ascending expert id
    uint32_t top;
    const uint16_t *expert; // bf16 [pairs][dim]
    const uint16_t *shared; // bf16 [rows][dim], added last; NULL where a model has no shared expert
    // Of the hc_collapse that follows; pre NULL: none.
    const float *pre;     // [rows][streams]
    const uint16_t *norm; // bf16 [dim]; any alignment
    float eps;
    uint16_t *y;         // bf16 [rows][dim]: the norm of the collapsed streams
    uint16_t *quantized; // bf16 [rows][dim]: its QA8 values; NULL: none
};

// It as a call of its own.
static inline struct lf_hc_collapse_args lf_hc_expand_next(const struct lf_hc_expand_args *a) {
    struct lf_hc_collapse_args next = {a->rows, a->streams, a->dim, a->x,        a->pre,
                                       a->y,    a->norm,    a->eps, a->quantized};
    return next;
}

// Of the references: element d of what a row's streams take, b or what its experts add up to.
double lf_hc_expand_taken(const struct lf_hc_expand_args *args, size_t row, size_t d);

LF_DECLARE_KERNEL(hc_expand);
