// What attention's launches hand on, and keys of a block in shared memory.
#pragma once
#include "kernel/attention/attention_keys.cuh"

enum { BLOCK = 64, THREADS = 256, GROUP_HEADS = 64, TILE_HEADS = 16 };
enum { STEP = 16, STEPS = BLOCK / STEP }; // keys of a step of a block's value sum
// A cell: a tile's numbers of a block of keys, of each step twice four of each lane.
enum { STEP_WORDS = 2 * LF_WARP * 4, CELL_WORDS = STEPS * STEP_WORDS };

struct many_list;

// Rows from `first` on.
struct work {
    struct lf_attention_args a;
    uint32_t first, rows, blocks, tiles; // of a launch; of keys, of heads
    uint32_t halves;               // of a tile that a block of the second launch has
    uint32_t *cell;      // [rows][blocks][tiles]: dot products, then in half of it bf(P)
    float *factor;       // [rows][blocks][tiles * TILE_HEADS]: exp(m - m')
    float *total;        // [rows][tiles * TILE_HEADS]: the denominator with the sink
    const uint8_t **key; // [rows][blocks * BLOCK]: packed
    struct many_list *list; // [rows], of many
};

// Groups of heads that a block of threads has together.
__host__ __device__ static inline uint32_t head_groups(const struct work &w) {
    return (w.a.heads + GROUP_HEADS - 1) / GROUP_HEADS;
}

// Lane 4h + j has of step s keys 16s + 4j .. +3 of heads h and h + 8 of the tile.
__device__ static inline uint32_t *cell_at(const struct work &w, uint32_t slot, uint32_t block,
                                           uint32_t tile) {
    return w.cell + (((size_t)slot * w.blocks + block) * w.tiles + tile) * CELL_WORDS +
           threadIdx.x % LF_WARP * 4;
}

// Where a lane's first head has exp(m - m') of a block; its other one is eight further.
__device__ static inline float *factor_at(const struct work &w, uint32_t slot, uint32_t block,
                                          uint32_t tile) {
    return w.factor + (((size_t)slot * w.blocks + block) * w.tiles + tile) * TILE_HEADS +
           threadIdx.x % LF_WARP / 4;
}

// Keys of a list, filled up to whole blocks.
__device__ static inline uint32_t whole_blocks(const struct key_list &list) {
    return (list.n + BLOCK - 1) / BLOCK * BLOCK;
}

// The key that stands at a place of a block: so what a lane gets of a product is its own of a cell.
__device__ static inline uint32_t key_at_place(uint32_t place) {
    return place / STEP * STEP + place % 8 / 2 * 4 + place / 8 % 2 * 2 + place % 2;
}

// Keys as bf16: [pieces][2][BLOCK places][8 elements]; eight places are a matrix of a product.
enum { CHUNK = 8, CHUNK_BYTES = BLOCK * 16, PIECE_BYTES = 2 * CHUNK_BYTES };

// Bytes to a place of a piece: neither pieces of a key nor keys of a piece meet a bank twice.
__device__ static inline uint32_t place_at(uint32_t piece, uint32_t place) {
    return piece * PIECE_BYTES + (place ^ piece % 8) * 16;
}

__device__ static inline void put_numbers(uint8_t *keys, uint32_t piece, uint32_t place,
                                          const uint32_t pair[PIECE / 2]) {
    uint8_t *to = keys + place_at(piece, place);
    *(uint4 *)to = {pair[0], pair[1], pair[2], pair[3]};
    *(uint4 *)(to + CHUNK_BYTES) = {pair[4], pair[5], pair[6], pair[7]};
}

__device__ static inline void put_piece(uint8_t *keys, uint32_t at, uint32_t place,
                                        const struct piece &piece, bool windowed) {
    uint32_t pair[PIECE / 2];
    if (windowed)
        widen_window(piece, pair);
    else
        widen_entry(piece, pair);
    put_numbers(keys, at, place, pair);
}

