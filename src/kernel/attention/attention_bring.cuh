// Many rows: what a block of threads shares, and how one warpgroup brings keys there as bf16.
#pragma once
#include "kernel/attention/attention_work.cuh"
#include "kernel/linear/wgmma.cuh"

// Two warpgroups multiply: each weighs every second block of keys. Two bring half of the elements.
enum { MANY_GROUP = 4 * LF_WARP, MULTIPLIERS = 2, MANY_THREADS = 2 * MULTIPLIERS * MANY_GROUP };
enum { MULTIPLY_REGISTERS = 192, BRING_REGISTERS = 64 };
enum { TILE_DIMS = 64, TILE_BYTES = BLOCK * TILE_DIMS * 2, GROUP_WARPS = 4 };

// What the warpgroup that weighs a block tells the other one, each thread its like.
struct many_weights {
    uint4 pair[STEPS][MANY_GROUP]; // bf(P), a step's operand
    float4 sum[MANY_GROUP];        // of two heads: exp(m - m'), then sums of weights
    float2 top[MANY_GROUP];        // m'
};

// Tiles of 64 keys or heads by 64 elements. A half: the elements that one warpgroup adds up.
template <uint32_t DIMS>
struct many_block {
    static constexpr uint32_t tiles = DIMS / TILE_DIMS, half_tiles = tiles / 2;
    uint8_t keys[2][tiles][TILE_BYTES], queries[tiles][TILE_BYTES];
    struct many_weights weights[2];
    lf_barrier full[2][2], empty[2][2]; // keys of two blocks, by halves
    lf_barrier topped[GROUP_WARPS];     // the first block's m'
    lf_barrier weighed[2][GROUP_WARPS]; // all of weights
    lf_barrier asked;                   // queries
};

// Rows of shared memory begin where tiles may.
enum { TILE_ALIGN = 1024 };

__device__ static inline uint8_t *many_aligned(uint8_t *shared) {
    return shared + (TILE_ALIGN - (uintptr_t)shared % TILE_ALIGN) % TILE_ALIGN;
}

// How a warp shares out pieces of half of some keys or queries: places at once; how often.
template <uint32_t DIMS>
struct many_share {
    static constexpr uint32_t pieces = DIMS / 2 / PIECE, at_once = LF_WARP / pieces;
    static constexpr uint32_t places = BLOCK / GROUP_WARPS, times = places / at_once; // of a warp
    static constexpr uint32_t half_dims = DIMS / 2;
};

// Four pieces of two neighbours are stored together: they meet no bank twice.
template <uint32_t DIMS>
__device__ static inline uint32_t many_place(void) {
    return threadIdx.x / 4 % many_share<DIMS>::at_once;
}

template <uint32_t DIMS>
__device__ static inline uint32_t many_piece(void) {
    uint32_t lane = threadIdx.x % LF_WARP;
    return lane % 4 + lane / (4 * many_share<DIMS>::at_once) * 4;
}

// Where in a half's tiles a lane's first piece begins, of its warp's 16 places.
template <uint32_t DIMS>
__device__ static inline uint32_t many_at(void) {
    uint32_t place = threadIdx.x / LF_WARP % GROUP_WARPS * 16 + many_place<DIMS>();
    uint32_t piece = many_piece<DIMS>();
    return piece / 4 * TILE_BYTES + lf_tile_at(place, piece % 4 * 2);
}

// Its i-th, where products read it: so ordered that a lane gets four neighbours of a sum.
template <uint32_t DIMS>
__device__ static inline void put_ordered(uint8_t *tiles, uint32_t at, uint32_t i,
                                          const uint32_t pair[PIECE / 2]) {
    constexpr uint32_t at_once = many_share<DIMS>::at_once;
    // What lf_tile_at turns by is the place's last three bits: those of i change these of `at`.
    const uint32_t turn = i * at_once % 8 * 16, further = i * at_once * 128;
    *(uint4 *)(tiles + (at ^ turn) + further) = {pair[0], pair[2], pair[4], pair[6]};
    *(uint4 *)(tiles + (at ^ turn ^ 16) + further) = {pair[1], pair[3], pair[5], pair[7]};
}

