// 16 bytes of a packed weight row as bf16 pairs: what one lane brings to the steps of a slab.
#pragma once
#include "format/matrix.h"
#include "kernel/linear/mma.cuh"
#include "kernel/packed_row.cuh"
#include "kernel/settle.h"

// A job as the device sees it.
struct lf_linear_work {
    const uint8_t *data, *scale;
    const uint16_t *x;
    const uint32_t *x_index;
    void *y;
    size_t x_stride, y_stride;
    const uint32_t *group; // NULL, or whose rows the job has
    uint32_t out, in, rows;
    bool y_f32, whole; // whole: x and bf16 weights can be read in vectors
};

// How many rows a job has, which the host does not know of a group.
__device__ static inline uint32_t lf_work_rows(const struct lf_linear_work &w) {
    return w.group ? w.group[1] - w.group[0] : w.rows;
}

// The job of a group's rows alone (linear_groups.h).
__device__ static inline struct lf_linear_work lf_work_of_group(const struct lf_linear_work &w) {
    struct lf_linear_work own = w;
    if (!w.group)
        return own;
    size_t first = w.group[0];
    own.rows = w.group[1] - w.group[0];
    if (own.x_index)
        own.x_index += first;
    else
        own.x += first * own.x_stride;
    own.y = (char *)own.y + first * own.y_stride * (own.y_f32 ? sizeof(float) : sizeof(uint16_t));
    return own;
}

// Elements of a chunk; a slab is the chunks of four lanes.
__host__ __device__ constexpr uint32_t lf_chunk_elements(enum lf_weight_format format) {
    return format == LF_WEIGHT_BF16 ? 8 : format == LF_WEIGHT_FP8 ? 16 : 32;
}

// As it is stored; scale: of 32 elements.
struct lf_chunk {
    uint32_t word[4];
    uint32_t scale;
};

// bf16 number i of a row of `in`; zero past its end.
__device__ static inline uint32_t lf_bf16_at(const uint16_t *row, uint32_t i, uint32_t in) {
    return i < in ? row[i] : 0;
}

// Eight bf16 numbers from k on; zeros past the row's end. whole: the row is 16-byte aligned.
__device__ static inline void lf_load_eight(const uint16_t *row, uint32_t k, uint32_t in,
                                            bool whole, uint32_t word[4]) {
    if (whole) {
        uint4 all = {0, 0, 0, 0};
        if (k < in)
            all = *(const uint4 *)(row + k);
        word[0] = all.x, word[1] = all.y, word[2] = all.z, word[3] = all.w;
        return;
    }
#pragma unroll
    for (uint32_t i = 0; i < 4; i++)
        word[i] = lf_bf16_at(row, k + 2 * i, in) | lf_bf16_at(row, k + 2 * i + 1, in) << 16;
}

// Output `out`, elements k on; codes of zero past the row's end.
template <enum lf_weight_format format>
__device__ static inline void lf_load_chunk(const struct lf_linear_work &w, uint32_t out,
                                            uint32_t k, struct lf_chunk *chunk) {
    if (format == LF_WEIGHT_BF16) {
        lf_load_eight((const uint16_t *)w.data + (size_t)out * w.in, k, w.in, w.whole,
                      chunk->word);
        return;
    }
    size_t at = (size_t)out * w.in + k, scale_row = format == LF_WEIGHT_FP8 ? out / 32 : out;
    uint4 all = {0, 0, 0, 0};
    chunk->scale = 127;
    if (k < w.in) {
        all = *(const uint4 *)(w.data + (format == LF_WEIGHT_FP8 ? at : at / 2));
        chunk->scale = w.scale[scale_row * (w.in / 32) + k / 32];
    }
    chunk->word[0] = all.x, chunk->word[1] = all.y, chunk->word[2] = all.z, chunk->word[3] = all.w;
}

// The upper halves of two float32: weights are exact in bf16, but for FP8 below 2^-133.
__device__ static inline uint32_t lf_pair_bf16(float low, float high) {
    return lf_f32_bits(low) >> 16 | (lf_f32_bits(high) & 0xFFFF0000u);
}

// Whether a byte's low seven bits are all set: e4m3's NaN.
__device__ static inline uint32_t lf_nan_bits(uint32_t word) {
    return ((word & 0x7F7F7F7Fu) + 0x01010101u) & 0x80808080u;
}

// Four codes as two pairs. Moved into bf16's places a code is value * 2^-120 (cuda-probe.md 6).
__device__ static inline void lf_fp8_pairs(uint32_t word, uint32_t factor, uint32_t pair[2]) {
    uint32_t low = __byte_perm(word, 0, 0x1404), high = __byte_perm(word, 0, 0x3424);
    pair[0] = lf_mul_bf16x2((low >> 4 & 0x07F007F0u) | (low & 0x80008000u), factor);
    pair[1] = lf_mul_bf16x2((high >> 4 & 0x07F007F0u) | (high & 0x80008000u), factor);
}

