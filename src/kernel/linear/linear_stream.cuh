// Few rows of BF16 and FP8: weights stream from memory once, each lane a share ahead of the steps.
#pragma once
#include "kernel/hand.cuh"
#include "kernel/linear/linear_unit.cuh"

enum { STREAM_AHEAD = 3 }; // rounds, whose tiles are known
static const uint32_t TAKEN_MOST = 1 << 20; // tiles, counted below it; above it who found an end

// Whether tiles from `known` on go to so many takers as they ask.
__device__ static inline bool are_asked_for(const struct lf_linear_tiles &tiles, uint32_t known,
                                            uint32_t takers) {
    return tiles.launch.taken && tiles.all > known && tiles.all < TAKEN_MOST / 2 &&
           takers < UINT32_MAX / TAKEN_MOST;
}

// The first of n that nobody took; it may be past the last.
__device__ static inline uint32_t ask_for_tiles(const struct lf_linear_launch &launch, uint32_t n,
                                                uint32_t known) {
    return atomicAdd(launch.taken, n) % TAKEN_MOST + known;
}

// The last of the takers that found an end leaves a zero.
__device__ static inline void end_asking(const struct lf_linear_launch &launch, uint32_t takers) {
    if (atomicAdd(launch.taken, TAKEN_MOST) / TAKEN_MOST == takers - 1)
        *launch.taken = 0;
}

template <enum lf_weight_format format, int eights>
struct stream_shape : unit_shape<format, eights> {
    typedef unit_shape<format, eights> unit;
    static const uint32_t depth = 5; // slabs on the way
    static const uint32_t warps = 16, threads = warps * LF_WARP;
    // That registers allow: other kernels find room beside.
    static const uint32_t blocks = eights == 1 ? 2 : 1;
    static const bool touches = format == LF_WEIGHT_FP8 && eights == 1;
    // Tiles of rounds: two to be added, the present, those ahead.
    static const uint32_t tiles = (STREAM_AHEAD + 3) * warps;
    static_assert(unit::slabs % depth == 0, "a slab's place among those on the way is its own");
    static_assert(warps <= LF_WARP, "a lane for each tile that a round may begin");
};

// Where a lane's slabs on the way come from, and its unit.
struct stream_source {
    struct unit_source slabs;
    uint32_t place, k; // its tile's among those known, its first element
};

// What a lane multiplies.
template <int eights>
struct stream_unit {
    const uint16_t *x[eights];
    int32_t left, left_of_row[eights]; // elements from the unit's, the lane's first on; no row: 0
    uint32_t scale_at[2];       // among those in shared memory
    bool has_odd_scales;        // of MXFP4
};

// What a warp has in shared memory: slabs on the way, scales and rows' indices of units in turn.
template <enum lf_weight_format format, int eights>
struct alignas(128) stream_warp {
    typedef stream_shape<format, eights> shape;
    uint8_t room[shape::depth][2][shape::side_bytes];
    uint32_t scale[2][shape::scale_rows * shape::scale_words];
    uint32_t index[2][shape::rows], touched[shape::touches ? LF_WARP : 1];
};

// Shared memory of a block. Sums: of a round's units, and of the tile that goes on in the next.
template <enum lf_weight_format format, int eights>
struct stream_block {
    typedef stream_shape<format, eights> shape;
    struct stream_warp<format, eights> warp[shape::warps];
    float part[2][shape::warps][shape::numbers], carried[2][shape::numbers];
    struct lf_linear_work tile[shape::tiles]; // jobs of a tile's rows and outputs alone
    lf_barrier kept;                          // warps have kept a round's sums
    uint32_t units;                           // of all tiles of the block, once these are known
    // Parts that other blocks have: of the first tile the next, of number `last` the one before.
    uint32_t after, before, last;
};

// What a block does: all parts of its tiles, one after the other.
struct stream_share {
    struct lf_linear_tiles tiles;
    uint32_t fixed; // that are the block's from the start
};

// Which of a block's tiles and which part of it unit n is.
struct stream_part {
    uint32_t tile, part;
};

__device__ static inline struct stream_part part_of(const struct stream_share &share, uint32_t n) {
    const struct lf_linear_launch &launch = share.tiles.launch;
    uint32_t tile = launch.parts == 1 ? n : (uint32_t)((uint64_t)n * launch.parts_inverse >> 32);
    return {tile, n - tile * launch.parts};
}

