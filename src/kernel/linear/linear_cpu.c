#include "kernel/linear/linear.h"

#include "base/error.h"
#include "device/pool.h"
#include "kernel/isa.h"
#include "kernel/settle.h"
#include "kernel/sum16.h"
#ifdef __AVX2__
#include "kernel/linear/linear_few_avx2.h"
#else
#include "kernel/linear/linear_plain.h"
#endif

// One task: a few outputs of a job for all of its rows.
struct block {
    const struct lf_linear_job *job;
    struct scratch *scratch;
    uint32_t o0, outs, padded; // padded: outs as a multiple of TILE_OUTS
    bool kept;                 // decoded blocks stay in scratch for the next rows
    bool folded[BLOCKS_KEPT];  // of a kept block, else [0]: MXFP4 weights hold their scale
};

static uint32_t at_most(uint32_t n, uint32_t most) {
    return n < most ? n : most;
}

static uint32_t ceil_to(uint32_t n, uint32_t unit) {
    return (n + unit - 1) / unit * unit;
}

static const uint16_t *row_x(const struct lf_linear_job *job, uint32_t r) {
    return job->x + (job->x_index ? job->x_index[r] : r) * job->x_stride;
}

static bool can_fold_outputs(const struct block *b, uint32_t k0) {
    bool fold = b->job->w->format == LF_WEIGHT_MXFP4;
    for (uint32_t o = 0; fold && o < b->outs; o++) {
        struct packed p = packed_block(b->job->w, b->o0 + o, k0);
        fold = can_fold_weights(&p);
    }
    return fold;
}

// The group's x in word order; returns the largest exponent, 0 when a row must not be scaled.
static uint32_t order_group(const struct block *b, uint32_t r0, uint32_t rows, uint32_t k0) {
    const struct lf_matrix *m = b->job->w;
    uint32_t n = block_elements(m->in, k0), most = 1;
    for (uint32_t r = 0; r < rows; r++) {
        const uint16_t *x = row_x(b->job, r0 + r) + k0;
        order_x(m->format, x, n, b->scratch->x + r * K_BLOCK);
        uint32_t exponent = lf_matrix_quantizes_input(m) ? fold_exponent(x, n) : 1;
        most = exponent == 0 || most == 0 ? 0 : exponent > most ? exponent : most;
    }
    return most;
}

static void run_tile(const struct lf_matrix *m, const struct tile *t, uint32_t o0, uint32_t outs,
                     uint32_t k0, bool folded) {
    if (m->format != LF_WEIGHT_MXFP4)
        tile_products(t);
    else if (folded)
        tile_folded(t);
    else
        for (uint32_t o = 0; o < TILE_OUTS && o < outs; o++)
            plain_output(m, o0 + o, k0, t->x, t->rows, t->acc + o * LANES, t->acc_row);
}

// Some rows of x times the block's outputs; w is decoded on the way when it is new.
static void run_group(const struct block *b, uint32_t r0, uint32_t rows, uint32_t k0, float *w,
                      bool decoded, bool folded, float *acc) {
    const struct lf_matrix *m = b->job->w;
    float *x = b->scratch->x;
    uint32_t exponent = order_group(b, r0, rows, k0);
    size_t acc_row = b->padded * LANES, w_step = b->job->rows <= GROUP_ROWS ? 0 : K_BLOCK;
    struct few few = {.m = m, .o0 = b->o0, .outs = b->outs, .k0 = k0, .rows = rows, .x = x,
                      .exponent = exponent, .folded = w, .acc = acc, .acc_row = acc_row};
    if (b->job->rows <= GROUP_ROWS && few_rows(&few))
        return;
    for (uint32_t o = 0; o < b->padded; o += TILE_OUTS) {
        struct tile t = {.w = w + o * w_step, .acc_row = acc_row};
        for (uint32_t i = 0; i < TILE_OUTS && !decoded; i++)
            decode(m, b->o0 + at_most(o + i, b->outs - 1), k0, folded,
                   w + o * w_step + i * K_BLOCK);
        t.vectors = word_vectors(m->format, block_elements(m->in, k0));
        for (uint32_t r = 0; r < rows; r += TILE_ROWS) {
            t.x = x + r * K_BLOCK;
            t.acc = acc + r * acc_row + o * LANES;
            t.rows = at_most(rows - r, TILE_ROWS);
            run_tile(m, &t, b->o0 + o, b->outs - o, k0, folded && exponent > 0);
        }
    }
}

static void store_sum(const struct lf_linear_job *job, size_t at, float sum) {
    if (job->y_f32)
        ((float *)job->y)[at] = lf_f32_settle(sum);
    else
        ((uint16_t *)job->y)[at] = lf_bf16_settle(sum);
}

