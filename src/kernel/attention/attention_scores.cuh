// The first launch: dot products of a row's heads and keys, each a chain of steps over elements.
#pragma once
#include "kernel/attention/attention_work.cuh"

// Keys of a block, or queries: DIMS elements, zeros past head_dim; there are two.
template <uint32_t DIMS>
static constexpr uint32_t score_bytes = 2 * DIMS * BLOCK * 2;

// A lane's pieces of the keys on their way, and its own of those after them.
struct score_share {
    struct piece piece[WARP_PLACES];
    const uint8_t *next;
};

// Keys of the block of the list that begins with key t0.
__device__ static inline void fetch_keys(const struct work &w, const struct key_list &list,
                                         const uint8_t *const *key, uint32_t t0,
                                         struct score_share *s) {
    uint32_t lane = threadIdx.x % LF_WARP, after = t0 + gridDim.x * BLOCK;
    const uint8_t *row[WARP_PLACES];
    share_keys<WARP_PLACES>(s->next, 0, row);
    s->next = NULL;
    if (after < list.n)
        s->next = key[after + key_at_place(first_place() + lane % WARP_PLACES)];
    fetch_places<WARP_PLACES>(list, t0, first_place(), row, w.a.head_dim, s->piece);
}

template <uint32_t DIMS>
__device__ static inline void put_keys(const struct key_list &list, uint32_t t0,
                                       const struct score_share &s, uint8_t *keys) {
    if (threadIdx.x % LF_WARP < DIMS / PIECE)
        put_places<WARP_PLACES>(list, t0, first_place(), s.piece, keys);
}

// A lane's piece of N queries from a head on, zeros for heads and elements that are not there.
template <uint32_t N>
__device__ static inline void fetch_queries(const struct lf_attention_args &a, uint32_t r,
                                            uint32_t head, bool aligned, uint4 half[N][2]) {
    uint32_t piece = threadIdx.x % LF_WARP, dim = a.head_dim;
    LF_CONTROL(18, dim -= STEP;) // 18: the last step of elements not in a dot product
    const uint16_t *q = a.q + ((size_t)r * a.heads + head) * a.head_dim + piece * PIECE;
#pragma unroll
    for (uint32_t i = 0; i < N; i++, q += a.head_dim) {
        half[i][0] = half[i][1] = {0, 0, 0, 0};
        if (head + i >= a.heads || piece * PIECE >= dim)
            continue;
        half[i][0] = aligned ? *(const uint4 *)q : load_16((const uint8_t *)q);
        half[i][1] = aligned ? *(const uint4 *)(q + CHUNK) : load_16((const uint8_t *)(q + CHUNK));
    }
}

template <uint32_t N, uint32_t DIMS>
__device__ static inline void put_queries(const struct lf_attention_args &a, uint32_t r,
                                          uint32_t place, bool aligned, uint8_t *keys) {
    uint4 half[N][2];
    fetch_queries<N>(a, r, blockIdx.y * GROUP_HEADS + place, aligned, half);
#pragma unroll
    for (uint32_t i = 0; i < N; i++) {
        const uint32_t pair[] = {half[i][0].x, half[i][0].y, half[i][0].z, half[i][0].w,
                                 half[i][1].x, half[i][1].y, half[i][1].z, half[i][1].w};
        if (threadIdx.x % LF_WARP < DIMS / PIECE)
            put_numbers(keys, threadIdx.x % LF_WARP, place + i, pair);
    }
}

// Queries of the group's heads.
template <uint32_t DIMS>
__device__ static void put_queries(const struct lf_attention_args &a, uint32_t r, uint8_t *keys) {
    if ((uintptr_t)a.q % 16 == 0) {
        put_queries<WARP_PLACES, DIMS>(a, r, first_place(), true, keys);
        return;
    }
#pragma unroll 1
    for (uint32_t i = 0; i < WARP_PLACES; i++)
        put_queries<1, DIMS>(a, r, first_place() + i, false, keys);
}

// Of a tile of heads, all steps: operands of lf_mma_bf16.
template <uint32_t DIM_STEPS>
__device__ static void load_queries(lf_shared_base keys, uint32_t tile, uint32_t q[DIM_STEPS][4]) {
    uint32_t lane = threadIdx.x % LF_WARP, place = tile * TILE_HEADS + lane % 16;
#pragma unroll
    for (uint32_t step = 0; step < DIM_STEPS; step++)
        lf_load_matrices(q[step], keys, lane / 16 * CHUNK_BYTES + place_at(step, place));
}

