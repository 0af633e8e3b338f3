#include "kernel/linear/linear.h"

#include "base/error.h"
#include "device/pool.h"
#include "kernel/isa.h"
#include "kernel/settle.h"
#include "kernel/sum16.h"
#ifdef __AVX2__
#include "kernel/linear/linear_avx2.h"
#else
#include "kernel/linear/linear_plain.h"
#endif

enum { W_FLOATS = 96 * 1024, BLOCKS_KEPT = W_FLOATS / (TILE_OUTS * K_BLOCK) };

struct scratch {
    float w[W_FLOATS]; // decoded weights: [block][outs][K_BLOCK], or one block
    float acc[ROWS_BLOCK * OUTS_MAX * LANES];
    float x[TILE_ROWS * K_BLOCK];
};
_Static_assert(sizeof(struct scratch) <= LF_LINEAR_SCRATCH_BYTES, "scratch of linear");

// One task: a few outputs of a job for all of its rows.
struct block {
    const struct lf_linear_job *job;
    struct scratch *scratch;
    uint32_t o0, outs, padded; // padded: outs as a multiple of TILE_OUTS
    bool kept;                 // decoded blocks stay in scratch for the next rows
    bool folded[BLOCKS_KEPT];  // of a kept block, else [0]: MXFP4 weights hold their scale
};

static const uint16_t *row_x(const struct lf_linear_job *job, uint32_t r) {
    return job->x + (job->x_index ? job->x_index[r] : r) * job->x_stride;
}

static void decode_outputs(struct block *b, uint32_t k0, float *w, bool *folded) {
    const struct lf_matrix *m = b->job->w;
    *folded = m->format == LF_WEIGHT_MXFP4;
    for (uint32_t o = 0; *folded && o < b->outs; o++) {
        struct packed p = packed_block(m, b->o0 + o, k0);
        *folded = can_fold_weights(&p);
    }
    for (uint32_t o = 0; o < b->padded; o++)
        decode(m, b->o0 + (o < b->outs ? o : b->outs - 1), k0, *folded, w + o * K_BLOCK);
}

static void run_tile(const struct block *b, const struct tile *t, uint32_t r0, uint32_t k0,
                     bool folded) {
    const struct lf_matrix *m = b->job->w;
    uint32_t n = block_elements(m->in, k0);
    bool fold = folded;
    for (uint32_t r = 0; r < t->rows; r++) {
        const uint16_t *x = row_x(b->job, r0 + r) + k0;
        order_x(m->format, x, n, b->scratch->x + r * K_BLOCK);
        fold = fold && can_fold_x(x, n);
    }
    if (m->format != LF_WEIGHT_MXFP4)
        tile_products(t);
    else if (fold)
        tile_folded(t);
    else
        tile_words(t, m, b->o0, k0, !folded);
}

static void store_rows(const struct block *b, uint32_t r0, uint32_t rows) {
    const struct lf_linear_job *job = b->job;
    for (uint32_t r = 0; r < rows; r++) {
        const float *acc = b->scratch->acc + r * b->padded * LANES;
        size_t at = (r0 + r) * job->y_stride + b->o0;
        for (uint32_t o = 0; o < b->outs; o++) {
            float sum = lf_tree16(acc + o * LANES);
            if (job->y_f32)
                ((float *)job->y)[at + o] = lf_f32_settle(sum);
            else
                ((uint16_t *)job->y)[at + o] = lf_bf16_settle(sum);
        }
    }
}

static void run_rows(struct block *b, uint32_t r0, uint32_t rows) {
    const struct lf_matrix *m = b->job->w;
    struct scratch *s = b->scratch;
    memset(s->acc, 0, sizeof(float) * rows * b->padded * LANES);
    for (uint32_t k0 = 0, i = 0; k0 < m->in; k0 += K_BLOCK, i += b->kept) {
        float *w = s->w + i * b->padded * K_BLOCK;
        if (r0 == 0 || !b->kept)
            decode_outputs(b, k0, w, &b->folded[i]);
        for (uint32_t r = 0; r < rows; r += TILE_ROWS) {
            struct tile t = {.w = w, .x = s->x, .acc = s->acc + r * b->padded * LANES};
            t.rows = rows - r < TILE_ROWS ? rows - r : TILE_ROWS;
            t.outs = b->padded;
            t.vectors = word_vectors(m->format, block_elements(m->in, k0));
            run_tile(b, &t, r0 + r, k0, b->folded[i]);
        }
    }
    store_rows(b, r0, rows);
}

// Outputs of one task: few enough that the decoded weights of all blocks fit scratch.
static uint32_t task_outputs(const struct lf_linear_job *job) {
    uint32_t blocks = (job->w->in + K_BLOCK - 1) / K_BLOCK;
    if (job->rows <= ROWS_BLOCK || blocks > BLOCKS_KEPT)
        return OUTS_MAX;
    uint32_t outs = W_FLOATS / (blocks * K_BLOCK) / TILE_OUTS * TILE_OUTS;
    return outs < OUTS_MAX ? outs : OUTS_MAX;
}

static uint32_t job_tasks(const struct lf_linear_job *job) {
    uint32_t outs = task_outputs(job);
    return job->rows ? (job->w->out + outs - 1) / outs : 0;
}

struct launch {
    struct lf_pool *pool;
    const struct lf_linear_args *args;
};

static void run_task(void *ctx, uint32_t i, uint32_t worker) {
    const struct launch *launch = ctx;
    const struct lf_linear_job *job = launch->args->job;
    for (uint32_t tasks; i >= (tasks = job_tasks(job)); job++)
        i -= tasks;
    struct block b = {.job = job};
    uint32_t outs = task_outputs(job);
    b.scratch = lf_pool_scratch(launch->pool, worker, sizeof *b.scratch);
    b.o0 = i * outs;
    b.outs = job->w->out - b.o0 < outs ? job->w->out - b.o0 : outs;
    b.padded = (b.outs + TILE_OUTS - 1) / TILE_OUTS * TILE_OUTS;
    b.kept = job->rows > ROWS_BLOCK && (job->w->in + K_BLOCK - 1) / K_BLOCK <= BLOCKS_KEPT;
    for (uint32_t r0 = 0; r0 < job->rows; r0 += ROWS_BLOCK)
        run_rows(&b, r0, job->rows - r0 < ROWS_BLOCK ? job->rows - r0 : ROWS_BLOCK);
}

void LF_KERNEL_NAME(lf_linear)(struct lf_pool *pool, const struct lf_linear_args *args) {
    struct launch launch = {.pool = pool, .args = args};
    uint32_t tasks = 0;
    for (uint32_t j = 0; j < args->n_jobs; j++) {
        const struct lf_matrix *m = args->job[j].w;
        LF_ASSERT(m->in > 0 && (!lf_matrix_quantizes_input(m) || m->in % 32 == 0));
        tasks += job_tasks(&args->job[j]);
    }
    lf_pool_run(pool, tasks, run_task, &launch);
}
