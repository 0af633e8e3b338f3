// All dot products of a few queries with a block of keys, each as lf_dot16 (kernel/sum16.h).
#pragma once
#include <stddef.h>
#include <stdint.h>
#include "kernel/sum16.h"

// Rows of floats: row i begins at at + i * stride.
struct lf_rows_f32 {
    const float *at;
    size_t stride;
};

// Keys that stay in the first cache level beside four queries.
enum { LF_DOTS_NEAR = 9 };

#ifdef __AVX2__
#include <immintrin.h>

// The sums of partials i and i+4: a's in the lower half, b's in the upper.
static inline __m256 lf_dots_halve(__m256 a, __m256 b) {
    return _mm256_add_ps(_mm256_permute2f128_ps(a, b, 0x20), _mm256_permute2f128_ps(a, b, 0x31));
}

// The tree of four dot products of 16 partials each: one result a query.
static inline void lf_dots_finish(float *z, size_t z_stride, const __m256 low[4],
                                  const __m256 high[4]) {
    __m256 ab = lf_dots_halve(_mm256_add_ps(low[0], high[0]), _mm256_add_ps(low[1], high[1]));
    __m256 cd = lf_dots_halve(_mm256_add_ps(low[2], high[2]), _mm256_add_ps(low[3], high[3]));
    __m256 two = _mm256_add_ps(_mm256_shuffle_ps(ab, cd, 0x44), _mm256_shuffle_ps(ab, cd, 0xEE));
    __m128 ac = _mm256_castps256_ps128(two), bd = _mm256_extractf128_ps(two, 1);
    float out[4]; // a c b d
    _mm_storeu_ps(out, _mm_add_ps(_mm_shuffle_ps(ac, bd, 0x88), _mm_shuffle_ps(ac, bd, 0xDD)));
    z[0] = out[0];
    z[z_stride] = out[2];
    z[2 * z_stride] = out[1];
    z[3 * z_stride] = out[3];
}

// Eight of the sixteen partials: query i and key j at s[j][i]; alone it keeps all in registers.
static __attribute__((noinline)) void lf_dots_partials(
    __m256 s[3][4], const float *q, size_t q_stride, const float *k, size_t k_stride, size_t dim) {
    __m256 a0 = _mm256_setzero_ps(), a1 = a0, a2 = a0, a3 = a0, b0 = a0, b1 = a0, b2 = a0, b3 = a0,
           c0 = a0, c1 = a0, c2 = a0, c3 = a0;
    for (size_t i = 0; i < dim; i += 16) {
        __m256 ka = _mm256_loadu_ps(k + i), kb = _mm256_loadu_ps(k + k_stride + i);
        __m256 kc = _mm256_loadu_ps(k + 2 * k_stride + i), x = _mm256_loadu_ps(q + i);
        a0 = _mm256_fmadd_ps(x, ka, a0);
        b0 = _mm256_fmadd_ps(x, kb, b0);
        c0 = _mm256_fmadd_ps(x, kc, c0);
        x = _mm256_loadu_ps(q + q_stride + i);
        a1 = _mm256_fmadd_ps(x, ka, a1);
        b1 = _mm256_fmadd_ps(x, kb, b1);
        c1 = _mm256_fmadd_ps(x, kc, c1);
        x = _mm256_loadu_ps(q + 2 * q_stride + i);
        a2 = _mm256_fmadd_ps(x, ka, a2);
        b2 = _mm256_fmadd_ps(x, kb, b2);
        c2 = _mm256_fmadd_ps(x, kc, c2);
        x = _mm256_loadu_ps(q + 3 * q_stride + i);
        a3 = _mm256_fmadd_ps(x, ka, a3);
        b3 = _mm256_fmadd_ps(x, kb, b3);
        c3 = _mm256_fmadd_ps(x, kc, c3);
    }
    s[0][0] = a0, s[0][1] = a1, s[0][2] = a2, s[0][3] = a3;
    s[1][0] = b0, s[1][1] = b1, s[1][2] = b2, s[1][3] = b3;
    s[2][0] = c0, s[2][1] = c1, s[2][2] = c2, s[2][3] = c3;
}

static inline void lf_dots_4x3(float *z, size_t z_stride, const float *q, size_t q_stride,
                               const float *k, size_t k_stride, size_t dim) {
    __m256 low[3][4], high[3][4];
    lf_dots_partials(low, q, q_stride, k, k_stride, dim);
    lf_dots_partials(high, q + 8, q_stride, k + 8, k_stride, dim);
    for (size_t j = 0; j < 3; j++)
        lf_dots_finish(z + j, z_stride, low[j], high[j]);
}
#else
static inline void lf_dots_4x3(float *z, size_t z_stride, const float *q, size_t q_stride,
                               const float *k, size_t k_stride, size_t dim) {
    for (size_t i = 0; i < 4; i++)
        for (size_t j = 0; j < 3; j++)
            z[i * z_stride + j] = lf_dot16(q + i * q_stride, k + j * k_stride, dim);
}
#endif

// z[i][j] of all queries i and keys j; dim is a multiple of 16, keys at least 3.
static inline void lf_dots_block(float *z, size_t z_stride, struct lf_rows_f32 q, uint32_t queries,
                                 struct lf_rows_f32 k, uint32_t keys, uint32_t dim) {
    uint32_t fours = queries / 4 * 4;
    for (uint32_t near = 0; near < keys; near += LF_DOTS_NEAR) {
        uint32_t end = near + LF_DOTS_NEAR < keys ? near + LF_DOTS_NEAR : keys;
        for (uint32_t i = 0; i < fours; i += 4)
            for (uint32_t j = near; j < end; j += 3) {
                uint32_t at = j + 3 <= keys ? j : keys - 3; // the last three may overlap
                lf_dots_4x3(z + i * z_stride + at, z_stride, q.at + i * q.stride, q.stride,
                            k.at + at * k.stride, k.stride, dim);
            }
    }
    for (uint32_t i = fours; i < queries; i++)
        for (uint32_t j = 0; j < keys; j++)
            z[i * z_stride + j] = lf_dot16(q.at + i * q.stride, k.at + j * k.stride, dim);
}
