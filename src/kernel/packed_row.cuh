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

// Two e4m3 codes, a half each with their signs, in bf16's places: value * 2^-120, NaN apart.
__device__ static inline uint32_t lf_e4m3_places(uint32_t codes) {
    return codes << 4 & 0x87F087F0u;
}
