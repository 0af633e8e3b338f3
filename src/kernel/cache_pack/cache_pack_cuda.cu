#include "kernel/cache_pack/cache_pack.h"

#include "kernel/launch.cuh"
#include "kernel/quant_round.h"

enum { THREADS = 256, LANES = 32 };

// base/quant.h's e2m1 code of any number: a NaN is 7 with its sign.
__device__ static uint32_t e2m1_any(float x) {
    uint32_t sign = lf_f32_bits(x) >> 31 ? 8 : 0;
    return x != x ? sign | 7 : lf_e2m1_code(lf_e2m1_round(x));
}

// The code of x in a group that holds a NaN or an infinity, whose scale byte is 255.
__device__ static uint32_t code_wild(enum lf_cache_format format, uint16_t x) {
    float down = lf_bf16_to_f32(x) * 0x1p-64f * 0x1p-64f;
    bool is_nan = (x & 0x7FFF) > 0x7F80;
    if (format == LF_CACHE_QA8)
        return is_nan ? (x >> 8 & 0x80u) | 0x7F : lf_e4m3_code(lf_e4m3_round(down));
    return is_nan ? (x >> 12 & 8u) | 7 : e2m1_any(down);
}

// QA8 and QF4e: one power of two for 32 elements. Returns the code; *scale: the byte.
__device__ static uint32_t code_of(enum lf_cache_format format, uint16_t x, uint32_t most,
                                   uint32_t *scale) {
    float max = lf_bf16_to_f32((uint16_t)most), v = lf_bf16_to_f32(x);
    bool wide = format == LF_CACHE_QA8;
    uint32_t byte = wide ? lf_scale_byte(max, 1e-4f, 1.0f / 448.0f)
                         : lf_scale_byte(max, 6.0f * 0x1p-126f, 1.0f / 6.0f);
    LF_CONTROL(1, byte -= wide && byte > 113;) // 1: the QA8 scale rounded down
    LF_CONTROL(3, byte = wide ? byte : lf_scale_byte(max, 4.0f * 0x1p-126f, 1.0f / 4.0f);)
    *scale = most >= 0x7F80u ? 255 : byte;
    if (*scale == 255)
        return code_wild(format, x);
    float scaled = v * lf_unscale(byte);
    LF_CONTROL(2, if (wide) return lf_e4m3_code(lf_fault_e4m3(scaled));) // 2: QA8 codes truncated
    return wide ? lf_e4m3_code(lf_e4m3_round(scaled)) : lf_e2m1_code(lf_e2m1_round(scaled));
}

// QF4s: one e4m3 scale for 16 elements.
__device__ static uint32_t code_small(uint16_t x, uint32_t most, uint32_t *scale) {
    float a = lf_bf16_to_f32((uint16_t)most), floor = 6.0f * 0x1p-9f, v = lf_bf16_to_f32(x);
    if (most > 0x7F80u) {
        *scale = 0x7F;
        return (x & 0x7FFF) > 0x7F80 ? (x >> 12 & 8u) | 7 : 7;
    }
    float step = lf_e4m3_round((a < floor ? floor : a) / 6.0f);
    *scale = lf_e4m3_code(step);
    LF_CONTROL(4, step = (a < floor ? floor : a) / 6.0f;)
    return e2m1_any(v / step);
}

// A warp 32 elements, a lane an element.
__global__ static void cache_pack_groups(struct lf_cache_pack_args a) {
    lf_take_turn();
    uint64_t row_groups = a.dim / LANES, group = lf_thread() / LANES;
    if (group >= row_groups * a.rows)
        return;
    uint32_t lane = threadIdx.x % LANES, g = (uint32_t)(group % row_groups), at = g * LANES + lane;
    uint64_t row = group / row_groups;
    uint16_t x = a.x[row * a.dim + at];
    uint8_t *dst = a.dst[row];
    LF_CONTROL(7, dst = a.dst[row ? row - 1 : 0];)
    uint32_t most = x & 0x7FFFu, scale, code;
    LF_CONTROL(5, most = a.format == LF_CACHE_QF4S && lane % 16 == 15 ? 0 : most;)
    LF_CONTROL(9, most = most > 0x7F80u ? 0 : most;) // 9: a NaN counts as 0
    for (int other = a.format == LF_CACHE_QF4S ? 8 : 16; other; other /= 2) {
        uint32_t theirs = __shfl_xor_sync(LF_ALL_LANES, most, other);
        most = theirs > most ? theirs : most;
    }
    if (a.format == LF_CACHE_QF4S)
        code = code_small(x, most, &scale);
    else
        code = code_of(a.format, x, most, &scale);
    uint32_t next = __shfl_xor_sync(LF_ALL_LANES, code, 1);
    LF_CONTROL(6, uint32_t held = code; code = next; next = held;) // 6: the pair's codes swapped
    LF_CONTROL(8, if (a.format == LF_CACHE_QA8) dst[a.dim + row_groups] = 0;)
    if (a.format == LF_CACHE_QA8)
        dst[at] = (uint8_t)code;
    else if (lane % 2 == 0)
        dst[at / 2] = (uint8_t)(code | next << 4);
    if (a.format == LF_CACHE_QF4S && lane % 16 == 0)
        dst[a.dim / 2 + at / 16] = (uint8_t)scale;
    else if (a.format != LF_CACHE_QF4S && lane == 0)
        dst[(a.format == LF_CACHE_QA8 ? a.dim : a.dim / 2) + g] = (uint8_t)scale;
}

void lf_cache_pack_cuda(struct lf_device *device, const struct lf_cache_pack_args *args) {
    LF_ASSERT(args->dim > 0 && args->dim % LANES == 0);
    uint64_t groups = (uint64_t)args->rows * (args->dim / LANES);
    lf_cuda_launch(device, "cache_pack", cache_pack_groups,
                   dim3(lf_blocks(groups, THREADS / LANES)), THREADS, *args);
}
