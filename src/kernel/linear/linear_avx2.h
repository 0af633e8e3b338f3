// What linear_cpu.c asks for, in AVX2: decoding to word order and the tiles.
#pragma once
#include <immintrin.h>
#include "kernel/linear/linear_tile.h"
#include "kernel/linear/linear_tile_avx2.h"

enum {
    X_EXPONENT_LOW = 127 - 50, // x folds from 2^-50 to below 2^27, zero included
    X_EXPONENT_HIGH = 127 + 27,
    SCALE_LOW = 127 - 40, // weights fold with scales 2^-40 to 2^1
    SCALE_HIGH = 127 + 1,
};

static inline bool bytes_within(const uint8_t *p, uint32_t n, uint8_t low, uint8_t high) {
    __m128i least = _mm_set1_epi8(-1), most = _mm_setzero_si128();
    uint32_t i = 0;
    for (; i + 16 <= n; i += 16) {
        __m128i v = _mm_loadu_si128((const __m128i *)(p + i));
        least = _mm_min_epu8(least, v);
        most = _mm_max_epu8(most, v);
    }
    bool within = true;
    for (; i < n; i++)
        within = within && p[i] >= low && p[i] <= high;
    __m128i low_held = _mm_min_epu8(least, _mm_set1_epi8((char)low));
    __m128i high_held = _mm_max_epu8(most, _mm_set1_epi8((char)high));
    __m128i held = _mm_and_si128(_mm_cmpeq_epi8(low_held, _mm_set1_epi8((char)low)),
                                 _mm_cmpeq_epi8(high_held, _mm_set1_epi8((char)high)));
    return within && _mm_movemask_epi8(held) == 0xFFFF;
}

static inline bool can_fold_weights(const struct packed *p) {
    return bytes_within(p->scale, p->scales, SCALE_LOW, SCALE_HIGH);
}

static inline __m256i load_bytes(const void *p) {
    return _mm256_loadu_si256((const __m256i *)p);
}

// The largest magnitude bits of n bf16, n a multiple of 16, and the least but zero's, less one.
static inline uint32_t magnitude_range(const uint16_t *x, uint32_t n, uint32_t *least_less_one) {
    const __m256i magnitude = _mm256_set1_epi16(0x7FFF), one = _mm256_set1_epi16(1);
    __m256i least = _mm256_set1_epi16(-1), most = _mm256_setzero_si256();
    for (uint32_t k = 0; k < n; k += 16) {
        __m256i v = _mm256_and_si256(load_bytes(x + k), magnitude);
        most = _mm256_max_epu16(most, v);
        // Zero wraps to the top and is no minimum.
        least = _mm256_min_epu16(least, _mm256_sub_epi16(v, one));
    }
    __m128i low = _mm_min_epu16(_mm256_castsi256_si128(least), _mm256_extracti128_si256(least, 1));
    __m128i high = _mm_max_epu16(_mm256_castsi256_si128(most), _mm256_extracti128_si256(most, 1));
    *least_less_one = (uint16_t)_mm_cvtsi128_si32(_mm_minpos_epu16(low));
    high = _mm_xor_si128(high, _mm_set1_epi16(-1));
    return 0xFFFFu ^ (uint16_t)_mm_cvtsi128_si32(_mm_minpos_epu16(high));
}

// The largest biased exponent, at least 1; 0 unless scaling x by 2^-40 .. 2^100 is exact.
static inline uint32_t fold_exponent(const uint16_t *x, uint32_t n) {
    uint32_t least_less_one, most = magnitude_range(x, n, &least_less_one);
    if (most >= X_EXPONENT_HIGH << 7 || least_less_one + 1 < X_EXPONENT_LOW << 7)
        return 0;
    return most >> 7 ? most >> 7 : 1;
}

static inline void store_bits(float *dst, __m256i bits) {
    _mm256_storeu_ps(dst, _mm256_castsi256_ps(bits));
}

// The two bf16 of each word.
static inline void split_bf16(__m256i words, __m256i *even, __m256i *odd) {
    *even = _mm256_slli_epi32(words, 16);
    *odd = _mm256_and_si256(words, _mm256_set1_epi32((int)0xFFFF0000u));
}

