// Many rows: one launch, whose blocks of threads have a row and 64 heads at a time.
#pragma once
#include "kernel/attention/attention_bring.cuh"
#include "kernel/attention/attention_weights.cuh"
#include "kernel/settle.h"

// Elements of a product of weights and keys; a head's numbers of it that a lane has.
enum { PART_DIMS = 32, LANE_HEADS = 2 };

// A lane's two heads: sums of its warpgroup's elements, what came before the present block.
template <uint32_t DIMS>
struct many_sums {
    static constexpr uint32_t parts = DIMS / 2 / PART_DIMS;
    float value[parts][PART_DIMS / 2], top[LANE_HEADS], total[LANE_HEADS];
};

// Which warpgroup a thread is of, what it is there, and its first head of the row's group.
__device__ static inline uint32_t many_group(void) {
    return threadIdx.x / MANY_GROUP;
}

__device__ static inline uint32_t many_own(void) {
    return threadIdx.x % MANY_GROUP;
}

__device__ static inline uint32_t many_head(void) {
    return many_own() / LF_WARP * 16 + threadIdx.x % LF_WARP / 4;
}

// Dot products of the heads and the keys of a slot.
template <uint32_t DIMS>
__device__ static inline void multiply_keys(struct many_block<DIMS> *block, uint32_t slot,
                                            uint32_t turn, float (&z)[BLOCK / 2]) {
    const lf_shared_tile queries = lf_shared_tile_at(block->queries);
    const lf_shared_tile keys = lf_shared_tile_at(block->keys[slot]);
#pragma unroll
    for (uint32_t part = 0; part < many_block<DIMS>::parts; part++) {
        lf_barrier_wait(&block->full[slot][part], turn);
        lf_show_tensor_cores();
        lf_wgmma_begin();
#pragma unroll
        for (uint32_t i = 0; i < MULTIPLIERS * TILE_DIMS / STEP; i++) {
            uint32_t at = (part * MULTIPLIERS + i / 4) * TILE_BYTES + i % 4 * STEP * 2;
            lf_wgmma_along(z, lf_shared_tile_from(queries, at), lf_shared_tile_from(keys, at),
                           part || i);
        }
    }
    lf_wgmma_commit();
    lf_wgmma_wait<0>();
    lf_wgmma_settle(z);
}

// Dot products become scores, -inf past the block's terms; the greatest of them and of top.
__device__ static inline void score_keys(uint32_t terms, float scale, float (&z)[BLOCK / 2],
                                         float top[LANE_HEADS]) {
    float most[LANE_HEADS] = {-INFINITY, -INFINITY};
#pragma unroll
    for (uint32_t i = 0; i < BLOCK / 2; i++)
        z[i] = scaled(z[i], scale);
    if (terms < BLOCK)
#pragma unroll
        for (uint32_t i = 0; i < BLOCK / 2; i++)
            z[i] = i / 4 * 8 + threadIdx.x % 4 * 2 + i % 2 < terms ? z[i] : -INFINITY;
#pragma unroll
    for (uint32_t i = 0; i < BLOCK / 2; i++)
        most[i % 4 / 2] = fmaxf(most[i % 4 / 2], z[i]);
#pragma unroll
    for (uint32_t h = 0; h < LANE_HEADS; h++) {
        most[h] = greatest(most[h]);
        top[h] = most[h] > top[h] ? most[h] : top[h];
    }
}

// The sum of a head's weights of a block, by partials as sum_weights has them.
__device__ static inline float sum_lanes(const float p[BLOCK / 2], uint32_t h) {
    float c[2];
#pragma unroll
    for (uint32_t i = 0; i < 2; i++) {
        float low = p[h * 2 + i], high = p[4 + h * 2 + i];
#pragma unroll
        for (uint32_t s = 1; s < STEPS; s++) {
            low = low + p[s * 8 + h * 2 + i];
            high = high + p[s * 8 + 4 + h * 2 + i];
        }
        float sum = low + high;
        sum = sum + __shfl_xor_sync(LF_ALL_LANES, sum, 2);
        c[i] = sum + __shfl_xor_sync(LF_ALL_LANES, sum, 1);
    }
    return c[0] + c[1];
}

