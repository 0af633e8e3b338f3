// Up to 8 rows of MXFP4: a warp feeds whole tiles of weights to teams, a part of K each warp.
#pragma once
#include "kernel/linear/linear_stream.cuh"

enum { FEED_WARPS = 16 };         // of all teams, at most
enum { FEED_STAGES = 8 };         // tiles on the way, at most; teams too
enum { FEED_KNOWN = 64 };         // tiles that a block has at once: to be added, present, to come
enum { FEED_FOUND = 16 };         // that are looked up at once, at most
enum { FEED_SHARED = 200 << 10 }; // of a block, at most: the rest is the first cache's, for rows
// Behind the warps that multiply a warpgroup: a warp sends for tiles, another looks them up.
enum { FEED_THREADS = (FEED_WARPS + 4) * LF_WARP };
enum { FEED_REGISTERS = 104, FEED_REGISTERS_FEW = 64 };
static_assert(FEED_WARPS * LF_WARP * FEED_REGISTERS + 4 * LF_WARP * FEED_REGISTERS_FEW <=
                  lf_registers_of(FEED_THREADS), "registers that the block has");
static const uint32_t FEED_ALL = 1u << 31; // beside a number of tiles: there are no others

// Shared memory of a block; behind it are stages, behind those jobs that have rows.
struct alignas(128) feed_block {
    typedef unit_shape<LF_WEIGHT_MXFP4, 1> unit;
    uint8_t row[FEED_WARPS][unit::slabs][unit::slab * 2]; // a single row's part, a warp's own
    float part[2][FEED_WARPS][unit::numbers];
    struct lf_linear_work tile[FEED_KNOWN]; // jobs of a tile's rows and outputs alone
    uint32_t known, sent;                   // tiles, of which the last are none, one a team
    lf_barrier full[FEED_STAGES], empty[FEED_STAGES];
    lf_barrier kept[FEED_WARPS]; // a team's warps have kept a round's sums
};

// Where a warp is: its team and its place there.
struct feed_place {
    const struct lf_linear_launch &launch;
    struct feed_block *block;
    uint8_t *stages;
    uint32_t team, own;
};

// A block's first tiles follow each other and so have the same rows; others go to who asks.
struct feed_share {
    uint32_t first, fixed;
    bool are_taken;
};

__device__ static inline struct feed_share feed_share_of(const struct lf_linear_tiles &tiles) {
    const struct lf_linear_launch &launch = tiles.launch;
    uint32_t each = tiles.all / gridDim.x, more = tiles.all % gridDim.x, own = blockIdx.x < more;
    uint32_t least = launch.feed_stages + 2 * launch.teams + 1, fixed = each * 5 / 8;
    fixed = fixed < least ? least : fixed;
    if (are_asked_for(tiles, fixed * gridDim.x, gridDim.x))
        return {blockIdx.x * fixed, fixed, true};
    return {blockIdx.x * each + (own ? blockIdx.x : more), each + own, false};
}

// Among stages; each is filled again once its tile was read. turn: of its barriers.
struct feed_stage {
    uint32_t at, turn;
};

__device__ static inline void pass_stages(const struct lf_linear_launch &launch, uint32_t n,
                                          struct feed_stage *stage) {
    stage->at += n;
    if (stage->at < launch.feed_stages)
        return;
    stage->at -= launch.feed_stages;
    stage->turn ^= 1;
}

// One lane sends for a tile's codes, and for its scales in whole sixteens; or none comes.
__device__ static void send_tile(const struct feed_place &at, uint32_t tile, uint32_t stage) {
    const struct lf_linear_work &w = at.block->tile[tile % FEED_KNOWN];
    uint8_t *to = at.stages + stage * at.launch.feed_bytes;
    lf_barrier *full = &at.block->full[stage];
    uint32_t outs = w.out < UNIT_OUTS ? w.out : UNIT_OUTS, before = (uintptr_t)w.scale % 16;
    if (!w.rows) {
        lf_barrier_pass_alone(full), lf_barrier_pass_alone(full);
        return;
    }
    lf_barrier_pass_bytes_once(full, to, w.data, outs * (w.in / 2));
    lf_barrier_pass_bytes_once(full, to + at.launch.feed_codes, w.scale - before,
                               (before + outs * (w.in / 32) + 15) / 16 * 16);
}

