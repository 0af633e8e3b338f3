// Vectors of a set's width: a part of the 16 partials, and the few operations C does not have.
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#if defined(__AVX2__)
#include <immintrin.h>
#elif defined(LF_NEON)
#include <arm_neon.h>
#endif

#define INLINE static inline __attribute__((always_inline))

#if defined(__AVX512F__)
enum { VEC_BYTES = 64 };
#define VEC_EVENS 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30
#define VEC_ODDS 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31
#define VEC_SWAP_1 1, 0, 3, 2, 5, 4, 7, 6, 9, 8, 11, 10, 13, 12, 15, 14
#define VEC_SWAP_2 2, 3, 0, 1, 6, 7, 4, 5, 10, 11, 8, 9, 14, 15, 12, 13
#define EACH_PART(act, i) act(i, 0)
#elif defined(__AVX2__)
enum { VEC_BYTES = 32 };
#define VEC_EVENS 0, 2, 4, 6, 8, 10, 12, 14
#define VEC_ODDS 1, 3, 5, 7, 9, 11, 13, 15
#define VEC_SWAP_1 1, 0, 3, 2, 5, 4, 7, 6
#define VEC_SWAP_2 2, 3, 0, 1, 6, 7, 4, 5
#define EACH_PART(act, i) act(i, 0) act(i, 1)
#else
enum { VEC_BYTES = 16 };
#define VEC_EVENS 0, 2, 4, 6
#define VEC_ODDS 1, 3, 5, 7
#define VEC_SWAP_1 1, 0, 3, 2
#define VEC_SWAP_2 2, 3, 0, 1
#define EACH_PART(act, i) act(i, 0) act(i, 1) act(i, 2) act(i, 3)
#endif

typedef float vec_f32 __attribute__((vector_size(VEC_BYTES)));
typedef float vec_f32_at __attribute__((vector_size(VEC_BYTES), aligned(4), may_alias));
typedef uint32_t vec_u32 __attribute__((vector_size(VEC_BYTES)));
typedef int32_t vec_i32 __attribute__((vector_size(VEC_BYTES)));
typedef uint16_t vec_u16 __attribute__((vector_size(VEC_BYTES)));
typedef int16_t vec_i16 __attribute__((vector_size(VEC_BYTES)));
typedef uint8_t vec_u8 __attribute__((vector_size(VEC_BYTES)));
typedef uint16_t vec_half_u16 __attribute__((vector_size(VEC_BYTES / 2)));

enum {
    VEC_LANES = VEC_BYTES / 4,
    VEC_PARTS = 16 / VEC_LANES, // vectors that hold the 16 partials
};

INLINE vec_u32 all_words(uint32_t x) {
    return x - (vec_u32){0};
}

INLINE vec_f32 all_f32(float x) {
    return x - (vec_f32){0};
}

// a * b + c, rounded once a lane.
INLINE vec_f32 vec_fma(vec_f32 a, vec_f32 b, vec_f32 c) {
#if defined(__AVX512F__)
    return (vec_f32)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c);
#elif defined(__AVX2__)
    return (vec_f32)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
#else
    return (vec_f32)vfmaq_f32((float32x4_t)c, (float32x4_t)a, (float32x4_t)b);
#endif
}

// sum += a * b in place: left to itself the compiler copies sums about and spills them.
INLINE void vec_fma_to(vec_f32 *sum, vec_f32 a, vec_f32 b) {
#if defined(__AVX512F__)
    __asm__("vfmadd231ps %2, %1, %0" : "+v"(*sum) : "v"(a), "v"(b));
#elif defined(__AVX2__)
    __asm__("vfmadd231ps %2, %1, %0" : "+x"(*sum) : "x"(a), "x"(b));
#else
    *sum = vec_fma(a, b, *sum);
#endif
}

