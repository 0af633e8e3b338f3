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
    DIGIT_AHEAD = 2048, // bytes, about, to the rows that are fetched meanwhile
    FP4_BITS = 9,       // a weight comes as value * 2^9: e2m1 in halves in the upper byte
};

// Rows of a block of x: [part][step][row] of four vectors (elements 0 4, 2 6, 1 5, 3 7 of a word).
struct digits {
    int16_t *high, *low;
    float *unit;      // [part][step][row][VEC_LANES]: 2^(unit - 9)
    uint8_t *has_low; // [part][step]: bit r set where row r has low digits
    uint32_t rows, steps;
};

static inline size_t digits_bytes(uint32_t rows, uint32_t steps) {
    size_t bytes = (size_t)rows * steps * (DIGIT_STEP * 4 + LANES * 4) + VEC_PARTS * steps;
    return (bytes + 63) / 64 * 64;
}

static inline struct digits digits_at(void *memory, uint32_t rows, uint32_t steps) {
    struct digits d = {.rows = rows, .steps = steps, .high = memory};
    d.low = d.high + (size_t)rows * steps * DIGIT_STEP;
    d.unit = (float *)(void *)(d.low + (size_t)rows * steps * DIGIT_STEP);
    d.has_low = (uint8_t *)(d.unit + (size_t)rows * steps * LANES);
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
    vec_f32 unit;
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
    q.unit = (vec_f32)((exponent - 14 - FP4_BITS) << 23);
    for (int i = 0; i < 4; i++) {
        vec_f32 a = part[element[i]] * factor, b = part[element[i] + 4] * factor;
        q.first[i] = __builtin_convertvector(a, vec_i32);
        q.second[i] = __builtin_convertvector(b, vec_i32);
        q.bad |= __builtin_convertvector(q.first[i], vec_f32) != a;
        q.bad |= __builtin_convertvector(q.second[i], vec_f32) != b;
    }
    return q;
}

// Digits of VEC_LANES words of one row; false when x has no digits: the row must go another way.
INLINE bool digits_part(const uint16_t *x, int16_t *high, int16_t *low, float *unit,
                        bool *has_low) {
    struct pairs q = pairs_of(x);
    vec_i32 any = {0};
    for (int i = 0; i < 4; i++) {
        any |= q.first[i] | q.second[i];
        store_words(high + i * VEC_BYTES / 2,
                    ((q.first[i] >> 3) & 0xFFFF) | ((q.second[i] >> 3) << 16));
    }
    store_f32(unit, q.unit);
    *has_low = vec_any((vec_u32)any & 7);
    if (*has_low)
        for (int i = 0; i < 4; i++)
            store_words(low + i * VEC_BYTES / 2, (q.first[i] & 7) | ((q.second[i] & 7) << 16));
    return !vec_any((vec_u32)q.bad);
}