// A row's list: keys of the window, of all; whether some are not aligned to 16 bytes.
struct many_list {
    uint32_t window, n, odd;
};

// Looked up ahead of the launch that reads keys, which would wait for one number after another.
__global__ static void __launch_bounds__(THREADS) attention_lists(struct work w) {
    lf_take_turn();
    uint32_t r = w.first + blockIdx.x;
    const struct key_list list = list_keys(w.a, r);
    const uint8_t **key = w.key + (size_t)blockIdx.x * w.blocks * BLOCK;
    uintptr_t all = 0;
    for (uint32_t t = threadIdx.x; t < whole_blocks(list); t += THREADS) {
        key[t] = packed_key(w.a, r, list, t, listed_entry(w.a, r, list, t));
        all |= (uintptr_t)key[t];
    }
    uint32_t odd = __syncthreads_or(all % 16 != 0);
    if (threadIdx.x == 0)
        w.list[blockIdx.x] = {list.window, list.n, odd};
}

// A lane's key of its warp's 16 of a block, how many of the block are of the window; of what kind.
struct many_keys {
    const uint8_t *key;
    uint32_t windowed;
    enum key_kind kind;
};

// Keys that are not there, or not aligned, go the way of mixed ones.
__device__ static inline struct many_keys seek_block(const struct many_list &list, uint32_t t0,
                                                     const uint8_t *const *key) {
    if (t0 >= list.n)
        return {NULL, 0, KEYS_MIXED};
    uint32_t own = threadIdx.x / LF_WARP % GROUP_WARPS * 16 + threadIdx.x % 16;
    uint32_t left = list.window > t0 ? list.window - t0 : 0;
    bool is_plain = !list.odd && t0 + BLOCK <= list.n && (left == 0 || left >= BLOCK);
    return {key[t0 + own], left < BLOCK ? left : (uint32_t)BLOCK,
            is_plain ? left ? KEYS_OF_WINDOW : KEYS_OF_ENTRIES : KEYS_MIXED};
}

// A group: half of the times.
template <uint32_t DIMS>
struct many_pieces {
    struct piece of[many_share<DIMS>::times / 2];
};

// What follows from it is worked out where it is needed: registers are fewer than instructions.
__device__ static inline void keep(uint32_t &number) {
    asm volatile("" : "+r"(number));
}

// Of a warp: its first place; a lane's first place there, first element; where it puts its piece.
struct many_lane {
    uint32_t first, place, dim, d, at;
};

template <uint32_t DIMS>
__device__ static inline struct many_lane lane_of(uint32_t half, uint32_t dim) {
    uint32_t d = half * many_share<DIMS>::half_dims + many_piece<DIMS>() * PIECE;
    struct many_lane own = {threadIdx.x / LF_WARP % GROUP_WARPS * many_share<DIMS>::places,
                            many_place<DIMS>(), dim, d, many_at<DIMS>()};
    keep(own.first), keep(own.place), keep(own.d), keep(own.at);
    return own;
}

// The place of a lane's i-th piece of a group among its warp's.
template <uint32_t DIMS>
__device__ static inline uint32_t place_of(const struct many_lane &own, uint32_t group,
                                           uint32_t i) {
    typedef many_share<DIMS> share;
    return (group * share::times / 2 + i) * share::at_once + own.place;
}

template <enum key_kind KIND>
__device__ static inline void fetch_one(const struct many_lane &own, const struct many_keys &keys,
                                        uint32_t place, struct piece *piece) {
    const uint8_t *row = (const uint8_t *)(uintptr_t)__shfl_sync(
        LF_ALL_LANES, (unsigned long long)(uintptr_t)keys.key, place);
    // Past head_dim queries are zeros and sums are not stored: the key's first numbers will do.
    if (KIND == KEYS_MIXED)
        *piece = fetch_piece(row, own.first + place < keys.windowed, false, own.dim, own.d);
    else
        load_piece(row, KIND == KEYS_OF_WINDOW, true, own.dim, own.d < own.dim ? own.d : 0, piece);
}

