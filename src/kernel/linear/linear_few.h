// Two to eight rows of BF16 or FP8: words of some outputs are decoded in registers for a group.
#pragma once
#include "kernel/linear/linear_decode.h"
#include "kernel/linear/linear_plain.h"

enum {
    FEW_ROWS = 4,      // of a group
    FEW_WIDTH = 6,     // outputs side by side, at most
    FEW_OUTS = 96,     // of a task
    FEW_PADDED = 12,   // outputs have room for a multiple, of all numbers side by side
    FEW_FAR = 3,       // times as many outputs away is what comes to the second cache
    FEW_BLOCK = 1280,  // elements of a row that is one block
    FEW_BLOCKS = 1024, // of a block of a longer row, about
};

// One part of a block of k of some outputs by a group of rows.
struct few {
    const uint8_t *w[FEW_WIDTH]; // each output's block
    const float *x;              // [part][step][element][row][VEC_LANES]
    float *acc;                  // row r, output o at r * acc_row + o * LANES
    size_t x_part, acc_row;
    size_t near, far; // bytes to what comes into the first and the second cache meanwhile
    uint32_t steps;
    vec_u8 *seen; // FP8: the greatest of twice each code
    // FP8: x is yet to be multiplied by its blocks' scales, and goes on to what follows as folded.
    const uint8_t *scale;
    uint32_t scales;
    float *folded;
};

// Rows of a group: all groups have about as many.
static inline uint32_t few_rows(uint32_t rows) {
    uint32_t groups = (rows + FEW_ROWS - 1) / FEW_ROWS;
    return (rows + groups - 1) / groups;
}

// Named sums: compilers keep arrays of them in memory. rows and outs are constants.
#define FEW_OF_ROW(act, r) act(r, 0) act(r, 1) act(r, 2) act(r, 3) act(r, 4) act(r, 5)
#define FEW_EACH(act)                                                                              \
    FEW_OF_ROW(act, 0) FEW_OF_ROW(act, 1) FEW_OF_ROW(act, 2) FEW_OF_ROW(act, 3)
#define FEW_LOAD(r, o)                                                                             \
    vec_f32 sum##r##o = {0};                                                                       \
    if (rows > r && outs > o)                                                                      \
        sum##r##o = load_f32(acc + (r)*f->acc_row + (o)*LANES);
#define FEW_STORE(r, o)                                                                            \
    if (rows > r && outs > o)                                                                      \
        store_f32(acc + (r)*f->acc_row + (o)*LANES, sum##r##o);

// Part p's weights, x and sums; FEW_EACH(FEW_STORE) ends what this begins.
#define FEW_BEGIN                                                                                  \
    const uint8_t *w[FEW_WIDTH];                                                                   \
    const float *x = f->x + p * f->x_part;                                                         \
    float *acc = f->acc + p * VEC_LANES;                                                           \
    for (int o = 0; o < outs; o++)                                                                 \
        w[o] = f->w[o] + p * VEC_BYTES;                                                            \
    FEW_EACH(FEW_LOAD)

// A group of rows by some outputs, all parts. Alone, so that all sums stay in registers.
typedef void few_form(const struct few *f);
#define FEW_FORM(part, rows)                                                                       \
    static __attribute__((noinline)) void part##_##rows(const struct few *f) {                     \
        for (uint32_t p = 0; p < VEC_PARTS; p++)                                                   \
            part##_part(rows, f, p);                                                               \
    }
#define FEW_FORMS(part) FEW_FORM(part, 1) FEW_FORM(part, 2) FEW_FORM(part, 3) FEW_FORM(part, 4)

// Lines far ahead come to the second cache, of which more can be on their way, then to the first.
INLINE void few_fetch(const struct few *f, const int outs, uint32_t p, size_t at) {
    for (int o = 0; o < outs; o++)
        if ((uint32_t)o % VEC_PARTS == p) {
            __builtin_prefetch(f->w[o] + f->far + at, 0, 2);
            __builtin_prefetch(f->w[o] + f->near + at);
        }
}
