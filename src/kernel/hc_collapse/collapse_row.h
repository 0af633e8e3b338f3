// One row's collapse, for hc_collapse and for hc_expand, which may go on with it.
#pragma once
#include "kernel/columns.h"
#include "kernel/hc_collapse/hc_collapse.h"
#include "kernel/rms_norm/norm_row.h"

static inline void lf_collapse_norm(const struct lf_hc_collapse_args *a, uint32_t row) {
    struct lf_rms_norm_args norm = lf_hc_collapse_norm(a);
#if LF_FAULT == 17
    norm.eps = 1.0f; // 17: another eps
#elif LF_FAULT == 18
    if (norm.quantized)
        norm.quantized -= (size_t)row * a->dim; // 18: all quantized rows at the first one's place
#endif
    lf_norm_row(&norm, row);
}

static inline void lf_collapse_row(const struct lf_hc_collapse_args *a, uint32_t row) {
    const uint16_t *x = a->x + (size_t)row * a->streams * a->dim;
    const float *pre = a->pre + (size_t)row * a->streams;
    uint16_t *y = a->y + (size_t)row * a->dim;
    uint32_t streams = a->streams;
#if LF_FAULT == 11
    streams--; // 11: the last stream is not in the sum
#elif LF_FAULT == 14
    pre = row == 5 ? a->pre : pre; // 14: the row at place 5 takes the first row's weights
#elif LF_FAULT == 15
    y[a->dim] = 0; // 15: a write past the row
#endif
    for (uint32_t d = 0; d < a->dim; d += LF_COLUMNS) {
        uint32_t n = lf_columns_at(d, a->dim);
        float sum[LF_COLUMNS], v[LF_COLUMNS];
        lf_columns_widen(v, x + d, n);
        for (uint32_t c = 0; c < n; c++)
            sum[c] = pre[0] * v[c];
        for (uint32_t i = 1; i < streams; i++) {
            lf_columns_widen(v, x + (size_t)i * a->dim + d, n);
            float weight = pre[i];
#if LF_FAULT == 12
            weight = lf_bf16_to_f32(lf_bf16_settle(weight)); // 12: weights rounded to bf16
#endif
            for (uint32_t c = 0; c < n; c++)
                sum[c] = fmaf(weight, v[c], sum[c]);
#if LF_FAULT == 13
            for (uint32_t c = 0; c < n; c++)
                sum[c] = lf_bf16_to_f32(lf_bf16_settle(sum[c])); // 13: the total kept in bf16
#endif
        }
#if LF_FAULT == 16
        for (uint32_t c = 0; c < n; c++)
            sum[c] = isfinite(sum[c]) ? sum[c] : 0.0f; // 16: what is not finite counts as 0
#endif
        lf_columns_round(y + d, sum, n);
    }
    if (a->norm)
        lf_collapse_norm(a, row);
}