// Scores become weights, for both warpgroups.
__device__ static inline void weigh_keys(const struct work &w, uint32_t terms,
                                         float (&p)[BLOCK / 2], const float before[LANE_HEADS],
                                         const float top[LANE_HEADS],
                                         struct many_weights *weights) {
#pragma unroll
    for (uint32_t i = 0; i < BLOCK / 2; i++) {
        p[i] = weight_of(p[i] - top[i % 4 / 2]);
        // 19: places past the end weigh one
        LF_CONTROL(19, if (i / 4 * 8 + threadIdx.x % 4 * 2 + i % 2 >= terms) p[i] = 1.0f;)
    }
#pragma unroll
    for (uint32_t s = 0; s < STEPS; s++)
        weights->pair[s][many_own()] = {weight_pair(w, p[8 * s], p[8 * s + 1]),
                                        weight_pair(w, p[8 * s + 2], p[8 * s + 3]),
                                        weight_pair(w, p[8 * s + 4], p[8 * s + 5]),
                                        weight_pair(w, p[8 * s + 6], p[8 * s + 7])};
    // 8: the denominator adds rounded weights
    LF_CONTROL(8, for (uint32_t i = 0; i < BLOCK / 2; i++) p[i] = lf_fault_bf16(p[i]);)
    float shrink[] = {weight_of(before[0] - top[0]), weight_of(before[1] - top[1])};
    LF_CONTROL(9, shrink[0] = shrink[1] = 1.0f;) // 9: earlier blocks keep their old maximum
    weights->sum[many_own()] = {shrink[0], shrink[1], sum_lanes(p, 0), sum_lanes(p, 1)};
}

// The slot's block of keys, terms of them, for both warpgroups. is_last: the queries may go.
template <uint32_t DIMS>
__device__ static inline void weigh_block(const struct work &w, struct many_block<DIMS> *block,
                                          uint32_t slot, uint32_t turns, uint32_t terms,
                                          bool is_last, const float before[LANE_HEADS]) {
    struct many_weights *weights = &block->weights[slot];
    uint32_t warp = many_own() / LF_WARP;
    float z[BLOCK / 2] = {}, m[LANE_HEADS] = {before[0], before[1]}, top[LANE_HEADS];
    multiply_keys(block, slot, turns >> slot & 1, z);
    if (is_last)
        lf_barrier_pass(&block->answered);
    if (slot) {
        lf_barrier_wait(&block->topped[warp], turns & 1);
        float2 both = block->weights[0].top[many_own()];
        m[0] = both.x, m[1] = both.y;
    }
    top[0] = m[0], top[1] = m[1];
    score_keys(terms, w.a.scale, z, top);
    weights->top[many_own()] = {top[0], top[1]};
    if (!slot)
        lf_barrier_pass(&block->topped[warp]);
    weigh_keys(w, terms, z, m, top, weights);
    lf_barrier_pass(&block->weighed[slot][warp]);
}

// Products of weights and some elements of a block's keys begin.
__device__ static inline void start_part(const uint32_t word[STEPS][4], lf_shared_tile keys,
                                         uint32_t part, float (&sum)[PART_DIMS / 2]) {
    // Every second tile is the other warpgroup's.
    uint32_t tile = part * PART_DIMS / TILE_DIMS * MULTIPLIERS;
    uint32_t at = tile * TILE_BYTES + part * PART_DIMS % TILE_DIMS * 2;
    bool is_sum = false;
    LF_CONTROL(21, is_sum = true;) // 21: a block's sum not begun from zero
    lf_wgmma_begin();
#pragma unroll
    for (uint32_t step = 0; step < STEPS; step++)
        lf_wgmma_across(sum, word[step],
                        lf_shared_tile_from(keys, at + lf_tile_at(step * STEP, 0)),
                        step || is_sum);
    lf_wgmma_commit();
}

// sum * factor + the block's sum, of the warpgroup's elements. emptied: of each tile.
template <uint32_t DIMS>
__device__ static inline void add_values(const uint32_t word[STEPS][4], float4 sums_of,
                                         lf_shared_tile keys, lf_barrier *emptied,
                                         struct many_sums<DIMS> *sums) {
    const float factor[] = {sums_of.x, sums_of.y};
    float part[PART_DIMS / 2] = {};
#pragma unroll
    for (uint32_t i = 0; i < many_sums<DIMS>::parts; i++) {
        start_part(word, keys, i, part);
        lf_wgmma_wait<0>();
        lf_wgmma_settle(part);
        if ((i + 1) * PART_DIMS % TILE_DIMS == 0)
            lf_barrier_pass(&emptied[i * PART_DIMS / TILE_DIMS]);
#pragma unroll
        for (uint32_t j = 0; j < PART_DIMS / 2; j++)
            sums->value[i][j] = fmaf(sums->value[i][j], factor[j % 4 / 2], part[j]);
    }
#pragma unroll
    for (uint32_t step = 0; step < STEPS; step++)
        lf_wgmma_read(word[step]);
}

