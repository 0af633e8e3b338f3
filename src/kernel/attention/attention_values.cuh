// The third launch: weights times keys, each block's sum a chain of steps over its keys.
#pragma once
#include "kernel/attention/attention_work.cuh"
#include "kernel/cuda_table.h"
#include "kernel/settle.h"

// Many rows: all elements of a row, one block of keys at a time in two parts. Few: 64 and four.
template <bool WIDE>
struct value_form {
    static constexpr uint32_t blocks = WIDE ? 1 : 4, parts = WIDE ? 2 : 1;
    static constexpr uint32_t dims = WIDE ? (uint32_t)LF_CUDA_HEAD_DIM_MAX : 64;
    static constexpr uint32_t block_bytes = dims * BLOCK * 2, stage_bytes = blocks * block_bytes;
    static constexpr uint32_t warp_pieces = dims / 4 / PIECE;
    // At the end sums lie there, each head's past its elements by so many that no bank meets.
    static constexpr uint32_t stride = dims + 8, sum_bytes = GROUP_HEADS * stride * 4;
    static constexpr uint32_t bytes = sum_bytes > 2 * stage_bytes ? sum_bytes : 2 * stage_bytes;
};
enum { UNITS = 4 }; // of a part: keys of which a lane brings a piece, pieces that a warp adds
enum { WARP_TILES = 2 };

// What a block of threads is for, and of it a warp.
struct value_place {
    uint32_t row, slot, first, tile, piece; // elements from `first` on, of them the warp's piece
    struct key_list list;
};

template <bool WIDE>
__device__ static struct value_place place_values(const struct work &w) {
    uint32_t warp = threadIdx.x / LF_WARP;
    struct value_place p = {};
    p.slot = blockIdx.z, p.row = w.first + blockIdx.z;
    p.first = blockIdx.x * value_form<WIDE>::dims;
    p.tile = blockIdx.y * (GROUP_HEADS / TILE_HEADS) + warp / 4 * WARP_TILES;
    p.piece = warp % 4 * value_form<WIDE>::warp_pieces;
    p.list = list_keys(w.a, p.row);
    return p;
}

// A lane's pieces of a part on their way, and its own keys: of this stage and of the next.
template <bool WIDE>
struct value_share {
    const uint8_t *key[value_form<WIDE>::blocks], *next[value_form<WIDE>::blocks];
    struct piece piece[UNITS];
    uint32_t t0;
};

// With few rows four lanes share a key of each block: a lane's piece, place and kind of key.
__device__ static inline uint32_t few_piece(void) {
    return threadIdx.x % LF_WARP / WARP_PLACES;
}

__device__ static inline uint32_t few_place(void) {
    return first_place() + threadIdx.x % WARP_PLACES;
}

__device__ static inline bool is_windowed(const struct value_place &p, uint32_t t0) {
    return t0 + key_at_place(few_place()) < p.list.window;
}

template <bool WIDE>
__device__ static void find_next(const struct work &w, const struct value_place &p,
                                 struct value_share<WIDE> *s, uint32_t stages) {
    typedef value_form<WIDE> form;
    uint32_t own = key_at_place(few_place());
#pragma unroll
    for (uint32_t i = 0; i < form::blocks; i++) {
        uint32_t t0 = s->t0 + (stages * form::blocks + i) * BLOCK;
        s->key[i] = s->next[i];
        s->next[i] = t0 < p.list.n ? w.key[(size_t)p.slot * w.blocks * BLOCK + t0 + own] : NULL;
    }
}

template <bool WIDE>
__device__ static void fetch_part(const struct work &w, const struct value_place &p, uint32_t part,
                                  struct value_share<WIDE> *s) {
    typedef value_form<WIDE> form;
    const uint8_t *row[UNITS];
    if (WIDE) {
        share_keys<UNITS>(s->key[0], part * UNITS, row);
        fetch_places<UNITS>(p.list, s->t0, first_place() + part * UNITS, row, w.a.head_dim,
                            s->piece);
    }
#pragma unroll
    for (uint32_t i = 0; !WIDE && i < UNITS; i++)
        s->piece[i] = fetch_piece(s->key[WIDE ? 0 : i], is_windowed(p, s->t0 + i * BLOCK), false,
                                  w.a.head_dim, p.first + few_piece() * PIECE);
    if (part + 1 < form::parts)
        return;
    find_next(w, p, s, 2);
    s->t0 += form::blocks * BLOCK;
}

template <bool WIDE>
__device__ static void put_part(const struct value_place &p, const struct value_share<WIDE> &s,
                                uint32_t t0, uint32_t part, uint8_t *stage) {
    if (WIDE)
        put_places<UNITS>(p.list, t0, first_place() + part * UNITS, s.piece, stage);
#pragma unroll
    for (uint32_t i = 0; !WIDE && i < UNITS; i++)
        put_piece(stage + i * value_form<WIDE>::block_bytes, few_piece(), few_place(), s.piece[i],
                  is_windowed(p, t0 + i * BLOCK));
}

// Weights of a block's keys for the warp's tiles of heads, operands of lf_mma_bf16; exp(m - m').
struct value_weights {
    uint32_t word[WARP_TILES][STEPS][4];
    float factor[WARP_TILES][2];
};

