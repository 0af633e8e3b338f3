// MXFP4 in integers: a word's sum of 8 products is exact in int32 and rounded once to float32.
#pragma once
#include "kernel/linear/linear_order.h"

// x = (8 high + low) 2^(unit - 3), unit of its block of 32: high has 16 bits, low 3, mostly zero.
enum {
    DIGIT_ROWS = VEC_PARTS > 1 ? 4 : 8, // as many as a set's registers hold sums for
    DIGIT_BLOCK = 8192, // elements of all rows, whose digits stay in the first cache
    DIGIT_STEP = 128,   // elements of 16 words
    UNIT_LOW = -60,     // units and scales whose products with any sum stay normal
    UNIT_HIGH = 40,
    FP4_SCALE_LOW = 127 - 60,
    FP4_SCALE_HIGH = 127 + 80,
    DIGIT_AHEAD = 2048, // bytes, about, to the rows that come into the first cache meanwhile
    DIGIT_FAR_AHEAD = 3, // times as far is what comes into the second
    DIGIT_NEAR = 2048,   // a single row's weights come as one stream, into both
    DIGIT_FAR = 32768,
    PAGES_BYTES = 1 << 15,
    FP4_BITS = 9,       // a weight comes as value * 2^9: e2m1 in halves in the upper byte
};

// Rows of a block of x: [part][step][row] of four vectors (elements 0 4, 2 6, 1 5, 3 7 of a word).
struct digits {
    int16_t *high, *low; // of a single row bytes, [step][part]
    uint32_t *unit;      // unit - 9 in a float's exponent, VEC_LANES each; of a single row [block]
    uint8_t *has_low;    // [part][step]: bit r where row r has low digits; of a single row [step]
    uint32_t rows, steps;
};

// Of a single row: a part's upper and lower digits in bytes, even and odd, and the sums' offset.
enum { ROW_PART_BYTES = 5 * VEC_BYTES, ROW_LOW_BYTES = 3 * VEC_BYTES, ROW_BLOCKS = 4 };

static inline size_t digits_bytes(uint32_t rows, uint32_t steps) {
    size_t bytes = (size_t)rows * steps * (DIGIT_STEP * 4 + LANES * 4) + VEC_PARTS * steps;
    bytes += rows == 1 ? (size_t)steps * ROW_BLOCKS * 4 : 0;
    return (bytes + 63) / 64 * 64;
}

static inline struct digits digits_at(void *memory, uint32_t rows, uint32_t steps) {
    struct digits d = {.rows = rows, .steps = steps, .high = memory};
    size_t digits = (size_t)rows * steps * DIGIT_STEP, units = (size_t)rows * steps * LANES;
    size_t row = (size_t)steps * VEC_PARTS * ROW_PART_BYTES / sizeof *d.high;
    d.low = d.high + (rows == 1 ? row : digits);
    d.unit = (uint32_t *)(void *)(d.low + digits);
    d.has_low = (uint8_t *)(d.unit + (rows == 1 ? (size_t)steps * ROW_BLOCKS : units));
    return d;
}

// The greatest magnitude of each block of 32, four words, in all its lanes.
INLINE vec_i32 block_greatest(const vec_f32 part[8]) {
    vec_i32 most = (vec_i32)part[0] & 0x7FFFFFFF;
    for (int e = 1; e < 8; e++)
        most = vec_max_i32(most, (vec_i32)part[e] & 0x7FFFFFFF);
    most = vec_max_i32(most, __builtin_shufflevector(most, most, VEC_SWAP_1));
    return vec_max_i32(most, __builtin_shufflevector(most, most, VEC_SWAP_2));
}

// x as integers of 18 bits in pairs of elements: 0 4, 2 6, 1 5, 3 7 of a word.
struct pairs {
    vec_i32 first[4], second[4], bad;
    vec_i32 unit; // unit - FP4_BITS
};

