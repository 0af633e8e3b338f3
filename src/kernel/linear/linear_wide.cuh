// Many rows: warpgroups decode weights into registers and multiply on wgmma.
#pragma once
#include "kernel/linear/linear_bring.cuh"
#include "kernel/linear/wgmma.cuh"

// What a warpgroup needs to know of its tile: out is the lane's first output.
struct wide_target {
    struct lf_linear_work w;
    uint32_t row, out;
};

// What a lane holds of a tile: the present part's sums and those of the parts before.
template <int rows, int blocks>
struct wide_sums {
    float part[blocks][rows / 2], total[blocks][rows / 2];
};

// The lane's first of 64 outputs a warpgroup; the other is 8 further.
__device__ static inline uint32_t wide_out(void) {
    return threadIdx.x / LF_WARP * 16 + threadIdx.x % LF_WARP / 4;
}

// 127 past the row's end, where codes are zeros.
template <enum lf_weight_format format>
__device__ static uint32_t load_scale(const struct wide_target &to, uint32_t out, uint32_t k) {
    uint32_t o = out < to.w.out ? out : to.w.out - 1;
    if (format == LF_WEIGHT_BF16 || k >= to.w.in)
        return 127;
    return to.w.scale[lf_scale_at<format>(to.w.in, o, k)];
}

// Scales of the lane's chunks of a stage: of each block and slab, of both outputs.
template <uint32_t blocks, uint32_t slabs>
struct wide_scales {
    uint32_t of[blocks * slabs][2];
};

// Of the stage that begins at element k0. FP8's outputs of a warp have one scale together.
template <enum lf_weight_format format, int rows, int groups, int blocks>
__device__ static void
load_scales(const struct wide_target &to, uint32_t k0,
            struct wide_scales<blocks, wide_shape<format, rows, groups, blocks>::slabs> *scale) {
    typedef wide_shape<format, rows, groups, blocks> shape;
#pragma unroll
    for (uint32_t i = 0; i < blocks * shape::slabs; i++) {
        uint32_t out = to.out + i / shape::slabs * shape::of_groups;
        uint32_t k = k0 + i % shape::slabs * shape::slab + threadIdx.x % 4 * shape::elements;
        scale->of[i][0] = load_scale<format>(to, out, k);
        scale->of[i][1] = format == LF_WEIGHT_FP8 ? scale->of[i][0]
                                                  : load_scale<format>(to, out + 8, k);
    }
}

// A lane's codes of a slab.
__device__ static inline void load_codes(const uint8_t *codes, uint32_t word[4]) {
    uint4 four = *(const uint4 *)codes;
    word[0] = four.x, word[1] = four.y, word[2] = four.z, word[3] = four.w;
}

// The operands of some eights of both outputs: two steps each.
template <enum lf_weight_format format, uint32_t eights>
__device__ static void decode_eights(const uint32_t *low, const uint32_t *high,
                                     const uint32_t scale[2], bool is_odd, uint32_t *a) {
    uint32_t pair[8 * eights];
    lf_decode<format, 32 / lf_chunk_elements(format) * eights>(low, high, scale, is_odd, pair);
#pragma unroll
    for (uint32_t i = 0; i < 4 * eights; i++) {
        a[i / 2 * 4 + i % 2 * 2] = pair[i];
        a[i / 2 * 4 + i % 2 * 2 + 1] = pair[4 * eights + i];
    }
}

// Steps begin. Where `turns` is 2 they may go on, but those ahead of them have ended.
template <int rows, uint32_t steps, uint32_t turns>
__device__ static void add_steps(const uint32_t *a, lf_shared_rows rows_of, uint32_t half_bytes,
                                 bool is_sum, float (&sum)[rows / 2]) {
    lf_wgmma_begin();
#pragma unroll
    for (uint32_t step = 0; step < steps; step++)
        lf_wgmma_bf16(sum, a + 4 * step, lf_shared_rows_from(rows_of, 2 * step * half_bytes),
                      step || is_sum);
    lf_wgmma_commit();
    lf_wgmma_wait<turns - 1>();
}

// Operands of the steps under way and of those that are decoded meanwhile.
template <uint32_t turns>
struct wide_operands {
    uint32_t of[turns][16];
};

// A stage's steps. emptied: of the stage before, once its steps have ended.
template <enum lf_weight_format format, int rows, int groups, int blocks>
__device__ static void multiply_stage(
    const struct wide_slot<format, rows, groups, blocks> &slot,
    const struct wide_scales<blocks, wide_shape<format, rows, groups, blocks>::slabs> &scale,
    bool is_sum, lf_barrier *emptied,
    struct wide_operands<wide_shape<format, rows, groups, blocks>::turns> *a,
    struct wide_sums<rows, blocks> *sums) {
    typedef wide_shape<format, rows, groups, blocks> shape;
    // Eights at once, their words; times in a slab.
    const uint32_t eights = format == LF_WEIGHT_BF16 ? 1 : 2, words = 32 / shape::elements * eights;
    const uint32_t times = 4 / words;
    const lf_shared_rows rows_of = lf_shared_rows_at(slot.rows_of, shape::half_bytes);
    uint32_t low[4], high[4];
    bool is_odd = false;
#pragma unroll
    for (uint32_t i = 0; i < blocks * shape::slabs * times; i++) {
        const uint32_t b = i / (shape::slabs * times), slab = i / times % shape::slabs;
        const uint32_t at = i % times, turn = i % shape::turns, *of = scale.of[i / times];
        const uint8_t *codes =
            slot.codes + threadIdx.x % 4 * 16 +
            (slab * shape::outs + b * shape::of_groups + wide_out()) * WIDE_SLAB_BYTES;
        if (at == 0) {
            load_codes(codes, low);
            load_codes(codes + 8 * WIDE_SLAB_BYTES, high);
            is_odd = lf_are_odd<format, 4>(low, high, of);
        }
        decode_eights<format, eights>(low + at * words, high + at * words, of, is_odd, a->of[turn]);
        add_steps<rows, 2 * eights, shape::turns>(
            a->of[turn],
            lf_shared_rows_from(rows_of, (slab * times + at) * 4 * eights * shape::half_bytes),
            shape::half_bytes, slab || at || is_sum, sums->part[b]);
        lf_wgmma_read(a->of[(turn + 1) % shape::turns]);
        if (!i && emptied)
            lf_barrier_pass(emptied);
    }
}

