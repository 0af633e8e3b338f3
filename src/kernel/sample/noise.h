// The noise of a candidate: Philox4x32-10, its uniform and its Gumbel number (S-1 to S-3).
#pragma once
#include <stdint.h>
#include "kernel/math.h"

enum { LF_PHILOX_ROUNDS = 10 };

LF_HOST_DEVICE static inline void lf_philox_round(uint32_t *c0, uint32_t *c1, uint32_t *c2,
                                                  uint32_t *c3, uint32_t *k0, uint32_t *k1) {
    uint64_t a = (uint64_t)0xD2511F53u * *c0, b = (uint64_t)0xCD9E8D57u * *c2;
    *c0 = (uint32_t)(b >> 32) ^ *c1 ^ *k0;
    *c1 = (uint32_t)b;
    *c2 = (uint32_t)(a >> 32) ^ *c3 ^ *k1;
    *c3 = (uint32_t)a;
    *k0 += 0x9E3779B9u;
    *k1 += 0xBB67AE85u;
}

// From the first two output words, the second one high; strictly between 0 and 1.
LF_HOST_DEVICE static inline double lf_noise_uniform(uint64_t noise) {
    return ((double)(noise >> 12) + 0.5) * 0x1p-52;
}

LF_HOST_DEVICE static inline double lf_noise_gumbel(uint64_t noise) {
    return -lf_log64(-lf_log64(lf_noise_uniform(noise)));
}

// At least lf_noise_gumbel(noise): -log u >= 1 - u >= 2^(52 - shift), and a little for rounding.
LF_HOST_DEVICE static inline double lf_noise_gumbel_bound(uint64_t noise) {
    uint64_t rest = ~noise >> 12;
#ifdef __CUDA_ARCH__
    int log2_rest = 63 - __clzll((long long)rest);
#else
    int log2_rest = rest ? 63 - __builtin_clzll(rest) : -1;
#endif
    return (double)(52 - log2_rest) * 0x1.62e42fefa39efp-1 + 1e-6;
}
#define LF_NOISE_GUMBEL_MAX 36.75
