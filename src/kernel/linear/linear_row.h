// One row of BF16 or FP8 weights: from the mapped file into the sums, four outputs side by side.
#pragma once
#include "kernel/linear/linear_quad.h"

enum { ROW_OUTS = 4, ROW_NEAR = 1024, ROW_FAR = 4096 };

// Four outputs a quarter of all apart: independent chains, four streams however short a row is.
struct row_group {
    const uint8_t *p[ROW_OUTS];
    size_t row, full; // bytes of a row, of its whole steps
    size_t jump;      // from where the streams end to where the next outputs' begin
};

static struct row_group row_group_at(const struct lf_matrix *m, uint32_t o0, uint32_t outs,
                                     uint32_t quarter, uint32_t o) {
    size_t row = lf_matrix_row_bytes(m);
    struct row_group g = {.row = row, .full = row / STEP_BYTES * STEP_BYTES};
    g.jump = o + 1 < quarter ? 0 : (ROW_OUTS - 1) * quarter * row;
    for (uint32_t i = 0; i < ROW_OUTS; i++)
        g.p[i] = m->data + (o0 + at_most(i * quarter + o, outs - 1)) * row;
    return g;
}

// The last steps when the rows end inside them, padded with +0.
static void row_group_tail(const struct row_group *g, uint8_t pad[ROW_OUTS][STEP_BYTES]) {
    memset(pad, 0, ROW_OUTS * STEP_BYTES);
    for (uint32_t i = 0; i < ROW_OUTS; i++)
        memcpy(pad[i], g->p[i] + g->full, g->row - g->full);
}

// The products of VEC_LANES words. Streams take turns: all loads first fetch a third less.
INLINE void row_words(const bool fp8, const bool fetches, const uint8_t *w, size_t ahead,
                      const float *x, vec_f32 *sum, vec_u8 *seen) {
    vec_u32 words = load_words(w);
    if (fp8) {
        vec_f32 part[4];
        *seen = vec_max_u8(*seen, (vec_u8)words + (vec_u8)words);
        split_e4m3(words, part);
        for (int e = 0; e < 4; e++)
            vec_fma_from(sum, part[e], x + e * VEC_LANES);
    } else
        vec_fma_from(sum, first_of_pair(words), x);
    vec_read_again();
    if (fetches) {
        __builtin_prefetch(w + ahead + ROW_FAR, 0, 2);
        __builtin_prefetch(w + ahead + ROW_NEAR);
    }
    if (!fp8)
        vec_fma_from(sum, second_of_pair(load_words(w)), x + VEC_LANES);
    vec_read_again();
}

// Named sums: compilers keep arrays of them in memory.
#define ROW_EACH(act) EACH_PART(act, 0) EACH_PART(act, 1) EACH_PART(act, 2) EACH_PART(act, 3)
#define ROW_ZERO(i, part) vec_f32 sum##i##part = {0};
#define ROW_ADD(i, part)                                                                           \
    row_words(fp8, ROW_FETCHES && part == 0, ROW_SOURCE(i) + part * VEC_BYTES, ahead,              \
              xs + part * x_part, &sum##i##part, &seen);
#define ROW_STORE(i, part) store_f32(partial[i] + part * VEC_LANES, sum##i##part);

// Sums of some outputs; false when an e4m3 NaN was met: they are not to be used then.
INLINE bool row_outputs(const bool fp8, const struct lf_matrix *m, const float *x, uint32_t o0,
                        uint32_t outs, float *sums) {
    const uint32_t elements = fp8 ? 4 : 2, quarter = (outs + ROW_OUTS - 1) / ROW_OUTS;
    const size_t x_part = (size_t)word_vectors(m->format, m->in) * VEC_LANES;
    vec_u8 seen = {0};
    for (uint32_t o = 0; o < quarter; o++) {
        struct row_group g = row_group_at(m, o0, outs, quarter, o);
        float partial[ROW_OUTS][LANES], four[ROW_OUTS];
        const float *xs = x;
        ROW_EACH(ROW_ZERO)
#define ROW_SOURCE(i) p[i] + at
#define ROW_FETCHES true
        const uint8_t *p[ROW_OUTS] = {g.p[0], g.p[1], g.p[2], g.p[3]};
        size_t ahead = 0;
        for (size_t at = 0; at < g.full; at += STEP_BYTES, xs += elements * VEC_LANES) {
            ahead = at + ROW_FAR < g.row ? 0 : g.jump;
            ROW_EACH(ROW_ADD)
        }
#undef ROW_FETCHES
#undef ROW_SOURCE
#define ROW_SOURCE(i) pad[i]
#define ROW_FETCHES false
        if (g.full < g.row) {
            uint8_t pad[ROW_OUTS][STEP_BYTES];
            row_group_tail(&g, pad);
            ROW_EACH(ROW_ADD)
        }
#undef ROW_FETCHES
#undef ROW_SOURCE
        ROW_EACH(ROW_STORE)
        lf_tree16_four(partial[0], four);
        for (uint32_t i = 0; i < ROW_OUTS && i * quarter + o < outs; i++)
            sums[i * quarter + o] = four[i];
    }
    return !twice_has_nan(seen);
}

// Alone, so that all sums stay in registers.
static __attribute__((noinline)) void row_bf16(const struct lf_matrix *m, const float *x,
                                               uint32_t o0, uint32_t outs, float *sums) {
    row_outputs(false, m, x, o0, outs, sums);
}

static __attribute__((noinline)) bool row_fp8(const struct lf_matrix *m, const float *x,
                                              uint32_t o0, uint32_t outs, float *sums) {
    return row_outputs(true, m, x, o0, outs, sums);
}

// x of a row times the scales of its blocks of 32 and 2^120; padding stays 0.
static void fold_row(const struct packed *p, const float *x, float *folded) {
    for (uint32_t part = 0; part < VEC_PARTS; part++)
        for (uint32_t b = 0; b < p->scales; b += 2, x += 4 * VEC_LANES, folded += 4 * VEC_LANES) {
            vec_f32 factor = fold_factor(p->scale, p->scales, part, b);
            for (uint32_t e = 0; e < 4 * VEC_LANES; e += VEC_LANES)
                store_f32(folded + e, load_f32(x + e) * factor);
        }
}

// False where only the tiles give the declared bits; x is in word order, folded room for it.
static bool row_sums(const struct lf_matrix *m, const float *x, uint32_t exponent, uint32_t o0,
                     uint32_t outs, float *folded, float *sums) {
    if (m->format == LF_WEIGHT_BF16) {
        row_bf16(m, x, o0, outs, sums);
        return true;
    }
    for (uint32_t o = 0; o < outs; o += 32) {
        struct packed p = packed_at(m, o0 + o, 0, m->in);
        if (!can_fold(p.scale, p.scales, exponent))
            return false;
        fold_row(&p, x, folded);
        if (!row_fp8(m, folded, o0 + o, at_most(outs - o, 32), sums + o))
            return false;
    }
    return true;
}