// Tiles that a block knows, and the last that it was given.
struct feed_known {
    uint32_t known, last;
    bool is_all;
};

// What is left goes in smaller and smaller shares.
__device__ static inline uint32_t asked_tiles(const struct lf_linear_tiles &tiles, uint32_t last) {
    const uint32_t teams = tiles.launch.teams, left = last < tiles.all ? tiles.all - last : 0;
    uint32_t n = left / (4 * gridDim.x) / teams * teams;
    return n < teams ? teams : n < FEED_FOUND ? n : FEED_FOUND / teams * teams;
}

// The block's tiles from `known` on become known, some at once. The end: one without rows a team.
__device__ static void find_more(const struct feed_place &at, const struct lf_linear_tiles &tiles,
                                 const struct feed_share &share, struct feed_known *own) {
    const uint32_t lane = threadIdx.x % LF_WARP, teams = at.launch.teams;
    uint32_t tile = share.first + own->known, left = share.fixed - own->known, asked = FEED_FOUND;
    bool takes = share.are_taken && own->known >= share.fixed;
    if (takes) {
        asked = asked_tiles(tiles, own->last);
        if (lane == 0)
            tile = ask_for_tiles(at.launch, asked, share.fixed * gridDim.x);
        tile = own->last = __shfl_sync(LF_ALL_LANES, tile, 0);
        left = tile < tiles.all ? tiles.all - tile : 0;
        if (left < asked && lane == 0)
            end_asking(at.launch, gridDim.x);
    }
    uint32_t n = left < asked ? left : asked;
    struct lf_linear_work *to = &at.block->tile[(own->known + lane) % FEED_KNOWN];
    if (lane < n)
        find_unit<LF_WEIGHT_MXFP4, 1>(tiles, tile + lane, to);
    own->known += n;
    if (n == asked || takes != share.are_taken)
        return;
    if (lane >= n && lane < n + teams)
        to->rows = 0;
    own->is_all = true, own->known += teams;
}

// A warp looks tiles up, little ahead of those that are sent for: others may come to take them.
__device__ static void find_ahead(const struct feed_place &at, const struct lf_linear_tiles &tiles,
                                  const struct feed_share &share) {
    volatile uint32_t *known = &at.block->known, *sent = &at.block->sent;
    struct feed_known own = {*known, share.fixed * gridDim.x, false};
    lf_wait_for_launches();
    while (!own.is_all) {
        while (own.known > *sent + 2 * at.launch.teams)
            lf_yield();
        find_more(at, tiles, share, &own);
        __threadfence_block();
        __syncwarp();
        if (threadIdx.x % LF_WARP == 0)
            *known = own.known | (own.is_all ? FEED_ALL : 0);
    }
}

// A warp sends for tiles. Those from the start ask for nothing that launches ahead write.
__device__ static void send_tiles(const struct feed_place &at) {
    const uint32_t teams = at.launch.teams, stages = at.launch.feed_stages;
    volatile uint32_t *known = &at.block->known;
    struct feed_stage stage = {0, 1};
    uint32_t now = 0;
    for (uint32_t i = 0; !(now & FEED_ALL) || i < (now & ~FEED_ALL); i++) {
        if (i >= stages)
            lf_barrier_wait(&at.block->empty[stage.at], stage.turn);
        // Who takes tile i asks for the rows of its team's next.
        while (!(now & FEED_ALL) && now <= i + teams) {
            now = *known;
            lf_yield();
        }
        __threadfence_block();
        if (threadIdx.x % LF_WARP == 0) {
            send_tile(at, i, stage.at);
            *(volatile uint32_t *)&at.block->sent = i + 1;
        }
        __syncwarp();
        pass_stages(at.launch, 1, &stage);
    }
    lf_wait_for_launches();
}

