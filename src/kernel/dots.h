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

// Keys that stay in the first cache level beside three queries.
enum { LF_DOTS_NEAR = 8 };

#ifdef __AVX2__
#include <immintrin.h>

// The sums of partials i and i+4: a's in the lower half, b's in the upper.
static inline __m256 lf_dots_halve(__m256 a, __m256 b) {
    return _mm256_add_ps(_mm256_permute2f128_ps(a, b, 0x20), _mm256_permute2f128_ps(a, b, 0x31));
}

// The tree of four dot products of 16 partials each: one result a key.
static inline void lf_dots_finish(float *z, const __m256 low[4], const __m256 high[4]) {
    __m256 ac = lf_dots_halve(_mm256_add_ps(low[0], high[0]), _mm256_add_ps(low[2], high[2]));
    __m256 bd = lf_dots_halve(_mm256_add_ps(low[1], high[1]), _mm256_add_ps(low[3], high[3]));
    __m256 two = _mm256_add_ps(_mm256_shuffle_ps(ac, bd, 0x44), _mm256_shuffle_ps(ac, bd, 0xEE));
    __m128 ab = _mm256_castps256_ps128(two), cd = _mm256_extractf128_ps(two, 1);
    _mm_storeu_ps(z, _mm_add_ps(_mm_shuffle_ps(ab, cd, 0x88), _mm_shuffle_ps(ab, cd, 0xDD)));
}

// Eight of the sixteen partials: query i and key j at s[i][j]; alone it keeps all in registers.
static __attribute__((noinline)) void lf_dots_partials(__m256 s[3][4], const float *q,
                                                       size_t q_stride, const float *k,
                                                       size_t k_stride, size_t dim) {
    __m256 a0 = _mm256_setzero_ps(), a1 = a0, a2 = a0, a3 = a0, b0 = a0, b1 = a0, b2 = a0, b3 = a0,
           c0 = a0, c1 = a0, c2 = a0, c3 = a0;
    for (size_t i = 0; i < dim; i += 16) {
        __m256 qa = _mm256_loadu_ps(q + i), qb = _mm256_loadu_ps(q + q_stride + i);
        __m256 qc = _mm256_loadu_ps(q + 2 * q_stride + i), x = _mm256_loadu_ps(k + i);
        a0 = _mm256_fmadd_ps(x, qa, a0);
        b0 = _mm256_fmadd_ps(x, qb, b0);
        c0 = _mm256_fmadd_ps(x, qc, c0);
        x = _mm256_loadu_ps(k + k_stride + i);
        a1 = _mm256_fmadd_ps(x, qa, a1);
        b1 = _mm256_fmadd_ps(x, qb, b1);
        c1 = _mm256_fmadd_ps(x, qc, c1);
        x = _mm256_loadu_ps(k + 2 * k_stride + i);
        a2 = _mm256_fmadd_ps(x, qa, a2);
        b2 = _mm256_fmadd_ps(x, qb, b2);
        c2 = _mm256_fmadd_ps(x, qc, c2);
        x = _mm256_loadu_ps(k + 3 * k_stride + i);
        a3 = _mm256_fmadd_ps(x, qa, a3);
        b3 = _mm256_fmadd_ps(x, qb, b3);
        c3 = _mm256_fmadd_ps(x, qc, c3);
    }
    s[0][0] = a0, s[0][1] = a1, s[0][2] = a2, s[0][3] = a3;
    s[1][0] = b0, s[1][1] = b1, s[1][2] = b2, s[1][3] = b3;
    s[2][0] = c0, s[2][1] = c1, s[2][2] = c2, s[2][3] = c3;
}

static inline void lf_dots_3x4(float *z, size_t z_stride, const float *q, size_t q_stride,
                               const float *k, size_t k_stride, size_t dim) {
    __m256 low[3][4], high[3][4];
    lf_dots_partials(low, q, q_stride, k, k_stride, dim);
    lf_dots_partials(high, q + 8, q_stride, k + 8, k_stride, dim);
    for (size_t i = 0; i < 3; i++)
        lf_dots_finish(z + i * z_stride, low[i], high[i]);
}
#else
static inline void lf_dots_3x4(float *z, size_t z_stride, const float *q, size_t q_stride,
                               const float *k, size_t k_stride, size_t dim) {
    for (size_t i = 0; i < 3; i++)
        for (size_t j = 0; j < 4; j++)
            z[i * z_stride + j] = lf_dot16(q + i * q_stride, k + j * k_stride, dim);
}
#endif

// z[i][j] of all queries i and keys j; dim is a multiple of 16, keys of 4.
static inline void lf_dots_block(float *z, size_t z_stride, struct lf_rows_f32 q, uint32_t queries,
                                 struct lf_rows_f32 k, uint32_t keys, uint32_t dim) {
    for (uint32_t near = 0; queries >= 3 && near < keys; near += LF_DOTS_NEAR) {
        uint32_t end = near + LF_DOTS_NEAR < keys ? near + LF_DOTS_NEAR : keys;
        for (uint32_t i = 0; i < queries; i += 3)
            for (uint32_t j = near; j < end; j += 4) {
                uint32_t at = i + 3 <= queries ? i : queries - 3; // the last three may overlap
                lf_dots_3x4(z + at * z_stride + j, z_stride, q.at + at * q.stride, q.stride,
                            k.at + j * k.stride, k.stride, dim);
            }
    }
    for (uint32_t i = 0; queries < 3 && i < queries; i++)
        for (uint32_t j = 0; j < keys; j++)
            z[i * z_stride + j] = lf_dot16(q.at + i * q.stride, k.at + j * k.stride, dim);
}
