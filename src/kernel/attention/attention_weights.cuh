// Weights of keys from their dot products; the second launch of few rows.
#pragma once
#include "kernel/attention/attention_work.cuh"
#include "kernel/math.h"

enum { WEIGHT_WARPS = 10 }; // a full list's blocks of keys, one each

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
        for (uint32_t i = 0; i < 4; i++) {
            bool is_there = s * STEP + first + i < terms;
            z[s][i] = is_there ? scaled(lf_f32_from_bits(word[i]), scale) : -INFINITY;
        }
    }
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

// bf(P) of a lane's keys where products were, of two steps side by side.
__device__ static void store_weights(const struct work &w, uint32_t *cell,
                                     const float p[STEPS][4]) {
#pragma unroll
    for (uint32_t s = 0; s < STEPS; s += 2)
        *(uint4 *)(cell + s / 2 * STEP_WORDS) = {
            weight_pair(w, p[s][0], p[s][1]), weight_pair(w, p[s][2], p[s][3]),
            weight_pair(w, p[s + 1][0], p[s + 1][1]), weight_pair(w, p[s + 1][2], p[s + 1][3])};
}

// What a block of threads knows of half a tile of heads; numbers of its blocks of keys are shared.
enum { HALF_HEADS = TILE_HEADS / 2 };
struct softmax {
    const struct work &w;
    uint32_t slot, tile, half, n;
    float *top, *sum, *factor; // [blocks][HALF_HEADS]: greatest score, its sum, exp(m - m')
};

__device__ static struct softmax softmax_of(const struct work &w, uint32_t half, uint32_t n,
                                            float *numbers) {
    uint32_t step = w.blocks * HALF_HEADS, tile = blockIdx.x * w.halves / 2;
    return {w, blockIdx.y, tile, (blockIdx.x * w.halves + half) % 2, n,
            numbers + half * 3 * step, numbers + (half * 3 + 1) * step,
            numbers + (half * 3 + 2) * step};
}

// Where lanes of a head have a number of a block of keys.
__device__ static uint32_t number_at(uint32_t block) {
    return block * HALF_HEADS + threadIdx.x % LF_WARP / 4;
}

__device__ static uint32_t *half_at(const struct softmax &s, uint32_t block) {
    return cell_at(s.w, s.slot, block, s.tile) + s.half * (STEP_WORDS / 2);
}

__device__ static uint32_t terms_of(const struct softmax &s, uint32_t block) {
    return s.n - block * BLOCK < BLOCK ? s.n - block * BLOCK : (uint32_t)BLOCK;
}

// The greatest score of each head in a block of keys.
__device__ static void find_greatest(const struct softmax &s, uint32_t block,
                                     const struct products &products) {
    float z[STEPS][4], top = -1e30f;
    score_block(products, terms_of(s, block), s.w.a.scale, z);
#pragma unroll
    for (uint32_t i = 0; i < 4 * STEPS; i++)
        top = z[i / 4][i % 4] > top ? z[i / 4][i % 4] : top;
    top = greatest(top);
    if (threadIdx.x % 4 == 0)
        s.top[number_at(block)] = top;
}

// The maximum of a head before a block of keys.
__device__ static float greatest_before(const struct softmax &s, uint32_t block) {
    float top = -1e30f;
    for (uint32_t b = threadIdx.x % 4; b < block; b += 4) {
        float theirs = s.top[number_at(b)];
        top = theirs > top ? theirs : top;
    }
    return greatest(top);
}

// Turns a block's dot products into P; leaves exp(m - m') and the block's sum.
__device__ static void weigh_block(const struct softmax &s, uint32_t block,
                                   const struct products &products) {
    uint32_t first = threadIdx.x % 4 * 4, terms = terms_of(s, block), at = number_at(block);
    float m = greatest_before(s, block), top = s.top[at], p[STEPS][4];
    top = top > m ? top : m;
    score_block(products, terms, s.w.a.scale, p);
#pragma unroll
    for (uint32_t i = 0; i < 4 * STEPS; i++) {
        bool is_there = i / 4 * STEP + first + i % 4 < terms;
        float &one = p[i / 4][i % 4];
        one = is_there ? weight_of(one - top) : 0.0f;
        LF_CONTROL(19, one = is_there ? one : 1.0f;) // 19: places past the end weigh one
    }
    store_weights(s.w, half_at(s, block), p);
    // 8: the denominator adds rounded weights
    LF_CONTROL(8, for (float *at = p[0]; at < p[STEPS]; at++) *at = lf_fault_bf16(*at);)
    float shrink = weight_of(m - top), sum = sum_weights(p);
    LF_CONTROL(9, shrink = 1.0f;) // 9: earlier blocks keep their old maximum
    if (threadIdx.x % 4)
        return;
    factor_at(s.w, s.slot, block, s.tile)[s.half * HALF_HEADS] = shrink;
    s.factor[at] = shrink, s.sum[at] = sum;
}

// A head's blocks, one after the other, and its sink.
__device__ static void add_up(const struct softmax &s) {
    uint32_t own = s.tile * TILE_HEADS + s.half * HALF_HEADS + threadIdx.x % LF_WARP / 4;
    uint32_t blocks = (s.n + BLOCK - 1) / BLOCK;
    float m = greatest_before(s, blocks), denominator = 0.0f;
    if (threadIdx.x % 4 || own >= s.w.a.heads)
        return;
    for (uint32_t b = 0; b < blocks; b++)
        denominator = fmaf(denominator, s.factor[number_at(b)], s.sum[number_at(b)]);
    float sink = lf_exp(s.w.a.sink[own] - m);
    LF_CONTROL(1, sink = 0.0f;) // 1: the sink left out
    s.w.total[(size_t)s.slot * s.w.tiles * TILE_HEADS + own] = denominator + sink;
}

// A block: a tile of a row's heads or half of one, whose blocks of keys its warps share out.
__global__ static void __launch_bounds__(WEIGHT_WARPS * LF_WARP) attention_weights(struct work w) {
    lf_take_turn();
    LF_DYNAMIC_SHARED(shared);
    float *numbers = (float *)shared;
    uint32_t n = list_keys(w.a, w.first + blockIdx.y).n, warp = threadIdx.x / LF_WARP;
    uint32_t units = (n + BLOCK - 1) / BLOCK * w.halves;
    uint32_t turns = warp < units ? (units - 1 - warp) / WEIGHT_WARPS + 1 : 0;
    struct products products;
    // Last block first: what the first one, often the only one, brought is still there then.
    for (uint32_t turn = turns; turn--;) {
        uint32_t unit = warp + turn * WEIGHT_WARPS;
        const struct softmax s = softmax_of(w, unit & (w.halves - 1), n, numbers);
        products = load_products(half_at(s, unit >> (w.halves - 1)));
        find_greatest(s, unit >> (w.halves - 1), products);
    }
    __syncthreads();
    for (uint32_t turn = 0; turn < turns; turn++) {
        uint32_t unit = warp + turn * WEIGHT_WARPS;
        const struct softmax s = softmax_of(w, unit & (w.halves - 1), n, numbers);
        if (turn)
            products = load_products(half_at(s, unit >> (w.halves - 1)));
        weigh_block(s, unit >> (w.halves - 1), products);
    }
    __syncthreads();
    if (warp < w.halves)
        add_up(softmax_of(w, warp, n, numbers));
}
