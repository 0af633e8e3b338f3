// The tiles in AVX2: up to 4 rows by 3 outputs, the lower and the upper 8 partials in turn.
#pragma once
#include <immintrin.h>
#include "kernel/linear/linear_tile.h"

#define ALWAYS_INLINE static inline __attribute__((always_inline))

// Named accumulators: compilers keep arrays of them in memory.
#define EACH_OUT(row, act) act(row, 0) act(row, 1) act(row, 2)
#define EACH_ROW(act)                                                                              \
    EACH_OUT(0, act) if (rows > 1) {                                                               \
        EACH_OUT(1, act)                                                                           \
    }                                                                                              \
    if (rows > 2) {                                                                                \
        EACH_OUT(2, act)                                                                           \
    }                                                                                              \
    if (rows > 3) {                                                                                \
        EACH_OUT(3, act)                                                                           \
    }
#define ACC(r, o) a##r##o
#define ACC_AT(r, o) (acc + (r) * acc_row + (o) * LANES)
#define LOAD(r, o) ACC(r, o) = _mm256_loadu_ps(ACC_AT(r, o));
#define STORE(r, o) _mm256_storeu_ps(ACC_AT(r, o), ACC(r, o));
#define FMA_ROW(r)                                                                                 \
    {                                                                                              \
        __m256 xr = _mm256_loadu_ps(x + (r) * K_BLOCK + at);                                       \
        ACC(r, 0) = _mm256_fmadd_ps(w0, xr, ACC(r, 0));                                            \
        ACC(r, 1) = _mm256_fmadd_ps(w1, xr, ACC(r, 1));                                            \
        ACC(r, 2) = _mm256_fmadd_ps(w2, xr, ACC(r, 2));                                            \
    }

// One half of the partials; rows is a constant where this is inlined.
ALWAYS_INLINE void products_half(const int rows, const float *w, const float *x, float *acc,
                                 size_t acc_row, size_t vectors) {
    __m256 a00, a01, a02, a10, a11, a12, a20, a21, a22, a30, a31, a32;
    a10 = a11 = a12 = a20 = a21 = a22 = a30 = a31 = a32 = _mm256_setzero_ps();
    EACH_ROW(LOAD)
    for (size_t at = 0; at < vectors * LANES; at += LANES) {
        __m256 w0 = _mm256_loadu_ps(w + at), w1 = _mm256_loadu_ps(w + K_BLOCK + at),
               w2 = _mm256_loadu_ps(w + 2 * K_BLOCK + at);
        FMA_ROW(0)
        if (rows > 1)
            FMA_ROW(1)
        if (rows > 2)
            FMA_ROW(2)
        if (rows > 3)
            FMA_ROW(3)
    }
    EACH_ROW(STORE)
}

ALWAYS_INLINE void products_rows(const int rows, const struct tile *t) {
    for (uint32_t half = 0; half < LANES; half += 8)
        products_half(rows, t->w + half, t->x + half, t->acc + half, t->acc_row, t->vectors);
}

static void tile_products(const struct tile *t) {
    if (t->rows == 4)
        products_rows(4, t);
    else if (t->rows == 3)
        products_rows(3, t);
    else if (t->rows == 2)
        products_rows(2, t);
    else
        products_rows(1, t);
}

// Loaded once: compilers otherwise read memory again in every use.
static inline __m256 load_once(const float *p) {
    __m256 v = _mm256_loadu_ps(p);
    __asm__("" : "+x"(v));
    return v;
}

// Elements first .. first+3 of a word as chains; one register of w at a time leaves room for all.
#define CHAIN_OUT(name, e, o)                                                                      \
    {                                                                                              \
        __m256 wo = load_once(w + (o) * K_BLOCK + at + (e) * LANES);                               \
        name##0##o = (e) % 4 ? _mm256_fmadd_ps(wo, x0, name##0##o) : _mm256_mul_ps(wo, x0);        \
        if (rows > 1)                                                                              \
            name##1##o = (e) % 4 ? _mm256_fmadd_ps(wo, x1, name##1##o) : _mm256_mul_ps(wo, x1);    \
    }
#define CHAIN_ELEMENT(name, e)                                                                     \
    x0 = load_once(x + at + (e) * LANES);                                                          \
    if (rows > 1)                                                                                  \
        x1 = load_once(x + K_BLOCK + at + (e) * LANES);                                            \
    CHAIN_OUT(name, e, 0)                                                                          \
    CHAIN_OUT(name, e, 1)                                                                          \
    CHAIN_OUT(name, e, 2)
#define CHAIN(name, first)                                                                         \
    CHAIN_ELEMENT(name, first)                                                                     \
    CHAIN_ELEMENT(name, (first) + 1)                                                               \
    CHAIN_ELEMENT(name, (first) + 2)                                                               \
    CHAIN_ELEMENT(name, (first) + 3)
// The scale is in the weights already: adding t is the fused multiply-add of t and the scale.
#define ADD_WORD(r, o)                                                                             \
    _mm256_storeu_ps(ACC_AT(r, o), _mm256_add_ps(_mm256_loadu_ps(ACC_AT(r, o)),                    \
                                                 _mm256_add_ps(l##r##o, h##r##o)));

ALWAYS_INLINE void folded_half(const int rows, const float *w, const float *x, float *acc,
                               size_t acc_row, size_t vectors) {
    __m256 x0, x1, l00, l01, l02, l10, l11, l12, h00, h01, h02, h10, h11, h12;
    x1 = l10 = l11 = l12 = h10 = h11 = h12 = _mm256_setzero_ps();
    for (size_t at = 0; at < vectors * LANES; at += 8 * LANES) {
        CHAIN(l, 0)
        CHAIN(h, 4)
        EACH_OUT(0, ADD_WORD)
        if (rows > 1) {
            EACH_OUT(1, ADD_WORD)
        }
    }
}

static void tile_folded(const struct tile *t) {
    for (uint32_t half = 0; half < LANES; half += 8)
        for (uint32_t r = 0; r < t->rows; r += 2) {
            const float *x = t->x + r * K_BLOCK + half;
            float *acc = t->acc + r * t->acc_row + half;
            if (r + 1 < t->rows)
                folded_half(2, t->w + half, x, acc, t->acc_row, t->vectors);
            else
                folded_half(1, t->w + half, x, acc, t->acc_row, t->vectors);
        }
}
