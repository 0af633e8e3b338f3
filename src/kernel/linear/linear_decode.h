// Weights to float32 in word order, and which scales fold without rounding.
#pragma once
#include "kernel/linear/linear_order.h"

enum {
    X_EXPONENT_LOW = 127 - 50, // x folds from 2^-50 to below 2^27, zero included
    X_EXPONENT_HIGH = 127 + 27,
    SCALE_LOW = 127 - 40,
    E4M3_BIAS = 120, // split_e4m3 gives value * 2^-120
};

static bool bytes_within(const uint8_t *p, size_t n, uint8_t low, uint8_t high) {
    uint8_t outside = 0, range = (uint8_t)(high - low);
    for (size_t i = 0; i < n; i++)
        outside |= (uint8_t)(p[i] - low) > range;
    return !outside;
}

// The largest biased exponent, at least 1; 0 unless scaling x by 2^-40 .. 2^100 is exact.
static uint32_t fold_exponent(const uint16_t *x, uint32_t n) {
    uint16_t most = 0, least_less_one = 0xFFFF;
    for (uint32_t k = 0; k < n; k++) {
        uint16_t v = x[k] & 0x7FFF, less_one = (uint16_t)(v - 1); // zero is no minimum
        most = v > most ? v : most;
        least_less_one = less_one < least_less_one ? less_one : least_less_one;
    }
    if (most >= X_EXPONENT_HIGH << 7 || least_less_one + 1 < X_EXPONENT_LOW << 7)
        return 0;
    return most >> 7 ? most >> 7 : 1;
}

// The four e4m3 of each word as bf16 of value * 2^-120, 0 and 2, 1 and 3; NaN codes are not seen.
INLINE void split_codes(vec_u32 words, vec_u16 *low, vec_u16 *high) {
    const vec_u16 mask = (vec_u16)all_words(0x87F087F0u);
    *high = (vec_u16)((vec_i16)words >> 4) & mask;
    *low = (vec_u16)((vec_i16)((vec_u16)words << 8) >> 4) & mask;
}

INLINE void split_e4m3(vec_u32 words, vec_f32 part[4]) {
    vec_u16 low, high;
    split_codes(words, &low, &high);
    split_pairs((vec_u32)low, &part[0], &part[2]);
    split_pairs((vec_u32)high, &part[1], &part[3]);
}

// Whether an e4m3 NaN is among codes of which the greatest of each twice is kept.
INLINE bool twice_has_nan(vec_u8 twice) {
#if LF_FAULT == 9 // an e4m3 NaN is read as a number
    twice = (vec_u8){0};
#endif
    return vec_any((vec_u32)(twice == (vec_u8)all_words(0xFEFEFEFEu)));
}

// A fused add of -0 changes no product and takes subnormal numbers at full speed.
INLINE void store_scaled(float *dst, vec_f32 value, vec_f32 factor) {
    store_f32(dst, vec_fma(value, factor, all_f32(-0.0f)));
}

// The factors of a part of 16 words, blocks of 32 in their halves.
INLINE vec_f32 e4m3_factor(uint32_t part, uint32_t first, uint32_t second) {
    if (VEC_PARTS > 1)
        return (vec_f32)all_words((2 * part < VEC_PARTS ? first : second) << 23);
    vec_u32 both = all_words(first << 23);
    for (uint32_t i = LANES / 2; i < VEC_LANES; i++)
        both[i] = second << 23;
    return (vec_f32)both;
}

// Of blocks b and b + 1 of so many scales: what x is multiplied by; past the last it is padding.
INLINE vec_f32 fold_factor(const uint8_t *scale, uint32_t scales, uint32_t part, uint32_t b) {
    const uint32_t bias = E4M3_BIAS;
    return e4m3_factor(part, scale[b] + bias, b + 1 < scales ? scale[b + 1] + bias : 127);
}
