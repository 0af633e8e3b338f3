// linear's own sums on CUDA: their bound, step by step (cuda-probe.md 3), and their bits.
#include <math.h>
#include <stdlib.h>
#include "base/error.h"
#include "contract/record.h"
#include "kernel/linear/linear_contract.h"
#include "kernel/linear/linear_groups.h"
#include "kernel/linear/linear_steps.h"
#include "kernel/linear/mma_walk.h"
#include "kernel/settle.h"

static double chain_error(const struct lf_matrix *m, const uint16_t *w, const uint16_t *x) {
    uint32_t chunk = lf_linear_step_chunk(m->format);
    struct lf_mma_walk total = {0};
    for (uint32_t part = 0; part < m->in; part += LF_LINEAR_PART) {
        struct lf_mma_walk sum = {0};
        for (uint32_t slab = part; slab < part + LF_LINEAR_PART && slab < m->in; slab += 4 * chunk)
            for (uint32_t step = 0; step < chunk / 4; step++) {
                uint16_t a[16], b[16];
                lf_linear_step_pairs(m, w, x, slab, step, a, b);
                lf_mma_walk_step(&sum, a, b);
            }
        total.sum += sum.sum;
        total.error += sum.error;
        if (part)
            total.error += lf_check_gamma(1) * (fabs(total.sum) + total.error) + 0x1p-150;
    }
    return total.error;
}

// What weights lose that bf16 does not hold, and the float64 sums themselves.
static double decode_error(const struct lf_matrix *m, uint32_t o, const uint16_t *w,
                           const uint16_t *x) {
    double lost = 0, all = 0;
    for (uint32_t k = 0; k < m->in; k++) {
        double size = fabs((double)lf_bf16_to_f32(x[k]));
        double as_bf16 = fabs((double)lf_bf16_to_f32(w[k]));
        all += size * as_bf16;
        if (m->format == LF_WEIGHT_FP8 && m->scale[o / 32 * (m->in / 32) + k / 32] < 3)
            lost += size * 0x1p-133;
    }
    return isfinite(all) ? lost + all * 0x1p-48 : 0.0;
}

// Calls each for every output of every job, in the order of the float64 reference.
typedef void output_fn(void *ctx, const struct lf_linear_job *job, uint32_t row, uint32_t out,
                       const uint16_t *w);
static void each_output(const void *args, output_fn *each, void *ctx) {
    struct lf_linear_args known = lf_linear_known(args);
    for (uint32_t j = 0; j < known.n_jobs; j++) {
        const struct lf_matrix *m = known.job[j].w;
        uint16_t *w = malloc(m->in * sizeof *w);
        LF_ASSERT(w);
        for (uint32_t o = 0; o < m->out; o++) {
            for (uint32_t k = 0; k < m->in; k++)
                w[k] = lf_linear_step_weight(m, o, k);
            for (uint32_t r = 0; r < known.job[j].rows; r++)
                each(ctx, &known.job[j], r, o, w);
        }
        free(w);
    }
}

static const uint16_t *x_of(const struct lf_linear_job *job, uint32_t row) {
    return job->x + (job->x_index ? job->x_index[row] : row) * job->x_stride;
}

// Where the rows of the launch's jobs, one after the other, are in the operands.
static uint32_t row_of(const struct lf_linear_map *map, const struct lf_linear_job *job,
                       uint32_t row) {
    size_t each = job->y_f32 ? sizeof(float) : sizeof(uint16_t);
    size_t before = (size_t)((const uint8_t *)job->y - (const uint8_t *)map->job->y);
    return (uint32_t)(before / (job->y_stride * each)) + row;
}

struct bounds {
    const struct lf_linear_map *map;
    const double *ref;
    double *error;
};

static void bound_output(void *ctx, const struct lf_linear_job *job, uint32_t row, uint32_t out,
                         const uint16_t *w) {
    const struct bounds *bounds = ctx;
    size_t at = (size_t)row_of(bounds->map, job, row) * job->w->out + out;
    const uint16_t *x = x_of(job, row);
    bounds->error[at] = 0.0;
    if (isfinite(bounds->ref[at]))
        bounds->error[at] = chain_error(job->w, w, x) + decode_error(job->w, out, w, x);
}

static void bound(const void *args, const double *ref, double *error) {
    each_output(args, bound_output, &(struct bounds){args, ref, error});
}

static void expect_output(void *ctx, const struct lf_linear_job *job, uint32_t row, uint32_t out,
                          const uint16_t *w) {
    struct lf_call *call = ctx;
    float sum = lf_linear_steps(job->w, w, x_of(job, row));
    uint64_t want = job->y_f32 ? lf_f32_bits(lf_f32_settle(sum)) : lf_bf16_settle(sum);
    lf_expect_bits(call, job->y_f32 ? LF_LINEAR_Y_F32 : LF_LINEAR_Y,
                   row_of((const void *)call->args, job, row), out, want,
                   "the contract's steps in integers");
}

static void expect(struct lf_call *call) {
    each_output(call->args, expect_output, call);
}

// The other formats have the CPU's order.
static bool is_apart(const void *args) {
    enum lf_weight_format format = ((const struct lf_linear_map *)args)->w.format;
    return format != LF_WEIGHT_F16 && format != LF_WEIGHT_F32;
}

const struct lf_own_sums lf_linear_cuda_sums = {is_apart, bound, expect};
