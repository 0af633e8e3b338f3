// Planted faults of the CUDA column (kernel-contract.md 6): only a build with LF_FAULTS has them.
#pragma once

#ifdef LF_FAULTS
#include <math.h>
#include "base/number.h"

// All faults are in one build, as nvcc is slow: which one shows is a number, sent before a launch.
extern "C" uint32_t lf_cuda_fault;
static __constant__ uint32_t lf_fault_number;

// A float of 11 significant bits.
__device__ static inline float lf_fault_f16(float x) {
    uint32_t bits = lf_f32_bits(x);
    return lf_f32_from_bits((bits + 0xFFF + (bits >> 13 & 1)) & ~0x1FFFu);
}

__device__ static inline float lf_fault_bf16(float x) {
    uint32_t bits = lf_f32_bits(x);
    return lf_f32_from_bits((bits + 0x7FFF + (bits >> 16 & 1)) & 0xFFFF0000u);
}

// Two bf16 cut toward zero.
__device__ static inline uint32_t lf_fault_cut(float low, float high) {
    return lf_f32_bits(low) >> 16 | (lf_f32_bits(high) & 0xFFFF0000u);
}

// An e4m3 value cut toward zero, for sizes that are normal there.
__device__ static inline float lf_fault_e4m3(float x) {
    uint32_t bits = lf_f32_bits(x) & 0xFFF00000u;
    return x - x == 0.0f && fabsf(x) >= 0x1p-6f ? lf_f32_from_bits(bits) : 0.0f;
}

// What is not finite counts as 0.
__device__ static inline float lf_fault_finite(float x) {
    return x - x == 0.0f ? x : 0.0f;
}

// The sum of squares of n bf16 numbers, in the plainest order.
__device__ static inline float lf_fault_squares(const uint16_t *x, uint32_t n) {
    float sum = 0;
    for (uint32_t k = 0; k < n; k++)
        sum = sum + lf_bf16_to_f32(x[k]) * lf_bf16_to_f32(x[k]);
    return sum;
}

// Another tree than lf_lanes_tree16's.
__device__ static inline float lf_fault_tree16(float a) {
    for (int other = 1; other < 16; other *= 2)
        a = a + __shfl_xor_sync(0xFFFFFFFFu, a, other);
    return a;
}

#define LF_CONTROL(number, ...)                                                                    \
    if (lf_fault_number == number) {                                                               \
        __VA_ARGS__                                                                                \
    }
#else
// Statements of one line, where that fault shows: LF_CONTROL(3, n--;) // 3: the last element lost
#define LF_CONTROL(number, ...)
#endif
