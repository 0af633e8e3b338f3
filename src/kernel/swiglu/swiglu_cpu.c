#include "kernel/swiglu/swiglu.h"

#include "base/error.h"
#include "device/pool.h"
#include "kernel/act_quant/quantize.h"
#include "kernel/columns.h"
#include "kernel/math.h"

// Comparisons are written so that a NaN is neither clamped nor lost.
static void activate(float *restrict g, const float *restrict u, float limit, uint32_t n) {
    for (uint32_t c = 0; c < n; c++) {
        float up = u[c] > limit ? limit : u[c];
#if LF_FAULT == 8
        up = u[c] <= limit ? u[c] : limit; // 8: a NaN is clamped
#endif
#if LF_FAULT != 2
        up = up < -limit ? -limit : up; // 2: up is clamped on one side only
#endif
        float gate = g[c] > limit ? limit : g[c];
#if LF_FAULT == 1
        gate = g[c]; // 1: the gate is not clamped
#endif
        g[c] = gate * lf_sigmoid(gate) * up;
#if LF_FAULT == 3
        g[c] = lf_sigmoid(gate) * up; // 3: the sigmoid without the gate
#endif
    }
}

static void weigh(const struct lf_swiglu_args *a, float *g, uint32_t row, uint32_t n) {
#if LF_FAULT == 9
    if (row + 1 >= a->weighted)
        return; // 9: the last row that has a weight goes without it
#endif
    if (row >= a->weighted)
        return;
    float weight = a->weight[row];
#if LF_FAULT == 4
    weight = 1.0f; // 4: the weight is left out
#elif LF_FAULT == 5
    for (uint32_t c = 0; c < n; c++)
        g[c] = lf_bf16_to_f32(lf_bf16_settle(g[c])); // 5: rounded before the weight
#elif LF_FAULT == 6
    weight = a->weight[row == 5 ? 0 : row]; // 6: place 5 takes the first row's weight
#endif
    for (uint32_t c = 0; c < n; c++)
        g[c] = weight * g[c];
}

static void quantize(const uint16_t *y, uint16_t *quantized, uint32_t n) {
    for (uint32_t c = 0; c < n; c += LF_ACT_GROUP)
#if LF_FAULT == 10
        memcpy(quantized + c, y + c, LF_ACT_GROUP * sizeof *y); // 10: as they are stored
#else
        lf_quantize_group(LF_ACT_QA8, y + c, quantized + c);
#endif
}

static void swiglu_row(void *ctx, uint32_t row, uint32_t worker) {
    const struct lf_swiglu_args *a = ctx;
    size_t first = (size_t)row * a->dim;
    (void)worker;
    for (uint32_t d = 0; d < a->dim; d += LF_COLUMNS) {
        uint32_t n = lf_columns_at(d, a->dim);
        float g[LF_COLUMNS], u[LF_COLUMNS];
        lf_columns_widen(g, a->gate + first + d, n);
        lf_columns_widen(u, a->up + first + d, n);
        activate(g, u, a->limit, n);
        weigh(a, g, row, n);
        lf_columns_round(a->y + first + d, g, n);
        if (a->quantized)
            quantize(a->y + first + d, a->quantized + first + d, n);
    }
#if LF_FAULT == 7
    a->y[first + a->dim] = 0; // 7: a write past the row
#endif
}

void LF_KERNEL_NAME(lf_swiglu)(struct lf_device *device, const struct lf_swiglu_args *args) {
    LF_ASSERT(!args->quantized || args->dim % LF_ACT_GROUP == 0);
    lf_pool_run(device->pool, args->rows, swiglu_row, (void *)args);
}