// The next part begins: until its first product is done its sums hold the one before.
template <int rows, int blocks>
__device__ static void end_part(bool is_first, struct wide_sums<rows, blocks> *sums) {
    lf_wgmma_wait<0>();
#pragma unroll
    for (int b = 0; b < blocks; b++) {
        lf_wgmma_settle(sums->part[b]);
#pragma unroll
        for (int i = 0; i < rows / 2; i++)
            sums->total[b][i] = is_first ? sums->part[b][i] : sums->total[b][i] + sums->part[b][i];
    }
}

template <int rows, int blocks>
__device__ static void store_tile(const struct wide_target &to, uint32_t of_groups,
                                  const struct wide_sums<rows, blocks> &sums) {
#pragma unroll
    for (uint32_t b = 0; b < blocks; b++)
#pragma unroll
        for (uint32_t i = 0; i < rows / 2; i++)
            lf_store_sum(to.w, to.row + i / 4 * 8 + threadIdx.x % 4 * 2 + i % 2,
                         to.out + b * of_groups + i % 4 / 2 * 8, sums.total[b][i]);
}

// Which slot and place a warpgroup is at: turn changes with the first slot.
struct wide_turn {
    uint32_t slot, turn, place;
    lf_barrier *emptied; // of the slot before
};

// All of K of a tile whose first stage is full.
template <enum lf_weight_format format, int rows, int groups, int blocks>
__device__ static void run_tile(struct wide_block<format, rows, groups, blocks> *block,
                                struct wide_turn *at) {
    typedef wide_shape<format, rows, groups, blocks> shape;
    const uint32_t in_part = LF_LINEAR_PART / shape::k;
    const struct lf_linear_place &place = block->place[at->place];
    struct wide_target to = {place.w, place.row, place.out + wide_out()};
    struct wide_sums<rows, blocks> sums = {};
    struct wide_scales<blocks, shape::slabs> scale, next;
    struct wide_operands<shape::turns> a = {};
    uint32_t stages = lf_same((to.w.in + shape::k - 1) / shape::k);
    load_scales<format, rows, groups, blocks>(to, 0, &next);
    for (uint32_t first = 0; first < stages; first += in_part) {
        uint32_t past = first + in_part < stages ? first + in_part : stages;
        for (uint32_t s = first; s < past; s++) {
            if (s)
                lf_barrier_wait(&block->full[at->slot], at->turn);
            scale = next;
            load_scales<format, rows, groups, blocks>(to, (s + 1) * shape::k, &next);
            multiply_stage<format, rows, groups, blocks>(block->slot[at->slot], scale, s > first,
                                                         at->emptied, &a, &sums);
            at->emptied = &block->empty[at->slot];
            at->slot = wide_next(at->slot, shape::slots);
            at->turn ^= !at->slot;
        }
        end_part<rows, blocks>(first == 0, &sums);
        lf_wgmma_read(a.of[0]);
        lf_wgmma_read(a.of[shape::turns - 1]);
    }
    store_tile<rows, blocks>(to, shape::of_groups, sums);
}

template <enum lf_weight_format format, int rows, int groups, int blocks>
__device__ static void multiply_tiles(const struct lf_linear_tiles &tiles,
                                      struct wide_block<format, rows, groups, blocks> *block) {
    struct wide_turn at = {};
    for (uint32_t t = blockIdx.x; t < tiles.all; t += gridDim.x) {
        lf_barrier_wait(&block->full[at.slot], at.turn);
        run_tile(block, &at);
        at.place = wide_next(at.place, wide_shape<format, rows, groups, blocks>::places);
    }
}

// Blocks share out all tiles of all jobs: only the device knows how many rows a group has.
template <enum lf_weight_format format, int rows, int groups, int blocks>
__global__ static void __launch_bounds__(wide_shape<format, rows, groups, blocks>::threads, 1)
linear_wide(const __grid_constant__ struct lf_linear_launch launch) {
    lf_take_turn();
    typedef wide_shape<format, rows, groups, blocks> shape;
    LF_DYNAMIC_SHARED(shared);
    auto *block = (struct wide_block<format, rows, groups, blocks> *)shared;
    if (threadIdx.x < shape::slots) {
        lf_barrier_open(&block->full[threadIdx.x], WIDE_GROUP / LF_WARP);
        lf_barrier_open(&block->empty[threadIdx.x], shape::multiply / LF_WARP);
    }
    struct lf_linear_tiles tiles = lf_list_jobs(launch, lf_load_heads(launch), shape::outs,
                                                (struct lf_linear_live *)(block + 1));
    __syncthreads();
    if (threadIdx.x >= shape::multiply) {
        lf_registers_fewer<shape::bring_registers>();
        bring_tiles(tiles, block);
    } else {
        lf_registers_more<shape::multiply_registers>();
        multiply_tiles(tiles, block);
    }
}
