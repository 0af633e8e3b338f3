// A pair of a rotation in place, for rope and for what begins with it.
#pragma once
#include "kernel/launch.cuh"
#include "kernel/settle.h"

__device__ static inline void lf_turn_pair(uint16_t *even, uint16_t *odd, float c, float s) {
    float e = lf_bf16_to_f32(*even), o = lf_bf16_to_f32(*odd), turned = o * s;
    LF_CONTROL(66, e = lf_fault_finite(e); o = lf_fault_finite(o); turned = o * s;)
    LF_CONTROL(67, turned = lf_fault_bf16(turned);) // 67: the sine's product rounded to bf16
    *even = lf_bf16_settle(e * c - turned);
    *odd = lf_bf16_settle(e * s + o * c);
}