// The rows of two tiles are the same.
__device__ static inline bool has_rows_of(const struct lf_linear_work &a,
                                          const struct lf_linear_work &b) {
    return a.x == b.x && a.x_index == b.x_index && a.rows == b.rows && a.in == b.in &&
           a.x_stride == b.x_stride;
}

// Where a single row's word of the lane goes: words of an eight lie as two steps read them.
__device__ static inline uint32_t row_place(void) {
    uint32_t lane = threadIdx.x % LF_WARP, word = lane / 4 % 4, place = word % 2 * 2 + word / 2;
    LF_CONTROL(17, place = word;) // 17: x in the order of the others
    return lane / 16 * 64 + lane % 4 * 16 + place * 4;
}

// The warp's part of a single row is on its way, in the order of the steps.
__device__ static void send_row(const uint16_t *x, int32_t left, uint8_t (*row)[256]) {
    typedef feed_block::unit unit;
    uint32_t to = row_place();
    for (uint32_t slab = 0; slab < unit::slabs; slab++) {
        bool is_there = (int32_t)(slab * unit::slab) < left;
        lf_copy_word(row[slab] + to, x + slab * unit::slab, is_there);
        lf_copy_word(row[slab] + to + 128, x + slab * unit::slab + 16, is_there);
    }
    lf_copies_commit();
}

// The warp's part of a tile's rows: a single one is on its way, where more lie is known.
__device__ static void seek_rows(const struct lf_linear_work &w, uint32_t k, uint8_t (*row)[256],
                                 struct stream_unit<1> *u) {
    const uint32_t lane = threadIdx.x % LF_WARP, r = lane / 4;
    const uint32_t chunk = lane % 4 * feed_block::unit::elements;
    *u = {};
    if (k >= w.in)
        return;
    u->left = (int32_t)(w.in - k);
    int32_t left = u->left - (int32_t)chunk;
    if (w.rows == 1) {
        send_row(w.x + k + chunk + r * 2, left, row);
        return;
    }
    u->left_of_row[0] = r < w.rows ? left : 0;
    uint32_t own = r < w.rows ? r : 0;
    own = w.x_index ? ((const volatile uint32_t *)w.x_index)[own] : own;
    u->x[0] = w.x + own * w.x_stride + k + chunk;
}

// Where a lane's codes and scales lie in a stage, and how far those of its other output.
struct feed_source {
    const uint8_t *code, *scale;
    uint32_t other_code, other_scale;
};

// Outputs past the last are the last once more.
__device__ static struct feed_source feed_source_of(const struct lf_linear_launch &launch,
                                                    const struct lf_linear_work &w, uint32_t k,
                                                    const uint8_t *stage) {
    const uint32_t lane = threadIdx.x % LF_WARP, most = w.out - 1;
    uint32_t out = lane / 4, other = out + 8, block_of = k / 32 + lane % 4;
    out = out < most ? out : most, other = other < most ? other : most;
    LF_CONTROL(4, block_of -= block_of ? 1 : 0;) // 4: the scale of the block before
    return {stage + out * (w.in / 2) + k / 2 + lane % 4 * 16,
            stage + launch.feed_codes + (uintptr_t)w.scale % 16 + out * (w.in / 32) + block_of,
            (other - out) * (w.in / 2), (other - out) * (w.in / 32)};
}

// The lane's codes and scales of a slab; zeros past the row's end.
__device__ static inline void take_codes(const struct feed_source &from, uint32_t slab,
                                         bool is_there,
                                         struct unit_slab<LF_WEIGHT_MXFP4, 1> *own) {
    typedef feed_block::unit unit;
#pragma unroll
    for (uint32_t side = 0; side < 2; side++) {
        const uint8_t *code = from.code + (side ? from.other_code : 0);
        const uint8_t *scale = from.scale + (side ? from.other_scale : 0);
        uint4 four = {0, 0, 0, 0};
        if (is_there)
            four = *(const uint4 *)(code + slab * unit::slab / 2);
        uint32_t *word = own->word[side];
        word[0] = four.x, word[1] = four.y, word[2] = four.z, word[3] = four.w;
        own->scale[side] = is_there ? scale[slab * unit::slab / 32] : 127;
    }
}

