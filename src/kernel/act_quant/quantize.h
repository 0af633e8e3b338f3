// Quantized groups of 32, for act_quant and for kernels that quantize what they store.
#pragma once
#include <string.h>
#include "kernel/act_quant/act_quant.h"
#include "kernel/isa.h"
#include "kernel/quant_round.h"

enum { LF_ACT_GROUP = 32 };

static inline void lf_quantize_qa8(const uint16_t *x, uint16_t *y) {
    uint32_t byte = lf_qa8_scale(x);
#if LF_FAULT == 42
    byte -= byte > 100; // 42: the QA8 scale rounded down
#elif LF_FAULT == 43
    byte = lf_scale_byte(lf_group_max(x, LF_ACT_GROUP - 1), 1e-4f, 1.0f / 448.0f); // 43: 31 of 32
#endif
    float up = lf_unscale(byte), down = lf_ue8m0_to_f32((uint8_t)byte);
    for (uint32_t i = 0; i < LF_ACT_GROUP; i++) {
        float scaled = lf_bf16_to_f32(x[i]) * up;
#if LF_FAULT == 44
        scaled = lf_f32_from_bits(lf_f32_bits(scaled) & 0xFFF00000u); // 44: codes truncated
#endif
        float value = lf_e4m3_round(scaled) * down;
        y[i] = (uint16_t)(lf_f32_bits(value) >> 16);
    }
}

static inline void lf_quantize_qf4e(const uint16_t *x, uint16_t *y) {
    uint32_t byte = lf_qf4e_scale(x);
#if LF_FAULT == 45
    byte = lf_scale_byte(lf_group_max(x, LF_ACT_GROUP), 6.0f * 0x1p-126f, 1.0f / 4.0f); // 45: 4
#endif
    float up = lf_unscale(byte), down = lf_ue8m0_to_f32((uint8_t)byte);
    for (uint32_t i = 0; i < LF_ACT_GROUP; i++) {
        float value = lf_e2m1_round(lf_bf16_to_f32(x[i]) * up) * down;
        y[i] = (uint16_t)(lf_f32_bits(value) >> 16);
    }
}

// y may be x.
static inline void lf_quantize_group(enum lf_act_format format, const uint16_t *x, uint16_t *y) {
#if LF_FAULT == 41
    memmove(y, x, LF_ACT_GROUP * sizeof *y); // 41: values pass without rounding
    return;
#endif
    if (!isfinite(lf_group_max(x, LF_ACT_GROUP)))
        for (uint32_t i = 0; i < LF_ACT_GROUP; i++)
#if LF_FAULT == 46
            y[i] = 0; // 46: what is not finite becomes 0
#else
            y[i] = 0x7FC0;
#endif
    else if (format == LF_ACT_QA8)
        lf_quantize_qa8(x, y);
    else
        lf_quantize_qf4e(x, y);
}