// The four e4m3 of each word as value * 2^-120; NaN codes are not seen.
static inline void split_e4m3(__m256i words, __m256i part[4]) {
    const __m256i mask = _mm256_set1_epi16((short)0x87F0);
    __m256i high = _mm256_and_si256(_mm256_srai_epi16(words, 4), mask);
    __m256i low = _mm256_and_si256(_mm256_srai_epi16(_mm256_slli_epi16(words, 8), 4), mask);
    split_bf16(low, &part[0], &part[2]);
    split_bf16(high, &part[1], &part[3]);
}

// The eight e2m1 of each word as value * 2^-126.
static inline void split_e2m1(__m256i words, __m256i part[8]) {
    const __m256i mask = _mm256_set1_epi16((short)0x81C0);
    for (int i = 0; i < 4; i++) {
        __m256i top = i == 3 ? words : _mm256_slli_epi16(words, 12 - 4 * i);
        split_bf16(_mm256_and_si256(_mm256_srai_epi16(top, 6), mask), &part[i], &part[4 + i]);
    }
}

// True when one of 32 codes is an e4m3 NaN.
static inline bool any_e4m3_nan(__m256i codes) {
    __m256i magnitude = _mm256_and_si256(codes, _mm256_set1_epi8(0x7F));
    return _mm256_movemask_epi8(_mm256_cmpeq_epi8(magnitude, _mm256_set1_epi8(0x7F))) != 0;
}

// part * factor: a fused add of -0 changes no product and takes subnormal parts at full speed.
static inline __m256 scale_part(__m256i part, __m256 factor) {
    return _mm256_fmadd_ps(_mm256_castsi256_ps(part), factor, _mm256_set1_ps(-0.0f));
}

static inline __m256 power_of_two(uint32_t biased) {
    return _mm256_castsi256_ps(_mm256_set1_epi32((int)(biased << 23)));
}

static inline void decode_fp8_step(const struct packed *p, uint32_t step, float *dst) {
    uint8_t pad[STEP_BYTES];
    const uint8_t *src = step_bytes(p, step, pad);
    for (uint32_t half = 0; half < 2; half++) {
        __m256i codes = load_bytes(src + 32 * half), part[4];
        uint32_t block = 2 * step + half, scale = block < p->scales ? p->scale[block] : 127;
        if (scale == 0 || scale + 120 > 254 || any_e4m3_nan(codes)) {
            decode_step(LF_WEIGHT_FP8, p, step, dst);
            return;
        }
        split_e4m3(codes, part);
        __m256 factor = power_of_two(scale + 120);
        for (uint32_t e = 0; e < 4; e++)
            _mm256_storeu_ps(dst + e * LANES + 8 * half, scale_part(part[e], factor));
    }
}

// Scaled when fold, else with the scale 1.
static inline void decode_fp4_step(const struct packed *p, uint32_t step, bool fold, float *dst) {
    uint8_t pad[STEP_BYTES];
    const uint8_t *src = step_bytes(p, step, pad);
    for (uint32_t half = 0; half < 2; half++) {
        __m256i part[8];
        __m256 scale = power_of_two(127 + 126);
        uint32_t block = 4 * step + 2 * half;
        if (fold && block < p->scales) {
            uint32_t first = p->scale[block];
            uint32_t second = block + 1 < p->scales ? p->scale[block + 1] : first;
            scale = _mm256_blend_ps(power_of_two(first + 126), power_of_two(second + 126), 0xF0);
        }
        split_e2m1(load_bytes(src + 32 * half), part);
        for (uint32_t e = 0; e < 8; e++)
            _mm256_storeu_ps(dst + e * LANES + 8 * half, scale_part(part[e], scale));
    }
}

