#include "kernel/compress_pool/compress_pool.h"

#include <math.h>
#include "device/pool.h"
#include "kernel/isa.h"
#include "kernel/math.h"
#include "kernel/settle.h"

static void pool_entry(void *ctx, uint32_t entry, uint32_t worker) {
    (void)worker;
    const struct lf_compress_pool_args *args = ctx;
    uint32_t dim = args->dim;
    const float *v0 = args->first[entry], *v1 = args->second[entry];
    const float *g0 = v0 + dim, *g1 = v1 + dim;
    uint16_t *y = args->y + (size_t)entry * dim;
#if LF_FAULT == 7 // 7: the sixth entry of a launch takes the fifth's second row
    v1 = args->second[entry - (entry == 5)];
    g1 = v1 + dim;
#endif
    for (uint32_t i = 0; i < dim; i++) {
        float top = g0[i] > g1[i] ? g0[i] : g1[i];
#if LF_FAULT == 1
        top = 0.0f; // 1: the maximum is not subtracted
#elif LF_FAULT == 9
        top = g1[i] != g1[i] ? g0[i] : top; // 9: a NaN gate counts as minus infinity
#endif
        float e0 = lf_exp(g0[i] - top), e1 = lf_exp(g1[i] - top), sum = e0 + e1;
#if LF_FAULT == 2
        e1 = 0.0f; // 2: the second entry dropped
#elif LF_FAULT == 3
        float held = e0; // 3: each gate weighs the other's value
        e0 = e1, e1 = held;
#elif LF_FAULT == 6
        sum = 1.0f; // 6: not divided by the sum
#elif LF_FAULT == 9
        e0 = e0 != e0 ? 0.0f : e0, e1 = e1 != e1 ? 0.0f : e1, sum = e0 + e1;
#endif
        float a = e0 / sum, b = e1 / sum, first = a * v0[i];
#if LF_FAULT == 4
        first = lf_bf16_to_f32(lf_bf16_settle(first)); // 4: the first product rounded to bf16
#elif LF_FAULT == 5 // 5: weights rounded to bf16
        a = lf_bf16_to_f32(lf_bf16_settle(a)), b = lf_bf16_to_f32(lf_bf16_settle(b));
        first = a * v0[i];
#endif
        y[i] = lf_bf16_settle(fmaf(b, v1[i], first));
    }
#if LF_FAULT == 8
    y[dim] = 0; // 8: a write past the entry
#endif
}

void LF_KERNEL_NAME(lf_compress_pool)(struct lf_device *device,
                                      const struct lf_compress_pool_args *args) {
    struct lf_compress_pool_args copy = *args;
    lf_pool_run(device->pool, args->entries, pool_entry, &copy);
}
