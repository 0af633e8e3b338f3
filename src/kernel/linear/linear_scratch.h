// What lies in a worker's scratch.
#pragma once
#include "device/pool.h"
#include "kernel/linear/linear_few.h"
#include "kernel/linear/linear_ordered.h"

enum {
    GROUP_ROWS = 8, // few rows; more go in waves
    SHARED_FLOATS = 80 * 1024,
    SHARED_JOBS = 128,
    WAVE_JOBS = 128,
    WAVE_GROUPS = 1024,
};

// The x of a job's few rows, made ready once for all of its tasks.
struct input {
    const float *at;   // NULL: each task makes its own
    uint32_t exponent; // FP8: fold_exponent, the greatest of the rows or 0
};

// Rows of a job in a wave; their groups lie at group[first] ..
struct wave_job {
    const struct lf_linear_job *job;
    uint32_t r0, rows, first;
    uint32_t orders, task_rows, task_outs; // orders: blocks to put in order, 0 if others did
};

// Jobs whose rows are put in order together.
struct wave {
    struct lf_pool *pool;
    uint32_t jobs, groups, worker; // worker: whose room is taken, up to `used` floats
    size_t used;
    struct wave_job job[WAVE_JOBS];
    float *group[WAVE_GROUPS]; // in the scratch of one worker after the other
};

struct scratch {
    struct work work;
    float ordered[ORDERED_FLOATS]; // a worker's share of a wave
    // Of worker 0, for all.
    struct wave wave;
    struct input input[SHARED_JOBS];
    float shared[SHARED_FLOATS];
};
_Static_assert(sizeof(struct scratch) <= LF_LINEAR_SCRATCH_BYTES, "scratch of linear");
_Static_assert(GROUP_ROWS * FEW_OUTS * LANES <= SUMS_FLOATS, "sums of few rows");

static inline struct scratch *scratch_of(struct lf_pool *pool, uint32_t worker) {
    return lf_pool_scratch(pool, worker, sizeof(struct scratch));
}

// Whether two jobs read the same bytes the same way.
static bool same_input(const struct lf_linear_job *a, const struct lf_linear_job *b) {
    bool same = a->rows == b->rows && a->w->in == b->w->in && a->w->format == b->w->format;
    for (uint32_t r = 0; same && r < a->rows; r++)
        same = row_x(a, r) == row_x(b, r);
    return same;
}
