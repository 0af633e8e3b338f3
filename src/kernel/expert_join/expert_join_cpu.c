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
    uint32_t top = a->top;
    (void)worker;
#if LF_FAULT == 3
    top--; // 3: the last expert is left out
#elif LF_FAULT == 5
    pair -= row == 5 ? a->top : 0; // 5: the row at place 5 takes its neighbour's experts
#elif LF_FAULT == 7
    a->y[(size_t)(row + 1) * a->dim] = 0; // 7: a write past the row
#endif
    for (uint32_t d = 0; d < a->dim; d += LF_COLUMNS) {
        uint32_t n = lf_columns_at(d, a->dim);
        float sum[LF_COLUMNS] = {0};
        for (uint32_t k = 0; k < top; k++) {
            uint32_t at = pair[k];
#if LF_FAULT == 4
            at = pair[top - 1 - k]; // 4: experts in the order of their pairs
#endif
            add_block(sum, a->expert + (size_t)at * a->dim + d, n);
#if LF_FAULT == 6
            for (uint32_t c = 0; c < n; c++)
                sum[c] = lf_bf16_to_f32(lf_bf16_settle(sum[c])); // 6: the total kept in bf16
#endif
        }
#if LF_FAULT != 2
        if (a->shared) // 2: the shared expert is left out
            add_block(sum, a->shared + (size_t)row * a->dim + d, n);
#endif
#if LF_FAULT == 1
        if (a->shared)
            add_block(sum, a->shared + (size_t)row * a->dim + d, n); // 1: twice
#endif
        lf_columns_round(a->y + (size_t)row * a->dim + d, sum, n);
    }
}

void LF_KERNEL_NAME(lf_expert_join)(struct lf_device *device,
                                    const struct lf_expert_join_args *args) {
    lf_pool_run(device->pool, args->rows, join_row, (void *)args);
}
