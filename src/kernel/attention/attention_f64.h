// The list of keys that a row attends to, read by the reference's own code.
#pragma once
#include "kernel/attention/attention.h"

struct attention_list {
    uint32_t n;
    double *key; // [n][head_dim], the caller frees it
};
struct attention_list lf_attention_f64_list(const struct lf_attention_args *args, uint32_t row);
