// The first launch: keys as bf16, and their dot products with heads, chains of steps over elements.
#pragma once
#include "kernel/attention/attention_work.cuh"
#include "kernel/linear/wgmma.cuh"

// Half of a block's warps multiply, a tile of heads each, four tiles at most.
enum { SCORE_WARPS = THREADS / LF_WARP, TILES_MOST = SCORE_WARPS / 2 };
// Steps whose products begin together; twice as many are a turn, to whose elements zeros fill up.
enum { HALF_STEPS = 4, TURN_STEPS = 2 * HALF_STEPS, TURN_DIMS = TURN_STEPS * STEP };
// Half of the warps bring keys, half queries. All widen: eight places, four pieces at once.
enum { KEY_WARPS = SCORE_WARPS / 2, WARP_KEYS = SCORE_KEYS / KEY_WARPS };
enum { LANE_PIECES = 4, WARP_PIECES = LF_WARP / WARP_KEYS };

// Bytes of shared memory: keys, [chunks][SCORE_KEYS], packed before that; then queries.
struct score_room {
    uint32_t turns, keys, packed, query, all; // packed, query: of one
};

__host__ __device__ static inline struct score_room score_room_of(const struct work &w) {
    uint32_t turns = (w.a.head_dim + TURN_DIMS - 1) / TURN_DIMS;
    uint32_t keys = turns * TURN_DIMS / CHUNK * KEYS_BYTES;
    // So much past a query that eight of them meet no bank.
    uint32_t query = turns * TURN_DIMS * 2 + 16;
    return {turns, keys, (lf_qa8_row_bytes(w.a.head_dim) + 15) / 16 * 16, query,
            keys + w.each * TILE_HEADS * query};
}

// A query on its way, zeros where no head or element is.
__device__ static void bring_query(const struct work &w, const struct score_room &room, uint32_t r,
                                   uint32_t head, uint8_t *to, lf_barrier *brought) {
    const uint16_t *q = w.a.q + ((size_t)r * w.a.heads + head) * w.a.head_dim;
    uint32_t dim = head < w.a.heads ? w.a.head_dim : 0;
    LF_CONTROL(18, dim -= dim ? STEP : 0;) // 18: the last step of elements not in a dot product
#pragma unroll 1
    for (uint32_t at = dim; at < room.turns * TURN_DIMS; at += CHUNK)
        *(uint4 *)(to + at * 2) = {0, 0, 0, 0};
    if (dim && (uintptr_t)q % 16 == 0) {
        lf_barrier_pass_bytes(brought, to, q, dim * 2);
        return;
    }
#pragma unroll 1
    for (uint32_t i = 0; i < dim; i++)
        ((uint16_t *)to)[i] = q[i];
    lf_barrier_pass_alone(brought);
}

// A packed key on its way. key: NULL past the list's end.
__device__ static void bring_key(const uint8_t *key, uint32_t bytes, uint8_t *to,
                                 lf_barrier *brought) {
    if (key && ((uintptr_t)key | bytes) % 16 == 0) {
        lf_barrier_pass_bytes(brought, to, key, bytes);
        return;
    }
#pragma unroll 1
    for (uint32_t i = 0; key && i < bytes; i++)
        to[i] = key[i];
    lf_barrier_pass_alone(brought);
}

// A lane's place of the block's keys, the key that stands there, and whose it is.
struct score_key {
    uint32_t place, t;
    bool windowed, is_there;
};

// Which entry the key is if the window is full, as most are: asked for along with the row.
__device__ static inline uint32_t guess_entry(const struct lf_attention_args &a, uint32_t r,
                                              uint32_t t) {
    bool is_there = a.entries && t >= a.window && t - a.window < a.topk;
    return is_there ? a.selected[(size_t)r * a.topk + (t - a.window)] : 0;
}

// The lane's packed pieces of its key.
struct score_pieces {
    struct piece of[LANE_PIECES];
};

__device__ static inline uint32_t piece_at(uint32_t i) {
    uint32_t lane = threadIdx.x % LF_WARP, warp = threadIdx.x / LF_WARP;
    return (i * (SCORE_WARPS / KEY_WARPS) + warp / KEY_WARPS) * WARP_PIECES + lane / WARP_KEYS;
}

__device__ static inline struct score_pieces load_pieces(const struct work &w,
                                                         const struct score_key &key,
                                                         const uint8_t *packed) {
    struct score_pieces pieces;
#pragma unroll
    for (uint32_t i = 0; i < LANE_PIECES; i++)
        pieces.of[i] = fetch_piece(key.is_there ? packed : NULL, key.windowed, true, w.a.head_dim,
                                   piece_at(i) * PIECE);
    return pieces;
}