// Stores the digits of row r, n elements of x padded with +0; false when it has none.
static bool digits_store(struct digits *d, uint32_t r, const uint16_t *x, const uint16_t *soon,
                         uint32_t n) {
    uint16_t pad[DIGIT_STEP];
    bool all = true;
#if LF_FAULT == 3 // the last element has no digits
    n--;
#endif
    for (uint32_t step = 0; step < d->steps; step++) {
        const uint16_t *from = x + step * DIGIT_STEP;
        for (uint32_t line = 0; line < DIGIT_STEP; line += 32)
            __builtin_prefetch(soon + step * DIGIT_STEP + line);
        if ((step + 1) * DIGIT_STEP > n) {
            memset(pad, 0, sizeof pad);
            memcpy(pad, from, (n - step * DIGIT_STEP) * sizeof *x);
            from = pad;
        }
        for (uint32_t p = 0; p < VEC_PARTS; p++) {
            size_t part = (size_t)p * d->steps + step, at = part * d->rows + r;
            bool has_low;
#if LF_FAULT == 10 // a row that has no digits is not done again
            digits_part(from + p * VEC_LANES * 8, d->high + at * 2 * VEC_BYTES,
                        d->low + at * 2 * VEC_BYTES, d->unit + at * VEC_LANES, &has_low);
#else
            all &= digits_part(from + p * VEC_LANES * 8, d->high + at * 2 * VEC_BYTES,
                               d->low + at * 2 * VEC_BYTES, d->unit + at * VEC_LANES, &has_low);
#endif
#if LF_FAULT == 11 // low digits left out
            has_low = false;
#endif
            d->has_low[part] = (uint8_t)((r ? d->has_low[part] : 0) | has_low << r);
        }
    }
    return all;
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

INLINE struct fp4 fp4_at(const uint8_t *packed) {
    const vec_u8 halves = all_16(fp4_halves), nibble = (vec_u8)all_words(0x0F0F0F0Fu);
    const vec_i16 upper = (vec_i16)all_words(0xFF00FF00u);
    vec_u8 codes = (vec_u8)load_words(packed);
    vec_i16 even = (vec_i16)vec_pick(halves, codes & nibble);
    vec_i16 odd = (vec_i16)vec_pick(halves, (vec_u8)((vec_u16)codes >> 4) & nibble);
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

#define DIGIT_ADD(r)                                                                               \
    if (rows > r) {                                                                                \
        vec_i32 t = digit_sum(weights, high + (r)*2 * VEC_BYTES);                                  \
        if (__builtin_expect(low_rows & 1u << (r), 0))                                             \
            t += low_sum(w, high + low_offset + (r)*2 * VEC_BYTES);                                \
        vec_fma_to(&sum##r, __builtin_convertvector(t, vec_f32),                                   \
                   weight_scale * load_f32(unit + (r)*VEC_LANES));                                 \
    }

#define DIGIT_EACH(act) act(0) act(1) act(2) act(3) act(4) act(5) act(6) act(7)
#define DIGIT_LOAD(r)                                                                              \
    vec_f32 sum##r = {0};                                                                          \
    if (rows > r)                                                                                  \
        sum##r = load_f32(acc + (r)*acc_row);
#define DIGIT_STORE(r)                                                                             \
    if (rows > r)                                                                                  \
        store_f32(acc + (r)*acc_row, sum##r);

// The block's steps first .. first+count-1 of one output and part; rows is a constant.
INLINE void digits_part_sum(const int rows, const struct digits *d, uint32_t p, uint32_t first,
                            uint32_t count, const uint8_t *w, const uint8_t *scale, size_t ahead,
                            float *acc, size_t acc_row) {
    vec_u8 scale_bytes;
    memcpy(&scale_bytes, fp4_scale_bytes + p * VEC_BYTES, sizeof scale_bytes);
    size_t at = ((size_t)p * d->steps + first) * d->rows, low_offset = (size_t)(d->low - d->high);
    const int16_t *high = d->high + at * 2 * VEC_BYTES;
    const float *unit = d->unit + at * VEC_LANES;
    const uint8_t *has_low = d->has_low + p * d->steps + first;
    DIGIT_EACH(DIGIT_LOAD)
    w += p * VEC_BYTES;
    for (uint32_t i = 0; i < count; i++, w += STEP_BYTES) {
        if (p == 0)
            __builtin_prefetch(w + ahead);
        struct fp4 weights = fp4_at(w);
        uint32_t four;
        memcpy(&four, scale + 4 * i, 4);
        vec_f32 weight_scale =
            (vec_f32)((vec_u32)vec_pick((vec_u8)all_words(four), scale_bytes) >> 1);
        uint32_t low_rows = has_low[i];
        DIGIT_EACH(DIGIT_ADD)
        high += rows * 2 * VEC_BYTES;
        unit += rows * VEC_LANES;
    }
    DIGIT_EACH(DIGIT_STORE)
}

#define DIGIT_CASE(r)                                                                              \
    if (r < DIGIT_ROWS && d->rows == (r) + 1)                                                      \
        digits_part_sum((r) + 1, d, p, first, count, w, scale, ahead, acc, acc_row);

static __attribute__((noinline)) void digits_steps(const struct digits *d, uint32_t first,
                                                   uint32_t count, const uint8_t *w,
                                                   const uint8_t *scale, size_t ahead,
                                                   float *acc, size_t acc_row) {
    for (uint32_t p = 0; p < VEC_PARTS; p++, acc += VEC_LANES) {
        DIGIT_EACH(DIGIT_CASE)
    }
}

// acc + r * acc_row += n elements at k0 of output o and each row.
static void digits_output(const struct digits *d, const struct lf_matrix *m, uint32_t o,
                          uint32_t k0, uint32_t n, float *acc, size_t acc_row) {
    const uint8_t *w = m->data + (size_t)o * (m->in / 2) + k0 / 2;
    const uint8_t *scale = m->scale + (size_t)o * (m->in / 32) + k0 / 32;
    uint32_t full = n / DIGIT_STEP, rows = DIGIT_AHEAD / (m->in / 2) + 1;
    for (uint32_t i = 0; i < n / 32; i += 64)
        __builtin_prefetch(scale + rows * (m->in / 32) + i);
    digits_steps(d, 0, full, w, scale, (size_t)rows * (m->in / 2), acc, acc_row);
    if (full == d->steps)
        return;
    uint8_t pad[STEP_BYTES] = {0}, pad_scale[4] = {127, 127, 127, 127};
    memcpy(pad, w + full * STEP_BYTES, (n - full * DIGIT_STEP) / 2);
    memcpy(pad_scale, scale + 4 * full, (n - full * DIGIT_STEP) / 32);
    digits_steps(d, full, 1, pad, pad_scale, 0, acc, acc_row);
}
