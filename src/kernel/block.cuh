// What all threads of a block find together: greatest values, ranks, and places in histograms.
#pragma once
#include "base/number.h"
#include "kernel/launch.cuh"

// Ascending with the float's value; both zeros are one value, NaN is below -infinity.
__device__ static inline uint32_t lf_order_key(float x) {
    uint32_t bits = lf_f32_bits(x + 0.0f);
    if ((bits & 0x7FFFFFFFu) > 0x7F800000u)
        return 0;
    return bits >> 31 ? ~bits : bits | 0x80000000u;
}

// Ascends with the key, and descends with the id among equal keys; 0 is no candidate.
__device__ static inline unsigned long long lf_candidate(uint32_t key, uint32_t id) {
    return (unsigned long long)key << 32 | (uint32_t)~id;
}

__device__ static inline uint32_t lf_candidate_id(unsigned long long candidate) {
    return ~(uint32_t)candidate;
}

__device__ static inline unsigned long long lf_warp_max(unsigned long long value) {
    for (int other = LF_WARP / 2; other; other /= 2) {
        unsigned long long theirs = __shfl_xor_sync(LF_ALL_LANES, value, other);
        value = theirs > value ? theirs : value;
    }
    return value;
}

// The greatest value of all threads, to all of them.
__device__ static inline unsigned long long lf_block_max(unsigned long long value) {
    __shared__ unsigned long long most;
    __syncthreads();
    if (threadIdx.x == 0)
        most = 0;
    __syncthreads();
    value = lf_warp_max(value);
    if (threadIdx.x % LF_WARP == 0)
        atomicMax(&most, value);
    __syncthreads();
    return most;
}

// The sum of the numbers of all threads before this one; *total: of all threads.
__device__ static inline uint32_t lf_block_sum_before(uint32_t number, uint32_t *total) {
    __shared__ uint32_t warp_sum[LF_WARP];
    uint32_t lane = threadIdx.x % LF_WARP, warp = threadIdx.x / LF_WARP, sum = number, all = 0;
    for (uint32_t step = 1; step < LF_WARP; step *= 2) {
        uint32_t below = __shfl_up_sync(LF_ALL_LANES, sum, step);
        sum += lane >= step ? below : 0;
    }
    uint32_t before = sum - number;
    __syncthreads();
    if (lane == LF_WARP - 1)
        warp_sum[warp] = sum;
    __syncthreads();
    for (uint32_t w = 0; w < blockDim.x / LF_WARP; w++) {
        before += w < warp ? warp_sum[w] : 0;
        all += warp_sum[w];
    }
    *total = all;
    return before;
}

// Weights by one digit of a key, for radix selection from the greatest key down.
enum { LF_BINS = 2048, LF_BIN_PARTS = 64, LF_DIGITS = 3 };
struct lf_histogram {
    unsigned long long bin[LF_BINS], part[LF_BIN_PARTS];
    unsigned long long before, total; // weight above the place found; weight of all bins
    uint32_t place;
};

__device__ static inline uint32_t lf_digit_shift(int digit) {
    return digit == 0 ? 21 : digit == 1 ? 10 : 0;
}

__device__ static inline uint32_t lf_digit_mask(int digit) {
    return digit == LF_DIGITS - 1 ? 1023 : 2047;
}

__device__ static inline void lf_histogram_clear(struct lf_histogram *h) {
    __syncthreads();
    for (uint32_t i = threadIdx.x; i < LF_BINS; i += blockDim.x)
        h->bin[i] = 0;
    __syncthreads();
}

// Sums of parts of neighbouring bins, and the total.
__device__ static inline void lf_histogram_sum(struct lf_histogram *h) {
    __syncthreads();
    if (threadIdx.x < LF_BIN_PARTS) {
        unsigned long long sum = 0;
        for (uint32_t i = 0; i < LF_BINS / LF_BIN_PARTS; i++)
            sum += h->bin[threadIdx.x * (LF_BINS / LF_BIN_PARTS) + i];
        h->part[threadIdx.x] = sum;
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        h->total = 0;
        for (uint32_t p = 0; p < LF_BIN_PARTS; p++)
            h->total += h->part[p];
    }
    __syncthreads();
}

// After lf_histogram_sum: the highest place down to which `before` and the bins reach `need`.
__device__ static inline void lf_histogram_find(struct lf_histogram *h, unsigned long long need) {
    const uint32_t width = LF_BINS / LF_BIN_PARTS;
    if (threadIdx.x == 0) {
        uint32_t part = LF_BIN_PARTS - 1;
        for (; h->before + h->part[part] < need; part--)
            h->before += h->part[part];
        uint32_t place = part * width + width - 1;
        for (; h->before + h->bin[place] < need; place--)
            h->before += h->bin[place];
        h->place = place;
    }
    __syncthreads();
}
