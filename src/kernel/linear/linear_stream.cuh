// Few rows: weights stream from memory once, each lane a part's share ahead of its products.
#pragma once
#include "kernel/linear/linear_chunk.cuh"
#include "kernel/linear/linear.h"
#include "kernel/linear/stream.cuh"

// A warp takes 16 outputs by `eights` times 8 rows by a part of K: a unit.
enum { STREAM_WARPS = 16, STREAM_THREADS = STREAM_WARPS * LF_WARP, STREAM_OUTS = 16 };
enum { STREAM_ROW = STREAM_OUTS + 4 }; // floats from row to row of sums: over all banks
enum { STREAM_PLACES = 4 }; // rounds whose tiles are known: two to be added, the present, the next

template <enum lf_weight_format format, int eights>
struct stream_shape {
    static const uint32_t elements = lf_chunk_elements(format), slab = 4 * elements;
    static const uint32_t slabs = LF_LINEAR_PART / slab;
    static const uint32_t depth = 5; // slabs on the way
    static const uint32_t rows = 8 * eights, numbers = STREAM_ROW * rows;
    static const uint32_t side_bytes = LF_WARP * (format == LF_WEIGHT_BF16 ? 16 : 20);
    static const uint32_t warp_bytes = depth * 2 * side_bytes;
    static_assert(slabs % depth == 0, "a slab's place among those on the way is its own");
};

// FP8's outputs of a unit have one scale together. side: the lane's output, or that 8 further.
template <enum lf_weight_format format>
__device__ static constexpr bool has_own_scale(uint32_t side) {
    return format == LF_WEIGHT_MXFP4 || (format == LF_WEIGHT_FP8 && side == 0);
}

// Where a lane's share of a unit lies. Without elements left it is none.
template <enum lf_weight_format format, int eights>
struct stream_unit {
    typedef stream_shape<format, eights> shape;
    const uint8_t *data[2], *scale[2]; // of both sides
    const uint16_t *x[eights];
    int32_t left, left_of_lane, left_of_x[eights]; // elements from the unit's, the lane's first on
};

// Sums of a round's units, and of the tile that goes on in the next round: two rounds in turn.
template <uint32_t numbers>
struct stream_sums {
    float part[2][STREAM_WARPS][numbers], carried[2][numbers];
};

// Shared memory of a block.
template <enum lf_weight_format format, int eights>
struct stream_block {
    typedef stream_shape<format, eights> shape;
    uint8_t room[STREAM_WARPS][shape::warp_bytes]; // slabs on the way
    struct stream_sums<shape::numbers> sums;
    struct lf_linear_place place[STREAM_PLACES][STREAM_WARPS]; // of a round's units
    lf_barrier kept;                                           // warps have kept a round's sums
    uint32_t end[LF_LINEAR_JOBS];                              // lf_count_tiles
};

// What a block does: all parts of its tiles, one after the other.
struct stream_share {
    const struct lf_linear_launch &launch;
    const uint32_t *end; // lf_count_tiles
    uint32_t units;
};

// Unit n of a block and its tile. Parts past a row's end and units past the last are none.
template <enum lf_weight_format format, int eights>
__device__ static void seek_unit(const struct stream_share &share, uint32_t n,
                                 struct lf_linear_place *tile,
                                 struct stream_unit<format, eights> *u) {
    typedef stream_shape<format, eights> shape;
    uint32_t parts = share.launch.parts, k0 = n % parts * LF_LINEAR_PART;
    uint32_t lane = threadIdx.x % LF_WARP, k = k0 + lane % 4 * shape::elements;
    *u = {};
    if (n >= share.units)
        return;
    struct lf_linear_place place = lf_find_tile(
        share.launch, share.end, blockIdx.x + n / parts * gridDim.x, shape::rows, STREAM_OUTS);
    const struct lf_linear_work &w = place.w;
    if (lane == 0)
        *tile = place;
    if (k0 >= w.in)
        return;
    u->left = (int32_t)(w.in - k0);
    u->left_of_lane = (int32_t)(w.in - k);
#pragma unroll
    for (uint32_t side = 0; side < 2; side++) {
        uint32_t o = place.out + side * 8 + lane / 4;
        o = o < w.out ? o : w.out - 1;
        u->data[side] = w.data + lf_chunk_at<format>((size_t)o * w.in + k);
        if (has_own_scale<format>(side))
            u->scale[side] = w.scale + lf_scale_at<format>(w.in, o, k);
    }
#pragma unroll
    for (int i = 0; i < eights; i++) {
        uint32_t r = place.row + i * 8 + lane / 4;
        if (r >= w.rows)
            continue;
        u->x[i] = w.x + (size_t)(w.x_index ? w.x_index[r] : r) * w.x_stride + k;
        u->left_of_x[i] = u->left_of_lane;
    }
}

