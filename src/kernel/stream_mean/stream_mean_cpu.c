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
        uint32_t streams = a->streams;
#if LF_FAULT == 1
        streams--; // 1: the last stream is not in the sum
#elif LF_FAULT == 4
        streams -= row == 5; // 4: nor is it for the row at place 5
#endif
        for (uint32_t i = 1; i < streams; i++) {
            lf_columns_widen(v, x + (size_t)i * a->dim + d, n);
            for (uint32_t c = 0; c < n; c++)
                sum[c] = sum[c] + v[c];
#if LF_FAULT == 3
            for (uint32_t c = 0; c < n; c++)
                sum[c] = lf_bf16_to_f32(lf_bf16_settle(sum[c])); // 3: the total kept in bf16
#endif
        }
#if LF_FAULT == 2
        count = 1.0f; // 2: the sum is not divided
#endif
        for (uint32_t c = 0; c < n; c++)
            sum[c] = sum[c] / count;
#if LF_FAULT == 6
        for (uint32_t c = 0; c < n; c++)
            sum[c] = sum[c] - sum[c] == 0.0f ? sum[c] : 0.0f; // 6: not finite counts as 0
#endif
        lf_columns_round(y + d, sum, n);
    }
#if LF_FAULT == 5
    y[a->dim] = 0; // 5: a write past the row
#endif
}

void LF_KERNEL_NAME(lf_stream_mean)(struct lf_device *device,
                                    const struct lf_stream_mean_args *args) {
    lf_pool_run(device->pool, args->rows, mean_row, (void *)args);
}
