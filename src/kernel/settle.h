// Stores of kernel results: a NaN has one pattern, so that bits never depend on operand order.
#pragma once
#include <stdint.h>
#include "base/number.h"

LF_HOST_DEVICE static inline uint16_t lf_bf16_settle(float x) {
    uint32_t bits = lf_f32_bits(x);
    uint32_t rounded = (bits + 0x7FFFu + (bits >> 16 & 1)) >> 16;
    return (uint16_t)((bits & 0x7FFFFFFFu) > 0x7F800000u ? 0x7FC0u : rounded);
}

LF_HOST_DEVICE static inline float lf_f32_settle(float x) {
    uint32_t bits = lf_f32_bits(x);
    return lf_f32_from_bits((bits & 0x7FFFFFFFu) > 0x7F800000u ? 0x7FC00000u : bits);
}
