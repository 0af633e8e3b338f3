// 16 bytes of a packed weight row as bf16 pairs: what one lane brings to the steps of a slab.
#pragma once
#include "format/matrix.h"
#include "kernel/packed_row.cuh"
#include "kernel/settle.h"

// A job as the device sees it.
struct lf_linear_work {
    const uint8_t *data, *scale;
    const uint16_t *x;
    const uint32_t *x_index;
    void *y;
    size_t x_stride, y_stride;
    uint32_t out, in, rows;
    uint32_t first_block; // of the launch
    bool y_f32, whole;    // whole: x and bf16 weights can be read in vectors
};

// Elements of a chunk; a slab is the chunks of four lanes.
__host__ __device__ constexpr uint32_t lf_chunk_elements(enum lf_weight_format format) {
    return format == LF_WEIGHT_BF16 ? 8 : format == LF_WEIGHT_FP8 ? 16 : 32;
}

// The upper halves of two float32: weights are exact in bf16, but for FP8 below 2^-133.
__device__ static inline uint32_t lf_pair_bf16(float low, float high) {
    return lf_f32_bits(low) >> 16 | (lf_f32_bits(high) & 0xFFFF0000u);
}

__device__ static inline uint4 lf_load_16(const void *bytes) {
    return *(const uint4 *)bytes;
}

__device__ static inline uint32_t lf_word_of(const uint4 &words, uint32_t i) {
    return i == 0 ? words.x : i == 1 ? words.y : i == 2 ? words.z : words.w;
}

// bf16 number i of a row of `in`; zero past its end.
__device__ static inline uint32_t lf_bf16_at(const uint16_t *row, uint32_t i, uint32_t in) {
    return i < in ? row[i] : 0;
}

// Output `out`, elements k on; zeros past the row's end.
template <enum lf_weight_format format>
__device__ static inline void lf_load_chunk(const struct lf_linear_work &w, uint32_t out,
                                            uint32_t k, uint32_t *pair) {
    const uint32_t pairs = lf_chunk_elements(format) / 2;
    size_t at = (size_t)out * w.in + k;
    uint4 words = {0, 0, 0, 0};
    float scale = 1;
    if (format == LF_WEIGHT_BF16) {
        const uint16_t *row = (const uint16_t *)w.data + (size_t)out * w.in;
        if (w.whole && k < w.in)
            words = lf_load_16(row + k);
#pragma unroll
        for (uint32_t i = 0; i < pairs; i++)
            pair[i] = w.whole ? lf_word_of(words, i)
                              : lf_bf16_at(row, k + 2 * i, w.in) |
                                    lf_bf16_at(row, k + 2 * i + 1, w.in) << 16;
        return;
    }
    if (k < w.in) {
        words = lf_load_16(w.data + (format == LF_WEIGHT_FP8 ? at : at / 2));
        size_t scale_row = format == LF_WEIGHT_FP8 ? out / 32 : out;
        scale = lf_ue8m0_to_f32(w.scale[scale_row * (w.in / 32) + k / 32]);
    }
#pragma unroll
    for (uint32_t i = 0; i < pairs; i++) {
        uint32_t word = lf_word_of(words, i / (pairs / 4)), low, high;
        if (format == LF_WEIGHT_FP8) {
            low = word >> 16 * (i % 2) & 255, high = word >> (16 * (i % 2) + 8) & 255;
            pair[i] = lf_pair_bf16(lf_cache_e4m3((uint8_t)low) * scale,
                                   lf_cache_e4m3((uint8_t)high) * scale);
        } else {
            low = word >> 8 * (i % 4), high = word >> (8 * (i % 4) + 4);
            pair[i] = lf_pair_bf16(lf_e2m1_value(low) * scale, lf_e2m1_value(high) * scale);
        }
    }
}

// Four elements of a row of x from k on, as two pairs; zeros past its end.
__device__ static inline uint2 lf_load_x(const struct lf_linear_work &w, uint32_t r, uint32_t k) {
    const uint16_t *x = w.x + (size_t)(w.x_index ? w.x_index[r] : r) * w.x_stride;
    if (w.whole && k < w.in)
        return *(const uint2 *)(x + k);
    return make_uint2(lf_bf16_at(x, k, w.in) | lf_bf16_at(x, k + 1, w.in) << 16,
                      lf_bf16_at(x, k + 2, w.in) | lf_bf16_at(x, k + 3, w.in) << 16);
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
