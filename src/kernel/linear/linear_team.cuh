// Up to 16 rows of MXFP4 of any length: a team of warps takes a tile a round, each a part of K.
#pragma once
#include "kernel/linear/linear_stream.cuh"

enum { TEAM_RING = 8 };   // tiles that a team has at once, at most
enum { TEAM_WARPS = 16 }; // of all teams, at most

template <int eights>
struct team_shape : unit_shape<LF_WEIGHT_MXFP4, eights> {
    typedef unit_shape<LF_WEIGHT_MXFP4, eights> unit;
    static const uint32_t warps = TEAM_WARPS, threads = warps * LF_WARP;
};

// A byte of a word above 128.
__device__ static inline uint32_t odd_scales(uint32_t word) {
    LF_CONTROL(15, return 0;) // 15: scale 255 is read as a number
    return word & ((word & 0x7F7F7F7Fu) + 0x7F7F7F7Fu) & 0x80808080u;
}

// What a warp has in shared memory: slabs on the way, scales and rows' indices of units in turn.
template <int eights>
struct alignas(128) team_warp {
    typedef team_shape<eights> shape;
    uint8_t room[shape::slabs][2][shape::side_bytes];
    uint32_t scale[2][shape::scale_rows * shape::scale_words], index[2][shape::rows];
};

// What a team has in shared memory, behind the block's.
template <int eights>
struct team_state {
    lf_barrier kept;         // its warps have kept a round's sums
    uint32_t tiles;          // of it, once they are known
    uint32_t number, all;    // of it among all teams
    uint32_t jobs, launched; // to look through; tiles of the launch
    uint32_t are_taken;      // tiles go to teams as they ask
    float carried[team_shape<eights>::numbers]; // sums of a tile that takes more rounds
    struct lf_linear_work tile[TEAM_RING];      // jobs of its tiles' rows and outputs alone
};

// Shared memory of a block.
template <int eights>
struct team_block {
    typedef team_shape<eights> shape;
    struct team_warp<eights> warp[shape::warps];
    float part[2][shape::warps][shape::numbers];
};

// The first tiles of all teams are shared out evenly.
template <int eights>
__device__ static void find_first(const struct lf_linear_tiles &tiles,
                                  struct team_state<eights> *team) {
    const uint32_t teams = tiles.launch.teams, all = gridDim.x * teams;
    const uint32_t ahead = tiles.launch.team_ahead;
    uint32_t i = 0, own = threadIdx.x;
    for (; i < ahead && own >= teams; i++)
        own -= teams;
    if (i == ahead)
        return;
    uint32_t tile = blockIdx.x + gridDim.x * own;
    struct team_state<eights> &t = team[own];
    if (i == 0) {
        uint32_t first = (tile < tiles.all) + (tile + all < tiles.all);
        t.tiles = tile + (ahead - 1) * all < tiles.all ? UINT32_MAX : first;
        t.number = tile, t.all = all;
        t.jobs = tiles.jobs, t.launched = tiles.all;
        t.are_taken = are_asked_for(tiles, ahead * all, all);
    }
    if (tile + i * all < tiles.all)
        find_unit<LF_WEIGHT_MXFP4, eights>(tiles, tile + i * all, t.tile + i);
}

// The team's tile i: one that is left, if any.
template <int eights>
__device__ static void find_next(const struct lf_linear_launch &launch,
                                 const struct lf_linear_live *live, uint32_t i,
                                 struct team_state<eights> *t) {
    uint32_t tile = t->number + i * t->all;
    if (threadIdx.x % LF_WARP || t->tiles != UINT32_MAX)
        return;
    if (t->are_taken)
        tile = ask_for_tiles(launch, 1, launch.team_ahead * t->all);
    if (tile < t->launched) {
        find_unit<LF_WEIGHT_MXFP4, eights>({launch, live, t->jobs, t->launched}, tile,
                                           t->tile + i % TEAM_RING);
        return;
    }
    t->tiles = i;
    if (t->are_taken)
        end_asking(launch, t->all);
}

// What a warp does in a round of its team: a tile's part that begins at element k.
struct team_part {
    uint32_t tile, round, k; // round: of the tile's
};

