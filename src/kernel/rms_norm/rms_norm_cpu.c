#include "base/error.h"
#include "device/pool.h"
#include "kernel/rms_norm/norm_row.h"

static void norm_row(void *ctx, uint32_t row, uint32_t worker) {
    (void)worker;
    lf_norm_row(ctx, row);
}

void LF_KERNEL_NAME(lf_rms_norm)(struct lf_device *device, const struct lf_rms_norm_args *args) {
    struct lf_rms_norm_args copy = *args;
    LF_ASSERT(!args->quantized || args->dim % LF_ACT_GROUP == 0);
    lf_pool_run(device->pool, args->rows, norm_row, &copy);
}
