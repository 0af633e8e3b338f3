// Many rows: what a block of threads shares, and how one warpgroup brings keys there as bf16.
#pragma once
#include "kernel/attention/attention_work.cuh"
#include "kernel/linear/wgmma.cuh"

// Two warpgroups multiply: each weighs every second block, adds up every second tile. Two bring.
enum { MANY_GROUP = 4 * LF_WARP, MULTIPLIERS = 2, MANY_THREADS = 2 * MULTIPLIERS * MANY_GROUP };
enum { MULTIPLY_REGISTERS = 192, BRING_REGISTERS = 64 };
static_assert(MULTIPLIERS * MANY_GROUP * (MULTIPLY_REGISTERS + BRING_REGISTERS) <=
                  lf_registers_of(MANY_THREADS), "registers that the block has");
enum { TILE_DIMS = 64, TILE_BYTES = BLOCK * TILE_DIMS * 2, GROUP_WARPS = 4 };
enum { TILE_PIECES = TILE_DIMS / PIECE };

// What the warpgroup that weighs a block tells the other one, each thread its like.
struct many_weights {
    uint4 pair[STEPS][MANY_GROUP]; // bf(P), a step's operand
    float4 sum[MANY_GROUP];        // of two heads: exp(m - m'), then sums of weights
    float2 top[MANY_GROUP];        // m'
};

// Tiles of 64 keys or heads by 64 elements. A part of a key: a tile of each that multiplies.
template <uint32_t DIMS>
struct many_block {
    static constexpr uint32_t tiles = DIMS / TILE_DIMS, parts = tiles / MULTIPLIERS;
    uint8_t keys[2][tiles][TILE_BYTES], queries[tiles][TILE_BYTES];
    struct many_weights weights[2];
    lf_barrier full[2][parts], empty[2][parts]; // keys of two blocks
    lf_barrier topped[GROUP_WARPS];             // the first block's m'
    lf_barrier weighed[2][GROUP_WARPS];         // all of weights
    lf_barrier asked, answered;                 // queries: are there, are not needed any more
    uint32_t n[2];                              // keys of this row and the next
    float sink[2][GROUP_HEADS];
};

// Rows of shared memory begin where tiles may.
enum { TILE_ALIGN = 1024 };

__device__ static inline uint8_t *many_aligned(uint8_t *shared) {
    return shared + (TILE_ALIGN - (uintptr_t)shared % TILE_ALIGN) % TILE_ALIGN;
}

