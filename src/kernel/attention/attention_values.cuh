// The third launch: weights times keys, each block's sum a chain of steps over its keys.
#pragma once
#include "kernel/attention/attention_work.cuh"
#include "kernel/settle.h"

enum { VALUE_WARPS = THREADS / LF_WARP, UNITS = 4 };

// Some elements of a row, several blocks of keys at a time.
template <uint32_t DIMS>
struct value_form {
    static constexpr uint32_t pieces = DIMS / PIECE;
    // Warps that bring pieces of one block together, and how many of those.
    static constexpr uint32_t bringers = 2 * pieces;
    static constexpr uint32_t sets = VALUE_WARPS / bringers, blocks = UNITS * sets;
    // Of a warp: tiles of heads; warps side by side over the elements, a piece each.
    static constexpr uint32_t tiles = DIMS > 32 ? 2 : 1, columns = VALUE_WARPS * tiles / 4;
    static constexpr uint32_t block_bytes = DIMS * BLOCK * 2, stage_bytes = blocks * block_bytes;
    // At the end sums lie there, each head's past its elements by so many that no bank meets.
    static constexpr uint32_t stride = DIMS + 8, sum_bytes = GROUP_HEADS * stride * 4;
    static constexpr uint32_t bytes = sum_bytes > 2 * stage_bytes ? sum_bytes : 2 * stage_bytes;
};

// What a block of threads is for, and of it a warp.
struct value_place {
    uint32_t row, slot, first, tile, piece; // elements from `first` on, of them the warp's piece
    struct key_list list;
};

template <uint32_t DIMS>
__device__ static struct value_place place_values(const struct work &w) {
    typedef value_form<DIMS> form;
    uint32_t warp = threadIdx.x / LF_WARP;
    struct value_place p = {};
    p.slot = blockIdx.z, p.row = w.first + blockIdx.z;
    p.first = blockIdx.x * DIMS;
    p.tile = blockIdx.y * (GROUP_HEADS / TILE_HEADS) + warp / form::columns * form::tiles;
    p.piece = warp % form::columns;
    p.list = list_keys(w.a, p.row);
    return p;
}

// A lane's pieces on their way, and its own keys: of this stage and of the next.
struct value_share {
    const uint8_t *key[UNITS], *next[UNITS];
    struct piece piece[UNITS];
    uint32_t t0;
};

// A lane's piece of its keys, and which of a stage's blocks its i-th key is of.
template <uint32_t DIMS>
__device__ static inline uint32_t own_piece(void) {
    return threadIdx.x % LF_WARP / WARP_PLACES % value_form<DIMS>::pieces;
}

template <uint32_t DIMS>
__device__ static inline uint32_t own_block(uint32_t i) {
    typedef value_form<DIMS> form;
    return i * form::sets + threadIdx.x / LF_WARP / form::bringers;
}

// Its place in each.
template <uint32_t DIMS>
__device__ static inline uint32_t own_place(void) {
    typedef value_form<DIMS> form;
    uint32_t lane = threadIdx.x % LF_WARP, warp = threadIdx.x / LF_WARP % form::bringers;
    return warp * (BLOCK / form::bringers) + lane / (WARP_PLACES * form::pieces) * WARP_PLACES +
           lane % WARP_PLACES;
}

template <uint32_t DIMS>
__device__ static inline bool is_windowed(const struct value_place &p, uint32_t t0) {
    return t0 + key_at_place(own_place<DIMS>()) < p.list.window;
}

template <uint32_t DIMS>
__device__ static void find_next(const struct work &w, const struct value_place &p,
                                 struct value_share *s, uint32_t stages) {
    typedef value_form<DIMS> form;
    uint32_t own = key_at_place(own_place<DIMS>());
#pragma unroll
    for (uint32_t i = 0; i < UNITS; i++) {
        uint32_t t0 = s->t0 + (stages * form::blocks + own_block<DIMS>(i)) * BLOCK;
        s->key[i] = s->next[i];
        s->next[i] = t0 < p.list.n ? w.key[(size_t)p.slot * w.blocks * BLOCK + t0 + own] : NULL;
    }
}

template <uint32_t DIMS>
__device__ static void fetch_stage(const struct work &w, const struct value_place &p,
                                   struct value_share *s) {
#pragma unroll
    for (uint32_t i = 0; i < UNITS; i++)
        s->piece[i] = fetch_piece(s->key[i],
                                  is_windowed<DIMS>(p, s->t0 + own_block<DIMS>(i) * BLOCK), false,
                                  w.a.head_dim, p.first + own_piece<DIMS>() * PIECE);
    find_next<DIMS>(w, p, s, 2);
    s->t0 += value_form<DIMS>::blocks * BLOCK;
}

