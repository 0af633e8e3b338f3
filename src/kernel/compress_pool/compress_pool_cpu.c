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
    for (uint32_t i = 0; i < dim; i++) {
        float top = g0[i] > g1[i] ? g0[i] : g1[i];
        float e0 = lf_exp(g0[i] - top), e1 = lf_exp(g1[i] - top), sum = e0 + e1;
        y[i] = lf_bf16_settle(fmaf(e1 / sum, v1[i], e0 / sum * v0[i]));
    }
}

void LF_KERNEL_NAME(lf_compress_pool)(struct lf_pool *pool,
                                      const struct lf_compress_pool_args *args) {
    struct lf_compress_pool_args copy = *args;
    lf_pool_run(pool, args->entries, pool_entry, &copy);
}
