#include "kernel/act_quant/act_quant.h"

#include <string.h>
#include "base/error.h"
#include "device/pool.h"
#include "kernel/isa.h"
#include "kernel/quant_round.h"

enum { GROUP = 32, GROUPS_A_TASK = 256 };

static void group_qa8(const uint16_t *x, uint16_t *y) {
    uint32_t byte = lf_qa8_scale(x);
    float up = lf_unscale(byte), down = lf_ue8m0_to_f32((uint8_t)byte);
    for (uint32_t i = 0; i < GROUP; i++) {
        float value = lf_e4m3_round(lf_bf16_to_f32(x[i]) * up) * down;
        y[i] = (uint16_t)(lf_f32_bits(value) >> 16);
    }
}

static void group_qf4e(const uint16_t *x, uint16_t *y) {
    uint32_t byte = lf_qf4e_scale(x);
    float up = lf_unscale(byte), down = lf_ue8m0_to_f32((uint8_t)byte);
    for (uint32_t i = 0; i < GROUP; i++) {
        float value = lf_e2m1_round(lf_bf16_to_f32(x[i]) * up) * down;
        y[i] = (uint16_t)(lf_f32_bits(value) >> 16);
    }
}

static void quantize_group(enum lf_act_format format, const uint16_t *x, uint16_t *y) {
#if LF_FAULT == 1
    memmove(y, x, GROUP * sizeof *y); // 1: values pass without rounding
    return;
#endif
    if (!isfinite(lf_group_max(x, GROUP)))
        for (uint32_t i = 0; i < GROUP; i++)
            y[i] = 0x7FC0;
    else if (format == LF_ACT_QA8)
        group_qa8(x, y);
    else
        group_qf4e(x, y);
}

static void run_task(void *ctx, uint32_t i, uint32_t worker) {
    (void)worker;
    const struct lf_act_quant_args *args = ctx;
    uint64_t row_groups = args->dim / GROUP, g = (uint64_t)i * GROUPS_A_TASK;
    uint64_t end = g + GROUPS_A_TASK, all = row_groups * args->rows;
    for (end = end < all ? end : all; g < end; g++) {
        uint64_t row = g / row_groups, at = g % row_groups * GROUP;
        quantize_group(args->format, args->x + row * args->x_stride + at,
                       args->y + row * args->y_stride + at);
    }
}

void LF_KERNEL_NAME(lf_act_quant)(struct lf_pool *pool, const struct lf_act_quant_args *args) {
    LF_ASSERT(args->dim > 0 && args->dim % GROUP == 0);
    struct lf_act_quant_args copy = *args;
    uint64_t groups = (uint64_t)args->rows * (args->dim / GROUP);
    lf_pool_run(pool, (uint32_t)((groups + GROUPS_A_TASK - 1) / GROUPS_A_TASK), run_task, &copy);
}
