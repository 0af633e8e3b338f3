// Packed cache rows (kernel/row.h) to float32, exactly, in loops that vectorize (model.md 3.1).
#pragma once
#include <stdint.h>
#include <string.h>
#include "base/number.h"
#include "kernel/cache_code.h"
#include "kernel/row.h"

// Sixteen e2m1 codes of eight bytes, low nibble first, times scale.
#ifdef __AVX2__
#include <immintrin.h>

static inline void lf_cache_e2m1x16(float *out, const uint8_t *codes, float scale) {
    const __m256 sign = _mm256_set1_ps(-0.0f);
    __m256 table = _mm256_mul_ps(_mm256_setr_ps(0.0f, 0.5f, 1.0f, 1.5f, 2.0f, 3.0f, 4.0f, 6.0f),
                                 _mm256_set1_ps(scale));
    const __m256i places = _mm256_setr_epi32(0, 4, 8, 12, 16, 20, 24, 28);
    for (uint32_t i = 0; i < 2; i++) {
        int32_t eight; // codes of as many elements, the first lowest
        memcpy(&eight, codes + 4 * i, sizeof eight);
        __m256i code = _mm256_srlv_epi32(_mm256_set1_epi32(eight), places);
        __m256 minus = _mm256_and_ps(_mm256_castsi256_ps(_mm256_slli_epi32(code, 28)), sign);
        __m256 value = _mm256_permutevar8x32_ps(table, code);
        _mm256_storeu_ps(out + 8 * i, _mm256_or_ps(minus, value));
    }
}
#else
static inline void lf_cache_e2m1x16(float *out, const uint8_t *codes, float scale) {
    static const float value[16] = {0.0f,  0.5f,  1.0f,  1.5f,  2.0f,  3.0f,  4.0f,  6.0f,
                                    -0.0f, -0.5f, -1.0f, -1.5f, -2.0f, -3.0f, -4.0f, -6.0f};
    for (uint32_t i = 0; i < 8; i++) {
        out[2 * i] = value[codes[i] & 15] * scale;
        out[2 * i + 1] = value[codes[i] >> 4] * scale;
    }
}
#endif

// A group of QA8: 32 codes and their scale's.
static inline void lf_qa8_widen_group(float *restrict out, const uint8_t *restrict codes,
                                      uint8_t scale) {
    float factor = lf_ue8m0_to_f32(scale);
    for (uint32_t i = 0; i < 32; i++)
        out[i] = lf_cache_e4m3(codes[i]) * factor;
}

static inline void lf_qa8_widen(float *restrict out, const uint8_t *restrict row, uint32_t dim) {
    for (uint32_t g = 0; g < dim / 32; g++)
        lf_qa8_widen_group(out + 32 * g, row + 32 * g, row[dim + g]);
}

static inline void lf_qf4s_widen(float *out, const uint8_t *row, uint32_t dim) {
    for (uint32_t g = 0; g < dim / 16; g++)
        lf_cache_e2m1x16(out + 16 * g, row + 8 * g, lf_cache_e4m3(row[dim / 2 + g]));
}

static inline void lf_qf4e_widen(float *out, const uint8_t *row, uint32_t dim) {
    for (uint32_t g = 0; g < dim / 16; g++)
        lf_cache_e2m1x16(out + 16 * g, row + 8 * g, lf_ue8m0_to_f32(row[dim / 2 + g / 2]));
}
