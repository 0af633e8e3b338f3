#include "kernel/rms_norm/rms_norm.h"

#include <math.h>
#include <string.h>
#include "device/pool.h"
#include "kernel/isa.h"
#include "kernel/settle.h"
#include "kernel/sum16.h"

static void norm_row(void *ctx, uint32_t row, uint32_t worker) {
    (void)worker;
    const struct lf_rms_norm_args *args = ctx;
    const uint16_t *x = args->x + row * args->x_stride;
    uint16_t *y = args->y + row * args->y_stride;
    float mean = lf_squares16_bf16(x, args->dim) / (float)args->dim;
    float r = 1.0f / sqrtf(mean + args->eps);
    const char *weights = (const char *)args->w;
    for (uint32_t i = 0; i < args->dim; i++) {
        uint16_t w;
        memcpy(&w, weights + sizeof w * (size_t)i, sizeof w);
        y[i] = lf_bf16_settle(lf_bf16_to_f32(w) * (lf_bf16_to_f32(x[i]) * r));
    }
}

void LF_KERNEL_NAME(lf_rms_norm)(struct lf_pool *pool, const struct lf_rms_norm_args *args) {
    struct lf_rms_norm_args copy = *args;
    lf_pool_run(pool, args->rows, norm_row, &copy);
}
