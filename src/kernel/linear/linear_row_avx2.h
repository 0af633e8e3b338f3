// One row in AVX2: weights go from the mapped file into the sums, x waits in word order.
#pragma once
#include "kernel/linear/linear_avx2.h"
#include "kernel/sum16.h"

enum { ROW_IN_MAX = W_FLOATS / 2, ROW_OUTS = 4 };

static inline float sum_halves(__m256 low, __m256 high) {
    float partial[LANES];
    _mm256_storeu_ps(partial, low);
    _mm256_storeu_ps(partial + 8, high);
    return lf_tree16(partial);
}

// Four outputs side by side: chains that do not wait for each other, x read once for four.
struct row_group {
    const uint8_t *p[ROW_OUTS];
    uint8_t pad[ROW_OUTS][STEP_BYTES]; // the last step when the rows end inside it
    uint32_t full, tail;               // steps; tail 0 or 1
};

static inline struct row_group row_group_at(const struct lf_matrix *m, uint32_t o, uint32_t end) {
    struct row_group g;
    size_t row = lf_matrix_row_bytes(m);
    g.full = (uint32_t)(row / STEP_BYTES);
    g.tail = row % STEP_BYTES != 0;
    for (uint32_t i = 0; i < ROW_OUTS; i++) {
        g.p[i] = m->data + (o + i < end ? o + i : end - 1) * row;
        if (g.tail) {
            memset(g.pad[i], 0, STEP_BYTES);
            memcpy(g.pad[i], g.p[i] + row - row % STEP_BYTES, row % STEP_BYTES);
        }
    }
    return g;
}