static void run_rows(struct block *b, uint32_t r0, uint32_t rows) {
    const struct lf_matrix *m = b->job->w;
    struct scratch *s = b->scratch;
    size_t acc_row = b->padded * LANES;
    memset(s->acc, 0, sizeof(float) * rows * acc_row);
    for (uint32_t k0 = 0, i = 0; k0 < m->in; k0 += K_BLOCK, i += b->kept) {
        float *w = s->w + i * b->padded * K_BLOCK;
        bool again = r0 > 0 && b->kept;
        if (!again)
            b->folded[i] = can_fold_outputs(b, k0);
        for (uint32_t r = 0; r < rows; r += GROUP_ROWS)
            run_group(b, r0 + r, at_most(rows - r, GROUP_ROWS), k0, w, again || r > 0,
                      b->folded[i], s->acc + r * acc_row);
    }
    for (uint32_t r = 0; r < rows; r++)
        for (uint32_t o = 0; o < b->outs; o++)
            store_sum(b->job, (r0 + r) * b->job->y_stride + b->o0 + o,
                      lf_tree16(s->acc + r * acc_row + o * LANES));
}

static void run_block(const struct lf_linear_job *job, struct scratch *scratch, uint32_t o0,
                      uint32_t outs) {
    struct block b = {.job = job, .scratch = scratch, .o0 = o0, .outs = outs};
    b.padded = ceil_to(outs, TILE_OUTS);
    b.kept = job->rows > ROWS_BLOCK && ceil_to(job->w->in, K_BLOCK) <= BLOCKS_KEPT * K_BLOCK;
    for (uint32_t r0 = 0; r0 < job->rows; r0 += ROWS_BLOCK)
        run_rows(&b, r0, at_most(job->rows - r0, ROWS_BLOCK));
}

struct launch {
    struct lf_pool *pool;
    const struct lf_linear_args *args;
    uint32_t outs_few; // outputs of a task of few rows: a multiple of 32, the FP8 block
};

// Outputs of one task; with many rows the decoded weights of all blocks fit scratch.
static uint32_t task_outputs(const struct launch *launch, const struct lf_linear_job *job) {
    if (job->rows <= GROUP_ROWS)
        return launch->outs_few;
    uint32_t in = ceil_to(job->w->in, K_BLOCK);
    if (job->rows <= ROWS_BLOCK || in > BLOCKS_KEPT * K_BLOCK)
        return OUTS_MANY;
    return at_most(W_FLOATS / in / TILE_OUTS * TILE_OUTS, OUTS_MANY);
}

static uint32_t job_tasks(const struct launch *launch, const struct lf_linear_job *job) {
    uint32_t outs = task_outputs(launch, job);
    return job->rows ? (job->w->out + outs - 1) / outs : 0;
}

static void run_task(void *ctx, uint32_t i, uint32_t worker) {
    const struct launch *launch = ctx;
    const struct lf_linear_job *job = launch->args->job;
    for (uint32_t tasks; i >= (tasks = job_tasks(launch, job)); job++)
        i -= tasks;
    struct scratch *scratch = lf_pool_scratch(launch->pool, worker, sizeof *scratch);
    uint32_t outs = task_outputs(launch, job), o0 = i * outs;
    outs = at_most(job->w->out - o0, outs);
    float sums[OUTS_FEW];
    if (job->rows > 1 || !one_row(job->w, row_x(job, 0), o0, outs, scratch, sums)) {
        run_block(job, scratch, o0, outs);
        return;
    }
    for (uint32_t o = 0; o < outs; o++)
        store_sum(job, o0 + o, sums[o]);
}

void LF_KERNEL_NAME(lf_linear)(struct lf_pool *pool, const struct lf_linear_args *args) {
    struct launch launch = {.pool = pool, .args = args};
    uint64_t outputs = 0;
    for (uint32_t j = 0; j < args->n_jobs; j++) {
        const struct lf_matrix *m = args->job[j].w;
        LF_ASSERT(m->in > 0 && (!lf_matrix_quantizes_input(m) || m->in % 32 == 0));
        outputs += args->job[j].rows ? m->out : 0;
    }
    // Four tasks a thread even out what threads get done.
    uint64_t share = outputs / (4 * (uint64_t)lf_pool_threads(pool));
    launch.outs_few = share >= OUTS_FEW ? OUTS_FEW : ceil_to((uint32_t)share + 1, 32);
    launch.outs_few = at_most(launch.outs_few, OUTS_FEW);
    uint32_t tasks = 0;
    for (uint32_t j = 0; j < args->n_jobs; j++)
        tasks += job_tasks(&launch, &args->job[j]);
    lf_pool_run(pool, tasks, run_task, &launch);
}
