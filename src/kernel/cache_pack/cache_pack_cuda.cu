#include "kernel/cache_pack/cache_pack.h"

#include "kernel/quant_round.h"
#include "kernel/rms_norm/norm_row.cuh"
#include "kernel/rope/turn.cuh"

// Of a row that is normed all numbers are with the block's threads.
enum { THREADS = LF_NORM_THREADS, LANES = 32, NORMED_MOST = THREADS * LF_NORM_SHORT };

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
    LF_CONTROL(51, byte -= wide && byte > 113;) // 51: the QA8 scale rounded down
    LF_CONTROL(53, byte = wide ? byte : lf_scale_byte(max, 4.0f * 0x1p-126f, 1.0f / 4.0f);)
    *scale = most >= 0x7F80u ? 255 : byte;
    if (*scale == 255)
        return code_wild(format, x);
    float scaled = v * lf_unscale(byte);
    LF_CONTROL(52, if (wide) return lf_e4m3_code(lf_fault_e4m3(scaled));) // 52: QA8 codes truncated
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
    LF_CONTROL(54, step = (a < floor ? floor : a) / 6.0f;)
    return e2m1_any(v / step);
}

template <uint32_t N>
__device__ static void norm_row(const struct lf_cache_pack_args &a, uint16_t *x) {
    __shared__ float4 stage[NORMED_MOST / 4];
    struct lf_norm_share<N, LF_NORM_SHORT> own, w;
    lf_norm_load(a.norm, a.dim, &w);
    lf_norm_load(x, a.dim, &own);
    float partial = lf_norm_add(own, a.dim, (float *)stage, 0);
    float inverse = lf_norm_inverse(partial, a.dim, a.eps);
    lf_norm_store(own, w, inverse, a.dim, x, NULL);
    __syncthreads();
}

__device__ static void turn_row(const struct lf_cache_pack_args &a, uint16_t *x) {
    uint32_t pairs = a.rope_dim / 2;
    size_t at = (size_t)blockIdx.x * pairs;
    LF_CONTROL(72, at = blockIdx.x == 5 ? 0 : at;) // 72: the row at place 5 is turned as the first
    LF_CONTROL(71, return;) // 71: rows are not turned
    x += a.dim - a.rope_dim;
    for (uint32_t i = threadIdx.x; i < pairs; i += THREADS)
        lf_turn_pair(x + 2 * i, x + 2 * i + 1, a.cos[at + i], a.sin[at + i]);
    __syncthreads();
}

// A warp 32 elements, group g, a lane an element.
__device__ static void pack_group(const struct lf_cache_pack_args &a, const uint16_t *row,
                                  uint8_t *dst, uint32_t g) {
    uint32_t lane = threadIdx.x % LANES, at = g * LANES + lane;
    uint16_t x = row[at];
    uint32_t most = x & 0x7FFFu, scale, code;
    LF_CONTROL(55, most = a.format == LF_CACHE_QF4S && lane % 16 == 15 ? 0 : most;)
    LF_CONTROL(59, most = most > 0x7F80u ? 0 : most;) // 59: a NaN counts as 0
    for (int other = a.format == LF_CACHE_QF4S ? 8 : 16; other; other /= 2) {
        uint32_t theirs = __shfl_xor_sync(LF_ALL_LANES, most, other);
        most = theirs > most ? theirs : most;
    }
    if (a.format == LF_CACHE_QF4S)
        code = code_small(x, most, &scale);
    else
        code = code_of(a.format, x, most, &scale);
    uint32_t next = __shfl_xor_sync(LF_ALL_LANES, code, 1);
    LF_CONTROL(56, uint32_t held = code; code = next; next = held;) // 56: the pair's codes swapped
    LF_CONTROL(58, if (a.format == LF_CACHE_QA8) dst[a.dim + a.dim / LANES] = 0;)
    if (a.format == LF_CACHE_QA8)
        dst[at] = (uint8_t)code;
    else if (lane % 2 == 0)
        dst[at / 2] = (uint8_t)(code | next << 4);
    if (a.format == LF_CACHE_QF4S && lane % 16 == 0)
        dst[a.dim / 2 + at / 16] = (uint8_t)scale;
    else if (a.format != LF_CACHE_QF4S && lane == 0)
        dst[(a.format == LF_CACHE_QA8 ? a.dim : a.dim / 2) + g] = (uint8_t)scale;
}

// A block a row.
template <uint32_t N>
__global__ static void __launch_bounds__(THREADS) cache_pack_rows(struct lf_cache_pack_args a) {
    lf_take_turn();
    uint16_t *x = a.x + (size_t)blockIdx.x * a.dim;
    uint8_t *dst = a.dst[blockIdx.x];
    LF_CONTROL(57, dst = a.dst[blockIdx.x ? blockIdx.x - 1 : 0];)
    LF_CONTROL(70, a.norm = NULL;) // 70: rows are not normed
    LF_CONTROL(73, turn_row(a, x);) // 73: turned before the norm
    if (a.norm)
        norm_row<N>(a, x);
    LF_CONTROL(73, a.rope_dim = 0;)
    if (a.rope_dim)
        turn_row(a, x);
    for (uint32_t g = threadIdx.x / LANES; g < a.dim / LANES; g += THREADS / LANES)
        pack_group(a, x, dst, g);
}

void lf_cache_pack_cuda(struct lf_device *device, const struct lf_cache_pack_args *args) {
    struct lf_rms_norm_args norm = lf_cache_pack_norm(args);
    LF_ASSERT(args->dim > 0 && args->dim % LANES == 0);
    LF_ASSERT(!args->norm || args->dim <= NORMED_MOST);
    lf_cuda_launch(device, "cache_pack",
                   lf_norm_is_wide(&norm) ? cache_pack_rows<LF_WIDE> : cache_pack_rows<1>,
                   dim3(args->rows), THREADS, *args);
}
