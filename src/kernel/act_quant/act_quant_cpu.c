#include "kernel/act_quant/act_quant.h"

#include <string.h>
#include "base/error.h"
#include "device/pool.h"
#include "kernel/isa.h"
#include "kernel/quant_round.h"

enum { GROUP = 32, GROUPS_A_TASK = 256 };

static void group_qa8(const uint16_t *x, uint16_t *y) {
    uint32_t byte = lf_qa8_scale(x);
#if LF_FAULT == 2
    byte -= byte > 100; // 2: the QA8 scale rounded down
#elif LF_FAULT == 3
    byte = lf_scale_byte(lf_group_max(x, GROUP - 1), 1e-4f, 1.0f / 448.0f); // 3: 31 of 32 seen
#endif
    float up = lf_unscale(byte), down = lf_ue8m0_to_f32((uint8_t)byte);
    for (uint32_t i = 0; i < GROUP; i++) {
        float scaled = lf_bf16_to_f32(x[i]) * up;
#if LF_FAULT == 4
        scaled = lf_f32_from_bits(lf_f32_bits(scaled) & 0xFFF00000u); // 4: codes truncated
#endif
        float value = lf_e4m3_round(scaled) * down;
        y[i] = (uint16_t)(lf_f32_bits(value) >> 16);
    }
}

static void group_qf4e(const uint16_t *x, uint16_t *y) {
    uint32_t byte = lf_qf4e_scale(x);
#if LF_FAULT == 5
    byte = lf_scale_byte(lf_group_max(x, GROUP), 6.0f * 0x1p-126f, 1.0f / 4.0f); // 5: 4 for 6
#endif
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
#if LF_FAULT == 6
            y[i] = 0; // 6: what is not finite becomes 0
#else
            y[i] = 0x7FC0;
#endif
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
#if LF_FAULT == 7
    end -= args->rows > 4; // 7: in launches of many rows a task leaves its last group
#elif LF_FAULT == 8
    all += row_groups == 1; // 8: narrow launches take a group too many
#endif
    for (end = end < all ? end : all; g < end; g++) {
        uint64_t row = g / row_groups, at = g % row_groups * GROUP;
        quantize_group(args->format, args->x + row * args->x_stride + at,
                       args->y + row * args->y_stride + at);
    }
}

void LF_KERNEL_NAME(lf_act_quant)(struct lf_device *device, const struct lf_act_quant_args *args) {
    LF_ASSERT(args->dim > 0 && args->dim % GROUP == 0);
    struct lf_act_quant_args copy = *args;
    uint64_t groups = (uint64_t)args->rows * (args->dim / GROUP);
    uint32_t tasks = (uint32_t)((groups + GROUPS_A_TASK - 1) / GROUPS_A_TASK);
    lf_pool_run(device->pool, tasks, run_task, &copy);
}
