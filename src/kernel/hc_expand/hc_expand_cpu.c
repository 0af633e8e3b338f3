#include "kernel/hc_expand/hc_expand.h"

#include "base/error.h"
#include "device/pool.h"
#include "format/topology.h"
#include "kernel/hc_collapse/collapse_row.h"

static void add_block(float *restrict sum, const uint16_t *y, uint32_t n) {
    float v[LF_COLUMNS];
    lf_columns_widen(v, y, n);
    for (uint32_t c = 0; c < n; c++)
        sum[c] = sum[c] + v[c];
}

// What a row's experts add up to from column d on.
static void join_block(float *restrict b, const struct lf_hc_expand_args *a, uint32_t row,
                       uint32_t d, uint32_t n) {
    const uint32_t *pair = a->pair + (size_t)row * a->top;
    uint16_t rounded[LF_COLUMNS];
    uint32_t top = a->top;
#if LF_FAULT == 33
    top--; // 33: the last expert is left out
#elif LF_FAULT == 35
    pair -= row == 5 ? a->top : 0; // 35: the row at place 5 takes its neighbour's experts
#endif
    memset(b, 0, n * sizeof *b);
    for (uint32_t k = 0; k < top; k++) {
        uint32_t at = pair[k];
#if LF_FAULT == 34
        at = pair[top - 1 - k]; // 34: experts in the order of their pairs
#endif
        add_block(b, a->expert + (size_t)at * a->dim + d, n);
#if LF_FAULT == 36
        for (uint32_t c = 0; c < n; c++)
            b[c] = lf_bf16_to_f32(lf_bf16_settle(b[c])); // 36: the running total rounded to bf16
#endif
    }
#if LF_FAULT != 32 // 32: the shared expert is left out
    if (a->shared)
        add_block(b, a->shared + (size_t)row * a->dim + d, n);
#endif
#if LF_FAULT == 31
    if (a->shared)
        add_block(b, a->shared + (size_t)row * a->dim + d, n); // 31: the shared expert twice
#elif LF_FAULT == 37
    return; // 37: the sum of the experts is not rounded
#endif
    lf_columns_round(rounded, b, n);
    lf_columns_widen(b, rounded, n);
}

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
        if (a->pair)
            join_block(b, a, row, d, n);
        else
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
    LF_ASSERT((args->pair ? args->expert : args->b) && (!args->pre || args->norm));
    LF_ASSERT(!args->quantized || (args->pre && args->dim % LF_ACT_GROUP == 0));
    lf_pool_run(device->pool, args->rows, expand_row, (void *)args);
}
