// What the files of attention's record share.
#pragma once
#include <stdbool.h>
#include "contract/record.h"
#include "kernel/attention/attention.h"
#include "kernel/attention/attention_f64.h"

enum {
    ROW, SPAN, PLACE, Q, SINK, CALL_KEYS, RING, RING_AT, ENTRY, PAGE, PAGED, SELECTED, N_SELECTED,
    O, OPERANDS
};
enum { PAGES_HELD = 3 };

// The kernel's arguments, and what a lane has.
struct attention_shape {
    struct lf_attention_args args;
    uint32_t call_rows; // keys of the call
    uint32_t entries;   // compressed entries of the whole context; 0: a layer without
    uint64_t context;
};

// Where a row stands: how many rows of its lane lie before it in the call, or that it follows.
struct attention_place {
    uint64_t position;
    uint32_t offset, follows; // follows: the next row of the lane of the place before
};

// The bound of one head; rounded: ref of a list of one block with bf16 weights; own: CUDA's sums.
void lf_attention_bound(const struct lf_attention_args *args, uint32_t row, uint32_t head,
                        struct attention_list list, bool rounded, bool own, double *ref,
                        double *error);
// Of all rows and heads of a shape.
void lf_attention_bounds(const struct attention_shape *shape, bool own, const double *ref,
                         double *error);
extern const struct lf_own_sums lf_attention_cuda_sums;

void lf_attention_edges(struct lf_trial *trial, const struct lf_shape *shape);
void lf_attention_windows(struct lf_trial *trial, const struct lf_shape *shape);
