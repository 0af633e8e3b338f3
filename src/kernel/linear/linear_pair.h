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

// acc += part p of outputs first ..; rows is a constant where this is inlined.
INLINE void pair_part(const int rows, const struct few *f, uint32_t first, uint32_t p) {
    const int outs = (int)pair_width((uint32_t)rows);
    struct few_ahead ahead = few_ahead(f, (uint32_t)outs, first);
    FEW_BEGIN
    for (size_t at = 0; at < f->steps * (size_t)STEP_BYTES; at += STEP_BYTES) {
        few_fetch(w, ahead, outs, p, at);
        PAIR_ELEMENT(first_of_pair)
        vec_read_again();
        PAIR_ELEMENT(second_of_pair)
    }
    FEW_EACH(FEW_STORE)
}
FEW_FORMS(pair, pair_width)
