#include "base/error.h"
#include "device/pool.h"
#include "kernel/hc_collapse/collapse_row.h"

static void collapse_row(void *ctx, uint32_t row, uint32_t worker) {
    (void)worker;
    lf_collapse_row(ctx, row);
}

void LF_KERNEL_NAME(lf_hc_collapse)(struct lf_device *device,
                                    const struct lf_hc_collapse_args *args) {
    LF_ASSERT(!args->quantized || (args->norm && args->dim % LF_ACT_GROUP == 0));
    lf_pool_run(device->pool, args->rows, collapse_row, (void *)args);
}