INLINE struct pairs pairs_of(const uint16_t *x) {
    static const int element[4] = {0, 2, 1, 3};
    struct pairs q;
    vec_f32 part[8];
    order_part(8, x, part);
    vec_i32 most = block_greatest(part), exponent = most >> 23, zero = most == 0;
    q.bad = (exponent < UNIT_LOW + 14 + 127) & ~zero;
    exponent = (exponent & ~zero) | (127 & zero);
    q.bad |= exponent > UNIT_HIGH + 14 + 127;
    // A block below 2^(e+1) has the unit 2^(e-14).
    vec_f32 factor = (vec_f32)((127 + 17 + 127 - exponent) << 23);
    q.unit = exponent - 127 - 14 - FP4_BITS;
    for (int i = 0; i < 4; i++) {
        vec_f32 a = part[element[i]] * factor, b = part[element[i] + 4] * factor;
        q.first[i] = __builtin_convertvector(a, vec_i32);
        q.second[i] = __builtin_convertvector(b, vec_i32);
        q.bad |= __builtin_convertvector(q.first[i], vec_f32) != a;
        q.bad |= __builtin_convertvector(q.second[i], vec_f32) != b;
    }
    return q;
}

// 2 e2m1 of each nibble, and the four scale bytes each into the top byte of four words.
static const int8_t fp4_halves[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};
static const uint8_t fp4_scale_bytes[64] = {
    255, 255, 255, 0, 255, 255, 255, 0, 255, 255, 255, 0, 255, 255, 255, 0,
    255, 255, 255, 1, 255, 255, 255, 1, 255, 255, 255, 1, 255, 255, 255, 1,
    255, 255, 255, 2, 255, 255, 255, 2, 255, 255, 255, 2, 255, 255, 255, 2,
    255, 255, 255, 3, 255, 255, 255, 3, 255, 255, 255, 3, 255, 255, 255, 3};

// Weights of VEC_LANES words as value * 2^9, in the order of the digits.
struct fp4 {
    vec_i16 w[4];
};

// The weights of even and odd elements by the table.
INLINE void fp4_pick(const uint8_t *packed, const void *table, vec_u8 *even, vec_u8 *odd) {
    const vec_u8 values = all_16(table), nibble = (vec_u8)all_words(0x0F0F0F0Fu);
    vec_u8 codes = (vec_u8)load_words(packed);
    *even = vec_pick(values, codes & nibble);
    *odd = vec_pick(values, (vec_u8)((vec_u16)codes >> 4) & nibble);
}

INLINE struct fp4 fp4_at(const uint8_t *packed) {
    const vec_i16 upper = (vec_i16)all_words(0xFF00FF00u);
    vec_u8 bytes[2];
    fp4_pick(packed, fp4_halves, &bytes[0], &bytes[1]);
    vec_i16 even = (vec_i16)bytes[0], odd = (vec_i16)bytes[1];
    return (struct fp4){{(vec_i16)((vec_u16)even << 8), even & upper,
                         (vec_i16)((vec_u16)odd << 8), odd & upper}};
}

INLINE vec_i32 digit_sum(struct fp4 a, const int16_t *x) {
    vec_i32 sum = vec_pair_products(a.w[0], load_i16(x));
    sum = vec_pair_products_to(sum, a.w[1], load_i16(x + VEC_BYTES / 2));
    sum = vec_pair_products_to(sum, a.w[2], load_i16(x + VEC_BYTES));
    return vec_pair_products_to(sum, a.w[3], load_i16(x + 3 * VEC_BYTES / 2));
}

// What low digits add; rare, and apart so that it takes no registers from what is not.
static __attribute__((noinline, cold)) vec_i32 low_sum(const uint8_t *packed, const int16_t *low) {
    return digit_sum(fp4_at(packed), low) >> 3;
}

// The scales of part p's words, as floats.
INLINE vec_u32 fp4_scale(const uint8_t *scale, uint32_t p) {
    uint32_t four;
    vec_u8 bytes;
    memcpy(&four, scale, 4);
    memcpy(&bytes, fp4_scale_bytes + p * VEC_BYTES, sizeof bytes);
    return (vec_u32)vec_pick((vec_u8)all_words(four), bytes) >> 1;
}

// The scales of a step that the row's end does not fill, padded with 1.
static inline void fp4_scale_pad(const struct packed *p, uint32_t step, uint8_t scale[4]) {
    memset(scale, 127, 4);
    memcpy(scale, p->scale + 4 * step, p->scales - 4 * step);
}
