// One e4m3 code of a packed row to float32, in both columns.
#pragma once
#include <stdint.h>
#include "base/number.h"

// The code's bits moved into a float32 are value * 2^-120; subnormal codes stay exact.
LF_HOST_DEVICE static inline float lf_cache_e4m3(uint8_t code) {
    float value = lf_f32_from_bits((code & 0x7Fu) << 20 | (code & 0x80u) << 24) * 0x1p120f;
    return (code & 0x7Fu) == 0x7Fu ? lf_f32_from_bits(0x7FC00000u) : value;
}
