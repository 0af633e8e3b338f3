// Quantized groups without a branch an element: finite groups give base/quant.h's scale and codes.
#pragma once
#include <math.h>
#include <stdint.h>
#include "base/number.h"

// Nearest value with some mantissa bits dropped, ties to even; below normal_min in magic's spacing.
LF_HOST_DEVICE static inline float lf_round_magnitude(float v, int drop, float normal_min,
                                                      float magic) {
    uint32_t bits = lf_f32_bits(v), half = (1u << (drop - 1)) - 1u;
    uint32_t rounded = (bits + half + (bits >> drop & 1u)) & ~((1u << drop) - 1u);
    float small = (v + magic) - magic;
    return v < normal_min ? small : lf_f32_from_bits(rounded);
}

// The nearest e4m3 value, saturated; the sign of a zero is kept.
LF_HOST_DEVICE static inline float lf_e4m3_round(float x) {
    float v = fabsf(x);
    v = v < 448.0f ? v : 448.0f;
    return copysignf(lf_round_magnitude(v, 20, 0x1p-6f, 0x1.8p14f), x);
}

// The nearest e2m1 value, saturated.
LF_HOST_DEVICE static inline float lf_e2m1_round(float x) {
    float v = fabsf(x);
    v = v < 6.0f ? v : 6.0f;
    return copysignf(lf_round_magnitude(v, 22, 1.0f, 0x1.8p22f), x);
}

// The code of a value that is one of the format's.
LF_HOST_DEVICE static inline uint8_t lf_e4m3_code(float value) {
    uint32_t bits = lf_f32_bits(value), magnitude = bits & 0x7FFFFFFFu;
    uint32_t small = (uint32_t)(int32_t)(fabsf(value) * 512.0f);
    uint32_t code = magnitude < 0x3C800000u ? small : (magnitude - 0x3C000000u) >> 20;
    return (uint8_t)((bits >> 24 & 0x80u) | code);
}

LF_HOST_DEVICE static inline uint8_t lf_e2m1_code(float value) {
    uint32_t bits = lf_f32_bits(value), magnitude = bits & 0x7FFFFFFFu;
    uint32_t small = (uint32_t)(int32_t)(fabsf(value) * 2.0f);
    uint32_t code = magnitude < 0x3F800000u ? small : (magnitude - 0x3F000000u) >> 22;
    return (uint8_t)((bits >> 28 & 8u) | code);
}

// max|x| of a group; infinity and NaN come out as such.
LF_HOST_DEVICE static inline float lf_group_max(const uint16_t *x, uint32_t n) {
    uint16_t most = 0;
    for (uint32_t i = 0; i < n; i++) {
        uint16_t magnitude = x[i] & 0x7FFF;
        most = magnitude > most ? magnitude : most;
    }
    return lf_bf16_to_f32(most);
}

// The scale byte k + 127 of model.md 3.2; 255 when the group is not finite.
LF_HOST_DEVICE static inline uint32_t lf_scale_byte(float max, float floor, float reciprocal) {
    float ratio = (max < floor ? floor : max) * reciprocal;
    uint32_t bits = lf_f32_bits(ratio);
    uint32_t byte = (bits >> 23) + ((bits & 0x7FFFFFu) != 0);
    return byte < 255 ? byte : 255;
}

LF_HOST_DEVICE static inline uint32_t lf_qa8_scale(const uint16_t x[32]) {
    return lf_scale_byte(lf_group_max(x, 32), 1e-4f, 1.0f / 448.0f);
}

LF_HOST_DEVICE static inline uint32_t lf_qf4e_scale(const uint16_t x[32]) {
    return lf_scale_byte(lf_group_max(x, 32), 6.0f * 0x1p-126f, 1.0f / 6.0f);
}

// 2^-k for a scale byte below 255.
LF_HOST_DEVICE static inline float lf_unscale(uint32_t byte) {
    return lf_f32_from_bits(byte == 254 ? 0x00400000u : (254u - byte) << 23);
}
