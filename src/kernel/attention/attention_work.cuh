// What attention's launches hand on.
#pragma once
#include "kernel/attention/attention_keys.cuh"

enum { BLOCK = 64, THREADS = 256, GROUP_HEADS = 64, TILE_HEADS = 16, HALF_HEADS = TILE_HEADS / 2 };
enum { STEP = 16, STEPS = BLOCK / STEP }; // keys of a step of a block's value sum
enum { CHUNK = 8, CHUNK_BYTES = 2 * CHUNK }; // elements of a row of a matrix of a product
// Keys that a block of the first launch has; a chunk of all of them.
enum { SCORE_KEYS = 2 * STEP, KEYS_BYTES = SCORE_KEYS * CHUNK_BYTES };
// A cell: a tile's dot products with a block of keys, of each step twice four of each lane.
enum { STEP_WORDS = 2 * LF_WARP * 4, CELL_WORDS = STEPS * STEP_WORDS };

struct many_list;

// Rows from `first` on.
struct work {
    struct lf_attention_args a;
    uint32_t first, rows, blocks, tiles; // of a launch; of keys, of heads
    uint32_t each, parts; // tiles that a block of the first launch has; elements, of the second
    uint32_t *cell;      // [rows][blocks][tiles]: dot products
    uint8_t *wide;       // [rows][parts of SCORE_KEYS places][chunks][SCORE_KEYS]: keys as bf16
    uint32_t *n;         // [rows]: keys of a row's list
    const uint8_t **key; // [rows][blocks * BLOCK]: packed, of many rows
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

// Bytes of SCORE_KEYS keys as bf16.
__host__ __device__ static inline size_t wide_bytes(const struct work &w) {
    return (size_t)SCORE_KEYS * 2 * w.a.head_dim;
}

// Where they begin with a chunk of the part-th of a row.
__device__ static inline uint8_t *wide_at(const struct work &w, uint32_t slot, uint32_t part,
                                          uint32_t chunk) {
    size_t parts = (size_t)slot * w.blocks * (BLOCK / SCORE_KEYS) + part;
    return w.wide + parts * wide_bytes(w) + chunk * KEYS_BYTES;
}

// Keys of a list, filled up to whole blocks.
__device__ static inline uint32_t whole_blocks(const struct key_list &list) {
    return (list.n + BLOCK - 1) / BLOCK * BLOCK;
}

// The key that stands at a place of a block: so what a lane gets of a product is its own of a cell.
__device__ static inline uint32_t key_at_place(uint32_t place) {
    return place / STEP * STEP + place % 8 / 2 * 4 + place / 8 % 2 * 2 + place % 2;
}

// Whose the keys of a block are: most blocks are not mixed, and that is decided for all together.
enum key_kind { KEYS_MIXED, KEYS_OF_WINDOW, KEYS_OF_ENTRIES };
