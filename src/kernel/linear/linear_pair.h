// Two to eight rows of BF16: words of two outputs are split in registers for up to four rows.
#pragma once
#include "kernel/linear/linear_order.h"

enum { PAIR_ROWS = 4, PAIR_OUTS = 2, PAIR_BLOCK = 1024 };

// Some steps of a block of k.
struct pair {
    const uint8_t *w[PAIR_OUTS];
    const float *x; // [part][step][element][row][VEC_LANES]
    size_t x_part;  // floats from one part to the next
    float *acc;     // row r, output o at r * acc_row + o * LANES
    size_t acc_row, ahead; // ahead: bytes to what is fetched meanwhile
    uint32_t steps;
};

// Named sums: compilers keep arrays of them in memory.
#define PAIR_EACH(act)                                                                             \
    act(0, 0) act(0, 1) act(1, 0) act(1, 1) act(2, 0) act(2, 1) act(3, 0) act(3, 1)
#define PAIR_LOAD(r, o)                                                                            \
    vec_f32 sum##r##o = {0};                                                                       \
    if (rows > r)                                                                                  \
        sum##r##o = load_f32(acc + (r)*f->acc_row + (o)*LANES);
#define PAIR_STORE(r, o)                                                                           \
    if (rows > r)                                                                                  \
        store_f32(acc + (r)*f->acc_row + (o)*LANES, sum##r##o);
#define PAIR_ROW(r, w0, w1)                                                                        \
    if (rows > r) {                                                                                \
        vec_f32 xr = load_f32(x + (r)*VEC_LANES);                                                  \
        vec_fma_to(&sum##r##0, w0, xr);                                                            \
        vec_fma_to(&sum##r##1, w1, xr);                                                            \
    }
// The next element of all rows.
#define PAIR_ELEMENT(w0, w1)                                                                       \
    PAIR_ROW(0, w0, w1)                                                                            \
    PAIR_ROW(1, w0, w1)                                                                            \
    PAIR_ROW(2, w0, w1)                                                                            \
    PAIR_ROW(3, w0, w1)                                                                            \
    x += rows * VEC_LANES;

// acc += one part of two outputs; rows is a constant where this is inlined.
INLINE void pair_part(const int rows, const struct pair *f, uint32_t p) {
    const uint8_t *first = f->w[0] + p * VEC_BYTES, *second = f->w[1] + p * VEC_BYTES;
    // A part of several fetches the lines of one output.
    const uint8_t *ahead = f->w[p % PAIR_OUTS] + f->ahead;
    const float *x = f->x + p * f->x_part;
    float *acc = f->acc + p * VEC_LANES;
    PAIR_EACH(PAIR_LOAD)
    for (size_t at = 0; at < f->steps * (size_t)STEP_BYTES; at += STEP_BYTES) {
        vec_f32 even0, odd0, even1, odd1;
        __builtin_prefetch(ahead + at);
        if (VEC_PARTS == 1)
            __builtin_prefetch(second + f->ahead + at);
        split_pairs(load_words(first + at), &even0, &odd0);
        split_pairs(load_words(second + at), &even1, &odd1);
        PAIR_ELEMENT(even0, even1)
        PAIR_ELEMENT(odd0, odd1)
    }
    PAIR_EACH(PAIR_STORE)
}

// Alone, so that all sums stay in registers.
#define PAIR_FORM(rows)                                                                            \
    static __attribute__((noinline)) void pair_##rows(const struct pair *f) {                      \
        for (uint32_t p = 0; p < VEC_PARTS; p++)                                                   \
            pair_part(rows, f, p);                                                                 \
    }
PAIR_FORM(1)
PAIR_FORM(2)
PAIR_FORM(3)
PAIR_FORM(4)

// acc += the products of rows and the block p of two outputs; f has x, acc and ahead.
static void pair_products(uint32_t rows, const struct packed p[PAIR_OUTS], const struct pair *f) {
    static void (*const forms[PAIR_ROWS])(const struct pair *) = {pair_1, pair_2, pair_3, pair_4};
    uint32_t full = p->bytes / STEP_BYTES, steps = (p->bytes + STEP_BYTES - 1) / STEP_BYTES;
    struct pair t = *f;
    t.x_part = steps * (size_t)(2 * rows * VEC_LANES), t.steps = full;
    t.w[0] = p[0].data, t.w[1] = p[1].data;
    forms[rows - 1](&t);
    if (full == steps)
        return;
    uint8_t pad[PAIR_OUTS][STEP_BYTES];
    for (uint32_t i = 0; i < PAIR_OUTS; i++)
        t.w[i] = step_bytes(&p[i], full, pad[i]);
    t.x += full * (size_t)(2 * rows * VEC_LANES), t.steps = 1, t.ahead = 0;
    forms[rows - 1](&t);
}
