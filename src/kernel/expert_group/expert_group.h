// expert_group: its arguments and its contract (model.md 9.3).
#pragma once
#include <stdint.h>
#include "kernel/declare.h"

#define LF_EXPERT_GROUP_CONTRACT                                                                   \
    "sorts the choices (row, expert) of a launch by expert, those of one expert in the order of "  \
    "rows, so that an expert's rows are one run of pairs: its linear maps read them by pair_row "  \
    "and first (linear's groups), its outputs come back by pair_of (hc_expand). Integers and "   \
    "copies of weights: exact. Places depend on the launch, what is computed for a row does "      \
    "not. No rows: nothing is written."

struct lf_expert_group_args {
    uint32_t rows, top, experts;
    const uint32_t *id;  // [rows][top], below experts
    const float *weight; // [rows][top]
    uint32_t *first;     // [experts+1]: the pairs of expert e are first[e] .. first[e+1]-1
    uint32_t *pair_row;  // [rows*top] the row of a pair
    float *pair_weight;  // [rows*top] its weight
    uint32_t *pair_of;   // [rows][top] the pair of a choice
};

LF_DECLARE_KERNEL(expert_group);