// own: the warp's place in its team.
__device__ static inline struct team_part team_part_of(const struct lf_linear_launch &launch,
                                                       uint32_t round, uint32_t own) {
    struct team_part at = {round, 0, 0};
    if (launch.team_rounds > 1) {
        at.tile = (uint32_t)((uint64_t)round * launch.team_inverse >> 32);
        at.round = round - at.tile * launch.team_rounds;
    }
    at.k = (at.round * launch.team_warps + own) * LF_LINEAR_PART;
    return at;
}

// Slabs come from a round's part from here on: its scales and its rows' indices are on their way.
template <int eights>
__device__ static struct unit_source seek_part(const struct team_state<eights> &t,
                                               struct team_part at, uint32_t turn,
                                               struct team_warp<eights> *own) {
    typedef team_shape<eights> shape;
    const struct lf_linear_work &w = t.tile[at.tile % TEAM_RING];
    const uint32_t lane = threadIdx.x % LF_WARP;
    if (at.tile >= t.tiles || at.k >= w.in)
        return {};
    send_scales<LF_WEIGHT_MXFP4>(w, at.k, own->scale[turn]);
    if (w.x_index && lane < shape::rows && lane < w.rows)
        lf_copy_word(&own->index[turn][lane], w.x_index + lane, true);
    return source_of<LF_WEIGHT_MXFP4>(w, at.k);
}

// A part begins: its scales and indices have come.
template <int eights, bool regular>
__device__ static struct stream_unit<eights> begin_part(const struct lf_linear_work &w, uint32_t k,
                                                        const uint32_t *scale,
                                                        const uint32_t *index) {
    typedef team_shape<eights> shape;
    uint32_t odd = 0;
    struct stream_unit<eights> u = {};
    if (k >= w.in)
        return u;
    u.left = (int32_t)(w.in - k);
    find_rows<LF_WEIGHT_MXFP4>(w, index, k, &u);
    find_scales<LF_WEIGHT_MXFP4>(w, k, u.scale_at);
#pragma unroll
    for (uint32_t i = 0; !regular && i < shape::scale_words / 2; i++)
        odd |= odd_scales(scale[i * LF_WARP + threadIdx.x % LF_WARP]);
    u.has_odd_scales = !regular && __any_sync(LF_ALL_LANES, odd);
    return u;
}

// Where a warp is.
template <int eights>
struct team_place {
    const struct lf_linear_launch &launch;
    struct team_state<eights> *team;
    uint32_t own, round;
};

// The part's chain of k16 steps from zero. A slab's place is filled anew once it is read.
template <int eights, bool whole, bool regular>
__device__ static void run_part(const struct team_place<eights> &at, struct team_warp<eights> *warp,
                                struct unit_source *from, float sum[eights][4]) {
    typedef team_shape<eights> shape;
    struct stream_unit<eights> u;
#pragma unroll
    for (uint32_t slab = 0; slab < shape::slabs; slab++) {
        struct unit_slab<LF_WEIGHT_MXFP4, eights> own;
        if (slab)
            load_rows<LF_WEIGHT_MXFP4, eights, whole>(u, slab, &own);
        lf_copies_wait<shape::slabs - 1>();
        if (!slab) {
            const uint32_t turn = at.round % 2;
            struct team_part part = team_part_of(at.launch, at.round, at.own);
            __syncwarp();
            u = begin_part<eights, regular>(at.team->tile[part.tile % TEAM_RING], part.k,
                                            warp->scale[turn], warp->index[turn]);
            *from = seek_part<eights>(*at.team, team_part_of(at.launch, at.round + 1, at.own),
                                      turn ^ 1, warp);
            load_rows<LF_WEIGHT_MXFP4, eights, whole>(u, slab, &own);
        }
        take_slab<LF_WEIGHT_MXFP4, eights>(u.scale_at, slab, warp->room[slab],
                                           warp->scale[at.round % 2], &own);
        send_slab<LF_WEIGHT_MXFP4, whole>(*from, slab, warp->room[slab]);
        if ((int32_t)(slab * shape::slab) >= u.left)
            continue;
        order_rows(&own);
        add_slab<LF_WEIGHT_MXFP4, eights, regular>(u, slab, &own, sum);
    }
}

