#include "kernel/act_quant/act_quant.h"

#include "kernel/launch.cuh"
#include "kernel/quant_round.h"

enum { THREADS = 256, GROUP = 32 };

// A warp a group, a lane an element.
__global__ static void act_quant_groups(struct lf_act_quant_args a) {
    lf_take_turn();
    uint64_t row_groups = a.dim / GROUP, group = lf_thread() / GROUP;
    if (group >= row_groups * a.rows)
        return;
    uint64_t row = group / row_groups, at = group % row_groups * GROUP + threadIdx.x % GROUP;
    uint16_t x = a.x[row * a.x_stride + at], *y = &a.y[row * a.y_stride + at];
    uint32_t own = x & 0x7FFFu;
    LF_CONTROL(3, own = threadIdx.x % GROUP == 31 ? 0 : own;)
    uint32_t most = __reduce_max_sync(LF_ALL_LANES, own);
    float max = lf_bf16_to_f32((uint16_t)most);
    if (most >= 0x7F80u) {
        *y = 0x7FC0;
        LF_CONTROL(6, *y = 0;) // 6: a group that is not finite becomes 0
        return;
    }
    float value;
    if (a.format == LF_ACT_QA8) {
        uint32_t byte = lf_scale_byte(max, 1e-4f, 1.0f / 448.0f);
        LF_CONTROL(2, byte -= byte > 113;) // 2: the QA8 scale rounded down
        float code = lf_e4m3_round(lf_bf16_to_f32(x) * lf_unscale(byte));
        LF_CONTROL(4, code = lf_fault_e4m3(lf_bf16_to_f32(x) * lf_unscale(byte));)
        value = code * lf_ue8m0_to_f32((uint8_t)byte);
    } else {
        uint32_t byte = lf_scale_byte(max, 6.0f * 0x1p-126f, 1.0f / 6.0f);
        LF_CONTROL(5, byte = lf_scale_byte(max, 4.0f * 0x1p-126f, 1.0f / 4.0f);)
        value = lf_e2m1_round(lf_bf16_to_f32(x) * lf_unscale(byte)) *
                lf_ue8m0_to_f32((uint8_t)byte);
    }
    LF_CONTROL(1, value = lf_bf16_to_f32(x);) // 1: values pass without rounding
    LF_CONTROL(7, if (a.rows > 4 && group + 1 == row_groups * a.rows) return;)
    LF_CONTROL(8, a.y[(a.rows - 1) * a.y_stride + a.dim] = 0;)
    *y = (uint16_t)(lf_f32_bits(value) >> 16);
}

void lf_act_quant_cuda(struct lf_device *device, const struct lf_act_quant_args *args) {
    LF_ASSERT(args->dim > 0 && args->dim % GROUP == 0);
    uint64_t groups = (uint64_t)args->rows * (args->dim / GROUP);
    lf_cuda_launch(device, "act_quant", act_quant_groups, dim3(lf_blocks(groups, THREADS / GROUP)),
                   THREADS, *args);
}
