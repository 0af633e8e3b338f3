// Quantized groups of 32 numbers that neighbouring lanes hold, N each.
#pragma once
#include "kernel/act_quant/act_quant.h"
#include "kernel/quant_round.h"
#include "kernel/wide.cuh"

enum { LF_ACT_GROUP = 32 };

// The value that an element of a group takes whose greatest size is max.
__device__ static inline float lf_quantized(enum lf_act_format format, float v, float max) {
    if (format == LF_ACT_QA8) {
        uint32_t byte = lf_scale_byte(max, 1e-4f, 1.0f / 448.0f);
        LF_CONTROL(42, byte -= byte > 113;) // 42: the QA8 scale rounded down
        float code = lf_e4m3_round(v * lf_unscale(byte));
        LF_CONTROL(44, code = lf_fault_e4m3(v * lf_unscale(byte));) // 44: QA8 codes truncated
        return code * lf_ue8m0_to_f32((uint8_t)byte);
    }
    uint32_t byte = lf_scale_byte(max, 6.0f * 0x1p-126f, 1.0f / 6.0f);
    LF_CONTROL(45, byte = lf_scale_byte(max, 4.0f * 0x1p-126f, 1.0f / 4.0f);) // 45: 4 for 6
    return lf_e2m1_round(v * lf_unscale(byte)) * lf_ue8m0_to_f32((uint8_t)byte);
}

// All lanes of a warp call it; its first element is the first of a group.
template <uint32_t N>
__device__ static inline struct lf_wide<N> lf_quantize(enum lf_act_format format,
                                                       const struct lf_wide<N> &x) {
    struct lf_wide<N> y;
    uint32_t most = 0;
#pragma unroll
    for (uint32_t e = 0; e < N; e++) {
        uint32_t own = x.at[e] & 0x7FFFu;
        LF_CONTROL(43, own = (threadIdx.x * N + e) % LF_ACT_GROUP == 31 ? 0 : own;) // 43: 31 of 32
        most = own > most ? own : most;
    }
#pragma unroll
    for (uint32_t other = LF_ACT_GROUP / N / 2; other; other /= 2) {
        uint32_t theirs = __shfl_xor_sync(LF_ALL_LANES, most, (int)other);
        most = theirs > most ? theirs : most;
    }
    float max = lf_bf16_to_f32((uint16_t)most);
#pragma unroll
    for (uint32_t e = 0; e < N; e++) {
        float v = lf_bf16_to_f32(x.at[e]), value = lf_quantized(format, v, max);
        LF_CONTROL(41, value = v;) // 41: values pass without rounding
        y.at[e] = most >= 0x7F80u ? 0x7FC0 : (uint16_t)(lf_f32_bits(value) >> 16);
        LF_CONTROL(46, y.at[e] = most >= 0x7F80u ? 0 : y.at[e];) // 46: not finite becomes 0
    }
    return y;
}