// The lane's elements of a slab of a single row, for both steps of each eight.
__device__ static inline void take_row(const uint8_t *row,
                                       struct unit_slab<LF_WEIGHT_MXFP4, 1> *own) {
    row += threadIdx.x % 4 * 16;
#pragma unroll
    for (uint32_t e = 0; e < feed_block::unit::times; e++) {
        uint4 four = *(const uint4 *)(row + e * 64);
        uint32_t *x = own->x[e][0];
        x[0] = four.x, x[1] = four.y, x[2] = four.z, x[3] = four.w;
    }
}

// The chain of a slab's steps goes on.
template <bool regular, bool is_single>
__device__ static inline void feed_slab(const struct feed_source &from, uint32_t slab,
                                        bool is_there, const uint8_t (*row)[256],
                                        struct stream_unit<1> *u, float sum[1][4]) {
    struct unit_slab<LF_WEIGHT_MXFP4, 1> own;
    if constexpr (is_single)
        take_row(row[slab], &own);
    else
        load_rows<LF_WEIGHT_MXFP4, 1, true>(*u, slab, &own);
    take_codes(from, slab, is_there, &own);
    if (!is_single)
        order_rows(&own);
    u->has_odd_scales = !regular && lf_are_odd<LF_WEIGHT_MXFP4, 4>(own.word[0], own.word[1],
                                                                   own.scale);
    add_slab<LF_WEIGHT_MXFP4, 1, regular>(*u, slab, &own, sum);
}

// A part's chain of k16 steps from zero.
template <bool regular, bool is_single>
__device__ static void feed_part(const struct feed_source &from, const uint8_t (*row)[256],
                                 struct stream_unit<1> *u, float sum[1][4]) {
    typedef feed_block::unit unit;
    const int32_t left = u->left - (int32_t)(threadIdx.x % 4 * unit::elements);
    if (u->left >= (int32_t)LF_LINEAR_PART) {
#pragma unroll
        for (uint32_t slab = 0; slab < unit::slabs; slab++)
            feed_slab<regular, is_single>(from, slab, true, row, u, sum);
        return;
    }
#pragma unroll 1
    for (uint32_t slab = 0; (int32_t)(slab * unit::slab) < u->left; slab++)
        feed_slab<regular, is_single>(from, slab, (int32_t)(slab * unit::slab) < left, row, u, sum);
}

// Adds the parts of a team's round, ascending.
__device__ static void add_feed(const struct feed_place &at, uint32_t tile, uint32_t round) {
    typedef feed_block::unit unit;
    const uint32_t warps = at.launch.team_warps;
    const struct lf_linear_work &w = at.block->tile[tile % FEED_KNOWN];
    const float(*part)[unit::numbers] = at.block->part[round % 2] + at.team * warps;
    lf_barrier_wait(&at.block->kept[at.team], round % 2);
    for (uint32_t n = at.own * LF_WARP + threadIdx.x % LF_WARP; n < unit::numbers;
         n += warps * LF_WARP) {
        uint32_t row = n / UNIT_OUTS, out = n % UNIT_OUTS, place = out * unit::rows + row;
        if (row >= w.rows)
            return;
        float total = part[0][place];
        for (uint32_t u = 1; u < warps && u * LF_LINEAR_PART < w.in; u++)
            total += part[u][place];
        lf_store_sum(w, row, out, total);
    }
}

