// draft_join: its arguments and its contract (model.md 11.4).
#pragma once
#include <stddef.h>
#include <stdint.h>
#include "kernel/declare.h"

#define LF_DRAFT_JOIN_CONTRACT                                                                     \
    "logits = logits + bias, element by element, one float32 addition each: a draft's base "       \
    "logits and the Markov head's bias (model.md 11.4). Error: u |sum|. NaN has one pattern."

struct lf_draft_join_args {
    uint32_t rows, vocab;
    float *logits;        // [rows][logits_stride], changed in place
    size_t logits_stride; // elements, at least vocab
    const float *bias;    // [rows][vocab]
};

LF_DECLARE_KERNEL(draft_join);
