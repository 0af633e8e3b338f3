#include "kernel/act_quant/act_quant.h"

#include "base/error.h"
#include "device/pool.h"
#include "kernel/act_quant/quantize.h"

enum { GROUPS_A_TASK = 256 };

static void run_task(void *ctx, uint32_t i, uint32_t worker) {
    (void)worker;
    const struct lf_act_quant_args *args = ctx;
    uint64_t row_groups = args->dim / LF_ACT_GROUP, g = (uint64_t)i * GROUPS_A_TASK;
    uint64_t end = g + GROUPS_A_TASK, all = row_groups * args->rows;
#if LF_FAULT == 7
    end -= args->rows > 4; // 7: in launches of many rows a task leaves its last group
#elif LF_FAULT == 8
    all += row_groups == 1; // 8: narrow launches take a group too many
#endif
    for (end = end < all ? end : all; g < end; g++) {
        uint64_t row = g / row_groups, at = g % row_groups * LF_ACT_GROUP;
        lf_quantize_group(args->format, args->x + row * args->x_stride + at,
                          args->y + row * args->y_stride + at);
    }
}

void LF_KERNEL_NAME(lf_act_quant)(struct lf_device *device, const struct lf_act_quant_args *args) {
    LF_ASSERT(args->dim > 0 && args->dim % LF_ACT_GROUP == 0);
    struct lf_act_quant_args copy = *args;
    uint64_t groups = (uint64_t)args->rows * (args->dim / LF_ACT_GROUP);
    uint32_t tasks = (uint32_t)((groups + GROUPS_A_TASK - 1) / GROUPS_A_TASK);
    lf_pool_run(device->pool, tasks, run_task, &copy);
}
