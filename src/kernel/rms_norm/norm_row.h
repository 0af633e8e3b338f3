// One row's norm, for rms_norm and for kernels that norm what they store.
#pragma once
#include <math.h>
#include <string.h>
#include "kernel/act_quant/quantize.h"
#include "kernel/rms_norm/rms_norm.h"
#include "kernel/settle.h"
#include "kernel/sum16.h"

static inline void lf_norm_quantize(const uint16_t *y, uint16_t *quantized, uint32_t dim) {
#if LF_FAULT == 8
    dim -= LF_ACT_GROUP; // 8: the last group is left out
#endif
    for (uint32_t i = 0; i < dim; i += LF_ACT_GROUP)
#if LF_FAULT == 7
        memcpy(quantized + i, y + i, LF_ACT_GROUP * sizeof *y); // 7: not quantized
#else
        lf_quantize_group(LF_ACT_QA8, y + i, quantized + i);
#endif
}

static inline void lf_norm_row(const struct lf_rms_norm_args *args, uint32_t row) {
    const uint16_t *x = args->x + row * args->x_stride;
    uint16_t *y = args->y + row * args->y_stride;
    uint32_t summed = args->dim;
#if LF_FAULT == 1
    summed--; // 1: the last element is not in the sum
#elif LF_FAULT == 4
    summed -= row == 5; // 4: nor is it for the row at place 5
#endif
    float mean = lf_squares16_bf16(x, summed) / (float)args->dim;
    float r = 1.0f / sqrtf(mean + args->eps);
#if LF_FAULT == 2
    r = 1.0f / (sqrtf(mean) + args->eps); // 2: eps outside the root
#endif
    const char *weights = (const char *)args->w;
    for (uint32_t i = 0; i < args->dim; i++) {
        uint16_t w;
        memcpy(&w, weights + sizeof w * (size_t)i, sizeof w);
        float normed = lf_bf16_to_f32(x[i]) * r;
#if LF_FAULT == 3
        normed = lf_bf16_to_f32(lf_bf16_settle(normed)); // 3: rounded before the weight too
#elif LF_FAULT == 6
        normed = isfinite(normed) ? normed : 0.0f; // 6: what is not finite counts as 0
#endif
        y[i] = lf_bf16_settle(lf_bf16_to_f32(w) * normed);
    }
#if LF_FAULT == 5
    y[args->dim] = 0; // 5: a write past the row
#endif
    if (args->quantized)
        lf_norm_quantize(y, args->quantized + row * args->y_stride, args->dim);
}
