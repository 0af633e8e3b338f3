// Sums of the house: 16 float32 partials by element mod 16, then i+8, i+4, i+2, i+1.
#pragma once
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include "base/number.h"

static inline float lf_tree16(const float a[16]) {
    float b[8], c[4];
    for (int i = 0; i < 8; i++)
        b[i] = a[i] + a[i + 8];
    for (int i = 0; i < 4; i++)
        c[i] = b[i] + b[i + 4];
    return (c[0] + c[2]) + (c[1] + c[3]);
}

// Four sums together, the same additions: partials 4 q to 4 q + 3 of sum i at part[q] + i * step.
static inline void lf_tree16_parts(const float *const part[4], size_t step, float sums[4]) {
    typedef float four __attribute__((vector_size(16)));
    four v[4][4], c[4];
    for (int i = 0; i < 4; i++) {
        for (int q = 0; q < 4; q++)
            memcpy(&v[i][q], part[q] + (size_t)i * step, sizeof v[i][q]);
        c[i] = (v[i][0] + v[i][2]) + (v[i][1] + v[i][3]);
    }
    four ab = __builtin_shufflevector(c[0], c[1], 0, 1, 4, 5) +
              __builtin_shufflevector(c[0], c[1], 2, 3, 6, 7);
    four cd = __builtin_shufflevector(c[2], c[3], 0, 1, 4, 5) +
              __builtin_shufflevector(c[2], c[3], 2, 3, 6, 7);
    four sum = __builtin_shufflevector(ab, cd, 0, 2, 4, 6) +
               __builtin_shufflevector(ab, cd, 1, 3, 5, 7);
    memcpy(sums, &sum, sizeof sum);
}

static inline void lf_tree16_four(const float *a, float sums[4]) {
    lf_tree16_parts((const float *const[]){a, a + 4, a + 8, a + 12}, 16, sums);
}

// Adds n products to the 16 partials, element i to partial i mod 16, each fused.
static inline void lf_dot16_add(float acc[16], const float *a, const float *b, size_t n) {
    size_t i = 0;
    for (; i + 16 <= n; i += 16)
        for (int j = 0; j < 16; j++)
            acc[j] = fmaf(a[i + j], b[i + j], acc[j]);
    for (size_t j = 0; i + j < n; j++)
        acc[j] = fmaf(a[i + j], b[i + j], acc[j]);
}

static inline float lf_dot16(const float *a, const float *b, size_t n) {
    float acc[16] = {0};
    lf_dot16_add(acc, a, b, n);
    return lf_tree16(acc);
}

// The sum of squares of a bf16 row: squares of bf16 are exact, so fusing rounds only the sum.
static inline float lf_squares16_bf16(const uint16_t *x, size_t n) {
    float acc[16] = {0};
    size_t i = 0;
    for (; i + 16 <= n; i += 16)
        for (int j = 0; j < 16; j++) {
            float v = lf_bf16_to_f32(x[i + j]);
            acc[j] = fmaf(v, v, acc[j]);
        }
    for (size_t j = 0; i + j < n; j++) {
        float v = lf_bf16_to_f32(x[i + j]);
        acc[j] = fmaf(v, v, acc[j]);
    }
    return lf_tree16(acc);
}