static inline void decode(const struct lf_matrix *m, uint32_t o, uint32_t k0, bool fold,
                          float *dst) {
    struct packed p = packed_block(m, o, k0);
    uint32_t e = word_elements(m->format);
    uint32_t steps = word_vectors(m->format, block_elements(m->in, k0)) / e;
    uint8_t pad[STEP_BYTES];
    for (uint32_t step = 0; step < steps; step++, dst += e * LANES)
        if (m->format == LF_WEIGHT_FP8)
            decode_fp8_step(&p, step, dst);
        else if (m->format == LF_WEIGHT_MXFP4)
            decode_fp4_step(&p, step, fold, dst);
        else if (m->format == LF_WEIGHT_BF16) {
            const uint8_t *src = step_bytes(&p, step, pad);
            for (uint32_t half = 0; half < 16; half += 8) {
                __m256i even, odd;
                split_bf16(load_bytes(src + 4 * half), &even, &odd);
                store_bits(dst + half, even);
                store_bits(dst + LANES + half, odd);
            }
        } else
            decode_step(m->format, &p, step, dst);
}

// Eight words of four bf16 pairs: pair d of word i goes to d[d] lane i.
static inline void transpose_8x4(const uint16_t *x, __m256i d[4]) {
    const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    __m256i a = load_bytes(x), b = load_bytes(x + 16), c = load_bytes(x + 32),
            e = load_bytes(x + 48);
    __m256i low_ab = _mm256_unpacklo_epi32(a, b), low_ce = _mm256_unpacklo_epi32(c, e);
    __m256i high_ab = _mm256_unpackhi_epi32(a, b), high_ce = _mm256_unpackhi_epi32(c, e);
    d[0] = _mm256_permutevar8x32_epi32(_mm256_unpacklo_epi64(low_ab, low_ce), order);
    d[1] = _mm256_permutevar8x32_epi32(_mm256_unpackhi_epi64(low_ab, low_ce), order);
    d[2] = _mm256_permutevar8x32_epi32(_mm256_unpacklo_epi64(high_ab, high_ce), order);
    d[3] = _mm256_permutevar8x32_epi32(_mm256_unpackhi_epi64(high_ab, high_ce), order);
}

// Eight words of two bf16 pairs.
static inline void transpose_8x2(const uint16_t *x, __m256i d[2]) {
    __m256 a = _mm256_castsi256_ps(load_bytes(x)), b = _mm256_castsi256_ps(load_bytes(x + 16));
    __m256d even = _mm256_castps_pd(_mm256_shuffle_ps(a, b, 0x88));
    __m256d odd = _mm256_castps_pd(_mm256_shuffle_ps(a, b, 0xDD));
    d[0] = _mm256_castpd_si256(_mm256_permute4x64_pd(even, 0xD8));
    d[1] = _mm256_castpd_si256(_mm256_permute4x64_pd(odd, 0xD8));
}

static inline void order_step(uint32_t e_count, const uint16_t *x, float *dst) {
    for (uint32_t half = 0; half < 16; half += 8, x += 8 * e_count) {
        __m256i pair[4], even, odd;
        if (e_count == 1) {
            __m256i wide = _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)x));
            store_bits(dst + half, _mm256_slli_epi32(wide, 16));
            continue;
        }
        if (e_count == 2)
            pair[0] = load_bytes(x);
        else if (e_count == 4)
            transpose_8x2(x, pair);
        else
            transpose_8x4(x, pair);
        for (uint32_t d = 0; d < e_count / 2; d++) {
            split_bf16(pair[d], &even, &odd);
            store_bits(dst + 2 * d * LANES + half, even);
            store_bits(dst + (2 * d + 1) * LANES + half, odd);
        }
    }
}

static inline __attribute__((always_inline)) void order_block(uint32_t e, const uint16_t *x,
                                                              uint32_t n, float *dst) {
    uint32_t step = e * LANES, k = 0;
    for (; k + step <= n; k += step)
        order_step(e, x + k, dst + k);
    if (k == n)
        return;
    uint16_t pad[8 * LANES] = {0};
    memcpy(pad, x + k, (n - k) * sizeof *x);
    order_step(e, pad, dst + k);
}

static inline void order_x(enum lf_weight_format format, const uint16_t *x, uint32_t n,
                           float *dst) {
    switch (word_elements(format)) {
    case 1:
        order_block(1, x, n, dst);
        return;
    case 2:
        order_block(2, x, n, dst);
        return;
    case 4:
        order_block(4, x, n, dst);
        return;
    default:
        order_block(8, x, n, dst);
    }
}