template <enum key_kind KIND>
__device__ static inline void widen_one(const struct many_lane &own, const struct many_keys &keys,
                                        uint32_t place, const struct piece &piece,
                                        uint32_t pair[PIECE / 2]) {
    bool windowed = KIND == KEYS_OF_WINDOW;
    if (KIND == KEYS_MIXED)
        windowed = own.first + place < keys.windowed;
    if (windowed)
        widen_window(piece, pair);
    else
        widen_entry(piece, pair);
}

// A group's pieces that have come; those of the other group, of `next`, take their places.
template <uint32_t DIMS, enum key_kind KIND>
__device__ static inline void turn_group(const struct many_lane &own, const struct many_keys &keys,
                                         const struct many_keys &next, uint32_t group,
                                         uint8_t *tiles, struct many_pieces<DIMS> *pieces) {
    constexpr uint32_t times = many_share<DIMS>::times / 2;
    uint32_t at = own.at;
    keep(at);
    tiles += group * times * many_share<DIMS>::at_once * 128;
#pragma unroll
    for (uint32_t i = 0; i < times; i++) {
        uint32_t pair[PIECE / 2];
        widen_one<KIND>(own, keys, place_of<DIMS>(own, group, i), pieces->of[i], pair);
        fetch_one<KIND>(own, next, place_of<DIMS>(own, group ^ 1, i), &pieces->of[i]);
        put_ordered<DIMS>(tiles, at, i, pair);
    }
}

// Half of a slot's keys, and then the first group's pieces of the block after it.
template <uint32_t DIMS>
__device__ static inline void put_half(const struct many_lane &own, const struct many_keys &keys,
                                       const struct many_keys &after, uint8_t *tiles,
                                       struct many_pieces<DIMS> *pieces) {
#pragma unroll 1
    for (uint32_t group = 0; group < 2; group++) {
        struct many_keys next = group ? after : keys;
        if (keys.kind == KEYS_OF_ENTRIES && next.kind == KEYS_OF_ENTRIES)
            turn_group<DIMS, KEYS_OF_ENTRIES>(own, keys, next, group, tiles, pieces);
        else if (keys.kind == KEYS_OF_WINDOW && next.kind == KEYS_OF_WINDOW)
            turn_group<DIMS, KEYS_OF_WINDOW>(own, keys, next, group, tiles, pieces);
        else
            turn_group<DIMS, KEYS_MIXED>(own, keys, next, group, tiles, pieces);
    }
}

// Half of all keys of all rows of the block of threads. turns: of the slots' barriers.
template <uint32_t DIMS>
__device__ static void bring_keys(const struct work &w, uint32_t half,
                                  struct many_block<DIMS> *block) {
    const uint32_t groups = head_groups(w), items = w.rows * groups;
    const struct many_lane own = lane_of<DIMS>(half, w.a.head_dim);
    struct many_pieces<DIMS> pieces = {};
    uint32_t turns = 0;
    for (uint32_t item = blockIdx.x; item < items; item += gridDim.x) {
        const struct many_list list = w.list[item / groups];
        const uint8_t *const *key = w.key + (size_t)(item / groups) * w.blocks * BLOCK;
        struct many_keys keys = seek_block(list, 0, key);
#pragma unroll
        for (uint32_t i = 0; i < many_share<DIMS>::times / 2; i++)
            fetch_one<KEYS_MIXED>(own, keys, place_of<DIMS>(own, 0, i), &pieces.of[i]);
        for (uint32_t t0 = 0, slot = 0; t0 < list.n; t0 += BLOCK, slot ^= 1) {
            struct many_keys after = seek_block(list, t0 + BLOCK, key);
            lf_barrier_wait(&block->empty[slot][half], (turns >> slot & 1) ^ 1);
            put_half(own, keys, after, block->keys[slot][half * many_block<DIMS>::half_tiles],
                     &pieces);
            lf_show_tensor_cores();
            lf_barrier_pass(&block->full[slot][half]);
            turns ^= 1 << slot;
            keys = after;
        }
    }
}
