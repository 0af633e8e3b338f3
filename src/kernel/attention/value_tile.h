// The value sum of one block of keys: 16 partials by key index mod 16, each fused, and the tree.
#pragma once
#include <stddef.h>
#include <stdint.h>
#include "kernel/sum16.h"

// One head's weights of the block and its running value row.
struct value_head {
    const float *p; // [16 * steps], bf16 values
    float *sum;     // 16 elements of the head's row
    float factor;   // exp(m - m')
};

#ifdef __AVX2__
#include <immintrin.h>

// Two heads by 16 elements.
struct value_quad {
    __m256 a, b, c, d;
};

static inline struct value_quad value_add(struct value_quad x, struct value_quad y) {
    return (struct value_quad){_mm256_add_ps(x.a, y.a), _mm256_add_ps(x.b, y.b),
                               _mm256_add_ps(x.c, y.c), _mm256_add_ps(x.d, y.d)};
}

static inline __attribute__((always_inline)) struct value_quad
value_partial(const float *p0, const float *p1, const float *k, size_t stride, uint32_t steps,
              uint32_t i) {
    const float *key = k + i * stride;
    __m256 low = _mm256_loadu_ps(key), high = _mm256_loadu_ps(key + 8);
    __m256 x = _mm256_broadcast_ss(p0 + i), y = _mm256_broadcast_ss(p1 + i);
    struct value_quad sum = {_mm256_mul_ps(x, low), _mm256_mul_ps(x, high), _mm256_mul_ps(y, low),
                             _mm256_mul_ps(y, high)};
    for (uint32_t step = 1; step < steps; step++) {
        key += 16 * stride;
        low = _mm256_loadu_ps(key);
        high = _mm256_loadu_ps(key + 8);
        x = _mm256_broadcast_ss(p0 + 16 * step + i);
        y = _mm256_broadcast_ss(p1 + 16 * step + i);
        sum.a = _mm256_fmadd_ps(x, low, sum.a);
        sum.b = _mm256_fmadd_ps(x, high, sum.b);
        sum.c = _mm256_fmadd_ps(y, low, sum.c);
        sum.d = _mm256_fmadd_ps(y, high, sum.d);
    }
    return sum;
}

static inline void value_store(const struct value_head *head, __m256 low, __m256 high) {
    __m256 factor = _mm256_set1_ps(head->factor);
    __m256 old_low = _mm256_loadu_ps(head->sum), old_high = _mm256_loadu_ps(head->sum + 8);
    _mm256_storeu_ps(head->sum, _mm256_fmadd_ps(old_low, factor, low));
    _mm256_storeu_ps(head->sum + 8, _mm256_fmadd_ps(old_high, factor, high));
}

static inline __attribute__((always_inline)) void value_pair_steps(const struct value_head head[2],
                                                                   const float *k, size_t stride,
                                                                   uint32_t steps) {
    struct value_quad eight[8];
    for (uint32_t i = 0; i < 8; i++)
        eight[i] = value_add(value_partial(head[0].p, head[1].p, k, stride, steps, i),
                             value_partial(head[0].p, head[1].p, k, stride, steps, i + 8));
    struct value_quad four[4];
    for (uint32_t i = 0; i < 4; i++)
        four[i] = value_add(eight[i], eight[i + 4]);
    struct value_quad total = value_add(value_add(four[0], four[2]), value_add(four[1], four[3]));
    value_store(&head[0], total.a, total.b);
    value_store(&head[1], total.c, total.d);
}

// Adds the block to both heads; the full block is its own loop-free code.
static inline void value_pair(const struct value_head head[2], const float *k, size_t stride,
                              uint32_t steps) {
    if (steps == 4)
        value_pair_steps(head, k, stride, 4);
    else
        value_pair_steps(head, k, stride, steps);
}
#else
static inline void value_pair(const struct value_head head[2], const float *k, size_t stride,
                              uint32_t steps) {
    for (int h = 0; h < 2; h++)
        for (uint32_t d = 0; d < 16; d++) {
            float a[16];
            for (uint32_t i = 0; i < 16; i++) {
                a[i] = head[h].p[i] * k[i * stride + d];
                for (uint32_t t = i + 16; t < 16 * steps; t += 16)
                    a[i] = fmaf(head[h].p[t], k[t * stride + d], a[i]);
            }
            head[h].sum[d] = fmaf(head[h].sum[d], head[h].factor, lf_tree16(a));
        }
}
#endif