// The slot's block of keys, once it is weighed, and so full.
template <uint32_t DIMS>
__device__ static inline void add_block(struct many_block<DIMS> *block, uint32_t slot,
                                        uint32_t group, uint32_t turn,
                                        struct many_sums<DIMS> *sums) {
    const struct many_weights *weights = &block->weights[slot];
    uint32_t word[STEPS][4];
    lf_barrier_wait(&block->weighed[slot][many_own() / LF_WARP], turn);
    lf_show_tensor_cores();
#pragma unroll
    for (uint32_t s = 0; s < STEPS; s++) {
        uint4 four = weights->pair[s][many_own()];
        word[s][0] = four.x, word[s][1] = four.y, word[s][2] = four.z, word[s][3] = four.w;
        LF_CONTROL(20, word[s][2] = four.x;) // 20: a step's upper keys with the lower's weights
    }
    float4 of = weights->sum[many_own()];
    float2 top = weights->top[many_own()];
    sums->top[0] = top.x, sums->top[1] = top.y;
    sums->total[0] = fmaf(sums->total[0], of.x, of.z);
    sums->total[1] = fmaf(sums->total[1], of.y, of.w);
    add_values<DIMS>(word, of, lf_shared_tile_at(block->keys[slot][group]), block->empty[slot],
                     sums);
}

// What 1 / total lies between, itself where it is a float32. total: from 2^-60 to 2^60.
struct inverse {
    float low, high;
};

__device__ static inline struct inverse inverse_of(float total) {
    float near = 1.0f / total, rest = fmaf(-total, near, 1.0f);
    uint32_t bits = lf_f32_bits(near);
    return {lf_f32_from_bits(bits - (rest < 0.0f)), lf_f32_from_bits(bits + (rest > 0.0f))};
}

// Where a lane's elements of a head begin; groups of four, a step apart, in every second tile.
__device__ static inline uint32_t four_at(uint32_t first, uint32_t i) {
    constexpr uint32_t fours = TILE_DIMS / STEP;
    return first + i / fours * MULTIPLIERS * TILE_DIMS + i % fours * STEP + threadIdx.x % 4 * 4;
}

// Elements of a head that are divided: those of the groups of four that `which` has.
template <uint32_t DIMS>
__device__ static void divide_slowly(const struct lf_attention_args &a,
                                     const struct many_sums<DIMS> &sums, uint32_t h, float total,
                                     uint32_t first, uint32_t which, uint16_t *o) {
    constexpr uint32_t n = many_sums<DIMS>::parts * PART_DIMS / 4;
    float value[n];
#pragma unroll
    for (uint32_t i = 0; i < n; i++)
        value[i] = sums.value[i / 8][i % 8 / 4 * 8 + h * 2 + i % 4 / 2 * 4 + i % 2];
#pragma unroll 1
    for (uint32_t i = 0; i < n; i++)
        if (which >> i / 4 & 1 && four_at(first, i / 4) < a.head_dim)
            o[four_at(first, i / 4) + i % 4] = lf_bf16_settle(value[i] / total);
}

// Four neighbouring elements of o; whether a quotient, which lies between, rounds as both ends do.
__device__ static inline bool store_four(const float value[4], const struct inverse &inverse,
                                         bool is_there, uint16_t *o) {
    const uint32_t minus_one = both_halves(0xBF80);
    uint32_t pair[2], apart = 0;
#pragma unroll
    for (uint32_t i = 0; i < 2; i++) {
        float a = value[2 * i], b = value[2 * i + 1];
        pair[i] = lf_bf16_pair(a * inverse.low, b * inverse.low);
        // Not zero either where a number is infinite or none.
        apart |= lf_fma_bf16x2(pair[i], minus_one,
                               lf_bf16_pair(a * inverse.high, b * inverse.high));
        LF_CONTROL(25, pair[i] = lf_fault_cut(a * inverse.low, b * inverse.low);) // 25: truncated
    }
    if (is_there)
        *(uint2 *)o = {pair[0], pair[1]};
    return apart == 0;
}