// Adds the parts of a round, ascending.
template <int eights>
__device__ static void add_round(const struct team_place<eights> &at, uint32_t round,
                                 struct team_block<eights> *block) {
    typedef team_shape<eights> shape;
    const uint32_t warps = at.launch.team_warps, warp = threadIdx.x / LF_WARP;
    const struct team_part first = team_part_of(at.launch, round, 0);
    const struct lf_linear_work &w = at.team->tile[first.tile % TEAM_RING];
    const float(*part)[shape::numbers] = block->part[round % 2] + (warp - at.own);
    lf_barrier_wait(&at.team->kept, round % 2);
    for (uint32_t n = at.own * LF_WARP + threadIdx.x % LF_WARP; n < shape::numbers;
         n += warps * LF_WARP) {
        uint32_t row = n / UNIT_OUTS, out = n % UNIT_OUTS, place = out * shape::rows + row;
        if (row >= w.rows)
            return;
        bool goes_on = first.round;
        float total = goes_on ? at.team->carried[n] : 0;
        for (uint32_t u = 0; u < warps && first.k + u * LF_LINEAR_PART < w.in; u++) {
            total = goes_on ? total + part[u][place] : part[u][place];
            goes_on = true;
        }
        if (first.round + 1 == at.launch.team_rounds)
            lf_store_sum(w, row, out, total);
        else
            at.team->carried[n] = total;
    }
}

// A team's tiles. A warp goes on while others add, by one round at most.
template <int eights, bool whole, bool regular>
__device__ static void run_team(struct team_place<eights> at, const struct lf_linear_live *live,
                                struct team_block<eights> *block) {
    const uint32_t warp = threadIdx.x / LF_WARP;
    struct unit_source from =
        seek_part<eights>(*at.team, team_part_of(at.launch, 0, at.own), 0, &block->warp[warp]);
    uint32_t finder = at.own; // tiles until the warp looks up one to come
#pragma unroll
    for (uint32_t slab = 0; slab < team_shape<eights>::slabs; slab++)
        send_slab<LF_WEIGHT_MXFP4, whole>(from, slab, block->warp[warp].room[slab]);
    if (!at.launch.waits_first)
        lf_wait_for_launches();
    for (;; at.round++) {
        const struct team_part part = team_part_of(at.launch, at.round, at.own);
        float sum[eights][4] = {};
        if (part.tile >= at.team->tiles)
            break;
        run_part<eights, whole, regular>(at, &block->warp[warp], &from, sum);
        if (at.round)
            add_round(at, at.round - 1, block);
        keep_sums<eights>(sum, block->part[at.round % 2][warp]);
        // Behind the meeting: tiles become known one after the other.
        if (part.round == 0 && !finder--) {
            find_next<eights>(at.launch, live, part.tile + at.launch.team_ahead, at.team);
            finder = at.launch.team_warps - 1;
        }
        lf_barrier_pass(&at.team->kept);
    }
    if (at.round)
        add_round(at, at.round - 1, block);
}

// Teams share out all tiles of all jobs: only the device knows how many rows a group has.
template <int eights, bool whole, bool regular>
__global__ static void __launch_bounds__(team_shape<eights>::threads, 1)
linear_team(const __grid_constant__ struct lf_linear_launch launch) {
    typedef team_shape<eights> shape;
    LF_DYNAMIC_SHARED(shared);
    auto *block = (struct team_block<eights> *)shared;
    auto *team = (struct team_state<eights> *)(block + 1);
    auto *live = (struct lf_linear_live *)(team + launch.teams);
    // Once groups are there, so that they are old for all launches that follow the next.
    if (!launch.waits_first)
        lf_let_next_begin();
    if (threadIdx.x < launch.teams)
        lf_barrier_open(&team[threadIdx.x].kept, launch.team_warps);
    struct lf_linear_heads heads = lf_load_heads(launch);
    if (launch.waits_first) {
        lf_wait_for_launches();
        lf_let_next_begin();
    }
    find_first<eights>(lf_list_jobs(launch, heads, shape::rows, UNIT_OUTS, live), team);
    __syncthreads();
    const uint32_t warp = lf_same(threadIdx.x / LF_WARP), own = warp / launch.team_warps;
    run_team<eights, whole, regular>({launch, team + own, warp - own * launch.team_warps, 0}, live,
                                     block);
}