// Keys of the window or of entries as bf16, where products read them.
template <bool WINDOWED>
__device__ static inline void put_keys(const struct score_room &room, const struct score_key &key,
                                       const struct score_pieces &pieces, uint8_t *keys) {
    if (key.windowed != WINDOWED)
        return;
    struct score_pieces left = pieces;
    // Written out four times it would be fetched four times; what is left moves up.
#pragma unroll 1
    for (uint32_t i = 0; i < LANE_PIECES; i++) {
        uint32_t pair[PIECE / 2], chunk = piece_at(i) * 2;
        if (WINDOWED)
            widen_window(left.of[0], pair);
        else
            widen_entry(left.of[0], pair);
#pragma unroll
        for (uint32_t j = 1; j < LANE_PIECES; j++)
            left.of[j - 1] = left.of[j];
        uint8_t *to = keys + chunk * KEYS_BYTES + key.place * CHUNK_BYTES;
        if (chunk >= room.turns * (TURN_DIMS / CHUNK))
            continue;
        *(uint4 *)to = {pair[0], pair[1], pair[2], pair[3]};
        *(uint4 *)(to + KEYS_BYTES) = {pair[4], pair[5], pair[6], pair[7]};
    }
}

// The keys for the second launch, by the warps that do not multiply.
__device__ static inline void store_keys(const struct work &w, const uint8_t *keys) {
    constexpr uint32_t first = TILES_MOST * LF_WARP;
    uint4 *wide = (uint4 *)wide_at(w, blockIdx.z, blockIdx.x, 0);
    uint32_t n = (uint32_t)(wide_bytes(w) / sizeof *wide);
#pragma unroll 4
    for (uint32_t i = threadIdx.x - first; i < n; i += THREADS - first)
        wide[i] = ((const uint4 *)keys)[i];
}

// A tile's queries of some steps, operands of products: zeros where the warp has none.
struct score_steps {
    uint32_t q[HALF_STEPS][4];
};

__device__ static inline void load_steps(bool has_tile, lf_shared_base queries,
                                         struct score_steps *steps) {
#pragma unroll
    for (uint32_t i = 0; i < HALF_STEPS && has_tile; i++)
        lf_load_matrices(steps->q[i], queries, i * STEP * 2);
}

// Their products with the keys begin; at most those are on the way then.
__device__ static inline void multiply_steps(const struct score_steps &steps, lf_shared_rows keys,
                                             float (&sum)[SCORE_KEYS / 2]) {
    lf_wgmma_begin();
#pragma unroll
    for (uint32_t i = 0; i < HALF_STEPS; i++)
        lf_wgmma_bf16(sum, steps.q[i], lf_shared_rows_from(keys, i * 2 * KEYS_BYTES), true);
    lf_wgmma_commit();
    lf_wgmma_wait<1>();
}

// Dot products of the warps' tiles and the keys. queries: a lane's row.
__device__ static inline void multiply_tiles(bool has_tile, lf_shared_base keys,
                                             lf_shared_base queries, uint32_t turns,
                                             float (&sum)[SCORE_KEYS / 2]) {
    constexpr uint32_t half_keys = HALF_STEPS * 2 * KEYS_BYTES, half = HALF_STEPS * STEP * 2;
    lf_shared_rows rows = lf_shared_rows_at(keys, KEYS_BYTES);
    struct score_steps first = {}, second = {};
    load_steps(has_tile, queries, &first);
#pragma unroll 1
    for (uint32_t turn = 0; turn < turns; turn++) {
        multiply_steps(first, rows, sum);
#pragma unroll
        for (uint32_t i = 0; i < HALF_STEPS; i++)
            lf_wgmma_read(second.q[i]);
        load_steps(has_tile, queries + half, &second);
        multiply_steps(second, lf_shared_rows_from(rows, half_keys), sum);
#pragma unroll
        for (uint32_t i = 0; i < HALF_STEPS; i++)
            lf_wgmma_read(first.q[i]);
        // After the last turn what has been there already.
        queries += turn + 1 == turns ? 0 : 2 * half;
        load_steps(has_tile, queries, &first);
        rows = lf_shared_rows_from(rows, 2 * half_keys);
    }
    lf_wgmma_wait<0>();
    lf_wgmma_settle(sum);
#pragma unroll
    for (uint32_t i = 0; i < HALF_STEPS; i++)
        lf_wgmma_read(second.q[i]);
}

