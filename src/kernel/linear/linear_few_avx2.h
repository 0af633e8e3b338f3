// Few rows in AVX2: one output's weights stay in registers for up to four rows of a block of x.
#pragma once
#include "kernel/linear/linear_row_avx2.h"

#define FEW_LOAD(i)                                                                                \
    if (rows > i)                                                                                  \
        low##i = _mm256_loadu_ps(acc + i * acc_row),                                               \
        high##i = _mm256_loadu_ps(acc + i * acc_row + 8);
#define FEW_STORE(i)                                                                               \
    if (rows > i)                                                                                  \
        _mm256_storeu_ps(acc + i * acc_row, low##i),                                               \
            _mm256_storeu_ps(acc + i * acc_row + 8, high##i);

// The packed bytes of one output's block, and of the output whose turn comes soon.
struct few_source {
    const uint8_t *p, *soon;
    uint32_t full;
    bool tail;
    uint8_t pad[STEP_BYTES];
};

static inline struct few_source few_source_at(const struct lf_matrix *m, uint32_t o, uint32_t k0) {
    struct packed p = packed_block(m, o, k0);
    struct few_source s = {.p = p.data, .full = p.bytes / STEP_BYTES};
    s.soon = o + 2 < m->out ? p.data + 2 * lf_matrix_row_bytes(m) : p.data;
    s.tail = p.bytes % STEP_BYTES != 0;
    if (s.tail)
        memcpy(s.pad, p.data + s.full * STEP_BYTES, p.bytes % STEP_BYTES);
    return s;
}

static inline const uint8_t *few_step(const struct few_source *s, uint32_t step) {
    if (step == s->full)
        return s->pad;
    _mm_prefetch((const char *)s->soon + step * STEP_BYTES, _MM_HINT_T0);
    return s->p + step * STEP_BYTES;
}

#define FEW_ROW(i, part, e, side, shift)                                                           \
    if (rows > i)                                                                                  \
        FMA(part, _mm256_loadu_ps(xs + i * K_BLOCK + (e) * LANES + (shift)), side##i);
#define FEW_ROWS(part, e, side, shift)                                                             \
    FEW_ROW(0, part, e, side, shift)                                                               \
    FEW_ROW(1, part, e, side, shift)                                                               \
    FEW_ROW(2, part, e, side, shift) FEW_ROW(3, part, e, side, shift)

ALWAYS_INLINE void few_bf16(const int rows, const struct few_source *s, const float *x, float *acc,
                            size_t acc_row) {
    __m256 low0, low1, low2, low3, high0, high1, high2, high3;
    low1 = low2 = low3 = high1 = high2 = high3 = _mm256_setzero_ps();
    EACH_OUTPUT(FEW_LOAD)
    for (uint32_t step = 0; step < s->full + s->tail; step++) {
        const uint8_t *p = few_step(s, step);
        const float *xs = x + step * 2 * LANES;
        __m256i even, odd;
        split_bf16(load_bytes(p), &even, &odd);
        FEW_ROWS(even, 0, low, 0)
        FEW_ROWS(odd, 1, low, 0)
        split_bf16(load_bytes(p + 32), &even, &odd);
        FEW_ROWS(even, 0, high, 8)
        FEW_ROWS(odd, 1, high, 8)
    }
    EACH_OUTPUT(FEW_STORE)
}

// x holds the scale and 2^120. Sums are stored only when no NaN code was met.
ALWAYS_INLINE bool few_fp8(const int rows, const struct few_source *s, const float *x, float *acc,
                           size_t acc_row) {
    __m256 low0, low1, low2, low3, high0, high1, high2, high3;
    low1 = low2 = low3 = high1 = high2 = high3 = _mm256_setzero_ps();
    __m256i seen = _mm256_setzero_si256(), part[4];
    EACH_OUTPUT(FEW_LOAD)
    for (uint32_t step = 0; step < s->full + s->tail; step++) {
        const uint8_t *p = few_step(s, step);
        const float *xs = x + step * 4 * LANES;
        __m256i codes = load_bytes(p);
        seen = _mm256_max_epu8(seen, _mm256_add_epi8(codes, codes));
        split_e4m3(codes, part);
        FEW_ROWS(part[0], 0, low, 0)
        FEW_ROWS(part[1], 1, low, 0)
        FEW_ROWS(part[2], 2, low, 0)
        FEW_ROWS(part[3], 3, low, 0)
        codes = load_bytes(p + 32);
        seen = _mm256_max_epu8(seen, _mm256_add_epi8(codes, codes));
        split_e4m3(codes, part);
        FEW_ROWS(part[0], 0, high, 8)
        FEW_ROWS(part[1], 1, high, 8)
        FEW_ROWS(part[2], 2, high, 8)
        FEW_ROWS(part[3], 3, high, 8)
    }
    __m256i nan = _mm256_cmpeq_epi8(seen, _mm256_set1_epi8((char)0xFE));
    if (_mm256_movemask_epi8(nan))
        return false;
    EACH_OUTPUT(FEW_STORE)
    return true;
}

// One row's words of a half step: value * 2^-126, x * 2^100, the scale * 2^26.
#define FEW_WORDS(i, side, shift, scale)                                                           \
    if (rows > i) {                                                                                \
        const float *xr = xs + i * K_BLOCK + (shift);                                              \
        __m256 t = scale_part(part[0], _mm256_loadu_ps(xr));                                       \
        __m256 u = scale_part(part[4], _mm256_loadu_ps(xr + 4 * LANES));                           \
        FMA(part[1], _mm256_loadu_ps(xr + 1 * LANES), t);                                          \
        FMA(part[5], _mm256_loadu_ps(xr + 5 * LANES), u);                                          \
        FMA(part[2], _mm256_loadu_ps(xr + 2 * LANES), t);                                          \
        FMA(part[6], _mm256_loadu_ps(xr + 6 * LANES), u);                                          \
        FMA(part[3], _mm256_loadu_ps(xr + 3 * LANES), t);                                          \
        FMA(part[7], _mm256_loadu_ps(xr + 7 * LANES), u);                                          \
        side##i = _mm256_fmadd_ps(_mm256_add_ps(t, u), scale, side##i);                            \
    }
#define FEW_ALL_WORDS(side, shift, scale)                                                          \
    FEW_WORDS(0, side, shift, scale)                                                               \
    FEW_WORDS(1, side, shift, scale)                                                               \
    FEW_WORDS(2, side, shift, scale) FEW_WORDS(3, side, shift, scale)

ALWAYS_INLINE void few_fp4(const int rows, const struct few_source *s, const float *scale,
                           const float *x, float *acc, size_t acc_row) {
    const __m256i first = _mm256_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1);
    const __m256i second = _mm256_setr_epi32(2, 2, 2, 2, 3, 3, 3, 3);
    __m256 low0, low1, low2, low3, high0, high1, high2, high3;
    low1 = low2 = low3 = high1 = high2 = high3 = _mm256_setzero_ps();
    __m256i part[8];
    EACH_OUTPUT(FEW_LOAD)
    for (uint32_t step = 0; step < s->full + s->tail; step++) {
        const uint8_t *p = few_step(s, step);
        const float *xs = x + step * 8 * LANES;
        __m256 scales = _mm256_castps128_ps256(_mm_loadu_ps(scale + 4 * step));
        split_e2m1(load_bytes(p), part);
        FEW_ALL_WORDS(low, 0, _mm256_permutevar8x32_ps(scales, first))
        split_e2m1(load_bytes(p + 32), part);
        FEW_ALL_WORDS(high, 8, _mm256_permutevar8x32_ps(scales, second))
    }
    EACH_OUTPUT(FEW_STORE)
}

#define FEW_ROWS_CALL(call)                                                                        \
    switch (at_once) {                                                                             \
    case 4:                                                                                        \
        call(4);                                                                                   \
        break;                                                                                     \
    case 3:                                                                                        \
        call(3);                                                                                   \
        break;                                                                                     \
    case 2:                                                                                        \
        call(2);                                                                                   \
        break;                                                                                     \
    default:                                                                                       \
        call(1);                                                                                   \
    }

// False, and nothing added, when the output holds a NaN code or a scale out of range.
static bool few_output(const struct few *f, const float *x, uint32_t o) {
    struct few_source source = few_source_at(f->m, f->o0 + o, f->k0);
    struct packed packed = packed_block(f->m, f->o0 + o, f->k0);
    float scale[K_BLOCK / 32];
    if (f->m->format == LF_WEIGHT_MXFP4) {
        if (!bytes_within(packed.scale, packed.scales, 1, FP4_SCALE_HIGH))
            return false;
        for (uint32_t i = 0; i < K_BLOCK / 32; i++)
            scale[i] = scale_at(&packed, i) * 0x1p26f;
    }
    bool clean = true;
    for (uint32_t r = 0; clean && r < f->rows; r += TILE_ROWS, x += TILE_ROWS * K_BLOCK) {
        uint32_t at_once = f->rows - r < TILE_ROWS ? f->rows - r : TILE_ROWS;
        float *acc = f->acc + r * f->acc_row + o * LANES;
#define CALL(n) few_bf16(n, &source, x, acc, f->acc_row)
        if (f->m->format == LF_WEIGHT_BF16)
            FEW_ROWS_CALL(CALL)
#undef CALL
#define CALL(n) clean = few_fp8(n, &source, x, acc, f->acc_row)
        if (f->m->format == LF_WEIGHT_FP8)
            FEW_ROWS_CALL(CALL)
#undef CALL
#define CALL(n) few_fp4(n, &source, scale, x, acc, f->acc_row)
        if (f->m->format == LF_WEIGHT_MXFP4)
            FEW_ROWS_CALL(CALL)
#undef CALL
    }
    return clean;
}

// One FP8 block of 32 outputs, or all outputs of another format.
static void few_outputs(const struct few *f, bool foldable, uint32_t o, uint32_t end) {
    uint32_t n = block_elements(f->m->in, f->k0);
    const float *x = f->m->format == LF_WEIGHT_BF16 ? f->x : f->folded;
    if (f->m->format == LF_WEIGHT_FP8) {
        struct packed p = packed_block(f->m, f->o0 + o, f->k0);
        foldable = foldable && can_fold_fp8(p.scale, n / 32, f->exponent);
        for (uint32_t r = 0; foldable && r < f->rows; r++)
            fold_fp8(p.scale, n / 32, f->x + r * K_BLOCK, f->folded + r * K_BLOCK);
    }
    for (; o < end; o++)
        if (!foldable || !few_output(f, x, o))
            plain_output(f->m, f->o0 + o, f->k0, f->x, f->rows, f->acc + o * LANES, f->acc_row);
}

// False for the formats that only tiles do.
static bool few_rows(const struct few *f) {
    enum lf_weight_format format = f->m->format;
    if (format == LF_WEIGHT_F16 || format == LF_WEIGHT_F32)
        return false;
    if (format == LF_WEIGHT_MXFP4)
        for (size_t k = 0; k < (size_t)f->rows * K_BLOCK; k++)
            f->folded[k] = f->x[k] * 0x1p100f;
    uint32_t outs = format == LF_WEIGHT_FP8 ? 32 : f->outs;
    for (uint32_t o = 0; o < f->outs; o += outs)
        few_outputs(f, format == LF_WEIGHT_BF16 || f->exponent > 0, o,
                    o + outs < f->outs ? o + outs : f->outs);
    return true;
}