// The first of a block's tiles that begins in a round; it may be a shared one in the first alone.
__device__ static inline uint32_t first_tile(const struct stream_share &share, uint32_t round,
                                             uint32_t warps) {
    struct stream_part at = part_of(share, round * warps);
    return at.tile + (at.part > 0);
}

// Parts of a tile that the block before has.
template <enum lf_weight_format format, int eights>
__device__ static inline uint32_t before_of(const struct stream_block<format, eights> *block,
                                            uint32_t tile) {
    return tile == block->last ? block->before : 0;
}

// A block's tile i is the launch's tile `tile`.
template <enum lf_weight_format format, int eights>
__device__ static void find_tile(const struct stream_share &share, uint32_t i, uint32_t tile,
                                 struct stream_block<format, eights> *block) {
    typedef stream_shape<format, eights> shape;
    block->tile[i % shape::tiles] =
        work_of_tile<format>(lf_find_tile(share.tiles, tile, shape::rows, UNIT_OUTS));
}

// Units are shared out evenly: a tile's first parts begin a block, the others end the next.
template <enum lf_weight_format format, int eights>
__device__ static struct stream_share find_split(const struct lf_linear_tiles &tiles,
                                                 struct stream_block<format, eights> *block) {
    typedef stream_shape<format, eights> shape;
    const uint32_t parts = tiles.launch.parts, units = tiles.all * parts;
    uint32_t each = units / gridDim.x, more = units % gridDim.x, own = blockIdx.x < more;
    uint32_t from = blockIdx.x * each + (own ? blockIdx.x : more), past = from + each + own;
    uint32_t first = from / parts, last = (past - 1) / parts;
    struct stream_share share = {tiles, last - first + 1};
    if (threadIdx.x == 0) {
        block->units = past - from;
        block->after = (last + 1) * parts - past;
        block->before = from - first * parts;
        block->last = last - first;
    }
    for (uint32_t i = threadIdx.x; i < share.fixed; i += shape::threads)
        find_tile(share, i, last - i, block);
    return share;
}

// Tiles of the first rounds are shared out evenly; if there are no more all are known.
template <enum lf_weight_format format, int eights>
__device__ static struct stream_share find_fixed(const struct lf_linear_tiles &tiles,
                                                 struct stream_block<format, eights> *block) {
    typedef stream_shape<format, eights> shape;
    uint32_t own = (tiles.all + gridDim.x - 1 - blockIdx.x) / gridDim.x;
    struct stream_share share = {tiles, own};
    uint32_t first = first_tile(share, STREAM_AHEAD, shape::warps);
    bool are_taken = are_asked_for(tiles, first * gridDim.x, gridDim.x);
    share.fixed = are_taken ? first : own;
    if (threadIdx.x == 0) {
        block->units = are_taken ? UINT32_MAX : own * tiles.launch.parts;
        block->after = block->before = 0;
    }
    first = first < own ? first : own;
    for (uint32_t i = threadIdx.x; i < first; i += shape::threads)
        find_tile(share, i, blockIdx.x + i * gridDim.x, block);
    return share;
}

// A warp takes the block's tiles first .. past-1 from what is left of the launch's, if anything.
template <enum lf_weight_format format, int eights>
__device__ static void take_tiles(const struct stream_share &share, uint32_t first, uint32_t past,
                                  struct stream_block<format, eights> *block) {
    const uint32_t lane = threadIdx.x % LF_WARP;
    uint32_t n = past - first, tile = 0, all = share.tiles.all;
    if (lane == 0 && n)
        tile = ask_for_tiles(share.tiles.launch, n, share.fixed * gridDim.x);
    tile = __shfl_sync(LF_ALL_LANES, tile, 0);
    uint32_t left = tile < all ? all - tile : 0;
    if (lane < n && lane < left)
        find_tile(share, first + lane, tile + lane, block);
    if (lane || left >= n)
        return;
    block->units = (first + left) * share.tiles.launch.parts;
    end_asking(share.tiles.launch, gridDim.x);
}

// A warp finds the tiles that begin in a round.
template <enum lf_weight_format format, int eights>
__device__ static void find_tiles(const struct stream_share &share, uint32_t round,
                                  struct stream_block<format, eights> *block) {
    typedef stream_shape<format, eights> shape;
    uint32_t first = first_tile(share, round, shape::warps);
    uint32_t past = first_tile(share, round + 1, shape::warps);
    if (block->units == UINT32_MAX)
        take_tiles(share, first, past, block);
    else if (uint32_t i = first + threadIdx.x % LF_WARP; i < past && i < share.fixed)
        find_tile(share, i, blockIdx.x + i * gridDim.x, block);
}

