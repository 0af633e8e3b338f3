// linear: its arguments and its contract (model.md 3.3).
#pragma once
#include <stddef.h>
#include <stdint.h>
#include "format/matrix.h"
#include "kernel/declare.h"

#define LF_LINEAR_CONTRACT                                                                         \
    "y = x . W^T for the weight formats of format/matrix.h, several maps in one launch. x is "     \
    "bf16 and already what the map reads: QA8 values for FP8 and MXFP4 weights, plain bf16 "       \
    "else (model.md 3.3). A weight is value times scale as float32: exact, or infinity past "      \
    "float32's range; an e4m3 NaN code or the scale 255 gives NaN. Sum order (engine.md X-7, "     \
    "cpu-probe.md 2): 16 float32 partials from +0; partial i takes the 32-bit words i, i+16, ... " \
    "of the packed weight row, elements of a word ascending, one fused multiply-add a product. "   \
    "MXFP4: t is the sum of a word's 8 products without the scale: elements 0..3 as a product "    \
    "and three fused multiply-adds, elements 4..7 the same, then one addition (both chains are "   \
    "exact for QA8 values, so t is the exact sum rounded once; other x keep this order), then "    \
    "one fused multiply-add of t and the block's scale. A row's end that is no multiple of 16 "    \
    "words is padded with products +0 * +0. Then partials i and i+8 are added, i and i+4, i and "  \
    "i+2, i and i+1. Output: bf16 nearest even, or the float32 total; a NaN is stored as 7FC0, "  \
    "7FC00000. Bound: g(D) sum |w x|, D = (elements of a partial) + 4, for MXFP4 and QA8 values " \
    "(words of a partial) + 1 + 4. Which form runs depends on format and rows; all forms give "   \
    "these bits. A job with a group has the rows that another kernel chose (expert_group): those " \
    "of x, or of x_index where it is given, and of y. A weight row is read once a call while it "  \
    "decodes into scratch (always up to LF_LINEAR_ROWS_BLOCK rows)."

// The CUDA column's sums are its own, a function of the weight's K and format alone.
#define LF_LINEAR_CUDA_CONTRACT                                                                    \
    "BF16, FP8 and MXFP4 on tensor cores: K in parts of 640, each a chain from zero of k16 steps " \
    "of bf16 products, the parts added ascending in float32 from the first on. A slab is four "    \
    "chunks of 8 (BF16), 16 (FP8) or 32 (MXFP4) elements. Each eight elements of its chunks make " \
    "two steps: 0 to 3 and 4 to 7, or for MXFP4 0, 1, 4, 5 and 2, 3, 6, 7; zeros past the row's "  \
    "end. A step is one sum of 16 exact products and the total, each cut toward zero at 2^-25 of " \
    "the largest exponent among them, then cut to 24 bits. FP8 weights with scale bytes 0 to 2 "   \
    "are cut to multiples of 2^-133; all others are exact in bf16. F16 and F32: the CPU's order "  \
    "and bits."

// What a worker needs: lf_pool_open's scratch_bytes must not be less.
enum { LF_LINEAR_SCRATCH_BYTES = 2176 * 1024, LF_LINEAR_ROWS_BLOCK = 32 };

// CUDA: elements of a part of K (LF_LINEAR_CUDA_CONTRACT).
enum { LF_LINEAR_PART = 640 };

struct lf_linear_job {
    const struct lf_matrix *w;
    uint32_t rows;           // 0 is allowed; of a group: the most that it can have
    const uint16_t *x;       // bf16; row r is at x + (x_index ? x_index[r] : r) * x_stride
    size_t x_stride;         // elements
    const uint32_t *x_index; // [rows] or NULL
    const uint32_t *group;   // NULL, or [2] a kernel wrote: its rows are group[0] .. group[1]-1
    void *y;                 // bf16 or float32 [rows][y_stride]; row r of the job at r * y_stride
    size_t y_stride;         // elements
    int y_f32;               // 0: bf(dot), 1: float32
};

struct lf_linear_args {
    uint32_t n_jobs;
    const struct lf_linear_job *job; // of the host, whatever the device, as is job->w
    struct lf_linear_job *room; // [n_jobs] of the host where a job has a group, else NULL
    // Another call of linear read these groups before the launch ahead; their jobs have no index.
    int groups_are_old;
    // Or 0: groups of jobs follow each other, as expert_group leaves them, up to this row.
    uint32_t group_rows;
};

LF_DECLARE_KERNEL(linear);
// Of a device's matrix of FP8 or MXFP4: *is_odd, of the device, becomes 1 where it is not regular.
LF_KERNEL_C
void lf_linear_look_cuda(struct lf_device *device, const struct lf_matrix *m, uint32_t *is_odd);
// Turns a device's codes of MXFP4 for linear, which is not to be called before a wait.
LF_KERNEL_C
void lf_linear_turn_cuda(struct lf_device *device, void *codes, uint64_t bytes);
// out: the jobs' [rows][out] one after the other; magnitude: the sums of |w x|, the same.
void lf_linear_f64_sums(const struct lf_linear_args *args, double *out, double *magnitude);
// Of one job without a group only outputs first to end - 1, at their places.
void lf_linear_f64_job(const struct lf_linear_job *job, uint32_t first, uint32_t end, double *out,
                       double *magnitude);
// D of the bound: additions of a partial and of its tree.
double lf_linear_f64_depth(const struct lf_matrix *w);