template <uint32_t DIMS>
__device__ static void put_stage(const struct value_place &p, const struct value_share &s,
                                 uint32_t t0, uint8_t *stage) {
#pragma unroll
    for (uint32_t i = 0; i < UNITS; i++)
        put_piece(stage + own_block<DIMS>(i) * value_form<DIMS>::block_bytes, own_piece<DIMS>(),
                  own_place<DIMS>(), s.piece[i],
                  is_windowed<DIMS>(p, t0 + own_block<DIMS>(i) * BLOCK));
}

// Weights of a block's keys for the warp's tiles of heads, operands of lf_mma_bf16; exp(m - m').
template <uint32_t TILES>
struct value_weights {
    uint32_t word[TILES][STEPS][4];
    float factor[TILES][2];
};

template <uint32_t TILES>
__device__ static inline void load_block(const struct work &w, const struct value_place &p,
                                         uint32_t block, struct value_weights<TILES> *weights) {
#pragma unroll
    for (uint32_t m = 0; m < TILES; m++) {
        bool is_there = block * BLOCK < p.list.n && p.tile + m < w.tiles;
        const uint32_t *cell = cell_at(w, p.slot, block, p.tile + m);
        const float *factor = factor_at(w, p.slot, block, p.tile + m);
#pragma unroll
        for (uint32_t step = 0; step < STEPS; step += 2) {
            uint4 low = {0, 0, 0, 0}, high = {0, 0, 0, 0}; // of heads 0 to 7, of heads 8 to 15
            if (is_there) {
                low = *(const uint4 *)(cell + step / 2 * STEP_WORDS);
                high = *(const uint4 *)(cell + step / 2 * STEP_WORDS + STEP_WORDS / 2);
            }
            const uint32_t word[2][4] = {{low.x, high.x, low.y, high.y},
                                         {low.z, high.z, low.w, high.w}};
            memcpy(weights->word[m][step], word, sizeof word);
            // 20: a step's upper keys with the lower's weights
            LF_CONTROL(20, weights->word[m][step][2] = word[0][0];)
        }
        weights->factor[m][0] = is_there ? factor[0] : 0.0f;
        weights->factor[m][1] = is_there ? factor[8] : 0.0f;
    }
}

template <uint32_t DIMS>
using value_weights_of = struct value_weights<value_form<DIMS>::tiles>;

// A warp's sums of its piece and tiles.
template <uint32_t DIMS>
struct value_sums {
    float of[value_form<DIMS>::tiles][2][4];
};

// sum * factor + the block's sum, of a piece of elements.
template <uint32_t TILES>
__device__ static inline void add_block(const struct value_weights<TILES> &weights,
                                        lf_shared_base keys, uint32_t piece,
                                        float sum[TILES][2][4]) {
    uint32_t lane = threadIdx.x % LF_WARP;
    uint32_t at = lane / 16 * CHUNK_BYTES + place_at(piece, lane % 16);
    float part[TILES][2][4] = {};
    LF_CONTROL(21, memcpy(part, sum, sizeof part);) // 21: a block's sum not begun from zero
#pragma unroll
    for (uint32_t step = 0; step < STEPS; step++) {
        uint32_t key[4];
        lf_load_columns(key, keys, at + step * STEP * 16);
#pragma unroll
        for (uint32_t m = 0; m < TILES; m++) {
            lf_mma_bf16(part[m][0], weights.word[m][step], key);
            lf_mma_bf16(part[m][1], weights.word[m][step], key + 2);
        }
    }
#pragma unroll
    for (uint32_t m = 0; m < TILES; m++)
#pragma unroll
        for (uint32_t i = 0; i < 8; i++)
            sum[m][i / 4][i % 4] =
                fmaf(sum[m][i / 4][i % 4], weights.factor[m][i % 4 / 2], part[m][i / 4][i % 4]);
}

template <uint32_t DIMS>
__device__ static inline void add_stage(const struct work &w, const struct value_place &p,
                                        uint32_t t0, lf_shared_base stage,
                                        const value_weights_of<DIMS> *weights,
                                        value_sums<DIMS> &sum) {
    typedef value_form<DIMS> form;
#pragma unroll
    for (uint32_t i = 0; i < form::blocks; i++)
        if (p.tile < w.tiles && t0 + i * BLOCK < p.list.n &&
            p.first + p.piece * PIECE < w.a.head_dim)
            add_block<form::tiles>(weights[i], stage + i * form::block_bytes, p.piece, sum.of);
}

