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

// A block of k of outputs that follow each other by a group of rows.
struct few {
    const uint8_t *w; // the first output's block; `row` bytes on is the next one's
    size_t row;
    uint32_t outs, left; // left: outputs of the matrix from the first on, 0: nothing is fetched
    uint32_t steps;
    const float *x; // [part][step][element][row][VEC_LANES]
    float *acc;     // row r, output o at r * acc_row + o * LANES
    size_t x_part, acc_row;
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

// Outputs first .. of part p: weights, x and sums; FEW_EACH(FEW_STORE) ends what this begins.
#define FEW_BEGIN                                                                                  \
    const uint8_t *w[FEW_WIDTH];                                                                   \
    const float *x = f->x + p * f->x_part;                                                         \
    float *acc = f->acc + first * LANES + p * VEC_LANES;                                           \
    for (int o = 0; o < outs; o++)                                                                 \
        w[o] = f->w + at_most(first + (uint32_t)o, f->outs - 1) * f->row + p * VEC_BYTES;          \
    FEW_EACH(FEW_LOAD)

// A group of rows by some outputs, all parts. Alone, so that all sums stay in registers.
typedef void few_form(const struct few *f);
#define FEW_FORM(part, rows, width)                                                                \
    static __attribute__((noinline)) void part##_##rows(const struct few *f) {                     \
        for (uint32_t o = 0; o < f->outs; o += width(rows))                                        \
            for (uint32_t p = 0; p < VEC_PARTS; p++)                                               \
                part##_part(rows, f, o, p);                                                        \
    }
#define FEW_FORMS(part, width)                                                                     \
    FEW_FORM(part, 1, width)                                                                       \
    FEW_FORM(part, 2, width) FEW_FORM(part, 3, width) FEW_FORM(part, 4, width)

// Bytes to what comes into the first and the second cache while outputs first .. are multiplied.
struct few_ahead {
    size_t near, far;
};

INLINE struct few_ahead few_ahead(const struct few *f, const uint32_t outs, uint32_t first) {
    struct few_ahead a = {0};
    if (f->left >= first + 2 * outs)
        a.near = outs * f->row;
    if (f->left >= first + (FEW_FAR + 1) * outs)
        a.far = FEW_FAR * outs * f->row;
    return a;
}

// Lines far ahead come to the second cache, of which more can be on their way, then to the first.
INLINE void few_fetch(const uint8_t *const *w, struct few_ahead ahead, const int outs, uint32_t p,
                      size_t at) {
    for (int o = 0; o < outs; o++)
        if ((uint32_t)o % VEC_PARTS == p) {
            __builtin_prefetch(w[o] + ahead.far + at, 0, 2);
            __builtin_prefetch(w[o] + ahead.near + at);
        }
}
