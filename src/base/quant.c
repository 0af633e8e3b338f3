#include "base/quant.h"

#include <math.h>
#include "base/number.h"

// A NaN in the group must not vanish: it becomes the maximum.
static float max_abs(const uint16_t *x, int n) {
    float a = 0.0f;
    for (int i = 0; i < n; i++) {
        float v = fabsf(lf_bf16_to_f32(x[i]));
        if (!(v <= a))
            a = v;
        if (isnan(a))
            return a;
    }
    return a;
}

// k = ceil(log2(ratio)) from the bits, as the scale byte k + 127 (model.md 3.2).
static uint8_t scale_byte(float ratio) {
    uint32_t bits = lf_f32_bits(ratio);
    uint32_t byte = (bits >> 23 & 255) + ((bits & 0x7FFFFFu) != 0);
    return (uint8_t)(byte > 255 ? 255 : byte);
}

// x * 2^-k without overflow in 2^-k itself: exact unless it leaves the normal range.
static float unscale(uint16_t x, uint8_t byte) {
    return ldexpf(lf_bf16_to_f32(x), 127 - (int)byte);
}

uint8_t lf_qa8_group(const uint16_t x[LF_QA8_GROUP], uint8_t codes[LF_QA8_GROUP]) {
    float a = max_abs(x, LF_QA8_GROUP);
    uint8_t byte = scale_byte((a < 1e-4f ? 1e-4f : a) * (1.0f / 448.0f));
    for (int i = 0; i < LF_QA8_GROUP; i++)
        codes[i] = lf_e4m3_from_f32(unscale(x[i], byte));
    return byte;
}

uint8_t lf_qf4e_group(const uint16_t x[LF_QF4E_GROUP], uint8_t codes[LF_QF4E_GROUP]) {
    float a = max_abs(x, LF_QF4E_GROUP), floor = 6.0f * 0x1p-126f;
    uint8_t byte = scale_byte((a < floor ? floor : a) * (1.0f / 6.0f));
    for (int i = 0; i < LF_QF4E_GROUP; i++)
        codes[i] = lf_e2m1_from_f32(unscale(x[i], byte));
    return byte;
}

uint8_t lf_qf4s_group(const uint16_t x[LF_QF4S_GROUP], uint8_t codes[LF_QF4S_GROUP]) {
    float a = max_abs(x, LF_QF4S_GROUP), floor = 6.0f * 0x1p-9f;
    uint8_t byte = lf_e4m3_from_f32((a < floor ? floor : a) / 6.0f);
    float scale = lf_e4m3_to_f32(byte);
    for (int i = 0; i < LF_QF4S_GROUP; i++)
        codes[i] = lf_e2m1_from_f32(lf_bf16_to_f32(x[i]) / scale);
    return byte;
}
