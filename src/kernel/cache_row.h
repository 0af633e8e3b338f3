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

// Sixteen e2m1 codes of eight bytes, low nibble first, times scale.
#ifdef __AVX2__
#include <immintrin.h>

static inline void lf_cache_e2m1x16(float *out, const uint8_t *codes, float scale) {
    const __m256 sign = _mm256_set1_ps(-0.0f);
    __m256 table = _mm256_mul_ps(_mm256_setr_ps(0.0f, 0.5f, 1.0f, 1.5f, 2.0f, 3.0f, 4.0f, 6.0f),
                                 _mm256_set1_ps(scale));
    __m256i low = _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)codes));
    __m256i high = _mm256_srli_epi32(low, 4);
    __m256 even = _mm256_and_ps(_mm256_castsi256_ps(_mm256_slli_epi32(low, 28)), sign);
    __m256 odd = _mm256_and_ps(_mm256_castsi256_ps(_mm256_slli_epi32(high, 28)), sign);
    even = _mm256_or_ps(even, _mm256_permutevar8x32_ps(table, low));
    odd = _mm256_or_ps(odd, _mm256_permutevar8x32_ps(table, high));
    __m256 a = _mm256_unpacklo_ps(even, odd), b = _mm256_unpackhi_ps(even, odd);
    _mm256_storeu_ps(out, _mm256_permute2f128_ps(a, b, 0x20));
    _mm256_storeu_ps(out + 8, _mm256_permute2f128_ps(a, b, 0x31));
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

static inline void lf_qa8_widen(float *restrict out, const uint8_t *restrict row, uint32_t dim) {
    for (uint32_t g = 0; g < dim / 32; g++) {
        float scale = lf_ue8m0_to_f32(row[dim + g]);
        for (uint32_t i = 0; i < 32; i++)
            out[32 * g + i] = lf_cache_e4m3(row[32 * g + i]) * scale;
    }
}

static inline void lf_qf4s_widen(float *out, const uint8_t *row, uint32_t dim) {
    for (uint32_t g = 0; g < dim / 16; g++)
        lf_cache_e2m1x16(out + 16 * g, row + 8 * g, lf_cache_e4m3(row[dim / 2 + g]));
}

static inline void lf_qf4e_widen(float *out, const uint8_t *row, uint32_t dim) {
    for (uint32_t g = 0; g < dim / 16; g++)
        lf_cache_e2m1x16(out + 16 * g, row + 8 * g, lf_ue8m0_to_f32(row[dim / 2 + g / 2]));
}