// Sums of the warp's tiles to where the block's lie: [heads][stride] of float32.
template <uint32_t DIMS>
__device__ static void put_sums(const struct value_place &p, const value_sums<DIMS> &sum,
                                float *all) {
    typedef value_form<DIMS> form;
    constexpr uint32_t stride = form::stride;
    uint32_t lane = threadIdx.x % LF_WARP;
    uint32_t head = p.tile % (GROUP_HEADS / TILE_HEADS) * TILE_HEADS + lane / 4;
    float *to = all + head * stride + p.piece * PIECE + lane % 4 * 2;
#pragma unroll
    for (uint32_t i = 0; i < 2; i++)
#pragma unroll
        for (uint32_t m = 0; m < form::tiles * 2; m++) {
            const float *two = sum.of[m / 2][i] + m % 2 * 2;
            *(float2 *)(to + m * 8 * stride + i * CHUNK) = {two[0], two[1]};
        }
}

// Eight neighbouring elements of o.
__device__ static inline void store_chunk(const float *value, float total, uint16_t *o) {
    uint32_t pair[CHUNK / 2];
#pragma unroll
    for (uint32_t i = 0; i < CHUNK / 2; i++) {
        float low = value[2 * i] / total, high = value[2 * i + 1] / total;
        pair[i] = lf_bf16_settle(low) | (uint32_t)lf_bf16_settle(high) << 16;
        LF_CONTROL(25, pair[i] = lf_fault_cut(low, high);) // 25: o truncated
    }
    if ((uintptr_t)o % 16 == 0) {
        *(uint4 *)o = {pair[0], pair[1], pair[2], pair[3]};
        return;
    }
    for (uint32_t i = 0; i < CHUNK; i++)
        o[i] = (uint16_t)(pair[i / 2] >> i % 2 * 16);
}

template <uint32_t DIMS>
__device__ static void store_values(const struct work &w, const struct value_place &p,
                                    const float *all) {
    constexpr uint32_t stride = value_form<DIMS>::stride, chunks = DIMS / CHUNK;
    for (uint32_t i = threadIdx.x; i < GROUP_HEADS * chunks; i += THREADS) {
        uint32_t own = i / chunks, head = blockIdx.y * GROUP_HEADS + own, d = i % chunks * CHUNK;
        if (head >= w.a.heads || p.first + d >= w.a.head_dim)
            continue;
        float total = w.total[(size_t)p.slot * w.tiles * TILE_HEADS + head];
        size_t at = ((size_t)p.row * w.a.heads + head) * w.a.head_dim + p.first + d;
        store_chunk(all + own * stride + d, total, w.a.o + at);
    }
    LF_CONTROL(13, w.a.o[(size_t)w.a.rows * w.a.heads * w.a.head_dim] = 0;) // 13: a write past it
}

// A block: GROUP_HEADS heads of a row.
template <uint32_t DIMS>
__global__ static void __launch_bounds__(THREADS, 1) attention_values(struct work w) {
    lf_take_turn();
    LF_DYNAMIC_SHARED(shared);
    typedef value_form<DIMS> form;
    constexpr uint32_t stage_keys = form::blocks * BLOCK;
    const struct value_place p = place_values<DIMS>(w);
    const lf_shared_base base = lf_shared_base_of(shared);
    value_weights_of<DIMS> weights[form::blocks];
    struct value_share share = {};
    value_sums<DIMS> sum = {};
    find_next<DIMS>(w, p, &share, 0);
    find_next<DIMS>(w, p, &share, 1);
    fetch_stage<DIMS>(w, p, &share);
    // A turn widens the keys of the stage from `next` on and adds the one before.
    for (uint32_t next = 0, turn = 0; next < p.list.n + stage_keys; next += stage_keys, turn ^= 1) {
        if (next)
            add_stage<DIMS>(w, p, next - stage_keys, base + (turn ^ 1) * form::stage_bytes, weights,
                            sum);
        if (next < p.list.n) {
#pragma unroll
            for (uint32_t i = 0; i < form::blocks; i++)
                load_block<form::tiles>(w, p, next / BLOCK + i, &weights[i]);
            put_stage<DIMS>(p, share, next, shared + turn * form::stage_bytes);
            fetch_stage<DIMS>(w, p, &share);
        }
        __syncthreads();
    }
    float *all = (float *)shared;
    put_sums<DIMS>(p, sum, all);
    __syncthreads();
    store_values<DIMS>(w, p, all);
}