// The warp's tile; products to their cell. All warps that may have one multiply together.
__device__ static inline void score_tile(const struct work &w, const struct score_room &room,
                                         const uint8_t *shared) {
    uint32_t lane = threadIdx.x % LF_WARP, own = threadIdx.x / LF_WARP;
    uint32_t tile = blockIdx.y * w.each + own, part = blockIdx.x % (BLOCK / SCORE_KEYS);
    const lf_shared_base base = lf_shared_base_of(shared);
    float sum[SCORE_KEYS / 2] = {};
    multiply_tiles(own < w.each, base,
                   base + room.keys + (own * TILE_HEADS + lane % 16) * room.query +
                       lane / 16 * CHUNK_BYTES, room.turns, sum);
    if (own >= w.each || tile >= w.tiles)
        return;
    uint32_t *to = cell_at(w, blockIdx.z, blockIdx.x / (BLOCK / SCORE_KEYS), tile) +
                   part * (SCORE_KEYS / STEP) * STEP_WORDS;
#pragma unroll
    for (uint32_t i = 0; i < 4; i++) {
        const float *low = sum + i / 2 * 8 + i % 2 * 2, *high = low + 4;
        *(uint4 *)(to + i / 2 * STEP_WORDS + i % 2 * (STEP_WORDS / 2)) = {
            lf_f32_bits(low[0]), lf_f32_bits(low[1]), lf_f32_bits(high[0]), lf_f32_bits(high[1])};
    }
}

// Packed keys and queries on their way, each by a lane.
__device__ static inline void bring(const struct work &w, const struct score_room &room, uint32_t r,
                                    const struct key_list &list, const struct score_key &key,
                                    uint32_t entry, uint8_t *shared, lf_barrier *brought) {
    uint32_t lane = threadIdx.x % LF_WARP, warp = threadIdx.x / LF_WARP, dim = w.a.head_dim;
    uint32_t heads = w.each * TILE_HEADS / KEY_WARPS, head = warp % KEY_WARPS * heads + lane;
    if (warp < KEY_WARPS && lane < WARP_KEYS)
        bring_key(packed_key(w.a, r, list, key.t, entry),
                  key.windowed ? lf_qa8_row_bytes(dim) : lf_qf4s_row_bytes(dim),
                  shared + key.place * room.packed, brought);
    if (warp >= KEY_WARPS && lane < heads)
        bring_query(w, room, r, blockIdx.y * w.each * TILE_HEADS + head,
                    shared + room.keys + head * room.query, brought);
}

// A block: a row, SCORE_KEYS places of its list, w.each tiles of heads.
__global__ static void __launch_bounds__(THREADS) attention_scores(struct work w) {
    lf_let_next_begin();
    LF_DYNAMIC_SHARED(shared);
    __shared__ lf_barrier brought;
    if (!threadIdx.x) {
        lf_barrier_open(&brought, SCORE_KEYS + w.each * TILE_HEADS);
        lf_show_tensor_cores();
    }
    __syncthreads();
    const struct score_room room = score_room_of(w);
    const uint32_t r = w.first + blockIdx.z, t0 = blockIdx.x * SCORE_KEYS;
    struct score_key key = {};
    key.place = threadIdx.x / LF_WARP % KEY_WARPS * WARP_KEYS + threadIdx.x % WARP_KEYS;
    key.t = t0 + key_at_place(key.place);
    lf_wait_for_launches();
    uint32_t entry = guess_entry(w.a, r, key.t);
    const struct key_list list = list_keys(w.a, r);
    if (t0 >= whole_blocks(list))
        return;
    if (list.window != w.a.window)
        entry = listed_entry(w.a, r, list, key.t);
    key.windowed = key.t < list.window, key.is_there = key.t < list.n;
    bring(w, room, r, list, key, entry, shared, &brought);
    if (!threadIdx.x && !blockIdx.x && !blockIdx.y)
        w.n[blockIdx.z] = list.n;
    lf_barrier_wait(&brought, 0);
    const struct score_pieces pieces = load_pieces(w, key, shared + key.place * room.packed);
    __syncthreads();
    put_keys<true>(room, key, pieces, shared);
    put_keys<false>(room, key, pieces, shared);
    lf_show_tensor_cores();
    __syncthreads();
    if (threadIdx.x / LF_WARP < TILES_MOST)
        score_tile(w, room, shared);
    else if (!blockIdx.y)
        store_keys(w, shared);
}
