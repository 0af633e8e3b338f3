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

// Sixteen elements of a query, zeros for heads and elements that are not there.
__device__ static inline void load_query(const struct lf_attention_args &a, uint32_t r,
                                         uint32_t head, uint32_t d, bool aligned,
                                         uint32_t pair[PIECE / 2]) {
    uint32_t dim = a.head_dim;
    LF_CONTROL(18, dim -= STEP;) // 18: the last step of elements not in a dot product
    uint4 low = {0, 0, 0, 0}, high = {0, 0, 0, 0};
    if (head < a.heads && d < dim) {
        const uint16_t *q = a.q + ((size_t)r * a.heads + head) * a.head_dim + d;
        low = aligned ? *(const uint4 *)q : load_16((const uint8_t *)q);
        high = aligned ? *(const uint4 *)(q + CHUNK) : load_16((const uint8_t *)(q + CHUNK));
    }
    pair[0] = low.x, pair[1] = low.y, pair[2] = low.z, pair[3] = low.w;
    pair[4] = high.x, pair[5] = high.y, pair[6] = high.z, pair[7] = high.w;
}

// The queries of a row: each warp brings half of the elements of sixteen.
template <uint32_t DIMS, bool ALIGNED>
__device__ static void put_queries(const struct lf_attention_args &a, uint32_t r, uint32_t first,
                                   uint32_t half, struct many_block<DIMS> *block) {
    typedef many_share<DIMS> share;
    uint32_t warp = many_own() / LF_WARP;
    uint8_t *tiles = block->queries[half * many_block<DIMS>::half_tiles];
    uint32_t pair[share::times][PIECE / 2], at = many_at<DIMS>();
#pragma unroll
    for (uint32_t i = 0; i < share::times; i++)
        load_query(a, r, first + warp * share::places + i * share::at_once + many_place<DIMS>(),
                   half * share::half_dims + many_piece<DIMS>() * PIECE, ALIGNED, pair[i]);
#pragma unroll
    for (uint32_t i = 0; i < share::times; i++)
        put_ordered<DIMS>(tiles, at, i, pair[i]);
}

