// expert_join: its arguments and its contract (model.md 9.3).
#pragma once
#include <stdint.h>
#include "kernel/declare.h"

#define LF_EXPERT_JOIN_CONTRACT                                                                    \
    "bf(sum of the chosen experts' outputs by ascending id + shared), float32 adds from 0 "        \
    "(model.md 9.3). Error before bf: g(top) (sum|y_e| + |shared|). NaN has one pattern."

struct lf_expert_join_args {
    uint32_t rows, top, dim;
    const uint16_t *expert; // bf16 [pairs][dim]
    const uint32_t *pair;   // [rows][top]: the pair of each chosen expert, ascending expert id
    const uint16_t *shared; // bf16 [rows][dim], added last; NULL where a model has no shared expert
    uint16_t *y;            // bf16 [rows][dim]
};

LF_DECLARE_KERNEL(expert_join);