// Slab `slab` of a unit is on its way to where a lane alone reads it: codes, words of scales.
template <enum lf_weight_format format, int eights, bool whole>
__device__ static void send_slab(const struct stream_unit<format, eights> &u, uint32_t slab,
                                 uint8_t *room) {
    typedef stream_shape<format, eights> shape;
    const uint32_t k = slab * shape::slab, lane = threadIdx.x % LF_WARP;
    bool is_there = (int32_t)k < u.left_of_lane;
#pragma unroll
    for (uint32_t side = 0; side < 2; side++) {
        uint8_t *to = room + side * shape::side_bytes;
        if (whole || format != LF_WEIGHT_BF16)
            lf_copy_16(to + 16 * lane, u.data[side] + lf_chunk_at<format>(k), is_there);
        if (has_own_scale<format>(side))
            lf_copy_word(to + 16 * LF_WARP + 4 * lane, lf_word_of(u.scale[side] + k / 32),
                         is_there);
    }
    lf_copies_commit();
}

// The lane's chunks of a slab, once they have come, and their scales.
template <enum lf_weight_format format, int eights, bool whole>
__device__ static void take_slab(const struct stream_unit<format, eights> &u, uint32_t slab,
                                 uint8_t *room, uint32_t *word, uint32_t *scale) {
    typedef stream_shape<format, eights> shape;
    const uint32_t k = slab * shape::slab, lane = threadIdx.x % LF_WARP;
#pragma unroll
    for (uint32_t side = 0; side < 2; side++) {
        const uint8_t *from = room + side * shape::side_bytes;
        uint32_t *own = word + 4 * side;
        scale[side] = side ? scale[0] : 0;
        if (!whole && format == LF_WEIGHT_BF16) {
            lf_load_eight((const uint16_t *)u.data[side], k, lf_left(u.left_of_lane), false, own);
            continue;
        }
        uint4 all = *(const uint4 *)(from + 16 * lane);
        own[0] = all.x, own[1] = all.y, own[2] = all.z, own[3] = all.w;
        if (has_own_scale<format>(side))
            scale[side] = lf_byte_of(*(const uint32_t *)(from + 16 * LF_WARP + 4 * lane),
                                     u.scale[side] + k / 32);
    }
}

// The lane's rows of a slab, eight elements at a time; zeros for rows that are none.
template <enum lf_weight_format format, int eights, bool whole>
__device__ static void load_rows(const struct stream_unit<format, eights> &u, uint32_t slab,
                                 uint32_t x[][eights][4]) {
    typedef stream_shape<format, eights> shape;
#pragma unroll
    for (uint32_t e = 0; e < shape::elements / 8; e++)
#pragma unroll
        for (int i = 0; i < eights; i++)
            lf_load_eight(u.x[i], slab * shape::slab + 8 * e, lf_left(u.left_of_x[i]), whole,
                          x[e][i]);
}

// Eight elements of each lane's chunks: two k16 steps. low, high: pairs of both outputs.
template <enum lf_weight_format format, int eights>
__device__ static void add_eight(uint32_t x[eights][4], const uint32_t *low, const uint32_t *high,
                                 float sum[eights][4]) {
#pragma unroll
    for (int i = 0; i < eights; i++) {
        lf_order_x<format>(x[i]);
#pragma unroll
        for (uint32_t step = 0; step < 4; step += 2) {
            uint32_t a[4] = {low[step], high[step], low[step + 1], high[step + 1]};
            lf_mma_bf16(sum[i], a, x[i] + step);
        }
    }
}

// The unit's chain of k16 steps from zero. A slab's place is filled anew once it is read.
template <enum lf_weight_format format, int eights, bool whole>
__device__ static void run_unit(const struct stream_unit<format, eights> &u,
                                const struct stream_unit<format, eights> &next, uint8_t *room,
                                float sum[eights][4]) {
    typedef stream_shape<format, eights> shape;
    const uint32_t pairs = shape::elements / 2;
    uint32_t place = 0;
#pragma unroll shape::depth
    for (uint32_t slab = 0; slab < shape::slabs; slab++) {
        uint32_t x[shape::elements / 8][eights][4], word[8], scale[2], pair[2 * pairs];
        uint32_t ahead = slab + shape::depth;
        uint8_t *own = room + place * 2 * shape::side_bytes;
        place = place + 1 == shape::depth ? 0 : place + 1;
        load_rows<format, eights, whole>(u, slab, x);
        lf_copies_wait<shape::depth - 1>();
        take_slab<format, eights, whole>(u, slab, own, word, scale);
        if (ahead < shape::slabs)
            send_slab<format, eights, whole>(u, ahead, own);
        else
            send_slab<format, eights, whole>(next, ahead - shape::slabs, own);
        if ((int32_t)(slab * shape::slab) >= u.left)
            continue;
        bool is_odd = lf_are_odd<format, 4>(word, word + 4, scale);
        lf_decode<format, 4>(word, word + 4, scale, is_odd, pair);
#pragma unroll
        for (uint32_t i = 0; i < shape::elements / 8; i++)
            add_eight<format, eights>(x[i], pair + 4 * i, pair + pairs + 4 * i, sum);
    }
}

