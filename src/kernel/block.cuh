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
    uint32_t high = (uint32_t)(value >> 32), most = __reduce_max_sync(LF_ALL_LANES, high);
    uint32_t low = high == most ? (uint32_t)value : 0;
    return (unsigned long long)most << 32 | __reduce_max_sync(LF_ALL_LANES, low);
}

// The greatest value of all threads, to all of them.
__device__ static inline unsigned long long lf_block_max(unsigned long long value) {
    __shared__ unsigned long long most[LF_WARP];
    uint32_t lane = threadIdx.x % LF_WARP;
    value = lf_warp_max(value);
    __syncthreads();
    if (lane == 0)
        most[threadIdx.x / LF_WARP] = value;
    __syncthreads();
    return lf_warp_max(lane < blockDim.x / LF_WARP ? most[lane] : 0);
}

// The sum of the numbers of the warp's lanes up to this one.
template <typename Number>
__device__ static inline Number lf_warp_sum_up_to(Number number) {
    uint32_t lane = threadIdx.x % LF_WARP;
#pragma unroll
    for (uint32_t step = 1; step < LF_WARP; step *= 2) {
        Number below = __shfl_up_sync(LF_ALL_LANES, number, step);
        number += lane >= step ? below : 0;
    }
    return number;
}

// The sum of the numbers of all threads before this one; *total: of all threads.
template <typename Number>
__device__ static inline Number lf_block_sum_before(Number number, Number *total) {
    __shared__ Number warp_sum[LF_WARP];
    uint32_t lane = threadIdx.x % LF_WARP, warp = threadIdx.x / LF_WARP;
    Number sum = lf_warp_sum_up_to(number);
    __syncthreads();
    if (lane == LF_WARP - 1)
        warp_sum[warp] = sum;
    __syncthreads();
    Number own = lane < blockDim.x / LF_WARP ? warp_sum[lane] : 0, all = lf_warp_sum_up_to(own);
    *total = __shfl_sync(LF_ALL_LANES, all, LF_WARP - 1);
    return sum - number + __shfl_sync(LF_ALL_LANES, all - own, warp);
}

// Weights by one digit of a key, for radix selection from the greatest key down.
enum { LF_BINS = 2048, LF_DIGITS = 3 };
template <typename Weight>
struct lf_histogram {
    Weight bin[LF_BINS];
    Weight before; // weight above the place found
    uint32_t place;
};

__device__ static inline uint32_t lf_digit_shift(int digit) {
    return digit == 0 ? 21 : digit == 1 ? 10 : 0;
}

__device__ static inline uint32_t lf_digit_mask(int digit) {
    return digit == LF_DIGITS - 1 ? 1023 : 2047;
}

// Bits of a key that digits up to this one hold.
__device__ static inline uint32_t lf_digits_known(int digit) {
    return ~((1u << lf_digit_shift(digit)) - 1);
}

template <typename Weight>
__device__ static inline void lf_histogram_clear(struct lf_histogram<Weight> *h) {
    __syncthreads();
    for (uint32_t i = threadIdx.x; i < LF_BINS; i += blockDim.x)
        h->bin[i] = 0;
    __syncthreads();
}

template <typename Weight>
__device__ static inline Weight lf_warp_sum(Weight value) {
    for (int other = LF_WARP / 2; other; other /= 2)
        value += __shfl_xor_sync(LF_ALL_LANES, value, other);
    return value;
}

// A thread's bins, neighbours: their weight, and that of all above them and before the histogram.
template <typename Weight>
struct lf_histogram_share {
    Weight above, own;
};

// *total: of all bins.
template <typename Weight>
__device__ static inline struct lf_histogram_share<Weight>
lf_histogram_sum(const struct lf_histogram<Weight> *h, Weight *total) {
    uint32_t top = LF_BINS - 1 - threadIdx.x * (LF_BINS / blockDim.x);
    struct lf_histogram_share<Weight> share = {0, 0};
    __syncthreads();
    for (uint32_t i = 0; i < LF_BINS / blockDim.x; i++)
        share.own += h->bin[top - i];
    share.above = lf_block_sum_before(share.own, total) + h->before;
    return share;
}

// The highest place down to which all from above reach `need`: one thread has it.
template <typename Weight>
__device__ static inline void lf_histogram_find(struct lf_histogram<Weight> *h,
                                                struct lf_histogram_share<Weight> share,
                                                Weight need) {
    uint32_t place = LF_BINS - 1 - threadIdx.x * (LF_BINS / blockDim.x);
    __syncthreads();
    if (share.above < need && need <= share.above + share.own) {
        for (; share.above + h->bin[place] < need; place--)
            share.above += h->bin[place];
        h->before = share.above;
        h->place = place;
    }
    __syncthreads();
}
