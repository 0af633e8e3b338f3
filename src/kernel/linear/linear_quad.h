// Two to eight rows of FP8: words of some outputs become pairs of bf16, elements in turn.
#pragma once
#include "kernel/linear/linear_few.h"

// Outputs side by side: beside their sums the registers hold their codes.
enum { QUAD_WIDTH = VEC_PARTS > 1 ? 2 : 4 };
#define QUAD_WIDTH_OF(rows) QUAD_WIDTH

#define QUAD_EACH(act, ...)                                                                        \
    act(0, __VA_ARGS__) act(1, __VA_ARGS__) act(2, __VA_ARGS__) act(3, __VA_ARGS__)
#define QUAD_CODES(o, unused)                                                                      \
    vec_u16 low##o = {0}, high##o = {0};                                                           \
    if (QUAD_WIDTH > o) {                                                                          \
        vec_u32 words = load_words(w[o] + at);                                                     \
        greatest = vec_max_u8(greatest, (vec_u8)words + (vec_u8)words);                            \
        split_codes(words, &low##o, &high##o);                                                     \
    }
#define QUAD_W(o, element, codes)                                                                  \
    vec_f32 w##o = {0};                                                                            \
    if (QUAD_WIDTH > o) {                                                                          \
        vec_keep(&codes##o);                                                                       \
        w##o = element((vec_u32)codes##o);                                                         \
    }
#define QUAD_FMA(o, r)                                                                             \
    if (QUAD_WIDTH > o)                                                                            \
        vec_fma_to(&sum##r##o, w##o, x##r);
#define QUAD_ROW(r)                                                                                \
    if (rows > r) {                                                                                \
        vec_f32 x##r = load_f32(x + (r)*VEC_LANES);                                                \
        if (folds) {                                                                               \
            x##r *= load_f32(factor);                                                              \
            store_f32(folded + (r)*VEC_LANES, x##r);                                               \
        }                                                                                          \
        QUAD_EACH(QUAD_FMA, r)                                                                     \
    }
#define QUAD_ELEMENT(element, codes)                                                               \
    {                                                                                              \
        QUAD_EACH(QUAD_W, element, codes)                                                          \
        QUAD_ROW(0) QUAD_ROW(1) QUAD_ROW(2) QUAD_ROW(3)                                            \
        x += rows * VEC_LANES;                                                                     \
        folded += folds ? rows * VEC_LANES : 0;                                                    \
    }

// acc += part p of outputs first ..; rows is a constant. What folds stores its x for the others.
INLINE void quad_steps(const bool folds, const int rows, const struct few *f, uint32_t first,
                       uint32_t p) {
    const int outs = QUAD_WIDTH;
    struct few_ahead ahead = few_ahead(f, (uint32_t)outs, first);
    float *folded = folds ? f->folded + p * f->x_part : NULL;
    float factor[VEC_LANES];
    FEW_BEGIN
    for (size_t at = 0; at < f->steps * (size_t)STEP_BYTES; at += STEP_BYTES) {
        few_fetch(w, ahead, outs, p, at);
        if (folds) {
            // In memory: all registers are taken.
            uint32_t block = 2 * (uint32_t)(at / STEP_BYTES);
            store_f32(factor, fold_factor(f->scale, f->scales, p, block));
            vec_read_again();
        }
        vec_u8 greatest = *f->seen;
        QUAD_EACH(QUAD_CODES, )
        *f->seen = greatest;
        QUAD_ELEMENT(first_of_pair, low)
        QUAD_ELEMENT(first_of_pair, high)
        QUAD_ELEMENT(second_of_pair, low)
        QUAD_ELEMENT(second_of_pair, high)
    }
    FEW_EACH(FEW_STORE)
}
INLINE void quad_part(const int rows, const struct few *f, uint32_t first, uint32_t p) {
    quad_steps(false, rows, f, first, p);
}
INLINE void fold_part(const int rows, const struct few *f, uint32_t first, uint32_t p) {
    quad_steps(true, rows, f, first, p);
}
FEW_FORMS(quad, QUAD_WIDTH_OF)
FEW_FORMS(fold, QUAD_WIDTH_OF)

// Whether x of that largest exponent times these scales and 2^120 is exact and finite.
static bool can_fold(const uint8_t *scale, uint32_t n, uint32_t exponent) {
    uint32_t high = 127 + 127 + 127 - E4M3_BIAS - 2 - exponent;
    return exponent > 0 && bytes_within(scale, n, SCALE_LOW, (uint8_t)at_most(high, 254 - 120));
}
