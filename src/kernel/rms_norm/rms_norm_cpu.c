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
}

void LF_KERNEL_NAME(lf_rms_norm)(struct lf_device *device, const struct lf_rms_norm_args *args) {
    struct lf_rms_norm_args copy = *args;
    lf_pool_run(device->pool, args->rows, norm_row, &copy);
}
