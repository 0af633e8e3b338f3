#include "kernel/act_quant/act_quant.h"

#include "kernel/quant_round.h"
#include "kernel/wide.cuh"

enum { THREADS = 256, GROUP = 32 };

// The value that an element of a group takes whose greatest size is max.
__device__ static float quantized(enum lf_act_format format, float v, float max) {
    if (format == LF_ACT_QA8) {
        uint32_t byte = lf_scale_byte(max, 1e-4f, 1.0f / 448.0f);
        LF_CONTROL(2, byte -= byte > 113;) // 2: the QA8 scale rounded down
        float code = lf_e4m3_round(v * lf_unscale(byte));
        LF_CONTROL(4, code = lf_fault_e4m3(v * lf_unscale(byte));)
        return code * lf_ue8m0_to_f32((uint8_t)byte);
    }
    uint32_t byte = lf_scale_byte(max, 6.0f * 0x1p-126f, 1.0f / 6.0f);
    LF_CONTROL(5, byte = lf_scale_byte(max, 4.0f * 0x1p-126f, 1.0f / 4.0f);)
    return lf_e2m1_round(v * lf_unscale(byte)) * lf_ue8m0_to_f32((uint8_t)byte);
}

// A thread N neighbouring elements, so many lanes a group.
template <uint32_t N>
__global__ static void act_quant_groups(struct lf_act_quant_args a) {
    lf_take_turn();
    const uint32_t lanes = GROUP / N;
    uint64_t row_groups = a.dim / GROUP, group = lf_thread() / lanes;
    if (group >= row_groups * a.rows)
        return;
    uint64_t row = group / row_groups, at = group % row_groups * GROUP + threadIdx.x % lanes * N;
    struct lf_wide<N> x = lf_wide_load<N>(a.x + row * a.x_stride + at), y;
    uint32_t most = 0;
#pragma unroll
    for (uint32_t e = 0; e < N; e++) {
        uint32_t own = x.at[e] & 0x7FFFu;
        LF_CONTROL(3, own = (at + e) % GROUP == 31 ? 0 : own;)
        most = own > most ? own : most;
    }
#pragma unroll
    for (uint32_t other = lanes / 2; other; other /= 2) {
        uint32_t theirs = __shfl_xor_sync(LF_ALL_LANES, most, (int)other);
        most = theirs > most ? theirs : most;
    }
    float max = lf_bf16_to_f32((uint16_t)most);
#pragma unroll
    for (uint32_t e = 0; e < N; e++) {
        float v = lf_bf16_to_f32(x.at[e]), value = quantized(a.format, v, max);
        LF_CONTROL(1, value = v;) // 1: values pass without rounding
        y.at[e] = most >= 0x7F80u ? 0x7FC0 : (uint16_t)(lf_f32_bits(value) >> 16);
        LF_CONTROL(6, y.at[e] = most >= 0x7F80u ? 0 : y.at[e];)
    }
    LF_CONTROL(7, if (a.rows > 4 && group + 1 == row_groups * a.rows) return;)
    LF_CONTROL(8, a.y[(a.rows - 1) * a.y_stride + a.dim] = 0;)
    lf_wide_store(a.y + row * a.y_stride + at, y);
}

void lf_act_quant_cuda(struct lf_device *device, const struct lf_act_quant_args *args) {
    LF_ASSERT(args->dim > 0 && args->dim % GROUP == 0);
    uint64_t elements = (uint64_t)args->rows * args->dim;
    bool wide = lf_wide_fits(args->x, args->dim) && lf_wide_fits(args->y, args->dim) &&
                args->x_stride % LF_WIDE == 0 && args->y_stride % LF_WIDE == 0;
    lf_cuda_launch(device, "act_quant", wide ? act_quant_groups<LF_WIDE> : act_quant_groups<1>,
                   dim3(lf_blocks(elements, THREADS * (wide ? LF_WIDE : 1))), THREADS, *args);
}