// Slabs come from unit n from here on: its scales and its rows' indices are on their way.
template <enum lf_weight_format format, int eights>
__device__ static struct stream_source seek_unit(const struct stream_share &share, uint32_t n,
                                                 uint32_t turn,
                                                 struct stream_block<format, eights> *block) {
    typedef stream_shape<format, eights> shape;
    struct stream_warp<format, eights> *own = &block->warp[threadIdx.x / LF_WARP];
    struct stream_part at = part_of(share, n + block->after);
    struct stream_source from = {};
    at.part += before_of(block, at.tile) - (at.tile ? 0 : block->after);
    uint32_t lane = threadIdx.x % LF_WARP, k = at.part * LF_LINEAR_PART;
    from.place = at.tile % shape::tiles;
    from.k = n < block->units ? k : UINT32_MAX;
    const struct lf_linear_work &w = block->tile[from.place];
    if (from.k >= w.in)
        return from;
    from.slabs = source_of<format>(w, k);
    if (format != LF_WEIGHT_BF16)
        send_scales<format>(w, k, own->scale[turn]);
    if (w.x_index && lane < shape::rows && lane < w.rows)
        lf_copy_word(&own->index[turn][lane], w.x_index + lane, true);
    return from;
}

// Where the lane's rows are.
template <enum lf_weight_format format, int eights>
__device__ static void find_rows(const struct lf_linear_work &w, const uint32_t *index, uint32_t k,
                                 struct stream_unit<eights> *u) {
    uint32_t lane = threadIdx.x % LF_WARP, chunk = lane % 4 * lf_chunk_elements(format);
#pragma unroll
    for (int i = 0; i < eights; i++) {
        uint32_t r = i * 8 + lane / 4;
        u->left_of_row[i] = r < w.rows ? u->left - (int32_t)chunk : 0;
        r = r < w.rows ? r : 0;
        u->x[i] = w.x + (w.x_index ? index[r] : r) * w.x_stride + k + chunk;
    }
}

// The source's unit begins: its scales and indices have come.
template <enum lf_weight_format format, int eights>
__device__ static struct stream_unit<eights>
begin_unit(const struct stream_source &from, uint32_t turn,
           struct stream_block<format, eights> *block) {
    struct stream_warp<format, eights> &own = block->warp[threadIdx.x / LF_WARP];
    const struct lf_linear_work &w = block->tile[from.place];
    struct stream_unit<eights> u = {};
    if (from.k >= w.in)
        return u;
    u.left = (int32_t)(w.in - from.k);
    find_rows<format>(w, own.index[turn], from.k, &u);
    if (format != LF_WEIGHT_BF16)
        find_scales<format>(w, from.k, u.scale_at);
    return u;
}

// All of the unit's rows are on their way to the first cache, so that its slabs wait but once.
template <enum lf_weight_format format>
__device__ static void touch_rows(const struct stream_unit<1> &u, uint32_t *touched) {
    typedef stream_shape<format, 1> shape;
#pragma unroll
    for (uint32_t k = 0; k < LF_LINEAR_PART; k += shape::slab)
        if ((int32_t)k < u.left_of_row[0])
            lf_copy_word(touched + threadIdx.x % LF_WARP, u.x[0] + k, true);
}

// Slabs from here on are the next ones of the same unit.
template <enum lf_weight_format format, int eights>
__device__ static void pass_slabs(struct stream_unit<eights> *u) {
    typedef stream_shape<format, eights> shape;
    const uint32_t k = shape::depth * shape::slab;
    u->left -= k;
    u->scale_at[0] += k / 32, u->scale_at[1] += k / 32;
#pragma unroll
    for (int i = 0; i < eights; i++)
        u->x[i] += k, u->left_of_row[i] -= k;
}

// Zeros past the row's end. Rows that are none hold anything: sums of others do not see them.
template <enum lf_weight_format format, int eights, bool whole>
__device__ static void load_rows(const struct stream_unit<eights> &u, uint32_t slab,
                                 struct unit_slab<format, eights> *own) {
    typedef stream_shape<format, eights> shape;
    const uint32_t times = shape::times, first = slab * shape::slab;
    bool is_full = whole && (int32_t)(first + shape::slab) <= u.left;
    // Many loads stay ahead of the wait for codes behind a branch alone.
    const bool branches = !whole || format == LF_WEIGHT_MXFP4;
#pragma unroll
    for (uint32_t i = 0; !branches && !is_full && i < times * eights; i++)
        lf_zero_16(own->x[i % times][i / times]);
#pragma unroll
    for (int i = 0; i < eights; i++) {
        if (!branches || (is_full && u.left_of_row[i] > 0))
#pragma unroll
            for (uint32_t e = 0; e < times; e++)
                lf_load_16_below(branches ? 1 : u.left_of_row[i], branches ? 0 : (int32_t)first,
                                 u.x[i] + first + 8 * e, own->x[e][i]);
        if (branches && !is_full)
#pragma unroll
            for (uint32_t e = 0; e < times; e++)
                lf_load_eight(u.x[i], first + 8 * e, lf_left(u.left_of_row[i]), whole,
                              own->x[e][i]);
    }
}