// A piece where products read it, so ordered that a lane gets four neighbours of a sum.
__device__ static inline void put_ordered(uint8_t *tile, uint32_t at,
                                          const uint32_t pair[PIECE / 2]) {
    *(uint4 *)(tile + at) = {pair[0], pair[2], pair[4], pair[6]};
    *(uint4 *)(tile + (at ^ 16)) = {pair[1], pair[3], pair[5], pair[7]};
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

// A lane's key of a block, whether it is of the window; of what kind all of the block are.
struct many_keys {
    const uint8_t *key;
    bool windowed;
    enum key_kind kind;
};

// Keys that are not there, not aligned or short go the way of mixed ones.
__device__ static inline struct many_keys seek_block(const struct many_list &list, uint32_t t0,
                                                     uint32_t place, bool is_long,
                                                     const uint8_t *const *key) {
    if (t0 >= list.n)
        return {NULL, false, KEYS_MIXED};
    uint32_t left = list.window > t0 ? list.window - t0 : 0;
    bool is_plain = is_long && !list.odd && t0 + BLOCK <= list.n && (left == 0 || left >= BLOCK);
    return {*key, place < left,
            is_plain ? left ? KEYS_OF_WINDOW : KEYS_OF_ENTRIES : KEYS_MIXED};
}

// Pieces on their way in registers: of so many parts, two a part.
template <uint32_t DIMS>
struct many_pieces {
    static constexpr uint32_t parts = many_block<DIMS>::parts > 1 ? 2 : 1;
    static constexpr uint32_t groups = many_block<DIMS>::parts / parts;
    struct piece of[parts * MULTIPLIERS];
};

// A lane's place among keys or queries, its first element, where in a tile its pieces stand.
struct many_lane {
    uint32_t place, d, at;
};

__device__ static inline struct many_lane lane_of(void) {
    uint32_t piece = threadIdx.x % TILE_PIECES;
    // Four pieces of two neighbours are stored together: they meet no bank twice.
    uint32_t place = threadIdx.x / TILE_PIECES % BLOCK;
    // What follows from them is worked out where it is needed: registers are few.
    return {lf_kept(place), lf_kept(piece * PIECE), lf_kept(lf_tile_at(place, piece * 2))};
}

// load_piece of a key of so many elements, aligned; `further` is known ahead, and so are offsets.
template <uint32_t DIMS>
__device__ static inline void load_plain(const uint8_t *row, bool windowed, uint32_t d,
                                         uint32_t further, struct piece *piece) {
    const uint8_t *code = row + (windowed ? d : d / 2);
    const uint8_t *scale = row + (windowed ? DIMS + d / 32 : DIMS / 2 + d / 16);
    scale += windowed ? further / 32 : further / 16;
    LF_CONTROL(24, scale = row + (windowed ? DIMS : DIMS / 2);) // 24: as in load_piece
    piece->scale = lf_load_byte(scale);
    if (windowed) {
        piece->code = lf_load_16(code + further);
        return;
    }
    uint2 half = lf_load_8(code + further / 2);
    piece->code.x = half.x, piece->code.y = half.y;
}

// Piece i of a group of parts.
template <uint32_t DIMS, enum key_kind KIND>
__device__ static inline void fetch_one(const struct many_lane &own, const struct many_keys &keys,
                                        uint32_t dim, uint32_t group, uint32_t i,
                                        struct many_pieces<DIMS> *pieces) {
    const uint32_t d = own.d + group * many_pieces<DIMS>::parts * MULTIPLIERS * TILE_DIMS;
    if (KIND == KEYS_MIXED)
        pieces->of[i] = fetch_piece(keys.key, keys.windowed, false, dim, d + i * TILE_DIMS);
    else
        load_plain<DIMS>(keys.key, KIND == KEYS_OF_WINDOW, d, i * TILE_DIMS, &pieces->of[i]);
}

template <enum key_kind KIND>
__device__ static inline void widen_one(const struct many_keys &keys, const struct piece &piece,
                                        uint32_t pair[PIECE / 2]) {
    if (KIND == KEYS_OF_WINDOW || (KIND == KEYS_MIXED && keys.windowed))
        widen_window(piece, pair);
    else
        widen_entry(piece, pair);
}

// Turns of barriers, a bit each: the slots', then the queries'.
enum { QUERY_TURN = 4 };

// A slot and its turn.
struct many_turn {
    uint32_t slot, turn;
};

// A group's pieces that have come; those of the group after it, of `next`, take their places.
template <uint32_t DIMS, enum key_kind KIND>
__device__ static inline void turn_group(const struct many_lane &own, const struct many_keys &keys,
                                         const struct many_keys &next, uint32_t dim,
                                         uint32_t group, struct many_turn to,
                                         struct many_block<DIMS> *block,
                                         struct many_pieces<DIMS> *pieces) {
    constexpr uint32_t parts = many_pieces<DIMS>::parts, groups = many_pieces<DIMS>::groups;
#pragma unroll
    for (uint32_t p = 0; p < parts; p++) {
        uint32_t part = group * parts + p;
        lf_barrier_wait(&block->empty[to.slot][part], to.turn ^ 1);
#pragma unroll
        for (uint32_t i = p * MULTIPLIERS; i < (p + 1) * MULTIPLIERS; i++) {
            uint32_t pair[PIECE / 2];
            widen_one<KIND>(keys, pieces->of[i], pair);
            fetch_one<DIMS, KIND>(own, next, dim, (group + 1) % groups, i, pieces);
            put_ordered(block->keys[to.slot][group * parts * MULTIPLIERS + i], own.at, pair);
        }
        lf_barrier_pass(&block->full[to.slot][part]);
    }
}

// A slot's keys, and then the first group's pieces of the block after it.
template <uint32_t DIMS>
__device__ static inline void put_block(const struct many_lane &own, const struct many_keys &keys,
                                        const struct many_keys &after, uint32_t dim,
                                        struct many_turn to, struct many_block<DIMS> *block,
                                        struct many_pieces<DIMS> *pieces) {
    constexpr uint32_t groups = many_pieces<DIMS>::groups;
#pragma unroll 1
    for (uint32_t group = 0; group < groups; group++) {
        struct many_keys next = group + 1 < groups ? keys : after;
        if (keys.kind == KEYS_OF_ENTRIES && next.kind == KEYS_OF_ENTRIES)
            turn_group<DIMS, KEYS_OF_ENTRIES>(own, keys, next, dim, group, to, block, pieces);
        else if (keys.kind == KEYS_OF_WINDOW && next.kind == KEYS_OF_WINDOW)
            turn_group<DIMS, KEYS_OF_WINDOW>(own, keys, next, dim, group, to, block, pieces);
        else
            turn_group<DIMS, KEYS_MIXED>(own, keys, next, dim, group, to, block, pieces);
    }
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

// The lane's head's query, some tiles at a time.
template <uint32_t DIMS, bool ALIGNED>
__device__ static inline void put_queries(const struct many_lane &own, const struct work &w,
                                          uint32_t r, uint32_t head,
                                          struct many_block<DIMS> *block) {
    constexpr uint32_t tiles = many_block<DIMS>::tiles, at_once = 2;
#pragma unroll 1
    for (uint32_t tile = 0; tile < tiles; tile += at_once) {
        uint32_t pair[at_once][PIECE / 2];
#pragma unroll
        for (uint32_t i = 0; i < at_once; i++)
            load_query(w.a, r, head, own.d + (tile + i) * TILE_DIMS, ALIGNED, pair[i]);
#pragma unroll
        for (uint32_t i = 0; i < at_once; i++)
            put_ordered(block->queries[tile + i], own.at, pair[i]);
    }
}

// The queries of the item-th row and group of heads, what else its products need to know.
template <uint32_t DIMS>
__device__ static inline void bring_queries(const struct many_lane &own, const struct work &w,
                                            uint32_t item, uint32_t n, uint32_t turn,
                                            struct many_block<DIMS> *block) {
    const uint32_t groups = head_groups(w), r = w.first + item / groups;
    const uint32_t head = item % groups * GROUP_HEADS + own.place;
    lf_barrier_wait(&block->answered, turn ^ 1);
    if (own.d == 0)
        block->sink[turn][own.place] = head < w.a.heads ? w.a.sink[head] : 0.0f;
    if (own.d == 0 && own.place == 0)
        block->n[turn] = n;
    if ((uintptr_t)w.a.q % 16 == 0)
        put_queries<DIMS, true>(own, w, r, head, block);
    else
        put_queries<DIMS, false>(own, w, r, head, block);
    lf_barrier_pass(&block->asked);
}

// The queries of an item come closer.
__device__ static inline void ask_for_queries(const struct work &w, uint32_t item) {
    const uint32_t groups = head_groups(w), first = item % groups * GROUP_HEADS;
    const uint32_t left = w.a.heads - first, heads = left < GROUP_HEADS ? left : GROUP_HEADS;
    const size_t head = (size_t)(w.first + item / groups) * w.a.heads + first;
    if (threadIdx.x % (MULTIPLIERS * MANY_GROUP) == 0)
        lf_ask_for((const uint8_t *)(w.a.q + head * w.a.head_dim), heads * w.a.head_dim * 2);
}

// All queries and keys of the block of threads. turns: of the slots' barriers and the queries'.
template <uint32_t DIMS>
__device__ static void bring_keys(const struct work &w, struct many_block<DIMS> *block) {
    const uint32_t groups = head_groups(w), items = w.rows * groups;
    const bool is_long = w.a.head_dim == DIMS;
    const struct many_lane own = lane_of();
    struct many_pieces<DIMS> pieces = {};
    uint32_t turns = 0;
    for (uint32_t item = blockIdx.x; item < items; item += gridDim.x, turns ^= QUERY_TURN) {
        const struct many_list list = w.list[item / groups];
        const uint8_t *const *key =
            w.key + (size_t)(item / groups) * w.blocks * BLOCK + own.place;
        struct many_keys keys = seek_block(list, 0, own.place, is_long, key);
        bring_queries<DIMS>(own, w, item, list.n, turns / QUERY_TURN, block);
        if (item + gridDim.x < items)
            ask_for_queries(w, item + gridDim.x);
#pragma unroll
        for (uint32_t i = 0; i < many_pieces<DIMS>::parts * MULTIPLIERS; i++)
            fetch_one<DIMS, KEYS_MIXED>(own, keys, w.a.head_dim, 0, i, &pieces);
        for (uint32_t t0 = 0, slot = 0; t0 < list.n; t0 += BLOCK, slot ^= 1) {
            key += BLOCK;
            struct many_keys after = seek_block(list, t0 + BLOCK, own.place, is_long, key);
            put_block(own, keys, after, w.a.head_dim, {slot, turns >> slot & 1}, block, &pieces);
            turns ^= 1 << slot;
            keys = after;
        }
    }
}
