// A lane's partial of a sum of products from shared memory, at the pace of the additions.
#pragma once
#include "base/number.h"
#include "kernel/launch.cuh"

// Chains of whole steps: behind the last products are those of 0 and -0, which change no sum.
enum { LF_CHAIN_READ = 16 * 16, LF_CHAIN_STEP = 2 * LF_CHAIN_READ };

__host__ __device__ static inline uint32_t lf_chain_room(uint32_t n) {
    return lf_blocks(n, LF_CHAIN_STEP) * LF_CHAIN_STEP;
}

// Where number k + e lies, both of one eight: four of a partial side by side, no bank met twice.
__device__ static inline uint32_t lf_chain_place(uint32_t k, uint32_t e) {
    uint32_t four = k / 64, half = k / 8 % 2;
    return four * 64 + half * 32 + k / 16 % 4 + ((k % 8 + e) ^ (four % 4 * 2 + half)) * 4;
}

// N neighbouring numbers that a thread reads at once.
template <typename Number, uint32_t N>
struct alignas(sizeof(Number) * N) lf_piece {
    Number at[N];
};

__device__ static inline float lf_chain_number(uint16_t bits) {
    return lf_bf16_to_f32(bits);
}

__device__ static inline float lf_chain_number(float number) {
    return number;
}

// A thread's reads of what all threads of a block bring, on their way together.
template <typename Number, uint32_t N, uint32_t OWN>
struct lf_chain_share {
    struct lf_piece<Number, N> at[OWN];
};

template <typename Number, uint32_t N, uint32_t OWN>
__device__ static inline void lf_chain_fetch(const Number *from, uint32_t n,
                                             struct lf_chain_share<Number, N, OWN> *share) {
#pragma unroll
    for (uint32_t i = 0; i < OWN; i++) {
        uint32_t k = (i * blockDim.x + threadIdx.x) * N;
        share->at[i] = {};
        if (k < n)
            share->at[i] = *(const struct lf_piece<Number, N> *)(from + k);
    }
}

// n numbers to where the chains read them; none: behind them.
template <typename Number, uint32_t N, uint32_t OWN>
__device__ static inline void lf_chain_store(const struct lf_chain_share<Number, N, OWN> &share,
                                             uint32_t n, float none, float *to) {
#pragma unroll
    for (uint32_t i = 0; i < OWN; i++) {
        uint32_t k = (i * blockDim.x + threadIdx.x) * N;
#pragma unroll
        for (uint32_t e = 0; e < N; e++)
            to[lf_chain_place(k, e)] = k < n ? lf_chain_number(share.at[i].at[e]) : none;
    }
}

struct lf_chain {
    float4 left[4], right[4];
};

// The factors of a partial's next sixteen products.
__device__ static inline struct lf_chain lf_chain_read(const float *left, const float *right,
                                                       uint32_t at) {
    uint32_t lane = threadIdx.x % 16, half = lane / 8;
    struct lf_chain chain;
#pragma unroll
    for (uint32_t i = 0; i < 4; i++) {
        uint32_t place = at + i * 64 + half * 32 + (lane ^ (i * 2 + half)) % 8 * 4;
        chain.left[i] = *(const float4 *)(left + place);
        chain.right[i] = *(const float4 *)(right + place);
    }
    return chain;
}

__device__ static inline float lf_chain_join(const struct lf_chain &chain, float partial) {
#pragma unroll
    for (uint32_t i = 0; i < 4; i++) {
        partial = fmaf(chain.left[i].x, chain.right[i].x, partial);
        partial = fmaf(chain.left[i].y, chain.right[i].y, partial);
        partial = fmaf(chain.left[i].z, chain.right[i].z, partial);
        partial = fmaf(chain.left[i].w, chain.right[i].w, partial);
    }
    return partial;
}

// Adds the products of partial threadIdx.x % 16, reading ahead of the additions.
__device__ static inline float lf_chain_add(const float *left, const float *right, uint32_t room,
                                            float partial) {
    struct lf_chain even = lf_chain_read(left, right, 0);
#pragma unroll 1
    for (uint32_t at = 0; at < room; at += LF_CHAIN_STEP) {
        struct lf_chain odd = lf_chain_read(left, right, at + LF_CHAIN_READ);
        partial = lf_chain_join(even, partial);
        even = lf_chain_read(left, right, at + LF_CHAIN_STEP < room ? at + LF_CHAIN_STEP : at);
        partial = lf_chain_join(odd, partial);
    }
    return partial;
}
