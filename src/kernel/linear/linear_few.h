// Two to eight rows of FP8: an output's weights stay in registers for up to four rows.
#pragma once
#include "kernel/linear/linear_decode.h"
#include "kernel/linear/linear_plain.h"

enum { FEW_ROWS = 4, FEW_BLOCK = 1280 };

// A block of x for up to FEW_ROWS rows: [step][part][element][row][VEC_LANES].
struct few {
    const float *x;
    float *acc; // row r at r * acc_row
    size_t acc_row, ahead;
};

#define FEW_LOAD(r, part)                                                                          \
    vec_f32 sum##r##part = {0};                                                                    \
    if (rows > r)                                                                                  \
        sum##r##part = load_f32(f->acc + r * f->acc_row + part * VEC_LANES);
#define FEW_STORE(r, part)                                                                         \
    if (rows > r)                                                                                  \
        store_f32(f->acc + r * f->acc_row + part * VEC_LANES, sum##r##part);
#define FEW_EACH(act) EACH_PART(act, 0) EACH_PART(act, 1) EACH_PART(act, 2) EACH_PART(act, 3)
#define FEW_ROW(r, e, part)                                                                        \
    if (rows > r)                                                                                  \
        vec_fma_from(&sum##r##part, element[e],                                                    \
                     x + ((part * 4 + (e)) * rows + r) * VEC_LANES);
#define FEW_ELEMENT(e, part)                                                                       \
    FEW_ROW(0, e, part)                                                                            \
    FEW_ROW(1, e, part)                                                                            \
    FEW_ROW(2, e, part)                                                                            \
    FEW_ROW(3, e, part)
// The words of a part, elements ascending.
#define FEW_WORDS(unused, part)                                                                    \
    {                                                                                              \
        vec_u32 words = load_words(w + part * VEC_BYTES);                                          \
        vec_f32 element[4];                                                                        \
        seen = vec_max_u8(seen, (vec_u8)words + (vec_u8)words);                                    \
        split_e4m3(words, element);                                                                \
        FEW_ELEMENT(0, part)                                                                       \
        FEW_ELEMENT(1, part)                                                                       \
        FEW_ELEMENT(2, part)                                                                       \
        FEW_ELEMENT(3, part)                                                                       \
    }

// acc += one output's block; returns the greatest of twice each code. rows is a constant.
INLINE vec_u8 few_output(const int rows, const struct packed *p, const struct few *f) {
    const uint32_t steps = (p->bytes + STEP_BYTES - 1) / STEP_BYTES;
    const float *x = f->x;
    vec_u8 seen = {0};
    FEW_EACH(FEW_LOAD)
    for (uint32_t step = 0; step < steps; step++, x += 4 * rows * LANES) {
        uint8_t pad[STEP_BYTES];
        const uint8_t *w = step_bytes(p, step, pad);
        __builtin_prefetch(w + f->ahead);
        EACH_PART(FEW_WORDS, 0)
    }
    FEW_EACH(FEW_STORE)
    return seen;
}

// Alone, so that all sums stay in registers.
#define FEW_FORM(rows)                                                                             \
    static __attribute__((noinline)) bool few_##rows(const struct packed *p,                       \
                                                     const struct few *f) {                        \
        return !twice_has_nan(few_output(rows, p, f));                                             \
    }
FEW_FORM(1)
FEW_FORM(2)
FEW_FORM(3)
FEW_FORM(4)

// acc += the products of rows and the block p of an output; false where an e4m3 NaN was met.
static bool few_products(uint32_t rows, const struct packed *p, const struct few *f) {
    static bool (*const forms[FEW_ROWS])(const struct packed *, const struct few *) = {
        few_1, few_2, few_3, few_4};
    return forms[rows - 1](p, f);
}

// x of some rows times the scales of its blocks of 32 and 2^120; padding stays 0.
static void fold_scales(const uint8_t *scale, uint32_t blocks, uint32_t rows, const float *x,
                        float *folded) {
    const uint32_t bias = E4M3_BIAS;
    for (uint32_t b = 0; b < blocks; b += 2) {
        uint32_t first = scale[b] + bias, second = b + 1 < blocks ? scale[b + 1] + bias : 127;
        for (uint32_t p = 0; p < VEC_PARTS; p++) {
            vec_f32 factor = e4m3_factor(p, first, second);
            for (uint32_t i = 0; i < 4 * rows; i++, x += VEC_LANES, folded += VEC_LANES)
                store_f32(folded, load_f32(x) * factor);
        }
    }
}

// Whether x of that largest exponent times these scales and 2^120 is exact and finite.
static bool can_fold(const uint8_t *scale, uint32_t n, uint32_t exponent) {
    uint32_t high = 127 + 127 + 127 - E4M3_BIAS - 2 - exponent;
    return exponent > 0 && bytes_within(scale, n, SCALE_LOW, (uint8_t)at_most(high, 254 - 120));
}