// The lane's elements of a head.
template <uint32_t DIMS>
__device__ static inline void store_head(const struct lf_attention_args &a, uint32_t r,
                                         uint32_t head, uint32_t h, uint32_t first, float sink,
                                         const struct many_sums<DIMS> &sums) {
    if (head >= a.heads)
        return;
    sink = lf_exp(sink - sums.top[h]);
    LF_CONTROL(1, sink = 0.0f;) // 1: the sink left out
    const float total = sums.total[h] + sink;
    const struct inverse inverse = inverse_of(total);
    uint16_t *o = a.o + ((size_t)r * a.heads + head) * a.head_dim;
    // Totals that are odd, and places that are, leave all to divisions.
    const bool is_plain = total > 0x1p-60f && total < 0x1p60f && (uintptr_t)o % 8 == 0;
    uint32_t slow = is_plain ? 0 : ~0u;
#pragma unroll
    for (uint32_t i = 0; i < many_sums<DIMS>::parts * 2; i++) {
        const float *p = sums.value[i / 2] + i % 2 * 8 + h * 2, four[] = {p[0], p[1], p[4], p[5]};
        uint32_t at = four_at(first, i);
        if (!store_four(four, inverse, is_plain && at < a.head_dim, o + at))
            slow |= 1u << i;
    }
    if (slow)
        divide_slowly<DIMS>(a, sums, h, total, first, slow, o);
}

// A row and a group of heads. turns: of the slots' barriers and the queries'.
template <uint32_t DIMS>
__device__ static inline void run_row(const struct work &w, uint32_t slot_of, uint32_t first,
                                      uint32_t *turns, struct many_block<DIMS> *block) {
    const uint32_t r = w.first + slot_of, group = lf_same(many_group());
    lf_barrier_wait(&block->asked, *turns / QUERY_TURN);
    const uint32_t n = lf_same(block->n[*turns / QUERY_TURN]);
    struct many_sums<DIMS> sums = {};
    sums.top[0] = sums.top[1] = -1e30f;
    if (group * BLOCK >= n)
        lf_barrier_pass(&block->answered);
    for (uint32_t t0 = 0; t0 < n; t0 += 2 * BLOCK) {
        uint32_t own = t0 + group * BLOCK, left = n - own;
        if (own < n)
            weigh_block(w, block, group, *turns, left < BLOCK ? left : (uint32_t)BLOCK,
                        left <= 2 * BLOCK, sums.top);
#pragma unroll 1
        for (uint32_t slot = 0; slot < 2 && t0 + slot * BLOCK < n; slot++) {
            add_block<DIMS>(block, slot, group, *turns >> slot & 1, &sums);
            *turns ^= 1 << slot;
        }
    }
    const float *sink = block->sink[*turns / QUERY_TURN] + many_head();
    store_head<DIMS>(w.a, r, first + many_head(), 0, group * TILE_DIMS, sink[0], sums);
    store_head<DIMS>(w.a, r, first + many_head() + 8, 1, group * TILE_DIMS, sink[8], sums);
    LF_CONTROL(13, w.a.o[(size_t)w.a.rows * w.a.heads * w.a.head_dim] = 0;) // 13: a write past it
}

template <uint32_t DIMS>
__device__ static inline void multiply_rows(const struct work &w, struct many_block<DIMS> *block) {
    const uint32_t groups = head_groups(w), items = w.rows * groups;
    uint32_t turns = 0;
    for (uint32_t item = blockIdx.x; item < items; item += gridDim.x, turns ^= QUERY_TURN)
        run_row<DIMS>(w, item / groups, item % groups * GROUP_HEADS, &turns, block);
}

// By one warp's lanes; warps pass what they bring, weigh or have read.
template <uint32_t DIMS>
__device__ static inline void open_barriers(struct many_block<DIMS> *block) {
    const uint32_t all = MULTIPLIERS * GROUP_WARPS, i = threadIdx.x;
    if (i < 2 * many_block<DIMS>::parts) {
        lf_barrier_open(block->full[0] + i, all);
        lf_barrier_open(block->empty[0] + i, all);
    }
    if (i < GROUP_WARPS) {
        lf_barrier_open(&block->topped[i], 1);
        lf_barrier_open(&block->weighed[0][i], 1);
        lf_barrier_open(&block->weighed[1][i], 1);
    }
    if (i == 0) {
        lf_barrier_open(&block->asked, all);
        lf_barrier_open(&block->answered, all);
    }
}

template <uint32_t DIMS>
__global__ static void __launch_bounds__(MANY_THREADS, 1)
attention_many(const __grid_constant__ struct work w) {
    lf_take_turn();
    LF_DYNAMIC_SHARED(shared);
    auto *block = (struct many_block<DIMS> *)many_aligned(shared);
    open_barriers(block);
    __syncthreads();
    if (threadIdx.x >= MULTIPLIERS * MANY_GROUP) {
        lf_registers_fewer<BRING_REGISTERS>();
        bring_keys(w, block);
    } else {
        lf_registers_more<MULTIPLY_REGISTERS>();
        multiply_rows(w, block);
    }
}