// Dot products of the heads and the keys of a slot.
template <uint32_t DIMS>
__device__ static inline void multiply_keys(struct many_block<DIMS> *block, uint32_t slot,
                                            uint32_t turn, float (&z)[BLOCK / 2]) {
    typedef many_block<DIMS> all;
    const lf_shared_tile queries = lf_shared_tile_at(block->queries);
    const lf_shared_tile keys = lf_shared_tile_at(block->keys[slot]);
#pragma unroll
    for (uint32_t half = 0; half < 2; half++) {
        lf_barrier_wait(&block->full[slot][half], turn);
        lf_wgmma_begin();
#pragma unroll
        for (uint32_t i = 0; i < all::half_tiles * TILE_DIMS / STEP; i++) {
            uint32_t at = (half * all::half_tiles + i / 4) * TILE_BYTES + i % 4 * STEP * 2;
            lf_wgmma_along(z, lf_shared_tile_from(queries, at), lf_shared_tile_from(keys, at),
                           half || i);
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

// The slot's block of keys, of which so many are there, for both warpgroups.
template <uint32_t DIMS>
__device__ static inline void weigh_block(const struct work &w, struct many_block<DIMS> *block,
                                          uint32_t slot, uint32_t turns, uint32_t terms,
                                          const float before[LANE_HEADS]) {
    struct many_weights *weights = &block->weights[slot];
    uint32_t warp = many_own() / LF_WARP;
    float z[BLOCK / 2] = {}, m[LANE_HEADS] = {before[0], before[1]}, top[LANE_HEADS];
    multiply_keys(block, slot, turns >> slot & 1, z);
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
    uint32_t at = part * PART_DIMS / TILE_DIMS * TILE_BYTES + part * PART_DIMS % TILE_DIMS * 2;
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

// sum * factor + the block's sum, of the warpgroup's elements. emptied: the keys are not needed.
template <uint32_t DIMS>
__device__ static inline void add_values(const uint32_t word[STEPS][4], float4 sums_of,
                                         lf_shared_tile keys, lf_barrier *emptied,
                                         struct many_sums<DIMS> *sums) {
    constexpr uint32_t parts = many_sums<DIMS>::parts;
    const float factor[] = {sums_of.x, sums_of.y};
    float part[PART_DIMS / 2] = {};
#pragma unroll
    for (uint32_t i = 0; i < parts; i++) {
        start_part(word, keys, i, part);
        lf_wgmma_wait<0>();
        lf_wgmma_settle(part);
        if (i + 1 == parts)
            lf_barrier_pass(emptied);
#pragma unroll
        for (uint32_t j = 0; j < PART_DIMS / 2; j++)
            sums->value[i][j] = fmaf(sums->value[i][j], factor[j % 4 / 2], part[j]);
    }
#pragma unroll
    for (uint32_t step = 0; step < STEPS; step++)
        lf_wgmma_read(word[step]);
}

// The slot's block of keys, once it is weighed.
template <uint32_t DIMS>
__device__ static inline void add_block(struct many_block<DIMS> *block, uint32_t slot,
                                        uint32_t half, uint32_t turn,
                                        struct many_sums<DIMS> *sums) {
    const struct many_weights *weights = &block->weights[slot];
    uint32_t word[STEPS][4];
    lf_barrier_wait(&block->full[slot][half], turn);
    lf_barrier_wait(&block->weighed[slot][many_own() / LF_WARP], turn);
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
    add_values<DIMS>(word, of,
                     lf_shared_tile_at(block->keys[slot][half * many_block<DIMS>::half_tiles]),
                     &block->empty[slot][half], sums);
}

// What IEEE division gives where neither number is odd: a quotient close by, put right twice.
__device__ static inline float quotient(float value, float total, float inverse) {
    float q = value * inverse;
    q = fmaf(fmaf(-total, q, value), inverse, q);
    return fmaf(fmaf(-total, q, value), inverse, q);
}

// A size outside of 2^-60 to 2^60, zero among them.
__device__ static inline bool is_odd(float x) {
    const uint32_t least = (127u - 60) << 24, most = (127u + 60) << 24;
    return lf_f32_bits(x) * 2 - least > most - least;
}

// Where a lane's elements of a head begin; groups of four, a step apart.
__device__ static inline uint32_t four_at(uint32_t first, uint32_t i) {
    return first + i * STEP + threadIdx.x % 4 * 4;
}

// All of a head that has an odd number.
template <uint32_t DIMS>
__device__ static void divide_slowly(const struct lf_attention_args &a,
                                     const struct many_sums<DIMS> &sums, uint32_t h, float total,
                                     uint32_t first, uint16_t *o) {
    constexpr uint32_t n = many_sums<DIMS>::parts * PART_DIMS / 4;
    float value[n];
#pragma unroll
    for (uint32_t i = 0; i < n; i++)
        value[i] = sums.value[i / 8][i % 8 / 4 * 8 + h * 2 + i % 4 / 2 * 4 + i % 2];
#pragma unroll 1
    for (uint32_t i = 0; i < n; i++)
        if (four_at(first, i / 4) < a.head_dim)
            o[four_at(first, i / 4) + i % 4] = lf_bf16_settle(value[i] / total);
}

// Four neighbouring elements of o.
__device__ static inline void store_four(const float value[4], float total, float inverse,
                                         uint16_t *o) {
    uint32_t pair[2];
#pragma unroll
    for (uint32_t i = 0; i < 2; i++) {
        float low = quotient(value[2 * i], total, inverse);
        float high = quotient(value[2 * i + 1], total, inverse);
        pair[i] = lf_bf16_pair(low, high);
        LF_CONTROL(25, pair[i] = lf_fault_cut(low, high);) // 25: o truncated
    }
    if ((uintptr_t)o % 8 == 0) {
        *(uint2 *)o = {pair[0], pair[1]};
        return;
    }
    for (uint32_t i = 0; i < 4; i++)
        o[i] = (uint16_t)(pair[i / 2] >> i % 2 * 16);
}

// The lane's elements of a head.
template <uint32_t DIMS>
__device__ static inline void store_head(const struct lf_attention_args &a, uint32_t r,
                                         uint32_t head, uint32_t h, uint32_t first,
                                         const struct many_sums<DIMS> &sums) {
    if (head >= a.heads)
        return;
    float sink = lf_exp(a.sink[head] - sums.top[h]);
    LF_CONTROL(1, sink = 0.0f;) // 1: the sink left out
    float total = sums.total[h] + sink, inverse = 1.0f / total;
    uint16_t *o = a.o + ((size_t)r * a.heads + head) * a.head_dim;
    bool odd = is_odd(total);
#pragma unroll
    for (uint32_t i = 0; i < many_sums<DIMS>::parts * 2; i++) {
        const float *p = sums.value[i / 2] + i % 2 * 8 + h * 2, four[] = {p[0], p[1], p[4], p[5]};
        odd = odd || is_odd(p[0]) || is_odd(p[1]) || is_odd(p[4]) || is_odd(p[5]);
        if (four_at(first, i) < a.head_dim)
            store_four(four, total, inverse, o + four_at(first, i));
    }
    if (odd)
        divide_slowly<DIMS>(a, sums, h, total, first, o);
}

// A row and a group of heads. turns: of the slots' barriers.
template <uint32_t DIMS>
__device__ static inline void run_row(const struct work &w, uint32_t slot_of, uint32_t first,
                                      uint32_t asked, uint32_t *turns,
                                      struct many_block<DIMS> *block) {
    const uint32_t r = w.first + slot_of, n = lf_same(w.list[slot_of].n);
    const uint32_t group = lf_same(many_group());
    if ((uintptr_t)w.a.q % 16 == 0)
        put_queries<DIMS, true>(w.a, r, first, group, block);
    else
        put_queries<DIMS, false>(w.a, r, first, group, block);
    lf_show_tensor_cores();
    lf_barrier_pass(&block->asked);
    lf_barrier_wait(&block->asked, asked);
    struct many_sums<DIMS> sums = {};
    sums.top[0] = sums.top[1] = -1e30f;
    for (uint32_t t0 = 0; t0 < n; t0 += 2 * BLOCK) {
        uint32_t own = t0 + group * BLOCK, left = n - own;
        if (own < n)
            weigh_block(w, block, group, *turns, left < BLOCK ? left : (uint32_t)BLOCK, sums.top);
#pragma unroll 1
        for (uint32_t slot = 0; slot < 2 && t0 + slot * BLOCK < n; slot++) {
            add_block<DIMS>(block, slot, group, *turns >> slot & 1, &sums);
            *turns ^= 1 << slot;
        }
    }
    store_head<DIMS>(w.a, r, first + many_head(), 0, group * (DIMS / 2), sums);
    store_head<DIMS>(w.a, r, first + many_head() + 8, 1, group * (DIMS / 2), sums);
    LF_CONTROL(13, w.a.o[(size_t)w.a.rows * w.a.heads * w.a.head_dim] = 0;) // 13: a write past it
}

template <uint32_t DIMS>
__device__ static inline void multiply_rows(const struct work &w, struct many_block<DIMS> *block) {
    const uint32_t groups = head_groups(w), items = w.rows * groups;
    uint32_t turns = 0, asked = 0;
    for (uint32_t item = blockIdx.x; item < items; item += gridDim.x, asked ^= 1)
        run_row<DIMS>(w, item / groups, item % groups * GROUP_HEADS, asked, &turns, block);
}

template <uint32_t DIMS>
__global__ static void __launch_bounds__(MANY_THREADS, 1)
attention_many(const __grid_constant__ struct work w) {
    lf_take_turn();
    LF_DYNAMIC_SHARED(shared);
    auto *block = (struct many_block<DIMS> *)many_aligned(shared);
    if (threadIdx.x < 4) {
        uint32_t slot = threadIdx.x / 2, half = threadIdx.x % 2;
        lf_barrier_open(&block->full[slot][half], GROUP_WARPS);
        lf_barrier_open(&block->empty[slot][half], GROUP_WARPS);
        lf_barrier_open(&block->topped[threadIdx.x], 1);
        lf_barrier_open(&block->weighed[0][threadIdx.x], 1);
        lf_barrier_open(&block->weighed[1][threadIdx.x], 1);
        if (!threadIdx.x)
            lf_barrier_open(&block->asked, MULTIPLIERS * GROUP_WARPS);
    }
    __syncthreads();
    if (threadIdx.x >= MULTIPLIERS * MANY_GROUP) {
        lf_registers_fewer<BRING_REGISTERS>();
        bring_keys(w, many_group() - MULTIPLIERS, block);
    } else {
        lf_registers_more<MULTIPLY_REGISTERS>();
        multiply_rows(w, block);
    }
}