// Rows that were loaded, in the order of the steps.
template <enum lf_weight_format format, int eights>
__device__ static void order_rows(struct unit_slab<format, eights> *own) {
    const uint32_t times = stream_shape<format, eights>::times;
#pragma unroll
    for (uint32_t i = 0; i < times * eights; i++)
        lf_order_x<format>(own->x[i % times][i / times]);
}

// Ahead of its first slabs a unit begins, ahead of its last ones the next is where they come from.
template <enum lf_weight_format format, int eights, bool whole>
__device__ static void turn_slabs(const struct stream_share &share, uint32_t round, uint32_t first,
                                  struct stream_block<format, eights> *block,
                                  struct stream_unit<eights> *u, struct stream_source *from) {
    typedef stream_shape<format, eights> shape;
    const uint32_t warp = threadIdx.x / LF_WARP, n = round * shape::warps + warp;
    __syncwarp();
    if (first == 0) {
        *u = begin_unit<format, eights>(*from, round % 2, block);
        if constexpr (shape::touches && whole)
            touch_rows<format>(*u, block->warp[warp].touched);
    }
    if (first + shape::depth == shape::slabs) {
        *from = seek_unit(share, n + shape::warps, (round + 1) % 2, block);
    } else {
        from->slabs.data += shape::depth * 64;
        from->slabs.left -= shape::depth * shape::slab;
    }
}

// The chain of a slab's steps goes on.
template <enum lf_weight_format format, int eights, bool regular>
__device__ static void add_slab(const struct stream_unit<eights> &u, uint32_t slab,
                                struct unit_slab<format, eights> *own, float sum[eights][4]) {
    bool is_odd = !regular && (format == LF_WEIGHT_MXFP4
                                   ? u.has_odd_scales
                                   : lf_are_odd<format, 4>(own->word[0], own->word[1], own->scale));
    if (__builtin_expect(!is_odd, 1)) {
        multiply_slab<format, eights, false>(own, sum);
        return;
    }
    level_scales(slab, u.left, own);
    multiply_slab<format, eights, true>(own, sum);
}

// The unit's chain of k16 steps from zero. A slab's place is filled anew once it is read.
template <enum lf_weight_format format, int eights, bool whole, bool regular>
__device__ static void run_unit(const struct stream_share &share, uint32_t round,
                                struct stream_block<format, eights> *block,
                                struct stream_source *from, float sum[eights][4]) {
    typedef stream_shape<format, eights> shape;
    struct stream_warp<format, eights> *warp = &block->warp[threadIdx.x / LF_WARP];
    struct stream_unit<eights> u;
#pragma unroll 1
    for (uint32_t first = 0; first < shape::slabs; first += shape::depth)
#pragma unroll
        for (uint32_t slab = 0; slab < shape::depth; slab++) {
            struct unit_slab<format, eights> own;
            if (!slab && first)
                pass_slabs<format, eights>(&u);
            if (slab || first)
                load_rows<format, eights, whole>(u, slab, &own);
            lf_copies_wait<shape::depth - 1>();
            if (!slab)
                turn_slabs<format, eights, whole>(share, round, first, block, &u, from);
            if (!slab && !first)
                load_rows<format, eights, whole>(u, slab, &own);
            take_slab<format, eights>(u.scale_at, slab, warp->room[slab], warp->scale[round % 2],
                                      &own);
            send_slab<format, whole>(from->slabs, slab, warp->room[slab]);
            if ((int32_t)(slab * shape::slab) >= u.left)
                continue;
            order_rows(&own);
            add_slab<format, eights, regular>(u, slab, &own, sum);
        }
}

