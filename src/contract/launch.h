// Problems (rows and weights of one shape and style) and launches of some of their rows.
#pragma once
#include "contract/trial.h"

struct lf_problem {
    struct lf_trial *trial;
    const struct lf_shape *shape;
    uint32_t rows;
    struct lf_operand operand[LF_OPERANDS_MAX];
    uint8_t *row[LF_OPERANDS_MAX]; // [rows][n] of what rows bring
    struct lf_check_buffer weight[LF_OPERANDS_MAX];
    uint64_t weight_hash[LF_OPERANDS_MAX];
};

// Where a launch's buffers end: guard bytes before the unreadable page, or at the front of them.
struct lf_layout {
    size_t tail;
    bool front;
    uint8_t pattern; // what outputs hold before
    uint8_t guard;   // what bands and gaps hold; 0: LF_CHECK_GUARD_BYTE
    bool shared;     // outputs lie in the inputs they may share
};
#define LF_LAYOUT_PLAIN ((struct lf_layout){.tail = LF_CHECK_GUARD, .pattern = 0x5A})

struct lf_launch {
    struct lf_call call; // first: a call of the public interface is its launch
    struct lf_problem *problem;
    bool owns_problem;
    struct lf_check_buffer memory; // of this struct: kernels may read what args hold
    struct lf_layout layout;
    uint32_t *source;
    struct lf_check_buffer buffer[LF_OPERANDS_MAX]; // of weights: none
    uint8_t *before[LF_OPERANDS_MAX]; // bytes as they were; kept in gate 3
    double *ref, *error;
    size_t columns;
};

struct lf_problem *lf_problem_open(struct lf_trial *trial, const struct lf_shape *shape,
                                   uint32_t rows, enum lf_check_style style);
// Weights to other addresses.
void lf_problem_place(struct lf_problem *problem, struct lf_layout layout);
void lf_problem_close(struct lf_problem *problem);

// source NULL: rows in order.
struct lf_launch *lf_launch_open(struct lf_problem *problem, uint32_t rows, const uint32_t *source,
                                 struct lf_layout layout);
void lf_launch_close(struct lf_launch *launch);
void lf_launch_bind(struct lf_launch *launch);
void lf_launch_run(struct lf_launch *launch);
// The float64 reference and its errors, from inputs as they are now.
void lf_launch_reference(struct lf_launch *launch);
void lf_launch_judge(struct lf_launch *launch);
// Guards, gaps, inputs and weights are as they were.
void lf_launch_check_memory(struct lf_launch *launch);

size_t lf_type_bytes(enum lf_type type);
size_t lf_operand_align(const struct lf_operand *operand);
// Where a layout puts an operand.
struct lf_check_place lf_operand_place(const struct lf_trial *trial,
                                       const struct lf_operand *operand, struct lf_layout layout);
size_t lf_operand_pitch(const struct lf_operand *operand);
bool lf_operand_is_result(const struct lf_operand *operand); // LF_OUT, LF_INOUT
uint64_t lf_hash(const void *bytes, size_t n);
