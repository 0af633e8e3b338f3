// The rotation of neighbouring pairs in place, for rope and for what begins with it.
#pragma once
#include "kernel/settle.h"

// Pair i is elements 2i and 2i+1.
static inline void lf_turn(uint16_t *x, uint32_t pairs, const float *cos, const float *sin,
                           float sign) {
#if LF_FAULT == 61
    uint32_t next = 1, odd = pairs; // 61: pairs i and i + d/2, rotation in halves
#else
    uint32_t next = 2, odd = 1;
#endif
    for (uint32_t i = 0; i < pairs; i++) {
        float e = lf_bf16_to_f32(x[next * i]), o = lf_bf16_to_f32(x[next * i + odd]);
        float s = sign * sin[i];
#if LF_FAULT == 66
        e = e - e == 0.0f ? e : 0.0f; // 66: what is not finite counts as 0
#elif LF_FAULT == 67
        o = lf_bf16_to_f32(lf_bf16_settle(o * s)) / s; // 67: o*s rounded to bf16 before the sum
#endif
        x[next * i] = lf_bf16_settle(e * cos[i] - o * s);
        x[next * i + odd] = lf_bf16_settle(e * s + o * cos[i]);
    }
}
