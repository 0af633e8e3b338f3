// Words that a block hands to later ones of its launch: zeros before, and again once taken.
#pragma once
#include "kernel/launch.cuh"
#include "kernel/linear/stream.cuh"

// Not all ones.
__device__ static inline void lf_hand(uint32_t *to, uint32_t word) {
    *(volatile uint32_t *)to = ~word;
}

// Waits: earlier blocks began earlier.
__device__ static inline uint32_t lf_take(uint32_t *from) {
    uint32_t word = *(volatile uint32_t *)from;
    for (; !word; word = *(volatile uint32_t *)from)
        lf_yield();
    *from = 0;
    return ~word;
}

__device__ static inline uint4 lf_take_four(uint32_t *from) {
    uint4 four = lf_load_16_new(from);
    for (; !four.x || !four.y || !four.z || !four.w; four = lf_load_16_new(from))
        lf_yield();
    *(uint4 *)from = {0, 0, 0, 0};
    return {~four.x, ~four.y, ~four.z, ~four.w};
}
