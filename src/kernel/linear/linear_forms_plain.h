// A task in plain C: the definition and nothing else.
#pragma once
#include "device/pool.h"
#include "kernel/linear/linear_plain.h"

// Every task puts its x in order itself.
struct input {
    char none;
};

struct scratch {
    struct plain plain;
    struct input input[1];
};
_Static_assert(sizeof(struct scratch) <= LF_LINEAR_SCRATCH_BYTES, "scratch of linear");

static inline uint32_t task_outputs(uint32_t share) {
    return near_share(share, 32, PLAIN_OUTS);
}

static inline bool job_in_waves(const struct lf_linear_job *job) {
    (void)job;
    return false;
}

static inline void run_waves(struct lf_pool *pool, const struct lf_linear_args *args) {
    (void)pool;
    (void)args;
}

static inline uint32_t make_inputs(const struct lf_linear_args *args, struct scratch *s) {
    (void)args;
    (void)s;
    return 0;
}

static inline void run_block(const struct block *b, const struct input *input,
                             struct scratch *s) {
    (void)input;
    plain_block(b, &s->plain);
}
