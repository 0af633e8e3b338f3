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

#ifdef __AVX2__
#include <immintrin.h>

// Row i of each result: the sums of a[i] and b[i] of the lower four partials of each.
static inline __m256 lf_dots_halve(__m256 a, __m256 b) {
    return _mm256_add_ps(_mm256_permute2f128_ps(a, b, 0x20), _mm256_permute2f128_ps(a, b, 0x31));
}

// The tree of eight partial vectors at once: lanes a c e g b d f h.
static inline __m256 lf_dots_tree8(const __m256 s[8]) {
    __m256 ab = lf_dots_halve(s[0], s[1]), cd = lf_dots_halve(s[2], s[3]);
    __m256 ef = lf_dots_halve(s[4], s[5]), gh = lf_dots_halve(s[6], s[7]);
    __m256 low = _mm256_add_ps(_mm256_shuffle_ps(ab, cd, 0x44), _mm256_shuffle_ps(ab, cd, 0xEE));
    __m256 high = _mm256_add_ps(_mm256_shuffle_ps(ef, gh, 0x44), _mm256_shuffle_ps(ef, gh, 0xEE));
    return _mm256_add_ps(_mm256_shuffle_ps(low, high, 0x88), _mm256_shuffle_ps(low, high, 0xDD));
}

// Eight of the sixteen partials of four queries by two keys: query i, key j at s[2 i + j].
static inline void lf_dots_partials(__m256 s[8], const float *q, size_t q_stride, const float *k,
                                    size_t k_stride, size_t dim) {
    __m256 a = _mm256_setzero_ps(), b = a, c = a, d = a, e = a, f = a, g = a, h = a;
    for (size_t i = 0; i < dim; i += 16) {
        __m256 k0 = _mm256_loadu_ps(k + i), k1 = _mm256_loadu_ps(k + k_stride + i);
        __m256 x = _mm256_loadu_ps(q + i);
        a = _mm256_fmadd_ps(x, k0, a);
        b = _mm256_fmadd_ps(x, k1, b);
        x = _mm256_loadu_ps(q + q_stride + i);
        c = _mm256_fmadd_ps(x, k0, c);
        d = _mm256_fmadd_ps(x, k1, d);
        x = _mm256_loadu_ps(q + 2 * q_stride + i);
        e = _mm256_fmadd_ps(x, k0, e);
        f = _mm256_fmadd_ps(x, k1, f);
        x = _mm256_loadu_ps(q + 3 * q_stride + i);
        g = _mm256_fmadd_ps(x, k0, g);
        h = _mm256_fmadd_ps(x, k1, h);
    }
    s[0] = a, s[1] = b, s[2] = c, s[3] = d, s[4] = e, s[5] = f, s[6] = g, s[7] = h;
}

static inline void lf_dots_4x2(float *z, size_t z_stride, const float *q, size_t q_stride,
                               const float *k, size_t k_stride, size_t dim) {
    __m256 low[8], high[8];
    lf_dots_partials(low, q, q_stride, k, k_stride, dim);
    lf_dots_partials(high, q + 8, q_stride, k + 8, k_stride, dim);
    for (int i = 0; i < 8; i++)
        low[i] = _mm256_add_ps(low[i], high[i]);
    // lanes: (0,0) (1,0) (2,0) (3,0) (0,1) (1,1) (2,1) (3,1)
    float out[8];
    _mm256_storeu_ps(out, lf_dots_tree8(low));
    for (size_t i = 0; i < 4; i++) {
        z[i * z_stride] = out[i];
        z[i * z_stride + 1] = out[i + 4];
    }
}
#else
static inline void lf_dots_4x2(float *z, size_t z_stride, const float *q, size_t q_stride,
                               const float *k, size_t k_stride, size_t dim) {
    for (size_t i = 0; i < 4; i++)
        for (size_t j = 0; j < 2; j++)
            z[i * z_stride + j] = lf_dot16(q + i * q_stride, k + j * k_stride, dim);
}
#endif

// z[i][j] of all queries i and keys j; dim is a multiple of 16, keys a multiple of 2.
static inline void lf_dots_block(float *z, size_t z_stride, struct lf_rows_f32 q, uint32_t queries,
                                 struct lf_rows_f32 k, uint32_t keys, uint32_t dim) {
    uint32_t i = 0;
    for (; i + 4 <= queries; i += 4)
        for (uint32_t j = 0; j < keys; j += 2)
            lf_dots_4x2(z + i * z_stride + j, z_stride, q.at + i * q.stride, q.stride,
                        k.at + j * k.stride, k.stride, dim);
    for (; i < queries; i++)
        for (uint32_t j = 0; j < keys; j++)
            z[i * z_stride + j] = lf_dot16(q.at + i * q.stride, k.at + j * k.stride, dim);
}