#define FMA(w, x, acc) acc = _mm256_fmadd_ps(_mm256_castsi256_ps(w), x, acc)
#define EACH_OUTPUT(act) act(0) act(1) act(2) act(3)
#define ZERO_SUMS(i) __m256 low##i = _mm256_setzero_ps(), high##i = _mm256_setzero_ps();
#define STORE_SUMS(i)                                                                              \
    if (o + i < outs)                                                                              \
        sums[o + i] = sum_halves(low##i, high##i);
#define STEP_OF_GROUP(i) g.p[i] + (size_t)step * STEP_BYTES
#define STEP_OF_PAD(i) g.pad[i]

#define BF16_HALF(words, x, acc)                                                                   \
    {                                                                                              \
        __m256i even, odd;                                                                         \
        split_bf16(words, &even, &odd);                                                            \
        FMA(even, x##0, acc);                                                                      \
        FMA(odd, x##1, acc);                                                                       \
    }
#define BF16_OUTPUT(i)                                                                             \
    {                                                                                              \
        const uint8_t *p = SOURCE(i);                                                              \
        BF16_HALF(load_bytes(p), xl, low##i)                                                       \
        BF16_HALF(load_bytes(p + 32), xh, high##i)                                                 \
    }
#define BF16_STEP                                                                                  \
    {                                                                                              \
        const float *xs = x + (size_t)step * 2 * LANES;                                            \
        __m256 xl0 = _mm256_loadu_ps(xs), xh0 = _mm256_loadu_ps(xs + 8);                           \
        __m256 xl1 = _mm256_loadu_ps(xs + LANES), xh1 = _mm256_loadu_ps(xs + LANES + 8);           \
        EACH_OUTPUT(BF16_OUTPUT)                                                                   \
    }

static void row_bf16(const struct lf_matrix *m, const float *x, uint32_t o0, uint32_t outs,
                     float *sums) {
    for (uint32_t o = 0; o < outs; o += ROW_OUTS) {
        struct row_group g = row_group_at(m, o0 + o, o0 + outs);
        EACH_OUTPUT(ZERO_SUMS)
        uint32_t step = 0;
#define SOURCE STEP_OF_GROUP
        for (; step < g.full; step++)
            BF16_STEP
#undef SOURCE
#define SOURCE STEP_OF_PAD
        if (g.tail)
            BF16_STEP
#undef SOURCE
        EACH_OUTPUT(STORE_SUMS)
    }
}

// Codes are value * 2^-120, x holds 2^120 and the scale; seen keeps what a NaN code would show.
#define FP8_HALF(codes_at, xs, acc)                                                                \
    {                                                                                              \
        __m256i codes = load_bytes(codes_at), part[4];                                             \
        seen = _mm256_max_epu8(seen, _mm256_add_epi8(codes, codes));                               \
        split_e4m3(codes, part);                                                                   \
        FMA(part[0], _mm256_loadu_ps(xs), acc);                                                    \
        FMA(part[1], _mm256_loadu_ps((xs) + LANES), acc);                                          \
        FMA(part[2], _mm256_loadu_ps((xs) + 2 * LANES), acc);                                      \
        FMA(part[3], _mm256_loadu_ps((xs) + 3 * LANES), acc);                                      \
    }
#define FP8_OUTPUT(i)                                                                              \
    {                                                                                              \
        const uint8_t *p = SOURCE(i);                                                              \
        FP8_HALF(p, xs, low##i)                                                                    \
        FP8_HALF(p + 32, xs + 8, high##i)                                                          \
    }
#define FP8_STEP                                                                                   \
    {                                                                                              \
        const float *xs = x + (size_t)step * 4 * LANES;                                            \
        EACH_OUTPUT(FP8_OUTPUT)                                                                    \
    }

// False when a NaN code was met: the sums are not to be used.
static bool row_fp8(const struct lf_matrix *m, const float *x, uint32_t o0, uint32_t outs,
                    float *sums) {
    __m256i seen = _mm256_setzero_si256();
    for (uint32_t o = 0; o < outs; o += ROW_OUTS) {
        struct row_group g = row_group_at(m, o0 + o, o0 + outs);
        EACH_OUTPUT(ZERO_SUMS)
        uint32_t step = 0;
#define SOURCE STEP_OF_GROUP
        for (; step < g.full; step++)
            FP8_STEP
#undef SOURCE
#define SOURCE STEP_OF_PAD
        if (g.tail)
            FP8_STEP
#undef SOURCE
        EACH_OUTPUT(STORE_SUMS)
    }
    __m256i nan = _mm256_cmpeq_epi8(seen, _mm256_set1_epi8((char)0xFE));
    return _mm256_movemask_epi8(nan) == 0;
}

// Whether x of that exponent times these scales and 2^120 is exact and finite.
static inline bool can_fold_fp8(const uint8_t *scale, uint32_t n, uint32_t exponent) {
    uint32_t high = 127 + 127 + 127 - 120 - 2 - exponent;
    return bytes_within(scale, n, SCALE_LOW, (uint8_t)(high < 254 - 120 ? high : 254 - 120));
}

// Word order x of n blocks of 32 times their scales and 2^120; padding stays 0.
static inline void fold_fp8(const uint8_t *scale, uint32_t n, const float *x, float *folded) {
    for (uint32_t half = 0; half < n + n % 2; half++) {
        __m256 factor = power_of_two(half < n ? scale[half] + 120u : 127u);
        size_t at = (size_t)(half / 2) * 4 * LANES + half % 2 * 8;
        for (uint32_t e = 0; e < 4; e++, at += LANES)
            _mm256_storeu_ps(folded + at, _mm256_mul_ps(_mm256_loadu_ps(x + at), factor));
    }
}

enum { FP4_X = 100, FP4_SCALE = 126 - FP4_X, FP4_SCALE_HIGH = 254 - FP4_SCALE };

// Values come as * 2^-126, x holds 2^100: the word's sum is t * 2^-26 and the scale takes 2^26.
#define FP4_HALF(words, xs, scale, acc)                                                            \
    {                                                                                              \
        __m256i part[8];                                                                           \
        split_e2m1(words, part);                                                                   \
        __m256 t = scale_part(part[0], _mm256_loadu_ps(xs));                                       \
        __m256 u = scale_part(part[4], _mm256_loadu_ps((xs) + 4 * LANES));                         \
        FMA(part[1], _mm256_loadu_ps((xs) + 1 * LANES), t);                                        \
        FMA(part[5], _mm256_loadu_ps((xs) + 5 * LANES), u);                                        \
        FMA(part[2], _mm256_loadu_ps((xs) + 2 * LANES), t);                                        \
        FMA(part[6], _mm256_loadu_ps((xs) + 6 * LANES), u);                                        \
        FMA(part[3], _mm256_loadu_ps((xs) + 3 * LANES), t);                                        \
        FMA(part[7], _mm256_loadu_ps((xs) + 7 * LANES), u);                                        \
        acc = _mm256_fmadd_ps(_mm256_add_ps(t, u), scale, acc);                                    \
    }

static inline void fp4_step(const uint8_t *p, uint32_t scales, const float *xs, __m256 *low,
                            __m256 *high) {
    const __m256i first = _mm256_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1);
    const __m256i second = _mm256_setr_epi32(2, 2, 2, 2, 3, 3, 3, 3);
    __m256i biased = _mm256_cvtepu8_epi32(_mm_cvtsi32_si128((int)scales));
    biased = _mm256_slli_epi32(_mm256_add_epi32(biased, _mm256_set1_epi32(FP4_SCALE)), 23);
    __m256 scale_low = _mm256_castsi256_ps(_mm256_permutevar8x32_epi32(biased, first));
    __m256 scale_high = _mm256_castsi256_ps(_mm256_permutevar8x32_epi32(biased, second));
    FP4_HALF(load_bytes(p), xs, scale_low, *low)
    FP4_HALF(load_bytes(p + 32), xs + 8, scale_high, *high)
}

static float row_fp4(const struct lf_matrix *m, const float *x, uint32_t o) {
    size_t row = lf_matrix_row_bytes(m);
    const uint8_t *p = m->data + o * row, *scale = m->scale + (size_t)o * (m->in / 32);
    uint32_t full = (uint32_t)(row / STEP_BYTES), rest = (uint32_t)(row % STEP_BYTES), scales;
    __m256 low = _mm256_setzero_ps(), high = low;
    for (uint32_t step = 0; step < full; step++) {
        memcpy(&scales, scale + 4 * (size_t)step, 4);
        fp4_step(p + (size_t)step * STEP_BYTES, scales, x + (size_t)step * 8 * LANES, &low, &high);
    }
    if (rest) {
        uint8_t pad[STEP_BYTES] = {0};
        scales = 0x7F7F7F7F;
        memcpy(pad, p + (size_t)full * STEP_BYTES, rest);
        memcpy(&scales, scale + 4 * (size_t)full, m->in / 32 % 4);
        fp4_step(pad, scales, x + (size_t)full * 8 * LANES, &low, &high);
    }
    return sum_halves(low, high);
}

static bool rows_fp8(const struct lf_matrix *m, const float *x, uint32_t exponent, uint32_t o0,
                     uint32_t outs, float *folded, float *sums) {
    uint32_t blocks = m->in / 32;
    for (uint32_t o = 0; o < outs; o += 32) {
        const uint8_t *scale = m->scale + (size_t)((o0 + o) / 32) * blocks;
        if (!can_fold_fp8(scale, blocks, exponent))
            return false;
        fold_fp8(scale, blocks, x, folded);
        if (!row_fp8(m, folded, o0 + o, outs - o < 32 ? outs - o : 32, sums + o))
            return false;
    }
    return true;
}

// The sums of outs outputs from o0 on, or false where only the tiles give the declared bits.
static inline bool one_row(const struct lf_matrix *m, const uint16_t *x, uint32_t o0,
                           uint32_t outs, struct scratch *s, float *sums) {
    float *ordered = s->w, *folded = s->w + ROW_IN_MAX;
    if (m->in > ROW_IN_MAX || m->format == LF_WEIGHT_F16 || m->format == LF_WEIGHT_F32)
        return false;
    uint32_t exponent = lf_matrix_quantizes_input(m) ? fold_exponent(x, m->in) : 1;
    if (exponent == 0)
        return false;
    order_x(m->format, x, m->in, ordered);
    if (m->format == LF_WEIGHT_FP8)
        return rows_fp8(m, ordered, exponent, o0, outs, folded, sums);
    if (m->format == LF_WEIGHT_BF16) {
        row_bf16(m, ordered, o0, outs, sums);
        return true;
    }
    const uint8_t *scale = m->scale + (size_t)o0 * (m->in / 32);
    if (!bytes_within(scale, outs * (m->in / 32), 1, FP4_SCALE_HIGH))
        return false;
    for (size_t k = 0; k < word_vectors(m->format, m->in) * (size_t)LANES; k++)
        ordered[k] *= 0x1p100f;
    for (uint32_t o = 0; o < outs; o++)
        sums[o] = row_fp4(m, ordered, o0 + o);
    return true;
}