// Lane l has outputs l/4 and l/4+8 of rows 2(l%4) and the next.
template <int eights>
__device__ static void keep_sums(const float sum[eights][4], float *part) {
    uint32_t lane = threadIdx.x % LF_WARP;
#pragma unroll
    for (int i = 0; i < 4 * eights; i++)
        part[(i / 4 * 8 + lane % 4 * 2 + i % 2) * STREAM_ROW + lane / 4 + i % 4 / 2 * 8] =
            sum[i / 4][i % 4];
}

// Adds the parts that a round brought, ascending; a tile whose parts go on is carried.
template <enum lf_weight_format format, int eights>
__device__ static void add_parts(const struct stream_share &share, uint32_t round,
                                 struct stream_block<format, eights> *block) {
    typedef stream_shape<format, eights> shape;
    auto *sums = &block->sums;
    uint32_t first = round * STREAM_WARPS, parts = share.launch.parts;
    uint32_t past = first + STREAM_WARPS < share.units ? first + STREAM_WARPS : share.units;
    uint32_t tile = first / parts, tiles = (past - 1) / parts - tile + 1;
    for (uint32_t at = threadIdx.x; at < tiles * shape::numbers; at += STREAM_THREADS) {
        uint32_t own = tile + at / shape::numbers, n = at % shape::numbers;
        uint32_t from = own * parts, to = from + parts, u = from > first ? from : first;
        const struct lf_linear_place &place = block->place[round % STREAM_PLACES][u - first];
        uint32_t row = place.row + n / STREAM_ROW, out = n % STREAM_ROW;
        if (row >= place.w.rows || out >= STREAM_OUTS)
            continue;
        float total = u > from ? sums->carried[round % 2][n] : 0;
        for (; u < to && u < past && (u - from) * LF_LINEAR_PART < place.w.in; u++) {
            float part = sums->part[round % 2][u - first][n];
            total = u > from ? total + part : part;
        }
        if (to <= past)
            lf_store_sum(place.w, row, place.out + out, total);
        else
            sums->carried[(round + 1) % 2][n] = total;
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
template <enum lf_weight_format format, int eights, bool whole>
__device__ static void run_units(const struct stream_share &share,
                                 struct stream_block<format, eights> *block) {
    typedef stream_shape<format, eights> shape;
    struct stream_unit<format, eights> u, next;
    uint32_t warp = threadIdx.x / LF_WARP, rounds = lf_blocks(share.units, STREAM_WARPS);
    uint8_t *room = block->room[warp];
    seek_unit(share, warp, &block->place[0][warp], &next);
#pragma unroll
    for (uint32_t slab = 0; slab < shape::depth; slab++)
        send_slab<format, eights, whole>(next, slab, room + slab * 2 * shape::side_bytes);
    if (!share.launch.has_chosen_rows)
        lf_wait_for_launches();
    for (uint32_t round = 0; round < rounds; round++) {
        float sum[eights][4] = {};
        u = next;
        seek_unit(share, (round + 1) * STREAM_WARPS + warp,
                  &block->place[(round + 1) % STREAM_PLACES][warp], &next);
        run_unit<format, eights, whole>(u, next, room, sum);
        if (round)
            end_round(share, round - 1, block);
        keep_sums<eights>(sum, block->sums.part[round % 2][warp]);
        lf_barrier_pass(&block->kept);
    }
    if (rounds)
        end_round(share, rounds - 1, block);
}

// Blocks share out all tiles of all jobs: only the device knows how many rows a group has.
template <enum lf_weight_format format, int eights, bool whole>
__global__ static void __launch_bounds__(STREAM_THREADS, 1)
linear_stream(const __grid_constant__ struct lf_linear_launch launch) {
    LF_DYNAMIC_SHARED(shared);
    struct stream_block<format, eights> *block = (struct stream_block<format, eights> *)shared;
    lf_let_next_begin();
    if (threadIdx.x == 0)
        lf_barrier_open(&block->kept, STREAM_WARPS);
    struct lf_linear_heads heads = lf_load_heads(launch);
    if (launch.has_chosen_rows)
        lf_wait_for_launches();
    uint32_t tiles = lf_count_tiles(launch, heads, STREAM_OUTS, block->end);
    __syncthreads();
    uint32_t own = (tiles + gridDim.x - 1 - blockIdx.x) / gridDim.x;
    struct stream_share share = {launch, block->end, own * launch.parts};
    run_units<format, eights, whole>(share, block);
}
