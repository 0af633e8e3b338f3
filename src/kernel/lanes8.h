// Eight float32 lanes with a fused multiply-add: vector registers where present, the same bits.
#pragma once
#include <math.h>
#include <stdint.h>
#include <string.h>
#if defined(__FMA__) && defined(__AVX2__)
#include <immintrin.h>
#define LF_LANES8_AVX2 1
#endif

typedef float lf_lanes8 __attribute__((vector_size(32)));

// acc = a * b + acc, rounded once a lane.
static inline void lf_lanes8_fma(lf_lanes8 *acc, const lf_lanes8 *a, const lf_lanes8 *b) {
#ifdef LF_LANES8_AVX2
    *acc = (lf_lanes8)_mm256_fmadd_ps((__m256)*a, (__m256)*b, (__m256)*acc);
#else
    for (int i = 0; i < 8; i++)
        (*acc)[i] = fmaf((*a)[i], (*b)[i], (*acc)[i]);
#endif
}

// Eight float32 of any alignment.
static inline void lf_lanes8_load(lf_lanes8 *out, const void *x) {
    memcpy(out, x, sizeof *out);
}

// Eight bf16 of any alignment, widened.
static inline void lf_lanes8_load_bf16(lf_lanes8 *out, const void *x) {
#ifdef LF_LANES8_AVX2
    __m128i bits = _mm_loadu_si128(x);
    *out = (lf_lanes8)_mm256_slli_epi32(_mm256_cvtepu16_epi32(bits), 16);
#else
    typedef uint16_t halves __attribute__((vector_size(16)));
    typedef uint32_t words __attribute__((vector_size(32)));
    halves bits;
    memcpy(&bits, x, sizeof bits);
    *out = (lf_lanes8)(__builtin_convertvector(bits, words) << 16);
#endif
}
