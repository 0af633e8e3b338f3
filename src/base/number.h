// Number formats of the checkpoint: bf16, f16, e4m3, e2m1, UE8M0 (model.md 3.1, checkpoint.md 5).
#pragma once
#include <stdint.h>
#include <string.h>

// Small functions that kernels of both columns share: CUDA compiles them for the device too.
#ifdef __CUDACC__
#define LF_HOST_DEVICE __host__ __device__
#else
#define LF_HOST_DEVICE
#endif

LF_HOST_DEVICE static inline uint32_t lf_f32_bits(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

LF_HOST_DEVICE static inline float lf_f32_from_bits(uint32_t bits) {
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

LF_HOST_DEVICE static inline float lf_bf16_to_f32(uint16_t x) {
    return lf_f32_from_bits((uint32_t)x << 16);
}

// Nearest, ties to even; a NaN stays a (quiet) NaN.
LF_HOST_DEVICE static inline uint16_t lf_bf16_from_f32(float x) {
    uint32_t bits = lf_f32_bits(x);
    uint32_t rounded = (bits + 0x7FFFu + (bits >> 16 & 1)) >> 16;
    uint32_t quiet = bits >> 16 | 0x40u;
    return (uint16_t)((bits & 0x7FFFFFFFu) > 0x7F800000u ? quiet : rounded);
}

float lf_f16_to_f32(uint16_t x);
uint16_t lf_f16_from_f32(float x); // nearest, ties to even, overflow to infinity

// e4m3fn: bias 7, subnormals m*2^-9, largest 448, no infinities, 0x7F and 0xFF are NaN.
float lf_e4m3_to_f32(uint8_t code);
// Nearest, ties to even code, saturates at +-448; NaN gives 0x7F with the sign.
uint8_t lf_e4m3_from_f32(float x);

// e2m1: 0, 0.5, 1, 1.5, 2, 3, 4, 6, bit 3 is the sign; only the low nibble of code is read.
float lf_e2m1_to_f32(uint8_t code);
// Nearest, ties to even code, saturates at +-6; NaN gives 7 with the sign.
uint8_t lf_e2m1_from_f32(float x);

// UE8M0: byte b is 2^(b-127); 0 is the subnormal 2^-127, 255 is NaN.
LF_HOST_DEVICE static inline float lf_ue8m0_to_f32(uint8_t b) {
    uint32_t bits = b == 0 ? 0x00400000u : b == 255 ? 0x7FC00000u : (uint32_t)b << 23;
    return lf_f32_from_bits(bits);
}