// Adds the parts that a round brought, ascending; a tile whose parts go on is carried.
template <enum lf_weight_format format, int eights>
__device__ static void add_parts(const struct stream_share &share, uint32_t round,
                                 struct stream_block<format, eights> *block) {
    typedef stream_shape<format, eights> shape;
    const uint32_t first = round * shape::warps, parts = share.tiles.launch.parts;
    uint32_t past = first + shape::warps < block->units ? first + shape::warps : block->units;
    uint32_t after = block->after, tile = part_of(share, first + after).tile;
    uint32_t tiles = part_of(share, past - 1 + after).tile - tile + 1;
    uint32_t *sums = share.tiles.launch.sums + blockIdx.x * shape::numbers;
    for (uint32_t at = threadIdx.x; at < tiles * shape::numbers; at += shape::threads) {
        uint32_t own = tile + at / shape::numbers, n = at % shape::numbers;
        const struct lf_linear_work &w = block->tile[own % shape::tiles];
        uint32_t row = n / UNIT_OUTS, out = n % UNIT_OUTS, place = out * shape::rows + row;
        if (row >= w.rows)
            continue;
        uint32_t from = own ? own * parts - after : 0, before = before_of(block, own);
        uint32_t to = (own + 1) * parts - after - before, u = from > first ? from : first;
        bool goes_on = u > from || before;
        float total = u > from ? block->carried[round % 2][n] : 0;
        if (before && u == from)
            total = lf_f32_from_bits(lf_take(sums - shape::numbers + n));
        for (; u < to && u < past && (u - from + before) * LF_LINEAR_PART < w.in; u++) {
            float part = block->part[round % 2][u - first][place];
            total = goes_on ? total + part : part;
            goes_on = true;
        }
        if (to > past)
            block->carried[(round + 1) % 2][n] = total;
        else if (after && !own)
            lf_hand(sums + n, lf_f32_bits(lf_f32_settle(total)));
        else
            lf_store_sum(w, row, out, total);
    }
}

// A round ends once all warps have kept its sums: they go on meanwhile, by one round at most.
template <enum lf_weight_format format, int eights>
__device__ static void end_round(const struct stream_share &share, uint32_t round,
                                 struct stream_block<format, eights> *block) {
    lf_barrier_wait(&block->kept, round % 2);
    add_parts(share, round, block);
}

// A block's units, a warp's one a round.
template <enum lf_weight_format format, int eights, bool whole, bool regular>
__device__ static void run_units(const struct stream_share &share,
                                 struct stream_block<format, eights> *block) {
    typedef stream_shape<format, eights> shape;
    const uint32_t warp = threadIdx.x / LF_WARP;
    uint32_t round = 0;
    struct stream_source from = seek_unit(share, warp, 0, block);
#pragma unroll
    for (uint32_t slab = 0; slab < shape::depth; slab++)
        send_slab<format, whole>(from.slabs, slab, block->warp[warp].room[slab]);
    if (!share.tiles.launch.waits_first)
        lf_wait_for_launches();
    for (; round * shape::warps < block->units; round++) {
        float sum[eights][4] = {};
        run_unit<format, eights, whole, regular>(share, round, block, &from, sum);
        if (round)
            end_round(share, round - 1, block);
        keep_sums<eights>(sum, block->part[round % 2][warp]);
        // Behind the meeting: rounds' tiles become known one after the other.
        if (round % shape::warps == warp)
            find_tiles(share, round + STREAM_AHEAD, block);
        lf_barrier_pass(&block->kept);
    }
    if (round)
        end_round(share, round - 1, block);
}

// Blocks share out all tiles of all jobs: only the device knows how many rows a group has.
template <enum lf_weight_format format, int eights, bool whole, bool regular>
__global__ static void __launch_bounds__(stream_shape<format, eights>::threads,
                                         stream_shape<format, eights>::blocks)
linear_stream(const __grid_constant__ struct lf_linear_launch launch) {
    typedef stream_shape<format, eights> shape;
    LF_DYNAMIC_SHARED(shared);
    auto *block = (struct stream_block<format, eights> *)shared;
    // Once groups are there, so that they are old for all launches that follow the next.
    if (!launch.waits_first)
        lf_let_next_begin();
    if (threadIdx.x == 0)
        lf_barrier_open(&block->kept, shape::warps);
    struct lf_linear_heads heads = lf_load_heads(launch);
    if (launch.waits_first) {
        lf_wait_for_launches();
        lf_let_next_begin();
    }
    struct lf_linear_tiles tiles =
        lf_list_jobs(launch, heads, shape::rows, UNIT_OUTS, (struct lf_linear_live *)(block + 1));
    struct stream_share share = launch.sums ? find_split(tiles, block) : find_fixed(tiles, block);
    __syncthreads();
    run_units<format, eights, whole, regular>(share, block);
}