// The same with b straight from memory; one constraint for both would make clang spill every b.
INLINE void vec_fma_from(vec_f32 *sum, vec_f32 a, const float *b) {
#if defined(__AVX512F__)
    __asm__("vfmadd231ps %2, %1, %0" : "+v"(*sum) : "v"(a), "m"(*(const vec_f32_at *)b));
#elif defined(__AVX2__)
    __asm__("vfmadd231ps %2, %1, %0" : "+x"(*sum) : "x"(a), "m"(*(const vec_f32_at *)b));
#else
    vec_f32 v;
    memcpy(&v, b, sizeof v);
    *sum = vec_fma(a, v, *sum);
#endif
}

// What is read before and after comes from memory twice: a compiler would keep it and spill sums.
INLINE void vec_read_again(void) {
    __asm__ volatile("" ::: "memory");
}

// What follows of v is not made before.
INLINE void vec_keep(vec_u16 *v) {
#if defined(__AVX512F__)
    __asm__ volatile("" : "+v"(*v));
#elif defined(__AVX2__)
    __asm__ volatile("" : "+x"(*v));
#else
    __asm__ volatile("" : "+w"(*v));
#endif
}

INLINE vec_u8 vec_max_u8(vec_u8 a, vec_u8 b) {
#if defined(__AVX512F__)
    return (vec_u8)_mm512_max_epu8((__m512i)a, (__m512i)b);
#elif defined(__AVX2__)
    return (vec_u8)_mm256_max_epu8((__m256i)a, (__m256i)b);
#else
    return (vec_u8)vmaxq_u8((uint8x16_t)a, (uint8x16_t)b);
#endif
}

INLINE vec_i32 vec_max_i32(vec_i32 a, vec_i32 b) {
#if defined(__AVX512F__)
    return (vec_i32)_mm512_max_epi32((__m512i)a, (__m512i)b);
#elif defined(__AVX2__)
    return (vec_i32)_mm256_max_epi32((__m256i)a, (__m256i)b);
#else
    return (vec_i32)vmaxq_s32((int32x4_t)a, (int32x4_t)b);
#endif
}

// Sums of two products of neighbouring 16-bit numbers.
INLINE vec_i32 vec_pair_products(vec_i16 a, vec_i16 b) {
#if defined(__AVX512F__)
    return (vec_i32)_mm512_madd_epi16((__m512i)a, (__m512i)b);
#elif defined(__AVX2__)
    return (vec_i32)_mm256_madd_epi16((__m256i)a, (__m256i)b);
#else
    int16x8_t x = (int16x8_t)a, y = (int16x8_t)b;
    return (vec_i32)vpaddq_s32(vmull_s16(vget_low_s16(x), vget_low_s16(y)), vmull_high_s16(x, y));
#endif
}

// The same added to a sum.
INLINE vec_i32 vec_pair_products_to(vec_i32 sum, vec_i16 a, vec_i16 b) {
#if defined(__AVX512VNNI__)
    return (vec_i32)_mm512_dpwssd_epi32((__m512i)sum, (__m512i)a, (__m512i)b);
#else
    return sum + vec_pair_products(a, b);
#endif
}

// Sums of two products of neighbouring bytes, a without a sign and at most 127; none past 16 bits.
INLINE vec_i16 vec_byte_products(vec_u8 a, vec_u8 b) {
#if defined(__AVX512F__)
    return (vec_i16)_mm512_maddubs_epi16((__m512i)a, (__m512i)b);
#elif defined(__AVX2__)
    return (vec_i16)_mm256_maddubs_epi16((__m256i)a, (__m256i)b);
#else
    int8x16_t x = (int8x16_t)a, y = (int8x16_t)b;
    return (vec_i16)vpaddq_s16(vmull_s8(vget_low_s8(x), vget_low_s8(y)), vmull_high_s8(x, y));
#endif
}

