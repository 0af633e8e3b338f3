#include "kernel/draft_join/draft_join.h"

#include "device/pool.h"
#include "kernel/isa.h"
#include "kernel/settle.h"

enum { PART = 8192 };

static uint32_t parts_of(const struct lf_draft_join_args *args) {
    return (args->vocab + PART - 1) / PART;
}

static void join_part(void *ctx, uint32_t item, uint32_t worker) {
    const struct lf_draft_join_args *args = ctx;
    uint32_t parts = parts_of(args), row = item / parts, first = item % parts * PART;
    uint32_t n = args->vocab - first < PART ? args->vocab - first : PART;
    float *restrict logits = args->logits + row * args->logits_stride + first;
    const float *restrict bias = args->bias + (size_t)row * args->vocab + first;
    (void)worker;
    for (uint32_t i = 0; i < n; i++)
        logits[i] = lf_f32_settle(logits[i] + bias[i]);
}

void LF_KERNEL_NAME(lf_draft_join)(struct lf_pool *pool, const struct lf_draft_join_args *args) {
    struct lf_draft_join_args copy = *args;
    lf_pool_run(pool, args->rows * parts_of(args), join_part, &copy);
}
