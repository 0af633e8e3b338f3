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

// Digits of VEC_LANES words: [even, odd] of the upper, then of the lower; false when x has none.
INLINE bool row_digits_part(const struct pairs *q, int8_t *dst, int32_t *offset, float *unit) {
    vec_i32 upper[8], lower[8], sum = {0}, over = {0};
    for (int i = 0; i < 8; i++) {
        vec_i32 x = (i % 2 ? q->second : q->first)[i / 2] >> 3;
        upper[i] = (x + 128) >> 8, lower[i] = x;
        over |= upper[i] > 127;
        sum += x;
    }
    for (int odd = 0; odd < 2; odd++) {
        const vec_i32 *u = upper + 4 * odd, *l = lower + 4 * odd;
        store_words(dst + odd * VEC_BYTES, (vec_i32)digit_bytes(u[0], u[2], u[1], u[3]));
        store_words(dst + (2 + odd) * VEC_BYTES, (vec_i32)digit_bytes(l[0], l[2], l[1], l[3]));
    }
    store_words(offset, sum * 12);
    store_f32(unit, q->unit * (float)(1 << (FP4_BITS - 1)));
    return !vec_any((vec_u32)over);
}

// Low digits of the same words are one byte further right, so the sum is in 256ths then.
static __attribute__((noinline, cold)) vec_f32 row_low_sum(vec_i32 sum, const uint8_t *packed,
                                                           const int16_t *low) {
    return __builtin_convertvector((sum << 8) + low_sum(packed, low), vec_f32) * 0x1p-8f;
}

// The sums of a part's words.
INLINE vec_i32 row_sum(const uint8_t *packed, const int8_t *x, const int32_t *offset) {
    vec_u8 even, odd;
    fp4_pick(packed, fp4_raised, &even, &odd);
    vec_i32 upper = vec_byte_sums(even, load_i8(x), odd, load_i8(x + VEC_BYTES), 256);
    x += 2 * VEC_BYTES;
    return upper + vec_byte_sums(even, load_i8(x), odd, load_i8(x + VEC_BYTES), 1) -
           (vec_i32)load_words(offset);
}

#define ROW_DIGITS_LOAD(unused, p)                                                                 \
    vec_f32 sum##p = {0};                                                                          \
    if (!begins)                                                                                   \
        sum##p = load_f32(acc + (p)*VEC_LANES);
#define ROW_DIGITS_STORE(unused, p) store_f32(acc + (p)*VEC_LANES, sum##p);
#define ROW_DIGITS_ADD(unused, p)                                                                  \
    {                                                                                              \
        size_t at = (size_t)(p)*d->steps + step;                                                   \
        const uint8_t *words = w + (p)*VEC_BYTES;                                                  \
        vec_i32 t = row_sum(words, x + at * 4 * VEC_BYTES, d->offset + at * VEC_LANES);            \
        vec_f32 exact = __builtin_convertvector(t, vec_f32);                                       \
        if (__builtin_expect(d->has_low[at], 0))                                                   \
            exact = row_low_sum(t, words, d->low + at * 2 * VEC_BYTES);                            \
        vec_fma_to(&sum##p, exact, fp4_scale(scale, p) * load_f32(d->unit + at * VEC_LANES));      \
    }

// acc, 0 where it begins, += steps first .. first+count-1 of an output, parts of a step in turn.
INLINE void row_digits_steps(const bool fetches, bool begins, const struct digits *d,
                             uint32_t first, uint32_t count, const uint8_t *w,
                             const uint8_t *scale, float *acc) {
    const int8_t *x = (const int8_t *)(const void *)d->high;
    EACH_PART(ROW_DIGITS_LOAD, 0)
    for (uint32_t step = first; step < first + count; step++, w += STEP_BYTES, scale += 4) {
        if (fetches) {
            __builtin_prefetch(w + DIGIT_FAR, 0, 2);
            __builtin_prefetch(w + DIGIT_NEAR);
        }
        EACH_PART(ROW_DIGITS_ADD, 0)
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
    for (uint32_t o = 0; o < outs; o++, acc += LANES) {
        struct packed p = packed_at(m, o0 + o, k0, n);
        uint32_t full = n / DIGIT_STEP;
        touch_pages(p.data, &pages);
        row_digits_steps(true, k0 == 0, d, 0, full, p.data, p.scale, acc);
        if (full == d->steps)
            continue;
        uint8_t pad[STEP_BYTES], pad_scale[4];
        fp4_scale_pad(&p, full, pad_scale);
        row_digits_steps(false, false, d, full, 1, step_bytes(&p, full, pad), pad_scale, acc);
    }
}
