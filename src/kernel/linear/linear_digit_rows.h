// MXFP4 in integers, rows side by side: digits of x, and their products with the weights of a word.
#pragma once
#include "kernel/linear/linear_digit_row.h"

// Digits of VEC_LANES words of row r; false when x has none: the row must go another way.
INLINE bool digits_part(struct digits *d, uint32_t p, uint32_t step, uint32_t r,
                        const uint16_t *x) {
    struct pairs q = pairs_of(x);
    vec_i32 any = {0};
    for (int i = 0; i < 4; i++)
        any |= q.first[i] | q.second[i];
    bool one = d->rows == 1, all = !vec_any((vec_u32)q.bad), has_low = vec_any((vec_u32)any & 7);
    size_t part = one ? (size_t)step * VEC_PARTS + p : (size_t)p * d->steps + step;
    size_t at = part * d->rows + r, flags = one ? step : part;
#if LF_FAULT == 11 // low digits left out
    has_low = false;
#endif
    d->has_low[flags] = (uint8_t)((r || (one && p) ? d->has_low[flags] : 0) | has_low << r);
    if (one)
        return row_digits_part(&q, (uint8_t *)d->high + part * ROW_PART_BYTES,
                               (uint8_t *)d->low + part * ROW_LOW_BYTES,
                               d->unit + part * VEC_LANES / 4) && all;
    int16_t *high = d->high + at * 2 * VEC_BYTES, *low = d->low + at * 2 * VEC_BYTES;
    for (int i = 0; i < 4; i++) {
        store_words(high + i * VEC_BYTES / 2,
                    ((q.first[i] >> 3) & 0xFFFF) | ((q.second[i] >> 3) << 16));
        store_words(low + i * VEC_BYTES / 2, (q.first[i] & 7) | ((q.second[i] & 7) << 16));
    }
    store_words(d->unit + at * VEC_LANES, q.unit << 23);
    return all;
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
            bool fine = digits_part(d, p, step, r, from + p * VEC_LANES * 8);
#if LF_FAULT == 10 // a row that has no digits is not done again
            fine = true;
#endif
            all &= fine;
        }
    }
    return all;
}

#define DIGIT_ADD(r)                                                                               \
    if (rows > r) {                                                                                \
        vec_i32 t = digit_sum(weights, high + (r)*2 * VEC_BYTES);                                  \
        if (__builtin_expect(low_rows & 1u << (r), 0))                                             \
            t += low_sum(w, high + low_offset + (r)*2 * VEC_BYTES);                                \
        vec_fma_to(&sum##r, __builtin_convertvector(t, vec_f32),                                   \
                   (vec_f32)(weight_scale + load_words(unit + (r)*VEC_LANES)));                    \
    }

#define DIGIT_EACH(act) act(0) act(1) act(2) act(3) act(4) act(5) act(6) act(7)
#define DIGIT_LOAD(r)                                                                              \
    vec_f32 sum##r = {0};                                                                          \
    if (rows > r && !begins)                                                                       \
        sum##r = load_f32(acc + (r)*acc_row);
#define DIGIT_STORE(r)                                                                             \
    if (rows > r)                                                                                  \
        store_f32(acc + (r)*acc_row, sum##r);

// acc, 0 where it begins, += steps first .. of one output and part; rows is a constant.
INLINE void digits_part_sum(const int rows, bool begins, const struct digits *d, uint32_t p,
                            uint32_t first, uint32_t count, const uint8_t *w,
                            const uint8_t *scale, size_t ahead, float *acc, size_t acc_row) {
    size_t at = ((size_t)p * d->steps + first) * d->rows, low_offset = (size_t)(d->low - d->high);
    const int16_t *high = d->high + at * 2 * VEC_BYTES;
    const uint32_t *unit = d->unit + at * VEC_LANES;
    const uint8_t *has_low = d->has_low + p * d->steps + first;
    DIGIT_EACH(DIGIT_LOAD)
    w += p * VEC_BYTES;
    for (uint32_t i = 0; i < count; i++, w += STEP_BYTES) {
        if (p == 0) {
            __builtin_prefetch(w + DIGIT_FAR_AHEAD * ahead, 0, 2);
            __builtin_prefetch(w + ahead);
        }
        struct fp4 weights = fp4_at(w);
        vec_u32 weight_scale = fp4_scale(scale + 4 * i, p);
        uint32_t low_rows = has_low[i];
        DIGIT_EACH(DIGIT_ADD)
        high += rows * 2 * VEC_BYTES;
        unit += rows * VEC_LANES;
    }
    DIGIT_EACH(DIGIT_STORE)
}

// Several rows: a single one has digits of its own.
#define DIGIT_CASE(r)                                                                              \
    if ((r) && r < DIGIT_ROWS && d->rows == (r) + 1)                                               \
        digits_part_sum((r) + 1, begins, d, p, first, count, w, scale, ahead, acc, acc_row);

static __attribute__((noinline)) void digits_steps(bool begins, const struct digits *d,
                                                   uint32_t first, uint32_t count,
                                                   const uint8_t *w, const uint8_t *scale,
                                                   size_t ahead, float *acc, size_t acc_row) {
    for (uint32_t p = 0; p < VEC_PARTS; p++, acc += VEC_LANES) {
        DIGIT_EACH(DIGIT_CASE)
    }
}

// acc + r * acc_row + o * LANES, 0 where k0 is, += n elements at k0 of outputs o0 + o and each row.
static void digits_outputs(const struct digits *d, const struct lf_matrix *m, uint32_t o0,
                           uint32_t outs, uint32_t k0, uint32_t n, float *acc, size_t acc_row) {
    size_t ahead = DIGIT_AHEAD / (m->in / 2) + 1;
    if (d->rows == 1) {
        row_digits_outputs(d, m, o0, outs, k0, n, acc);
        return;
    }
    for (uint32_t o = 0; o < outs; o++, acc += LANES) {
        struct packed p = packed_at(m, o0 + o, k0, n);
        uint32_t full = n / DIGIT_STEP;
        for (uint32_t i = 0; i < n / 32; i += 64)
            __builtin_prefetch(p.scale + ahead * (m->in / 32) + i);
        digits_steps(k0 == 0, d, 0, full, p.data, p.scale, ahead * (m->in / 2), acc, acc_row);
        if (full == d->steps)
            continue;
        uint8_t pad[STEP_BYTES], pad_scale[4];
        fp4_scale_pad(&p, full, pad_scale);
        digits_steps(false, d, full, 1, step_bytes(&p, full, pad), pad_scale, 0, acc, acc_row);
    }
}