// Dot products of a tile of heads and the keys at places `place` .. +31.
template <uint32_t DIM_STEPS>
__device__ static inline void multiply_keys(const uint32_t q[DIM_STEPS][4], lf_shared_base keys,
                                            uint32_t place, float sum[4][4]) {
    uint32_t lane = threadIdx.x % LF_WARP, half = lane / 8 % 2 * CHUNK_BYTES;
    place += lane / 16 * 8 + lane % 8;
#pragma unroll
    for (uint32_t step = 0; step < DIM_STEPS; step++) {
        uint32_t key[2][4];
        lf_load_matrices(key[0], keys, half + place_at(step, place));
        lf_load_matrices(key[1], keys, half + place_at(step, place) + 16 * 16);
#pragma unroll
        for (uint32_t i = 0; i < 4; i++)
            lf_mma_bf16(sum[i], q[step], key[i / 2] + i % 2 * 2);
    }
}

// Of the keys of two steps from `step` on.
__device__ static inline void store_products(uint32_t *cell, const float sum[4][4],
                                             uint32_t step) {
#pragma unroll
    for (uint32_t i = 0; i < 4; i++) {
        const float *low = sum[i / 2 * 2] + i % 2 * 2, *high = sum[i / 2 * 2 + 1] + i % 2 * 2;
        uint32_t *to = cell + (step + i / 2) * STEP_WORDS + i % 2 * (STEP_WORDS / 2);
        *(uint4 *)to = {lf_f32_bits(low[0]), lf_f32_bits(low[1]), lf_f32_bits(high[0]),
                        lf_f32_bits(high[1])};
    }
}

// Addresses of the packed keys of this block's share of the list.
__device__ static void find_keys(const struct lf_attention_args &a, uint32_t r,
                                 const struct key_list &list, const uint8_t **key) {
    for (uint32_t t0 = blockIdx.x * BLOCK; t0 < list.n; t0 += gridDim.x * BLOCK * 4) {
        uint32_t t = t0 + threadIdx.x / BLOCK * gridDim.x * BLOCK + threadIdx.x % BLOCK;
        if (t < whole_blocks(list))
            key[t] = packed_key(a, r, list, t, listed_entry(a, r, list, t));
    }
}

// A block: a row and GROUP_HEADS heads, every gridDim.x-th block of keys.
template <uint32_t DIMS>
__global__ static void __launch_bounds__(THREADS, 1) attention_scores(struct work w) {
    lf_take_turn();
    LF_DYNAMIC_SHARED(shared);
    constexpr uint32_t bytes = score_bytes<DIMS> / 2, dim_steps = DIMS / STEP;
    uint32_t r = w.first + blockIdx.z, warp = threadIdx.x / LF_WARP, half = warp / 4;
    uint32_t tile = blockIdx.y * (GROUP_HEADS / TILE_HEADS) + warp % 4, q[dim_steps][4];
    uint32_t stride = gridDim.x * BLOCK, t0 = blockIdx.x * BLOCK;
    const uint8_t **key = w.key + (size_t)blockIdx.z * w.blocks * BLOCK;
    const struct key_list list = list_keys(w.a, r);
    const lf_shared_base base = lf_shared_base_of(shared);
    if (t0 >= list.n)
        return;
    find_keys(w.a, r, list, key);
    put_queries<DIMS>(w.a, r, shared + bytes);
    __syncthreads();
    struct score_share share;
    share.next = key[t0 + key_at_place(first_place() + threadIdx.x % WARP_PLACES)];
    fetch_keys(w, list, key, t0, &share);
    load_queries<dim_steps>(base + bytes, warp % 4, q);
    // A turn widens the keys from `next` on and multiplies those before.
    for (uint32_t next = t0, turn = 0; next < list.n + stride; next += stride, turn ^= 1) {
        // Half of the warps do one while the others do the other.
#pragma unroll 1
        for (uint32_t phase = 0; phase < 2; phase++)
            if (phase == half && next != t0 && tile < w.tiles) {
                float sum[4][4] = {};
                multiply_keys<dim_steps>(q, base + (turn ^ 1) * bytes, half * (BLOCK / 2), sum);
                store_products(cell_at(w, blockIdx.z, (next - stride) / BLOCK, tile), sum,
                               half * (STEPS / 2));
            } else if (phase != half && next < list.n) {
                put_keys<DIMS>(list, next, share, shared + turn * bytes);
                fetch_keys(w, list, key, next + stride, &share);
            }
        __syncthreads();
    }
}