// The same for any scale and NaN codes.
__device__ static inline void lf_fp8_pairs_any(uint32_t word, float scale, uint32_t pair[2]) {
    for (uint32_t i = 0; i < 2; i++)
        pair[i] = lf_pair_bf16(lf_cache_e4m3((uint8_t)(word >> 16 * i)) * scale,
                               lf_cache_e4m3((uint8_t)(word >> (16 * i + 8))) * scale);
}

// Eight codes as pairs (0, 4), (1, 5), (2, 6), (3, 7); in bf16's places value * 2^-126.
__device__ static inline void lf_mxfp4_pairs(uint32_t word, uint32_t factor, uint32_t pair[4]) {
    const uint32_t size = 0x01C001C0u, sign = 0x80008000u;
    pair[0] = lf_mul_bf16x2((word << 6 & size) | (word << 12 & sign), factor);
    pair[1] = lf_mul_bf16x2((word << 2 & size) | (word << 8 & sign), factor);
    pair[2] = lf_mul_bf16x2((word >> 2 & size) | (word << 4 & sign), factor);
    pair[3] = lf_mul_bf16x2((word >> 6 & size) | (word & sign), factor);
}

// The same for any scale.
__device__ static inline void lf_mxfp4_pairs_any(uint32_t word, float scale, uint32_t pair[4]) {
    for (uint32_t i = 0; i < 4; i++)
        pair[i] = lf_pair_bf16(lf_e2m1_value(word >> 4 * i) * scale,
                               lf_e2m1_value(word >> (4 * i + 16)) * scale);
}

// A power of two in both halves, as bf16.
__device__ static inline uint32_t lf_power_bf16x2(uint32_t biased_exponent) {
    return biased_exponent << 7 | biased_exponent << 23;
}

// A chunk as pairs. One product is exact where the scale's factor is a bf16 number and no NaN is.
template <enum lf_weight_format format>
__device__ static inline void lf_decode_chunk(const struct lf_chunk &chunk, uint32_t *pair) {
    uint32_t s = chunk.scale;
    if (format == LF_WEIGHT_BF16) {
#pragma unroll
        for (uint32_t i = 0; i < 4; i++)
            pair[i] = chunk.word[i];
    } else if (format == LF_WEIGHT_FP8) {
        uint32_t nan = lf_nan_bits(chunk.word[0]) | lf_nan_bits(chunk.word[1]) |
                       lf_nan_bits(chunk.word[2]) | lf_nan_bits(chunk.word[3]);
        bool is_plain = s >= 3 && s <= 134 && !nan;
        uint32_t factor = lf_power_bf16x2(s + 120);
#pragma unroll
        for (uint32_t i = 0; i < 4; i++)
            if (is_plain)
                lf_fp8_pairs(chunk.word[i], factor, pair + 2 * i);
            else
                lf_fp8_pairs_any(chunk.word[i], lf_ue8m0_to_f32((uint8_t)s), pair + 2 * i);
    } else {
        uint32_t factor = lf_power_bf16x2(s + 126);
#pragma unroll
        for (uint32_t i = 0; i < 4; i++)
            if (s <= 128)
                lf_mxfp4_pairs(chunk.word[i], factor, pair + 4 * i);
            else
                lf_mxfp4_pairs_any(chunk.word[i], lf_ue8m0_to_f32((uint8_t)s), pair + 4 * i);
    }
}

// Eight elements of x in the order of eight weights of a chunk.
template <enum lf_weight_format format>
__device__ static inline void lf_order_x(uint32_t word[4]) {
    if (format != LF_WEIGHT_MXFP4)
        return;
    uint32_t pair[4] = {
        __byte_perm(word[0], word[2], 0x5410), __byte_perm(word[0], word[2], 0x7632),
        __byte_perm(word[1], word[3], 0x5410), __byte_perm(word[1], word[3], 0x7632)};
#pragma unroll
    for (uint32_t i = 0; i < 4; i++)
        word[i] = pair[i];
}

// Nothing where a tile passes the job's rows or outputs.
__device__ static inline void lf_store_sum(const struct lf_linear_work &w, uint32_t r, uint32_t o,
                                           float sum) {
    if (r >= w.rows || o >= w.out)
        return;
    if (w.y_f32)
        ((float *)w.y)[r * w.y_stride + o] = lf_f32_settle(sum);
    else
        ((uint16_t *)w.y)[r * w.y_stride + o] = lf_bf16_settle(sum);
}
