// A lane's partial of a dot product from shared memory, at the pace of the additions.
#pragma once
#include "kernel/launch.cuh"

enum { CHAIN_FOUR = 4, CHAIN_STEP = 16 * 16 };

// Where element k lies: four that follow each other in a partial are side by side.
__device__ static inline uint32_t chain_place(uint32_t k) {
    return k / (16 * CHAIN_FOUR) * (16 * CHAIN_FOUR) + k % 16 * CHAIN_FOUR +
           k / 16 % CHAIN_FOUR;
}

struct chain {
    float4 left[4], right[4];
};

__device__ static inline struct chain chain_read(const float *left, const float *right,
                                                       uint32_t at) {
    struct chain chain;
#pragma unroll
    for (uint32_t i = 0; i < 4; i++) {
        chain.left[i] = *(const float4 *)(left + at + i * 16 * CHAIN_FOUR);
        chain.right[i] = *(const float4 *)(right + at + i * 16 * CHAIN_FOUR);
    }
    return chain;
}

// Adds n products, n a multiple of CHAIN_STEP, of partial threadIdx.x % 16.
__device__ static inline float chain_add(const float *left, const float *right, uint32_t n,
                                            float partial) {
    uint32_t at = threadIdx.x % 16 * CHAIN_FOUR;
    struct chain now = chain_read(left, right, at);
    // Not unrolled: then the next numbers are read before the present ones are added.
#pragma unroll 1
    for (uint32_t k = 0; k < n; k += CHAIN_STEP) {
        struct chain next = now;
        if (k + CHAIN_STEP < n)
            next = chain_read(left, right, at + k + CHAIN_STEP);
#pragma unroll
        for (uint32_t i = 0; i < 4; i++) {
            partial = fmaf(now.left[i].x, now.right[i].x, partial);
            partial = fmaf(now.left[i].y, now.right[i].y, partial);
            partial = fmaf(now.left[i].z, now.right[i].z, partial);
            partial = fmaf(now.left[i].w, now.right[i].w, partial);
        }
        now = next;
    }
    return partial;
}
