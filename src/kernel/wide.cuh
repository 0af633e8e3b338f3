// Neighbouring bf16 numbers that a thread reads and writes at once.
#pragma once
#include "kernel/launch.cuh"
#include "kernel/settle.h"

enum { LF_WIDE = 8 };

template <uint32_t N>
struct alignas(2 * N) lf_wide {
    uint16_t at[N];
};

template <uint32_t N>
__device__ static inline struct lf_wide<N> lf_wide_load(const uint16_t *x) {
    return *(const struct lf_wide<N> *)x;
}

template <uint32_t N>
__device__ static inline void lf_wide_store(uint16_t *y, const struct lf_wide<N> &wide) {
    *(struct lf_wide<N> *)y = wide;
}

// Whether rows of dim numbers that begin at x can be read so.
static inline bool lf_wide_fits(const uint16_t *x, uint32_t dim) {
    return dim % LF_WIDE == 0 && (uintptr_t)x % (LF_WIDE * sizeof *x) == 0;
}