__device__ static inline void load_block(const struct work &w, const struct value_place &p,
                                         uint32_t block, struct value_weights *weights) {
#pragma unroll
    for (uint32_t m = 0; m < WARP_TILES; m++) {
        bool is_there = block * BLOCK < p.list.n && p.tile + m < w.tiles;
        const uint32_t *cell = cell_at(w, p.slot, block, p.tile + m);
        const float *factor = factor_at(w, p.slot, block, p.tile + m);
#pragma unroll
        for (uint32_t step = 0; step < STEPS; step++) {
            uint4 four = {0, 0, 0, 0};
            if (is_there)
                four = *(const uint4 *)(cell + step * STEP_WORDS);
            uint32_t *word = weights->word[m][step];
            word[0] = four.x, word[1] = four.y, word[2] = four.z, word[3] = four.w;
            LF_CONTROL(20, word[2] = word[0];) // 20: a step's upper keys with the lower's weights
        }
        weights->factor[m][0] = is_there ? factor[0] : 0.0f;
        weights->factor[m][1] = is_there ? factor[8] : 0.0f;
    }
}

// sum * factor + the block's sum, of a piece of elements.
__device__ static inline void add_block(const struct value_weights &weights, lf_shared_base keys,
                                        uint32_t piece, float sum[WARP_TILES][2][4]) {
    uint32_t lane = threadIdx.x % LF_WARP;
    uint32_t at = lane / 16 * CHUNK_BYTES + place_at(piece, lane % 16);
    float part[WARP_TILES][2][4] = {};
    LF_CONTROL(21, memcpy(part, sum, sizeof part);) // 21: a block's sum not begun from zero
#pragma unroll
    for (uint32_t step = 0; step < STEPS; step++) {
        uint32_t key[4];
        lf_load_columns(key, keys, at + step * STEP * 16);
#pragma unroll
        for (uint32_t m = 0; m < WARP_TILES; m++) {
            lf_mma_bf16(part[m][0], weights.word[m][step], key);
            lf_mma_bf16(part[m][1], weights.word[m][step], key + 2);
        }
    }
#pragma unroll
    for (uint32_t m = 0; m < WARP_TILES; m++)
#pragma unroll
        for (uint32_t i = 0; i < 8; i++)
            sum[m][i / 4][i % 4] =
                fmaf(sum[m][i / 4][i % 4], weights.factor[m][i % 4 / 2], part[m][i / 4][i % 4]);
}

template <bool WIDE>
__device__ static inline void add_part(const struct work &w, const struct value_place &p,
                                       uint32_t part, uint32_t t0, lf_shared_base stage,
                                       const struct value_weights *weights,
                                       float sum[value_form<WIDE>::warp_pieces][WARP_TILES][2][4]) {
#pragma unroll
    for (uint32_t i = 0; i < UNITS; i++) {
        uint32_t block = WIDE ? 0 : i, own = WIDE ? part * UNITS + i : 0, piece = p.piece + own;
        if (p.tile < w.tiles && t0 + block * BLOCK < p.list.n &&
            p.first + piece * PIECE < w.a.head_dim)
            add_block(weights[block], stage + block * value_form<WIDE>::block_bytes, piece,
                      sum[own]);
    }
}

// Sums of the warp's tiles to where the block's lie: [heads][stride] of float32.
template <bool WIDE>
__device__ static void put_sums(const struct value_place &p,
                                const float sum[value_form<WIDE>::warp_pieces][WARP_TILES][2][4],
                                float *all) {
    constexpr uint32_t stride = value_form<WIDE>::stride;
    uint32_t lane = threadIdx.x % LF_WARP;
    uint32_t head = p.tile % (GROUP_HEADS / TILE_HEADS) * TILE_HEADS + lane / 4;
    float *to = all + head * stride + p.piece * PIECE + lane % 4 * 2;
#pragma unroll
    for (uint32_t i = 0; i < value_form<WIDE>::warp_pieces * 2; i++)
#pragma unroll
        for (uint32_t m = 0; m < WARP_TILES * 2; m++) {
            const float *two = sum[i / 2][m / 2][i % 2] + m % 2 * 2;
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

template <bool WIDE>
__device__ static void store_values(const struct work &w, const struct value_place &p,
                                    const float *all) {
    constexpr uint32_t stride = value_form<WIDE>::stride, chunks = value_form<WIDE>::dims / CHUNK;
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
template <bool WIDE>
__global__ static void __launch_bounds__(THREADS, 1) attention_values(struct work w) {
    lf_take_turn();
    LF_DYNAMIC_SHARED(shared);
    typedef value_form<WIDE> form;
    constexpr uint32_t stage_keys = form::blocks * BLOCK;
    const struct value_place p = place_values<WIDE>(w);
    const lf_shared_base base = lf_shared_base_of(shared);
    struct value_weights weights[form::blocks];
    struct value_share<WIDE> share = {};
    float sum[form::warp_pieces][WARP_TILES][2][4] = {};
    find_next(w, p, &share, 0);
    find_next(w, p, &share, 1);
    fetch_part(w, p, 0, &share);
    // A turn widens the keys of the stage from `next` on and adds the one before.
    for (uint32_t next = 0, turn = 0; next < p.list.n + stage_keys; next += stage_keys, turn ^= 1) {
#pragma unroll
        for (uint32_t part = 0; part < form::parts; part++) {
            if (next)
                add_part<WIDE>(w, p, part, next - stage_keys, base + (turn ^ 1) * form::stage_bytes,
                               weights, sum);
            if (next >= p.list.n)
                continue;
            if (part + 1 == form::parts)
#pragma unroll
                for (uint32_t i = 0; i < form::blocks; i++)
                    load_block(w, p, next / BLOCK + i, &weights[i]);
            put_part(p, share, next, part, shared + turn * form::stage_bytes);
            fetch_part(w, p, (part + 1) % form::parts, &share);
        }
        __syncthreads();
    }
    float *all = (float *)shared;
    put_sums<WIDE>(p, sum, all);
    __syncthreads();
    store_values<WIDE>(w, p, all);
}
