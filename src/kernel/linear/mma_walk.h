// How far a tensor core's sums may be off float64, step by step along it (cuda-probe.md 3).
#pragma once
#include <stdbool.h>
#include "base/number.h"
#include "kernel/linear/mma_step.h"

// A partial sum in float64, and how far the device's may be off.
struct lf_mma_walk {
    double sum, error;
};

// Whether a product has bits below 2^unit.
static inline bool lf_mma_is_cut(struct lf_mma_term p, struct lf_mma_term q, int unit) {
    int64_t integer = (p.integer / 65536) * (q.integer / 65536);
    int lowest = p.power + q.power + 32 + (integer ? __builtin_ctzll((uint64_t)integer) : 0);
    return integer && lowest < unit;
}

// The greatest exponent in a step, at most: the products', unnormalised, and the total's.
static inline int lf_mma_top(const uint16_t a[16], const uint16_t b[16],
                             const struct lf_mma_walk *walk) {
    double total = fabs(walk->sum) + walk->error;
    int top = total > 0.0 ? ilogb(total) : -1000;
    for (int i = 0; i < 16; i++) {
        struct lf_mma_term p = lf_mma_term_of((uint32_t)a[i] << 16);
        struct lf_mma_term q = lf_mma_term_of((uint32_t)b[i] << 16);
        if (p.integer && q.integer && p.exponent + q.exponent > top)
            top = p.exponent + q.exponent;
    }
    return top;
}

// Adds a step's products and what their cuts and the store's may lose.
static inline void lf_mma_walk_step(struct lf_mma_walk *walk, const uint16_t a[16],
                                    const uint16_t b[16]) {
    int top = lf_mma_top(a, b, walk), unit = top - 25, cut = 0;
    double least = fabs(walk->sum) - walk->error, any = fabs(walk->sum) + walk->error;
    for (int i = 0; i < 16; i++) {
        cut += lf_mma_is_cut(lf_mma_term_of((uint32_t)a[i] << 16),
                             lf_mma_term_of((uint32_t)b[i] << 16), unit);
        walk->sum += (double)lf_bf16_to_f32(a[i]) * (double)lf_bf16_to_f32(b[i]);
    }
    // The total has bits below the unit where its own exponent is under top - 2.
    cut += any > 0.0 && !(least > 0.0 && ilogb(least) >= top - 2);
    walk->error += (cut < 16 ? cut : 16) * ldexp(1.0, unit);
    double out = fabs(walk->sum) + walk->error;
    int stored = out > 0.0 ? ilogb(out) : -126;
    walk->error += out > 0.0 ? ldexp(1.0, (stored > -126 ? stored : -126) - 23) : 0.0;
}