// Sums of four such products, and of four of a second pair, times factor.
INLINE vec_i32 vec_byte_sums(vec_u8 a, vec_u8 b, vec_u8 c, vec_u8 d, const int factor) {
#if defined(__AVX512VNNI__)
    __m512i sum = _mm512_dpbusd_epi32(_mm512_setzero_si512(), (__m512i)a, (__m512i)b);
    return (vec_i32)_mm512_dpbusd_epi32(sum, (__m512i)c, (__m512i)d) * factor;
#else
    vec_i16 pairs = vec_byte_products(a, b) + vec_byte_products(c, d);
    return vec_pair_products(pairs, (vec_i16)all_words((uint32_t)factor * 0x00010001u));
#endif
}

// Byte i is byte index[i] of the table's 16, repeated in every 16 bytes; 0 for index 255.
INLINE vec_u8 vec_pick(vec_u8 table, vec_u8 index) {
#if defined(__AVX512F__)
    return (vec_u8)_mm512_shuffle_epi8((__m512i)table, (__m512i)index);
#elif defined(__AVX2__)
    return (vec_u8)_mm256_shuffle_epi8((__m256i)table, (__m256i)index);
#else
    return (vec_u8)vqtbl1q_u8((uint8x16_t)table, (uint8x16_t)index);
#endif
}

// Loads and stores of any alignment.
INLINE vec_f32 load_f32(const float *p) {
    vec_f32 v;
    memcpy(&v, p, sizeof v);
    return v;
}

INLINE vec_u32 load_words(const void *p) {
    vec_u32 v;
    memcpy(&v, p, sizeof v);
    return v;
}

// Each of VEC_LANES bytes as a word.
INLINE vec_u32 vec_from_bytes(const uint8_t *p) {
#if defined(__AVX512F__)
    return (vec_u32)_mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)(const void *)p));
#elif defined(__AVX2__)
    return (vec_u32)_mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)p));
#else
    uint32_t four;
    memcpy(&four, p, sizeof four);
    return (vec_u32)vmovl_u16(vget_low_u16(vmovl_u8(vcreate_u8(four))));
#endif
}

// Each of VEC_LANES / 4 numbers four times.
INLINE vec_f32 vec_by_fours(const float *p) {
#if defined(__AVX512F__)
    const __m512i lane = _mm512_set_epi32(3, 3, 3, 3, 2, 2, 2, 2, 1, 1, 1, 1, 0, 0, 0, 0);
    return (vec_f32)_mm512_permutevar_ps(_mm512_broadcast_f32x4(_mm_loadu_ps(p)), lane);
#elif defined(__AVX2__)
    const __m256i lane = _mm256_set_epi32(1, 1, 1, 1, 0, 0, 0, 0);
    double two;
    memcpy(&two, p, sizeof two);
    return (vec_f32)_mm256_permutevar_ps((__m256)_mm256_set1_pd(two), lane);
#else
    return all_f32(*p);
#endif
}

INLINE vec_i16 load_i16(const int16_t *p) {
    vec_i16 v;
    memcpy(&v, p, sizeof v);
    return v;
}

INLINE vec_u8 load_u8(const uint8_t *p) {
    vec_u8 v;
    memcpy(&v, p, sizeof v);
    return v;
}

INLINE void store_f32(float *p, vec_f32 v) {
    memcpy(p, &v, sizeof v);
}

INLINE void store_words(void *p, vec_i32 v) {
    memcpy(p, &v, sizeof v);
}

// 16 bytes in every 16 of the vector.
INLINE vec_u8 all_16(const void *p) {
    vec_u8 v;
    for (uint32_t i = 0; i < VEC_BYTES; i += 16)
        memcpy((uint8_t *)&v + i, p, 16);
    return v;
}

// Whether a bit is set anywhere.
INLINE bool vec_any(vec_u32 v) {
#if defined(__AVX512F__)
    return _mm512_test_epi32_mask((__m512i)v, (__m512i)v) != 0;
#elif defined(__AVX2__)
    return !_mm256_testz_si256((__m256i)v, (__m256i)v);
#else
    return vmaxvq_u32((uint32x4_t)v) != 0;
#endif
}
