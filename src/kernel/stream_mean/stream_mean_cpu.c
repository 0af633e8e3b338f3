#include "kernel/stream_mean/stream_mean.h"

#include "device/pool.h"
#include "kernel/columns.h"
#include "kernel/isa.h"

static void mean_row(void *ctx, uint32_t row, uint32_t worker) {
    const struct lf_stream_mean_args *a = ctx;
    const uint16_t *x = a->x + (size_t)row * a->streams * a->dim;
    uint16_t *y = a->y + (size_t)row * a->dim;
    float count = (float)a->streams;
    (void)worker;
    for (uint32_t d = 0; d < a->dim; d += LF_COLUMNS) {
        uint32_t n = lf_columns_at(d, a->dim);
        float sum[LF_COLUMNS], v[LF_COLUMNS];
        lf_columns_widen(sum, x + d, n);
        for (uint32_t i = 1; i < a->streams; i++) {
            lf_columns_widen(v, x + (size_t)i * a->dim + d, n);
            for (uint32_t c = 0; c < n; c++)
                sum[c] = sum[c] + v[c];
        }
        for (uint32_t c = 0; c < n; c++)
            sum[c] = sum[c] / count;
        lf_columns_round(y + d, sum, n);
    }
}

void LF_KERNEL_NAME(lf_stream_mean)(struct lf_pool *pool, const struct lf_stream_mean_args *args) {
    lf_pool_run(pool, args->rows, mean_row, (void *)args);
}