// Whose the keys of a block are: most blocks are not mixed, and that is decided for all together.
enum key_kind { KEYS_MIXED, KEYS_OF_WINDOW, KEYS_OF_ENTRIES };

__device__ static inline enum key_kind kind_of_block(const struct key_list &list, uint32_t t0) {
    return t0 + BLOCK <= list.window ? KEYS_OF_WINDOW
           : t0 >= list.window       ? KEYS_OF_ENTRIES
                                     : KEYS_MIXED;
}

// A warp brings the keys of eight places, each lane a piece of every one of them.
enum { WARP_PLACES = 8 };

__device__ static inline uint32_t first_place(void) {
    return threadIdx.x / LF_WARP * WARP_PLACES;
}

// Pieces of the keys at N places from `place` on of the block that begins with key t0.
template <uint32_t N, enum key_kind KIND>
__device__ static inline void fetch_places(const struct key_list &list, uint32_t t0, uint32_t place,
                                           const uint8_t *const *row, bool aligned, uint32_t dim,
                                           struct piece *piece) {
#pragma unroll
    for (uint32_t i = 0; i < N; i++) {
        bool windowed = KIND == KEYS_OF_WINDOW;
        if (KIND == KEYS_MIXED)
            windowed = t0 + key_at_place(place + i) < list.window;
        piece[i] = fetch_piece(row[i], windowed, aligned, dim, threadIdx.x % LF_WARP * PIECE);
    }
}

template <uint32_t N>
__device__ static inline void fetch_places(const struct key_list &list, uint32_t t0, uint32_t place,
                                           const uint8_t *const *row, uint32_t dim,
                                           struct piece *piece) {
    enum key_kind kind = kind_of_block(list, t0);
    uintptr_t all = 0;
#pragma unroll
    for (uint32_t i = 0; i < N; i++)
        all |= (uintptr_t)row[i];
    if (all % 16 == 0 && kind == KEYS_OF_ENTRIES)
        fetch_places<N, KEYS_OF_ENTRIES>(list, t0, place, row, true, dim, piece);
    else if (all % 16 == 0 && kind == KEYS_OF_WINDOW)
        fetch_places<N, KEYS_OF_WINDOW>(list, t0, place, row, true, dim, piece);
    else
        fetch_places<N, KEYS_MIXED>(list, t0, place, row, false, dim, piece);
}

// The same pieces as bf16.
template <uint32_t N, enum key_kind KIND>
__device__ static inline void put_places(const struct key_list &list, uint32_t t0, uint32_t place,
                                         const struct piece *piece, uint8_t *keys) {
#pragma unroll
    for (uint32_t i = 0; i < N; i++) {
        bool windowed = KIND == KEYS_OF_WINDOW;
        if (KIND == KEYS_MIXED)
            windowed = t0 + key_at_place(place + i) < list.window;
        put_piece(keys, threadIdx.x % LF_WARP, place + i, piece[i], windowed);
    }
}

template <uint32_t N>
__device__ static inline void put_places(const struct key_list &list, uint32_t t0, uint32_t place,
                                         const struct piece *piece, uint8_t *keys) {
    enum key_kind kind = kind_of_block(list, t0);
    if (kind == KEYS_OF_ENTRIES)
        put_places<N, KEYS_OF_ENTRIES>(list, t0, place, piece, keys);
    else if (kind == KEYS_OF_WINDOW)
        put_places<N, KEYS_OF_WINDOW>(list, t0, place, piece, keys);
    else
        put_places<N, KEYS_MIXED>(list, t0, place, piece, keys);
}

// The keys of lanes `lane` .. lane+N-1, for all lanes.
template <uint32_t N>
__device__ static inline void share_keys(const uint8_t *own, uint32_t lane,
                                         const uint8_t *key[N]) {
#pragma unroll
    for (uint32_t i = 0; i < N; i++)
        key[i] = (const uint8_t *)(uintptr_t)__shfl_sync(
            LF_ALL_LANES, (unsigned long long)(uintptr_t)own, lane + i);
}
