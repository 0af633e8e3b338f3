// Which codes and scales a device decodes by one product of bf16 numbers; odd ones take longer.
#pragma once
#include "base/number.h"
#include "format/matrix.h"

// Whether a scale's power of two, or FP8's with what decoding leaves to it, is no bf16 number.
LF_HOST_DEVICE static inline bool lf_scale_is_odd(enum lf_weight_format format, uint32_t scale) {
    return format == LF_WEIGHT_FP8 ? scale - 3 > 131 : scale > 128;
}

// Whether an e4m3 code is NaN.
LF_HOST_DEVICE static inline bool lf_code_is_odd(uint8_t code) {
    return (code & 0x7F) == 0x7F;
}

// FP8 has odd codes.
static inline uint64_t lf_linear_codes(const struct lf_matrix *m) {
    return m->format == LF_WEIGHT_FP8 ? (uint64_t)m->out * m->in : 0;
}

// Whether struct lf_matrix may call it regular.
static inline bool lf_linear_is_regular(const struct lf_matrix *m) {
    uint64_t codes = lf_linear_codes(m), scales = lf_matrix_scale_bytes(m);
    bool is_odd = false;
    for (uint64_t i = 0; i < codes; i++)
        is_odd |= lf_code_is_odd(m->data[i]);
    for (uint64_t i = 0; i < scales; i++)
        is_odd |= lf_scale_is_odd(m->format, m->scale[i]);
    return !is_odd;
}
