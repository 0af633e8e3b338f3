// The shape of linear's record: one map and its jobs; the launch's arguments come first.
#pragma once
#include "contract/record.h"
#include "kernel/linear/linear.h"

struct lf_linear_map {
    struct lf_linear_args args;
    struct lf_linear_job job[2], room[2];
    struct lf_matrix w;
    uint32_t grouped, bounds[3]; // 1: two jobs whose rows are told in memory; 2: x's as well
};
// The error that the contract allows a sum of that depth, before the output's rounding.
double lf_linear_error(double depth, double ref, double magnitude);

// The record's operands.
enum {
    LF_LINEAR_X,
    LF_LINEAR_W,
    LF_LINEAR_SCALE,
    LF_LINEAR_Y,
    LF_LINEAR_Y_F32,
    LF_LINEAR_INDEX,
    LF_LINEAR_OPERANDS
};
// How CUDA's sums are judged (LF_LINEAR_CUDA_CONTRACT).
extern const struct lf_own_sums lf_linear_cuda_sums;
