// Single elements of packed cache rows (kernel/row.h), exact in float32 (model.md 3.1).
#pragma once
#include "kernel/cache_code.h"
#include "kernel/launch.cuh"

// Four bytes of any alignment, the first one lowest.
__device__ static inline uint32_t lf_load_word(const uint8_t *bytes) {
    if ((uintptr_t)bytes % 4 == 0)
        return *(const uint32_t *)bytes;
    return bytes[0] | bytes[1] << 8 | bytes[2] << 16 | (uint32_t)bytes[3] << 24;
}

// A 4-bit code's bits moved into a float32 are value * 2^-126.
__device__ static inline float lf_e2m1_value(uint32_t code) {
    return lf_f32_from_bits((code & 7u) << 22 | (code & 8u) << 28) * 0x1p126f;
}

__device__ static inline uint32_t lf_nibble(const uint8_t *codes, uint32_t i) {
    return codes[i / 2] >> i % 2 * 4;
}

__device__ static inline float lf_qa8_at(const uint8_t *row, uint32_t dim, uint32_t i) {
    return lf_cache_e4m3(row[i]) * lf_ue8m0_to_f32(row[dim + i / 32]);
}

__device__ static inline float lf_qf4s_at(const uint8_t *row, uint32_t dim, uint32_t i) {
    return lf_e2m1_value(lf_nibble(row, i)) * lf_cache_e4m3(row[dim / 2 + i / 16]);
}

__device__ static inline float lf_qf4e_at(const uint8_t *row, uint32_t dim, uint32_t i) {
    return lf_e2m1_value(lf_nibble(row, i)) * lf_ue8m0_to_f32(row[dim / 2 + i / 32]);
}

// Four e4m3 codes of a word, the lowest byte first, times scale: as lf_cache_e4m3 has each.
__device__ static inline void lf_e4m3_four(uint32_t codes, float scale, float out[4]) {
#pragma unroll
    for (uint32_t i = 0; i < 4; i++) {
        uint32_t bits = (uint32_t)((int32_t)(codes << (24 - 8 * i)) >> 4) & 0x87F00000u;
        out[i] = lf_f32_from_bits(bits) * 0x1p120f * scale;
    }
    // A code whose seven low bits are all set is NaN.
    if ((((codes & 0x7F7F7F7Fu) + 0x01010101u) & 0x80808080u) == 0)
        return;
#pragma unroll
    for (uint32_t i = 0; i < 4; i++)
        out[i] = lf_cache_e4m3((uint8_t)(codes >> 8 * i)) * scale;
}

// Eight e2m1 codes of a word, the lowest nibble first, times scale.
__device__ static inline void lf_e2m1_eight(uint32_t codes, float scale, float out[8]) {
#pragma unroll
    for (uint32_t i = 0; i < 8; i++) {
        uint32_t bits = (uint32_t)((int32_t)(codes << (28 - 4 * i)) >> 6) & 0x81C00000u;
        out[i] = lf_f32_from_bits(bits) * 0x1p126f * scale;
    }
}
