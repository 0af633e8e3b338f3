// How the float64 references read bits: on their own, with no helper of the fast kernels.
#pragma once
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

// Element i of a bf16 array of any alignment.
static inline double lf_ref_bf16(const void *x, size_t i) {
    uint16_t bits;
    memcpy(&bits, (const char *)x + 2 * i, sizeof bits);
    uint32_t word = (uint32_t)bits << 16;
    float value;
    memcpy(&value, &word, sizeof value);
    return (double)value;
}

// To the nearest bf16, ties to even; NaN is 0x7FC0.
static inline float lf_ref_round_bf16(float value) {
    uint32_t word;
    memcpy(&word, &value, sizeof word);
    word = isnan(value) ? 0x7FC00000 : (word + 0x7FFF + (word >> 16 & 1)) & 0xFFFF0000;
    memcpy(&value, &word, sizeof value);
    return value;
}

// A row over the root of its mean square, by bf16 weights w, in place (model.md 3.4).
static inline void lf_ref_norm(double *x, size_t dim, const void *w, double eps) {
    double squares = 0.0;
    for (size_t i = 0; i < dim; i++)
        squares += x[i] * x[i];
    double root = sqrt(squares / (double)dim + eps);
    for (size_t i = 0; i < dim; i++)
        x[i] = lf_ref_bf16(w, i) * x[i] / root;
}

// Element i of a float32 array of any alignment.
static inline double lf_ref_f32(const void *x, size_t i) {
    float value;
    memcpy(&value, (const char *)x + 4 * i, sizeof value);
    return (double)value;
}

static inline double lf_ref_e4m3(uint8_t code) {
    int exponent = code >> 3 & 15, mantissa = code & 7;
    double value = exponent ? ldexp(8 + mantissa, exponent - 10) : ldexp(mantissa, -9);
    if ((code & 0x7F) == 0x7F)
        value = (double)NAN;
    return code & 0x80 ? -value : value;
}

static inline double lf_ref_e2m1(uint8_t code) {
    int exponent = code >> 1 & 3, mantissa = code & 1;
    double value = exponent ? ldexp(2 + mantissa, exponent - 2) : 0.5 * mantissa;
    return code & 8 ? -value : value;
}

// The first codes of a format ascend: the nearest to |v|, ties to the even code, else the last.
static inline uint8_t lf_ref_nearest(double v, double (*value_of)(uint8_t), int codes) {
    int below = 0, above = codes - 1;
    while (above - below > 1) {
        int middle = (below + above) / 2;
        if (value_of((uint8_t)middle) <= fabs(v))
            below = middle;
        else
            above = middle;
    }
    double left = fabs(v) - value_of((uint8_t)below), right = value_of((uint8_t)above) - fabs(v);
    return (uint8_t)(left < right || (left == right && below % 2 == 0) ? below : above);
}

// The least k with most <= limit * 2^k (model.md 3.2).
static inline int lf_ref_scale_power(double most, double limit) {
    int k = 0;
    while (ldexp(limit, k) < most)
        k++;
    while (ldexp(limit, k - 1) >= most)
        k--;
    return k;
}

static inline double lf_ref_ue8m0(uint8_t byte) {
    return byte == 255 ? (double)NAN : ldexp(1.0, byte - 127);
}
