// A single row of MXFP4: x in two digits of a byte, weights without a sign, four products at once.
#pragma once
#include "kernel/linear/linear_digits.h"

// 12 more than 2 e2m1 of each nibble; an offset takes 12 times the sum of x off again.
static const uint8_t fp4_raised[16] = {12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0};

// The bytes of elements 0 2 4 6 of each word, of digits that come as pairs do.
INLINE vec_u32 digit_bytes(vec_i32 a, vec_i32 b, vec_i32 c, vec_i32 d) {
    return ((vec_u32)a & 0xFF) | ((vec_u32)b & 0xFF) << 8 | ((vec_u32)c & 0xFF) << 16 |
           (vec_u32)d << 24;
}

// The lowest bytes of VEC_LANES words' digits, even and odd, and what raised weights add to sums.
INLINE void row_bytes(const vec_i32 digit[8], uint8_t *dst) {
    vec_i32 sum = {0};
    for (int i = 0; i < 8; i++)
        sum += digit[i];
    for (int odd = 0; odd < 2; odd++) {
        const vec_i32 *d = digit + 4 * odd;
        store_words(dst + odd * VEC_BYTES, (vec_i32)digit_bytes(d[0], d[2], d[1], d[3]));
    }
    store_words(dst + 2 * VEC_BYTES, sum * 12);
}

// What a step reads of VEC_LANES words, and units of their blocks; false when x has no digits.
INLINE bool row_digits_part(const struct pairs *q, uint8_t *dst, uint8_t *low, uint32_t *unit) {
    vec_i32 upper[8], lower[8], lowest[8], over = {0};
    for (int i = 0; i < 8; i++) {
        vec_i32 x = (i % 2 ? q->second : q->first)[i / 2];
        lowest[i] = x & 7, lower[i] = x >> 3;
        upper[i] = (lower[i] + 128) >> 8;
        over |= upper[i] > 127;
    }
    row_bytes(upper, dst);
    row_bytes(lower, dst + 2 * VEC_BYTES);
    row_bytes(lowest, low);
    for (int block = 0; block < VEC_LANES / 4; block++)
        unit[block] = (uint32_t)(q->unit[4 * block] + FP4_BITS - 1);
    return !vec_any((vec_u32)over);
}

// The sums of a part's words; low digits are worth an eighth, and all is rounded once.
INLINE vec_f32 row_sum(const bool has_low, const uint8_t *packed, const uint8_t *x,
                       const uint8_t *low) {
    vec_u8 even, odd;
    fp4_pick(packed, fp4_raised, &even, &odd);
    vec_i32 sum = vec_byte_sums(even, load_u8(x), odd, load_u8(x + VEC_BYTES), 256);
    x += 2 * VEC_BYTES;
    sum += vec_byte_sums(even, load_u8(x), odd, load_u8(x + VEC_BYTES), 1);
    sum -= (vec_i32)load_words(x + 2 * VEC_BYTES);
    if (!has_low)
        return __builtin_convertvector(sum, vec_f32);
    sum = (sum << 3) + vec_byte_sums(even, load_u8(low), odd, load_u8(low + VEC_BYTES), 1);
    sum -= (vec_i32)load_words(low + 2 * VEC_BYTES);
    return __builtin_convertvector(sum, vec_f32) * 0x1p-3f;
}

#define ROW_DIGITS_LOAD(unused, p)                                                                 \
    vec_f32 sum##p = {0};                                                                          \
    if (!begins)                                                                                   \
        sum##p = load_f32(acc + (p)*VEC_LANES);
#define ROW_DIGITS_STORE(unused, p) store_f32(acc + (p)*VEC_LANES, sum##p);
#define ROW_DIGITS_ADD(has_low, p)                                                                 \
    {                                                                                              \
        vec_f32 exact = row_sum(has_low, w + (p)*VEC_BYTES, x + (p)*ROW_PART_BYTES,                \
                                low + (p)*ROW_LOW_BYTES);                                          \
        vec_fma_to(&sum##p, exact, vec_by_fours(factor + (p)*VEC_LANES / 4));                      \
    }

// Each block's scale times its unit; what fills up the last step has any.
INLINE void row_factors(const uint8_t *scale, const uint32_t *unit, uint32_t blocks,
                        uint32_t padded, float *factor) {
    uint32_t i = 0;
    for (; i + VEC_LANES <= blocks; i += VEC_LANES)
        store_words(factor + i,
                    (vec_i32)((vec_from_bytes(scale + i) + load_words(unit + i)) << 23));
    for (; i < padded; i++) {
        uint32_t bits = ((i < blocks ? scale[i] : 127) + unit[i]) << 23;
        memcpy(factor + i, &bits, sizeof bits);
    }
}

// acc, 0 where it begins, += steps first .. first+count-1 of an output, parts of a step in turn.
INLINE void row_digits_steps(const bool fetches, bool begins, const struct digits *d,
                             uint32_t first, uint32_t count, const uint8_t *w,
                             const float *factor, float *acc) {
    const uint8_t *x = (const uint8_t *)d->high + (size_t)first * VEC_PARTS * ROW_PART_BYTES;
    EACH_PART(ROW_DIGITS_LOAD, 0)
    for (uint32_t step = first; step < first + count; step++) {
        if (fetches) {
            __builtin_prefetch(w + DIGIT_FAR, 0, 2);
            __builtin_prefetch(w + DIGIT_NEAR);
        }
        const uint8_t *low = (const uint8_t *)d->low + (size_t)step * VEC_PARTS * ROW_LOW_BYTES;
        if (__builtin_expect(d->has_low[step], 0)) {
            EACH_PART(ROW_DIGITS_ADD, true)
        } else {
            EACH_PART(ROW_DIGITS_ADD, false)
        }
        x += VEC_PARTS * ROW_PART_BYTES, w += STEP_BYTES, factor += ROW_BLOCKS;
    }
    EACH_PART(ROW_DIGITS_STORE, 0)
}

// Pages' addresses are looked up for many pages at once: each alone would be waited for.
INLINE void touch_pages(const uint8_t *w, uintptr_t *last) {
    uintptr_t group = (uintptr_t)w / PAGES_BYTES;
    const uint8_t *pages = w - (uintptr_t)w % PAGES_BYTES + 2 * PAGES_BYTES;
    for (uint32_t i = 0; group != *last && i < PAGES_BYTES; i += 4096)
        __builtin_prefetch(pages + i, 0, 2);
    *last = group;
}

// acc + o * LANES, 0 where k0 is, += n elements at k0 of outputs o0 + o.
static __attribute__((noinline)) void row_digits_outputs(const struct digits *d,
                                                         const struct lf_matrix *m, uint32_t o0,
                                                         uint32_t outs, uint32_t k0, uint32_t n,
                                                         float *acc) {
    uintptr_t pages = 0;
    float factor[DIGIT_BLOCK / 32];
    for (uint32_t o = 0; o < outs; o++, acc += LANES) {
        struct packed p = packed_at(m, o0 + o, k0, n);
        uint32_t full = n / DIGIT_STEP;
        touch_pages(p.data, &pages);
        row_factors(p.scale, d->unit, n / 32, d->steps * ROW_BLOCKS, factor);
        row_digits_steps(true, k0 == 0, d, 0, full, p.data, factor, acc);
        if (full == d->steps)
            continue;
        uint8_t pad[STEP_BYTES];
        row_digits_steps(false, false, d, full, 1, step_bytes(&p, full, pad),
                         factor + full * ROW_BLOCKS, acc);
    }
}
