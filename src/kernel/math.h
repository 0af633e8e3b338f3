// exp, sigmoid, log, softplus: the same operations in every instruction set (X-7, S-11).
#pragma once
#include <math.h>
#include <stdint.h>
#include <string.h>
#include "base/number.h"

#define LF_EXP_MAGIC 0x1.8p23f // added, it leaves a number rounded to an integer

// exp(r) of x = n ln2 + r, a polynomial; *t: n in the low bits of a float32 above 2^23.
LF_HOST_DEVICE static inline float lf_exp_rest(float x, float *t) {
    const float magic = LF_EXP_MAGIC;
    *t = fmaf(x, 0x1.715476p0f, magic);
    float n = *t - magic;
    float r = fmaf(n, -0x1.62e4p-1f, x);
    r = fmaf(n, -0x1.7f7d1cp-20f, r);
    float p = 0x1.a01a02p-13f;
    p = fmaf(p, r, 0x1.6c16c2p-10f);
    p = fmaf(p, r, 0x1.111112p-7f);
    p = fmaf(p, r, 0x1.555556p-5f);
    p = fmaf(p, r, 0x1.555556p-3f);
    p = fmaf(p, r, 0.5f);
    p = fmaf(p, r, 1.0f);
    return fmaf(p, r, 1.0f);
}

// exp within 1 ulp: the polynomial and two power-of-two factors for small results.
LF_HOST_DEVICE static inline float lf_exp(float x) {
    x = x > 89.0f ? 89.0f : x;
    x = x < -104.0f ? -104.0f : x;
    float t, p = lf_exp_rest(x, &t);
    uint32_t k = lf_f32_bits(t) - lf_f32_bits(LF_EXP_MAGIC) + 256u; // n + 256, positive
    uint32_t half = k >> 1;
    float a = lf_f32_from_bits((half - 128u + 127u) << 23);
    float b = lf_f32_from_bits((k - half - 128u + 127u) << 23);
    return p * a * b;
}

LF_HOST_DEVICE static inline float lf_sigmoid(float x) {
    return 1.0f / (1.0f + lf_exp(-x));
}

LF_HOST_DEVICE static inline uint64_t lf_f64_bits(double x) {
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

LF_HOST_DEVICE static inline double lf_f64_from_bits(uint64_t bits) {
    double x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

// log in float64 by engine.md S-11; x positive and finite. The split is frexp's, from the bits.
LF_HOST_DEVICE static inline double lf_log64(double x) {
    const double ln2_hi = 0x1.62e42feep-1, ln2_lo = 0x1.a39ef35793c76p-33;
    int e = x < 0x1p-1022 ? -54 : 0;
    uint64_t bits = lf_f64_bits(x < 0x1p-1022 ? x * 0x1p54 : x);
    e += (int)(bits >> 52) - 1022;
    double m = lf_f64_from_bits((bits & 0xFFFFFFFFFFFFFu) | (uint64_t)1022 << 52);
    if (m < 0.70710678118654752440) {
        m = m + m;
        e = e - 1;
    }
    double f = m - 1.0, s = f / (2.0 + f), z = s * s, p = 1.0 / 23.0;
    for (int n = 21; n >= 3; n -= 2)
        p = p * z + 1.0 / (double)n;
    double r = s * z;
    r = r * p;
    r = r + r;
    double t = s + s;
    return (double)e * ln2_hi + (t + (r + (double)e * ln2_lo));
}

// exp in float64 by engine.md S-11; x <= 0, 0 below -708; above, 2^k is normal.
LF_HOST_DEVICE static inline double lf_exp64(double x) {
    static const double inverse_factorial[14] = {
        1.0 / 1.0, 1.0 / 1.0, 1.0 / 2.0, 1.0 / 6.0, 1.0 / 24.0, 1.0 / 120.0, 1.0 / 720.0,
        1.0 / 5040.0, 1.0 / 40320.0, 1.0 / 362880.0, 1.0 / 3628800.0, 1.0 / 39916800.0,
        1.0 / 479001600.0, 1.0 / 6227020800.0};
    const double ln2_hi = 0x1.62e42feep-1, ln2_lo = 0x1.a39ef35793c76p-33, magic = 0x1.8p52;
    double held = x < -708.0 ? -708.0 : x;
    double shifted = held * 0x1.71547652b82fep+0 + magic; // the sum rounds to an integer
    double k = shifted - magic;
    double r = (held - k * ln2_hi) - k * ln2_lo;
    double p = inverse_factorial[13];
    for (int i = 12; i >= 0; i--)
        p = p * r + inverse_factorial[i];
    uint64_t power = lf_f64_bits(shifted) - lf_f64_bits(magic) + 1023;
    return x < -708.0 ? 0.0 : p * lf_f64_from_bits(power << 52);
}

// softplus(v) = v for v > 20 else log1p(exp v) (model.md 9.1), in float64, rounded once.
LF_HOST_DEVICE static inline float lf_softplus(float v) {
    if (!(v <= 20.0f))
        return v;
    double e = v > 0.0f ? 1.0 / lf_exp64(-(double)v) : lf_exp64((double)v);
    double u = 1.0 + e;
    return (float)(u == 1.0 ? e : lf_log64(u) * (e / (u - 1.0)));
}
