// Two to eight rows of BF16: each word is read for its first element and again for its second.
#pragma once
#include "kernel/linear/linear_few.h"

// Outputs side by side: as many as a set's registers hold sums for.
enum { PAIR_SUMS = VEC_PARTS > 1 ? 12 : 16 };
static inline uint32_t pair_width(uint32_t rows) {
    return at_most(PAIR_SUMS / rows, FEW_WIDTH);
}

#define PAIR_FMA(r, o)                                                                             \
    if (rows > r && outs > o)                                                                      \
        vec_fma_to(&sum##r##o, w##o, x##r);
#define PAIR_X(r) vec_f32 x##r = rows > r ? load_f32(x + (r)*VEC_LANES) : (vec_f32){0};
#define PAIR_W(o, element)                                                                         \
    vec_f32 w##o = outs > o ? element(load_words(w[o] + at)) : (vec_f32){0};
#define PAIR_OUT(o, element)                                                                       \
    {                                                                                              \
        PAIR_W(o, element)                                                                         \
        PAIR_FMA(0, o) PAIR_FMA(1, o) PAIR_FMA(2, o) PAIR_FMA(3, o)                                \
    }
#define PAIR_ROW(r)                                                                                \
    {                                                                                              \
        PAIR_X(r)                                                                                  \
        FEW_OF_ROW(PAIR_FMA, r)                                                                    \
    }
// An element of all words; rows or outputs stay in registers, whichever are fewer.
#define PAIR_ELEMENT(element)                                                                      \
    if (rows > outs) {                                                                             \
        PAIR_W(0, element) PAIR_W(1, element) PAIR_W(2, element)                                   \
        PAIR_W(3, element) PAIR_W(4, element) PAIR_W(5, element)                                   \
        PAIR_ROW(0) PAIR_ROW(1) PAIR_ROW(2) PAIR_ROW(3)                                            \
    } else {                                                                                       \
        PAIR_X(0) PAIR_X(1) PAIR_X(2) PAIR_X(3)                                                    \
        PAIR_OUT(0, element) PAIR_OUT(1, element) PAIR_OUT(2, element)                             \
        PAIR_OUT(3, element) PAIR_OUT(4, element) PAIR_OUT(5, element)                             \
    }                                                                                              \
    x += rows * VEC_LANES;

// acc += part p; rows and outs are constants where this is inlined.
INLINE void pair_part(const int rows, const int outs, const struct few *f, uint32_t p) {
    const uint8_t *w[FEW_WIDTH];
    const float *x = f->x + p * f->x_part;
    float *acc = f->acc + p * VEC_LANES;
    for (int o = 0; o < outs; o++)
        w[o] = f->w[o] + p * VEC_BYTES;
    FEW_EACH(FEW_LOAD)
    for (size_t at = 0; at < f->steps * (size_t)STEP_BYTES; at += STEP_BYTES) {
        few_fetch(f, outs, p, at);
        PAIR_ELEMENT(first_of_pair)
        vec_read_again();
        PAIR_ELEMENT(second_of_pair)
    }
    FEW_EACH(FEW_STORE)
}

// Alone, so that all sums stay in registers.
#define PAIR_FORM(rows)                                                                            \
    static __attribute__((noinline)) void pair_##rows(const struct few *f) {                       \
        for (uint32_t p = 0; p < VEC_PARTS; p++)                                                   \
            pair_part(rows, (int)at_most(PAIR_SUMS / rows, FEW_WIDTH), f, p);                      \
    }
PAIR_FORM(1)
PAIR_FORM(2)
PAIR_FORM(3)
PAIR_FORM(4)
