// Weights of keys from their dot products.
#pragma once
#include "kernel/attention/attention_work.cuh"
#include "kernel/math.h"

// NaN unless finite.
__device__ static float scaled(float z, float scale) {
    LF_CONTROL(10, scale = 1.0f;) // 10: the scale left out
    float v = z * scale;
    LF_CONTROL(12, return v - v == 0.0f ? v : -INFINITY;) // 12: an odd score weighs nothing
    return fmaf(v, 0.0f, v);
}

// Of each step a lane's four keys.
struct products {
    uint4 step[STEPS];
};

__device__ static struct products load_products(const uint32_t *cell) {
    struct products products;
#pragma unroll
    for (uint32_t s = 0; s < STEPS; s++)
        products.step[s] = *(const uint4 *)(cell + s * STEP_WORDS);
    return products;
}

// The scores of a lane's keys of a block, -inf past its terms.
__device__ static void score_block(const struct products &products, uint32_t terms, float scale,
                                   float z[STEPS][4]) {
    uint32_t first = threadIdx.x % 4 * 4;
#pragma unroll
    for (uint32_t s = 0; s < STEPS; s++) {
        const uint4 &four = products.step[s];
        const uint32_t word[4] = {four.x, four.y, four.z, four.w};
#pragma unroll
        for (uint32_t i = 0; i < 4; i++)
            z[s][i] = scaled(lf_f32_from_bits(word[i]), scale);
    }
    if (terms < BLOCK)
#pragma unroll
        for (uint32_t i = 0; i < 4 * STEPS; i++)
            z[i / 4][i % 4] = i / 4 * STEP + first + i % 4 < terms ? z[i / 4][i % 4] : -INFINITY;
}

// lf_exp of what is not above 0, bit for bit: its power of two comes in one piece.
__device__ static float weight_of(float x) {
    float t, p = lf_exp_rest(x < -104.0f ? -104.0f : x, &t);
    return p * lf_f32_from_bits((lf_f32_bits(t) << 23) + ((127u + 64u) << 23)) * 0x1p-64f;
}

// The greatest of the numbers of a head's four lanes; NaN is passed over.
__device__ static float greatest(float top) {
    for (int other = 1; other < 4; other *= 2) {
        float theirs = __shfl_xor_sync(LF_ALL_LANES, top, other);
        top = theirs > top ? theirs : top;
    }
    return top;
}

// The block's sum of weights: partial i of 16 has keys i, i + 16, i + 32, i + 48.
__device__ static float sum_weights(const float p[STEPS][4]) {
    float c[4];
#pragma unroll
    for (uint32_t i = 0; i < 4; i++) {
        float sum = p[0][i];
#pragma unroll
        for (uint32_t s = 1; s < STEPS; s++)
            sum = sum + p[s][i];
        sum = sum + __shfl_xor_sync(LF_ALL_LANES, sum, 2);
        c[i] = sum + __shfl_xor_sync(LF_ALL_LANES, sum, 1);
    }
    return (c[0] + c[2]) + (c[1] + c[3]);
}

// Two neighbouring keys' bf(P).
__device__ static uint32_t weight_pair(const struct work &w, float low, float high) {
    LF_CONTROL(7, return lf_fault_cut(low, high);) // 7: weights not rounded to bf16
    LF_CONTROL(26, if (w.a.rows > 3) return lf_fault_cut(low, high);) // 26: in larger launches
    return lf_bf16_pair(low, high);
}
