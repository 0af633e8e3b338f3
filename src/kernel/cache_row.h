// Packed cache rows (kernel/row.h) to float32, exactly, in loops that vectorize (model.md 3.1).
#pragma once
#include <stdint.h>
#include "base/number.h"
#include "kernel/row.h"

// The code's bits moved into a float32 are value * 2^-120; subnormal codes stay exact.
static inline float lf_cache_e4m3(uint8_t code) {
    float value = lf_f32_from_bits((code & 0x7Fu) << 20 | (code & 0x80u) << 24) * 0x1p120f;
    return (code & 0x7Fu) == 0x7Fu ? lf_f32_from_bits(0x7FC00000u) : value;
}

// The same for e2m1: value * 2^-126.
static inline float lf_cache_e2m1(uint32_t code) {
    return lf_f32_from_bits((code & 7u) << 22 | (code & 8u) << 28) * 0x1p126f;
}

static inline void lf_qa8_widen(float *restrict out, const uint8_t *restrict row, uint32_t dim) {
    for (uint32_t g = 0; g < dim / 32; g++) {
        float scale = lf_ue8m0_to_f32(row[dim + g]);
        for (uint32_t i = 0; i < 32; i++)
            out[32 * g + i] = lf_cache_e4m3(row[32 * g + i]) * scale;
    }
}

static inline void lf_qf4s_widen(float *restrict out, const uint8_t *restrict row, uint32_t dim) {
    for (uint32_t g = 0; g < dim / 16; g++) {
        float scale = lf_cache_e4m3(row[dim / 2 + g]);
        for (uint32_t i = 0; i < 8; i++) {
            uint32_t codes = row[8 * g + i];
            out[16 * g + 2 * i] = lf_cache_e2m1(codes) * scale;
            out[16 * g + 2 * i + 1] = lf_cache_e2m1(codes >> 4) * scale;
        }
    }
}

static inline void lf_qf4e_widen(float *restrict out, const uint8_t *restrict row, uint32_t dim) {
    for (uint32_t g = 0; g < dim / 32; g++) {
        float scale = lf_ue8m0_to_f32(row[dim / 2 + g]);
        for (uint32_t i = 0; i < 16; i++) {
            uint32_t codes = row[16 * g + i];
            out[32 * g + 2 * i] = lf_cache_e2m1(codes) * scale;
            out[32 * g + 2 * i + 1] = lf_cache_e2m1(codes >> 4) * scale;
        }
    }
}
