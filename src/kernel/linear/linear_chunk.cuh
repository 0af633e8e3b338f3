// 16 bytes of a packed weight row as bf16 pairs: what one lane brings to the steps of a slab.
#pragma once
#include "format/matrix.h"
#include "kernel/linear/linear_jobs.cuh"
#include "kernel/linear/linear_regular.h"
#include "kernel/linear/linear_turn.h"
#include "kernel/linear/mma.cuh"
#include "kernel/linear/stream.cuh"
#include "kernel/packed_row.cuh"

// Elements of a chunk; a slab is the chunks of four lanes.
__host__ __device__ constexpr uint32_t lf_chunk_elements(enum lf_weight_format format) {
    return format == LF_WEIGHT_BF16 ? 8 : format == LF_WEIGHT_FP8 ? 16 : 32;
}

// Bytes of so many elements of a row.
template <enum lf_weight_format format>
__device__ static inline size_t lf_chunk_at(size_t elements) {
    return format == LF_WEIGHT_BF16  ? 2 * elements
           : format == LF_WEIGHT_FP8 ? elements
                                     : elements / 2;
}

// Where the scale of output `out`, element k is.
template <enum lf_weight_format format>
__device__ static inline size_t lf_scale_at(uint32_t in, uint32_t out, uint32_t k) {
    LF_CONTROL(4, k -= k >= 32 ? 32 : 0;) // 4: past the first block, the scale of the one before
    return (size_t)(format == LF_WEIGHT_FP8 ? out / 32 : out) * (in / 32) + k / 32;
}

// Elements left, where fewer than none are none.
__device__ static inline uint32_t lf_left(int32_t elements) {
    return elements > 0 ? (uint32_t)elements : 0;
}

// bf16 number i of a row of `in`; zero past its end.
__device__ static inline uint32_t lf_bf16_at(const uint16_t *row, uint32_t i, uint32_t in) {
    LF_CONTROL(1, if (i + 1 == in) return 0;) // 1: the last element is not in the sum
    return i < in ? row[i] : 0;
}

// Eight bf16 numbers from k on; zeros past the row's end. whole: the row is 16-byte aligned.
__device__ static inline void lf_load_eight(const uint16_t *row, uint32_t k, uint32_t in,
                                            bool whole, uint32_t word[4]) {
    if (whole) {
        uint4 all = {0, 0, 0, 0};
        if (k < in)
            all = lf_load_16(row + k);
        word[0] = all.x, word[1] = all.y, word[2] = all.z, word[3] = all.w;
        return;
    }
#pragma unroll
    for (uint32_t i = 0; i < 4; i++)
        word[i] = lf_bf16_at(row, k + 2 * i, in) | lf_bf16_at(row, k + 2 * i + 1, in) << 16;
}

// The upper halves of two float32: weights are exact in bf16, but for FP8 below 2^-133.
__device__ static inline uint32_t lf_pair_bf16(float low, float high) {
    LF_CONTROL(16, low = lf_fault_bf16(low); high = lf_fault_bf16(high);) // 16: rounded, not cut
    return lf_f32_bits(low) >> 16 | (lf_f32_bits(high) & 0xFFFF0000u);
}

// Bit 7 of some byte where low seven bits of one are all set: e4m3's NaN. Other bits say nothing.
__device__ static inline uint32_t lf_nan_bits(uint32_t word) {
    LF_CONTROL(9, return 0;) // 9: an e4m3 NaN is read as a number
    return (word + 0x01010101u) ^ word;
}

// Four codes; in bf16's places value * 2^-120 (cuda-probe.md 6).
__device__ static inline void lf_fp8_pairs(uint32_t word, uint32_t factor, uint32_t pair[2]) {
    pair[0] = lf_mul_bf16x2(lf_e4m3_places(lf_signed_bytes<0>(word)), factor);
    pair[1] = lf_mul_bf16x2(lf_e4m3_places(lf_signed_bytes<2>(word)), factor);
}

// The same for any scale and NaN codes.
__device__ static inline void lf_fp8_pairs_any(uint32_t word, float scale, uint32_t pair[2]) {
    for (uint32_t i = 0; i < 2; i++)
        pair[i] = lf_pair_bf16(lf_cache_e4m3((uint8_t)(word >> 16 * i)) * scale,
                               lf_cache_e4m3((uint8_t)(word >> (16 * i + 8))) * scale);
}

// Eight turned codes as pairs.
__device__ static inline void lf_mxfp4_pairs(uint32_t word, uint32_t factor, uint32_t pair[4]) {
#pragma unroll
    for (uint32_t i = 0; i < 4; i++)
        pair[i] = lf_mul_bf16x2(lf_mxfp4_pair(word, i), factor);
}

