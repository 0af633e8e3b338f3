#include "kernel/swiglu/swiglu.h"

#include "device/pool.h"
#include "kernel/columns.h"
#include "kernel/isa.h"
#include "kernel/math.h"

// Comparisons are written so that a NaN is neither clamped nor lost.
static void activate(float *restrict g, const float *restrict u, float limit, uint32_t n) {
    for (uint32_t c = 0; c < n; c++) {
        float up = u[c] > limit ? limit : u[c];
        up = up < -limit ? -limit : up;
        float gate = g[c] > limit ? limit : g[c];
        g[c] = gate * lf_sigmoid(gate) * up;
    }
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
        if (a->weight) {
            float weight = a->weight[row];
            for (uint32_t c = 0; c < n; c++)
                g[c] = weight * g[c];
        }
        lf_columns_round(a->y + first + d, g, n);
    }
}

void LF_KERNEL_NAME(lf_swiglu)(struct lf_pool *pool, const struct lf_swiglu_args *args) {
    lf_pool_run(pool, args->rows, swiglu_row, (void *)args);
}