// A team's tiles. A warp goes on while others add, by one round at most.
template <bool regular>
__device__ static void run_feed(const struct feed_place &at, uint32_t fixed) {
    const uint32_t k = at.own * LF_LINEAR_PART, teams = at.launch.teams;
    const uint32_t warp = threadIdx.x / LF_WARP;
    struct feed_block *block = at.block;
    struct feed_stage stage = {0, 0};
    struct stream_unit<1> u = {};
    uint32_t round = 0, i = at.team;
    lf_wait_for_launches();
    if (at.team >= teams)
        return;
    if (i < fixed)
        seek_rows(block->tile[i], k, block->row[warp], &u);
    pass_stages(at.launch, at.team, &stage);
    for (;; i += teams, round++) {
        const struct lf_linear_work &w = block->tile[i % FEED_KNOWN];
        const struct lf_linear_work &next = block->tile[(i + teams) % FEED_KNOWN];
        float sum[1][4] = {};
        lf_copies_wait<0>();
        __syncwarp();
        lf_barrier_wait(&block->full[stage.at], stage.turn);
        if (!w.rows)
            break;
        struct feed_source from =
            feed_source_of(at.launch, w, k, at.stages + stage.at * at.launch.feed_bytes);
        if (w.rows == 1)
            feed_part<regular, true>(from, block->row[warp], &u, sum);
        else
            feed_part<regular, false>(from, block->row[warp], &u, sum);
        lf_barrier_pass(&block->empty[stage.at]);
        if (next.rows && !has_rows_of(w, next))
            seek_rows(next, k, block->row[warp], &u);
        if (round)
            add_feed(at, i - teams, round - 1);
        keep_sums<1>(sum, block->part[round % 2][warp]);
        lf_barrier_pass(&block->kept[at.team]);
        pass_stages(at.launch, teams, &stage);
    }
    if (round)
        add_feed(at, i - teams, round - 1);
}

// The first tiles are known, as many as a warp looks up; past the last one there are no rows.
__device__ static void find_start(const struct lf_linear_tiles &tiles,
                                  const struct feed_share &share, struct feed_block *block) {
    uint32_t known = share.fixed < LF_WARP ? share.fixed : LF_WARP;
    if (threadIdx.x < LF_WARP) {
        struct lf_linear_work *to = &block->tile[threadIdx.x];
        to->rows = 0;
        if (threadIdx.x < known)
            find_unit<LF_WEIGHT_MXFP4, 1>(tiles, share.first + threadIdx.x, to);
    }
    if (threadIdx.x == 0)
        block->known = known, block->sent = 0;
}

// Blocks share out all tiles of all jobs: only the device knows how many rows a group has.
template <bool regular>
__global__ static void __launch_bounds__(FEED_THREADS, 1)
linear_feed(const __grid_constant__ struct lf_linear_launch launch) {
    LF_DYNAMIC_SHARED(shared);
    auto *block = (struct feed_block *)shared;
    auto *stages = (uint8_t *)(block + 1);
    auto *live = (struct lf_linear_live *)(stages + launch.feed_stages * launch.feed_bytes);
    // Once groups are there, so that they are old for all launches that follow the next.
    if (!launch.waits_first)
        lf_let_next_begin();
    if (threadIdx.x < launch.feed_stages) {
        lf_barrier_open(&block->full[threadIdx.x], 2);
        lf_barrier_open(&block->empty[threadIdx.x], launch.team_warps);
    }
    if (threadIdx.x < launch.teams)
        lf_barrier_open(&block->kept[threadIdx.x], launch.team_warps);
    lf_show_tensor_cores();
    struct lf_linear_heads heads = lf_load_heads(launch);
    if (launch.waits_first) {
        lf_wait_for_launches();
        lf_let_next_begin();
    }
    struct lf_linear_tiles tiles =
        lf_list_jobs(launch, heads, feed_block::unit::rows, UNIT_OUTS, live);
    struct feed_share share = feed_share_of(tiles);
    find_start(tiles, share, block);
    __syncthreads();
    const uint32_t warp = lf_same(threadIdx.x / LF_WARP), team = warp / launch.team_warps;
    const struct feed_place at = {launch, block, stages, team, warp - team * launch.team_warps};
    if (warp >= FEED_WARPS) {
        lf_registers_fewer<FEED_REGISTERS_FEW>();
        if (warp == FEED_WARPS)
            send_tiles(at);
        else if (warp == FEED_WARPS + 1)
            find_ahead(at, tiles, share);
        else
            lf_wait_for_launches();
    } else {
        lf_registers_more<FEED_REGISTERS>();
        run_feed<regular>(at, share.fixed);
    }
}