// The same for any scale.
__device__ static inline void lf_mxfp4_pairs_any(uint32_t word, float scale, uint32_t pair[4]) {
    for (uint32_t i = 0; i < 4; i++) {
        uint32_t both = lf_mxfp4_pair(word, i);
        pair[i] = lf_pair_bf16(lf_f32_from_bits(both << 16) * 0x1p126f * scale,
                               lf_f32_from_bits(both & 0xFFFF0000u) * 0x1p126f * scale);
    }
}

// A power of two in both halves, as bf16.
__device__ static inline uint32_t lf_power_bf16x2(uint32_t biased_exponent) {
    return biased_exponent * 0x00800080u;
}

// Whether one product is not enough: its factor is no bf16 number, or a code is NaN.
template <enum lf_weight_format format, uint32_t words>
__device__ static inline bool lf_is_odd(const uint32_t *word, uint32_t scale) {
    LF_CONTROL(15, if (scale == 255) return false;) // 15: scale 255 is read as a number
    if constexpr (format == LF_WEIGHT_BF16) {
        return false;
    } else if constexpr (format == LF_WEIGHT_MXFP4) {
        return lf_scale_is_odd(format, scale);
    } else {
        uint32_t nan = 0;
#pragma unroll
        for (uint32_t i = 0; i < words; i++)
            nan |= lf_nan_bits(word[i]);
        return lf_scale_is_odd(format, scale) | ((nan & 0x80808080u) != 0);
    }
}

// What a scale's power of two and the places of codes come to, as bf16, where it is not odd.
template <enum lf_weight_format format>
__device__ static inline uint32_t lf_factor_of(uint32_t scale) {
    return lf_power_bf16x2(scale + (format == LF_WEIGHT_FP8 ? 120 : 126));
}

// Words of a chunk as pairs, where none is odd.
template <enum lf_weight_format format, uint32_t words>
__device__ static inline void lf_decode_by(const uint32_t *word, uint32_t factor, uint32_t *pair) {
#pragma unroll
    for (uint32_t i = 0; i < words; i++)
        if (format == LF_WEIGHT_BF16)
            pair[i] = word[i];
        else if (format == LF_WEIGHT_FP8)
            lf_fp8_pairs(word[i], factor, pair + 2 * i);
        else
            lf_mxfp4_pairs(word[i], factor, pair + 4 * i);
}

// Words of a chunk as pairs, whatever they hold.
template <enum lf_weight_format format, uint32_t words>
__device__ static inline void lf_decode_any(const uint32_t *word, uint32_t scale, uint32_t *pair) {
    float value = lf_ue8m0_to_f32((uint8_t)scale);
#pragma unroll
    for (uint32_t i = 0; i < words; i++)
        if (format == LF_WEIGHT_BF16)
            pair[i] = word[i];
        else if (format == LF_WEIGHT_FP8)
            lf_fp8_pairs_any(word[i], value, pair + 2 * i);
        else
            lf_mxfp4_pairs_any(word[i], value, pair + 4 * i);
}

// Words of both outputs as pairs. is_odd: one of them may be; all lanes go one way.
template <enum lf_weight_format format, uint32_t words>
__device__ static inline void lf_decode(const uint32_t *low, const uint32_t *high,
                                        const uint32_t scale[2], bool is_odd, uint32_t *pair) {
    const uint32_t pairs = words * (format == LF_WEIGHT_BF16 ? 1 : format == LF_WEIGHT_FP8 ? 2 : 4);
    if (format != LF_WEIGHT_BF16 && is_odd) {
        lf_decode_any<format, words>(low, scale[0], pair);
        lf_decode_any<format, words>(high, scale[1], pair + pairs);
        return;
    }
    lf_decode_by<format, words>(low, lf_factor_of<format>(scale[0]), pair);
    lf_decode_by<format, words>(high, lf_factor_of<format>(scale[1]), pair + pairs);
}

// Whether a lane of the warp has odd words among its two outputs'.
template <enum lf_weight_format format, uint32_t words>
__device__ static inline bool lf_are_odd(const uint32_t *low, const uint32_t *high,
                                         const uint32_t scale[2]) {
    bool is_odd =
        lf_is_odd<format, words>(low, scale[0]) | lf_is_odd<format, words>(high, scale[1]);
    return format != LF_WEIGHT_BF16 && __any_sync(LF_ALL_LANES, is_odd);
}

// Eight elements of x in the order of eight weights of a chunk.
template <enum lf_weight_format format>
__device__ static inline void lf_order_x(uint32_t word[4]) {
    LF_CONTROL(17, return;) // 17: MXFP4's x in the order of the others
    if (format != LF_WEIGHT_MXFP4)
        return;
    uint32_t second = word[1];
    word[1] = word[2], word[2] = second;
}
