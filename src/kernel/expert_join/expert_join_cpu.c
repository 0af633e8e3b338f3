#include "kernel/expert_join/expert_join.h"

#include "device/pool.h"
#include "kernel/columns.h"
#include "kernel/isa.h"

static void add_block(float *restrict sum, const uint16_t *y, uint32_t n) {
    float v[LF_COLUMNS];
    lf_columns_widen(v, y, n);
    for (uint32_t c = 0; c < n; c++)
        sum[c] = sum[c] + v[c];
}

static void join_row(void *ctx, uint32_t row, uint32_t worker) {
    const struct lf_expert_join_args *a = ctx;
    const uint32_t *pair = a->pair + (size_t)row * a->top;
    (void)worker;
    for (uint32_t d = 0; d < a->dim; d += LF_COLUMNS) {
        uint32_t n = lf_columns_at(d, a->dim);
        float sum[LF_COLUMNS] = {0};
        for (uint32_t k = 0; k < a->top; k++)
            add_block(sum, a->expert + (size_t)pair[k] * a->dim + d, n);
        if (a->shared)
            add_block(sum, a->shared + (size_t)row * a->dim + d, n);
        lf_columns_round(a->y + (size_t)row * a->dim + d, sum, n);
    }
}

void LF_KERNEL_NAME(lf_expert_join)(struct lf_pool *pool, const struct lf_expert_join_args *args) {
    lf_pool_run(pool, args->rows, join_row, (void *)args);
}
