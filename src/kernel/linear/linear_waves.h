// Many rows: all threads put the rows of some jobs in order, then all multiply.
#pragma once
#include "kernel/linear/linear_scratch.h"

static inline uint32_t wave_tasks(const struct wave_job *j) {
    uint32_t rows = (j->rows + j->task_rows - 1) / j->task_rows;
    return rows * ((j->job->w->out + j->task_outs - 1) / j->task_outs);
}

static void run_order(void *ctx, uint32_t i, uint32_t worker) {
    struct wave *w = ctx;
    const struct wave_job *j = w->job;
    (void)worker;
    for (; i >= j->orders; j++)
        i -= j->orders;
    uint32_t blocks = ordered_blocks(j->job), each = group_rows(j->job), r = i / blocks * each;
    order_block(j->job, j->r0 + r, at_most(j->rows - r, each), i % blocks,
                w->group[j->first + i / blocks]);
}

// Tasks of the same outputs follow each other: their weights are near.
static void run_products(void *ctx, uint32_t i, uint32_t worker) {
    struct wave *w = ctx;
    const struct wave_job *j = w->job;
    for (uint32_t tasks; i >= (tasks = wave_tasks(j)); j++)
        i -= tasks;
    uint32_t parts = (j->rows + j->task_rows - 1) / j->task_rows, r = i % parts * j->task_rows;
    struct block b = {.job = j->job, .o0 = i / parts * j->task_outs, .r0 = j->r0 + r};
    b.next = (i + 1) / parts * j->task_outs;
    b.rows = at_most(j->rows - r, j->task_rows);
    b.outs = at_most(b.job->w->out - b.o0, j->task_outs);
    run_ordered(&b, (const float *const *)w->group + j->first + r / group_rows(b.job),
                &scratch_of(w->pool, worker)->work);
}

static void size_tasks(struct wave *w) {
    uint64_t outputs = 0;
    for (uint32_t i = 0; i < w->jobs; i++) {
        struct wave_job *j = &w->job[i];
        uint32_t parts = (j->rows + TASK_ROWS - 1) / TASK_ROWS;
        j->task_rows = ceil_to((j->rows + parts - 1) / parts, group_rows(j->job));
        outputs += (uint64_t)parts * j->job->w->out;
    }
    uint32_t share = task_share(outputs, lf_pool_threads(w->pool));
    for (uint32_t i = 0; i < w->jobs; i++) {
        bool digits = has_digits(w->job[i].job);
        w->job[i].task_outs = near_share(share, digits ? 16 : TILE_OUTS,
                                         digits ? DIGITS_OUTS : PANEL_OUTS);
    }
}

static void begin_wave(struct wave *w) {
    w->jobs = w->groups = w->worker = 0;
    w->used = 0;
}

static void run_wave(struct wave *w) {
    uint32_t orders = 0, products = 0;
    size_tasks(w);
    for (uint32_t i = 0; i < w->jobs; i++) {
        orders += w->job[i].orders;
        products += wave_tasks(&w->job[i]);
    }
    if (orders)
        lf_pool_run(w->pool, orders, run_order, w);
    if (products)
        lf_pool_run(w->pool, products, run_products, w);
    begin_wave(w);
}

// Room for a job's groups; false where it does not do.
static bool take_groups(struct wave *w, struct wave_job *j) {
    uint32_t each = group_rows(j->job), groups = (j->rows + each - 1) / each;
    size_t floats = ordered_floats(j->job, each);
    uint32_t worker = w->worker;
    size_t used = w->used;
    if (groups > WAVE_GROUPS - w->groups)
        return false;
    for (uint32_t g = 0; g < groups; g++) {
        if (used + floats > ORDERED_FLOATS)
            worker++, used = 0;
        if (worker >= lf_pool_threads(w->pool))
            return false;
        w->group[w->groups + g] = scratch_of(w->pool, worker)->ordered + used;
        used += floats;
    }
    j->first = w->groups;
    j->orders = groups * ordered_blocks(j->job);
    w->groups += groups;
    w->worker = worker, w->used = used;
    return true;
}

static bool take_job(struct wave *w, const struct lf_linear_job *job, uint32_t r0, uint32_t rows) {
    if (w->jobs == WAVE_JOBS)
        return false;
    struct wave_job *j = &w->job[w->jobs], *last = j - (w->jobs > 0);
    *j = (struct wave_job){.job = job, .r0 = r0, .rows = rows};
    if (last != j && rows == job->rows && last->rows == rows && same_input(last->job, job))
        j->first = last->first;
    else if (!take_groups(w, j))
        return false;
    w->jobs++;
    return true;
}

// Rows of a job for each wave of its own, about the same for all.
static uint32_t wave_rows(const struct wave *w, const struct lf_linear_job *job) {
    uint32_t each = group_rows(job);
    size_t fit = ORDERED_FLOATS / ordered_floats(job, each) * lf_pool_threads(w->pool);
    uint32_t most = (uint32_t)(fit < WAVE_GROUPS ? fit : WAVE_GROUPS) * each;
    uint32_t waves = (job->rows + most - 1) / most;
    return ceil_to((job->rows + waves - 1) / waves, each);
}

static void add_job(struct wave *w, const struct lf_linear_job *job) {
    uint32_t rows = wave_rows(w, job);
    // So many rows find room in a wave that has no others.
    for (uint32_t r = 0; r < job->rows; r += rows)
        while (!take_job(w, job, r, at_most(job->rows - r, rows)))
            run_wave(w);
}

static bool job_in_waves(const struct lf_linear_job *job) {
    return job->rows > GROUP_ROWS && ordered_floats(job, group_rows(job)) <= ORDERED_FLOATS;
}

static void run_waves(struct lf_pool *pool, const struct lf_linear_args *args) {
    struct wave *w = &scratch_of(pool, 0)->wave;
    w->pool = pool;
    begin_wave(w);
    for (uint32_t j = 0; j < args->n_jobs; j++)
        if (job_in_waves(&args->job[j]))
            add_job(w, &args->job[j]);
    run_wave(w);
}
