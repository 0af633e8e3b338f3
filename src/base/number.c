#include "base/number.h"

#include <math.h>

float lf_f16_to_f32(uint16_t x) {
    uint32_t sign = (uint32_t)(x & 0x8000) << 16, exponent = x >> 10 & 31, mantissa = x & 1023;
    if (exponent == 31)
        return lf_f32_from_bits(sign | 0x7F800000u | mantissa << 13);
    if (exponent)
        return lf_f32_from_bits(sign | (exponent + 112) << 23 | mantissa << 13);
    float value = (float)mantissa * 0x1p-24f;
    return sign ? -value : value;
}

uint16_t lf_f16_from_f32(float x) {
    uint32_t bits = lf_f32_bits(x), sign = bits >> 16 & 0x8000, magnitude = bits & 0x7FFFFFFFu;
    if (magnitude > 0x7F800000u)
        return (uint16_t)(sign | 0x7E00 | (magnitude >> 13 & 0x1FF));
    if (magnitude >= 0x477FF000u)
        return (uint16_t)(sign | 0x7C00);
    // Below 2^-14 the spacing is 2^-24: rounding to an integer count of it ties to even.
    if (magnitude < 0x38800000u)
        return (uint16_t)(sign | (uint32_t)lrintf(lf_f32_from_bits(magnitude) * 0x1p24f));
    uint32_t rounded = magnitude + 0xFFFu + (magnitude >> 13 & 1);
    return (uint16_t)(sign | (rounded - 0x38000000u) >> 13);
}

float lf_e4m3_to_f32(uint8_t code) {
    uint32_t sign = (uint32_t)(code & 0x80) << 24, exponent = code >> 3 & 15, mantissa = code & 7;
    if ((code & 0x7F) == 0x7F)
        return lf_f32_from_bits(sign | 0x7FC00000u);
    if (exponent)
        return lf_f32_from_bits(sign | (exponent + 120) << 23 | mantissa << 20);
    float value = (float)mantissa * 0x1p-9f;
    return sign ? -value : value;
}

uint8_t lf_e4m3_from_f32(float x) {
    uint32_t bits = lf_f32_bits(x), magnitude = bits & 0x7FFFFFFFu;
    uint8_t sign = (uint8_t)(bits >> 24 & 0x80);
    if (magnitude > 0x7F800000u)
        return sign | 0x7F;
    if (magnitude >= 0x43E00000u)
        return sign | 0x7E;
    if (magnitude < 0x3C800000u)
        return sign | (uint8_t)lrintf(lf_f32_from_bits(magnitude) * 0x1p9f);
    uint32_t rounded = magnitude + 0x7FFFFu + (magnitude >> 20 & 1);
    return sign | (uint8_t)((rounded - 0x3C000000u) >> 20);
}

static const float e2m1_values[8] = {0.0f, 0.5f, 1.0f, 1.5f, 2.0f, 3.0f, 4.0f, 6.0f};

float lf_e2m1_to_f32(uint8_t code) {
    float value = e2m1_values[code & 7];
    return code & 8 ? -value : value;
}

uint8_t lf_e2m1_from_f32(float x) {
    uint8_t sign = lf_f32_bits(x) >> 31 ? 8 : 0;
    float a = fabsf(x);
    uint8_t code = 0;
    // An odd code loses both of its ties, so ties go to the even neighbour.
    if (!(a <= 5.0f))
        code = 7;
    else if (a >= 3.5f)
        code = 6;
    else if (a > 2.5f)
        code = 5;
    else if (a >= 1.75f)
        code = 4;
    else if (a > 1.25f)
        code = 3;
    else if (a >= 0.75f)
        code = 2;
    else if (a > 0.25f)
        code = 1;
    return sign | code;
}
