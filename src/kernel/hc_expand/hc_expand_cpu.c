#include "kernel/hc_expand/hc_expand.h"

#include "base/error.h"
#include "device/pool.h"
#include "format/topology.h"
#include "kernel/hc_collapse/collapse_row.h"

// One new stream's block of columns from all old ones; comb points at its column.
static void mix_block(float *restrict sum, float post, const float *b, const float *comb,
                      uint32_t streams, float old[][LF_COLUMNS], uint32_t n, uint32_t step) {
#if LF_FAULT == 22
    post = 0.0f; // 22: the sublayer's output is left out
#elif LF_FAULT == 23
    streams--; // 23: the last old stream is not in the sum
#endif
    for (uint32_t c = 0; c < n; c++)
        sum[c] = post * b[c];
    for (uint32_t i = 0; i < streams; i++) {
        float weight = comb[i * step];
        for (uint32_t c = 0; c < n; c++)
            sum[c] = fmaf(weight, old[i][c], sum[c]);
    }
}

static void expand(const struct lf_hc_expand_args *a, uint32_t row) {
    uint16_t *x = a->x + (size_t)row * a->streams * a->dim;
    const float *post = a->post + (size_t)row * a->streams;
    const float *comb = a->comb + (size_t)row * a->streams * a->streams;
#if LF_FAULT == 25
    comb = row == 5 ? a->comb : comb; // 25: the row at place 5 takes the first row's comb
#elif LF_FAULT == 27
    x[(size_t)a->streams * a->dim] = 0; // 27: a write past the last stream
#endif
    for (uint32_t d = 0; d < a->dim; d += LF_COLUMNS) {
        uint32_t n = lf_columns_at(d, a->dim);
#if LF_FAULT == 26
        if (n < LF_COLUMNS && d) // 26: the last columns are left as they were
            break;
#endif
        float old[LF_STREAMS_MAX][LF_COLUMNS], b[LF_COLUMNS], sum[LF_COLUMNS];
        lf_columns_widen(b, a->b + (size_t)row * a->dim + d, n);
        for (uint32_t i = 0; i < a->streams; i++)
            lf_columns_widen(old[i], x + (size_t)i * a->dim + d, n);
        for (uint32_t j = 0; j < a->streams; j++) {
            const float *column = comb + j;
            uint32_t step = a->streams;
#if LF_FAULT == 21
            column = comb + j * a->streams, step = 1; // 21: sums over the second index of comb
#endif
            mix_block(sum, post[j], b, column, a->streams, old, n, step);
#if LF_FAULT == 24
            memcpy(old[j], sum, sizeof sum); // 24: later streams see the new ones before them
#elif LF_FAULT == 28
            for (uint32_t c = 0; c < n; c++)
                sum[c] = isfinite(sum[c]) ? sum[c] : 0.0f; // 28: what is not finite counts as 0
#endif
            lf_columns_round(x + (size_t)j * a->dim + d, sum, n);
        }
    }
}

static void expand_row(void *ctx, uint32_t row, uint32_t worker) {
    const struct lf_hc_expand_args *a = ctx;
    struct lf_hc_collapse_args next = lf_hc_expand_next(a);
    (void)worker;
#if LF_FAULT == 29
    if (a->pre)
        lf_collapse_row(&next, row); // 29: the old streams are collapsed
    expand(a, row);
    return;
#elif LF_FAULT == 30
    next.pre -= (size_t)row * a->streams; // 30: with the first row's weights
#endif
    expand(a, row);
    if (a->pre)
        lf_collapse_row(&next, row);
}

void LF_KERNEL_NAME(lf_hc_expand)(struct lf_device *device, const struct lf_hc_expand_args *args) {
    LF_ASSERT(args->streams <= LF_STREAMS_MAX);
    LF_ASSERT(!args->pre || args->norm);
    LF_ASSERT(!args->quantized || (args->pre && args->dim % LF_ACT_GROUP == 0));
    lf_pool_run(device->pool, args->rows, expand_row, (void *)args);
}
