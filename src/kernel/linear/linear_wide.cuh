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

// Scales of the lane's chunks of a stage: of each block and slab, of both outputs.
template <uint32_t blocks, uint32_t slabs>
struct wide_scales {
    uint32_t of[blocks * slabs][2];
};

// Where a lane's scales of a stage lie, of each block's outputs; left: elements from its first on.
template <uint32_t blocks>
struct wide_scale_source {
    const uint8_t *at[blocks][2];
    int32_t left;
};

template <enum lf_weight_format format, int rows, int groups, int blocks>
__device__ static struct wide_scale_source<blocks> seek_scales(const struct lf_linear_work &w,
                                                               uint32_t out) {
    typedef wide_shape<format, rows, groups, blocks> shape;
    struct wide_scale_source<blocks> from = {};
    uint32_t k = threadIdx.x % 4 * shape::elements;
    from.left = (int32_t)(w.in - k);
#pragma unroll
    for (uint32_t i = 0; i < 2 * blocks; i++) {
        uint32_t o = out + i / 2 * shape::of_groups + i % 2 * 8;
        o = o < w.out ? o : w.out - 1;
        from.at[i / 2][i % 2] = w.scale + lf_scale_at<format>(w.in, o, k);
    }
    return from;
}

// The next stage's; 127 past the row's end, where codes are zeros. FP8: one for all of a warp.
template <enum lf_weight_format format, int rows, int groups, int blocks>
__device__ static void
load_scales(struct wide_scale_source<blocks> *from,
            struct wide_scales<blocks, wide_shape<format, rows, groups, blocks>::slabs> *scale) {
    typedef wide_shape<format, rows, groups, blocks> shape;
    const uint32_t outputs = format == LF_WEIGHT_BF16 ? 0 : format == LF_WEIGHT_FP8 ? 1 : 2;
#pragma unroll
    for (uint32_t i = 0; i < 2 * blocks * shape::slabs; i++) {
        const uint32_t b = i / 2 / shape::slabs, slab = i / 2 % shape::slabs;
        uint32_t value = 127;
        if (i % 2 < outputs && from->left > (int32_t)(slab * shape::slab))
            value = from->at[b][i % 2][slab * shape::slab / 32];
        scale->of[i / 2][i % 2] = format == LF_WEIGHT_FP8 && i % 2 ? scale->of[i / 2][0] : value;
    }
#pragma unroll
    for (uint32_t i = 0; i < 2 * blocks; i++)
        from->at[i / 2][i % 2] += shape::k / 32;
    from->left -= shape::k;
}

// A lane's codes of a slab: of its output and of that 8 further.
struct wide_codes {
    uint32_t low[4], high[4];
};

__device__ static inline void load_word4(lf_shared_base at, uint32_t word[4]) {
    uint4 four = lf_load_shared_16(at);
    word[0] = four.x, word[1] = four.y, word[2] = four.z, word[3] = four.w;
}

// slot: its own codes, from the lane's first output of the block.
__device__ static inline void load_codes(lf_shared_base slot, struct wide_codes *codes) {
    slot += wide_out() * WIDE_SLAB_BYTES + threadIdx.x % 4 * 16;
    load_word4(slot, codes->low);
    load_word4(slot + 8 * WIDE_SLAB_BYTES, codes->high);
}

// The operands of an eight of both outputs: two steps.
template <enum lf_weight_format format>
__device__ static void decode_eight(const uint32_t *low, const uint32_t *high,
                                    const uint32_t scale[2], bool is_odd, uint32_t a[8]) {
    uint32_t pair[8];
    lf_decode<format, 32 / lf_chunk_elements(format)>(low, high, scale, is_odd, pair);
#pragma unroll
    for (uint32_t i = 0; i < 4; i++) {
        a[i / 2 * 4 + i % 2 * 2] = pair[i];
        a[i / 2 * 4 + i % 2 * 2 + 1] = pair[4 + i];
    }
}

// The steps of an eight begin and go on.
template <int rows>
__device__ static void add_steps(const uint32_t a[8], lf_shared_rows rows_of, uint32_t half_bytes,
                                 bool is_sum, float (&sum)[rows / 2]) {
    lf_wgmma_begin();
    lf_wgmma_bf16(sum, a, rows_of, is_sum);
    lf_wgmma_bf16(sum, a + 4, lf_shared_rows_from(rows_of, 2 * half_bytes), true);
    lf_wgmma_commit();
}

// Where a warpgroup is among the slots and places: turn changes with the first slot.
struct wide_turn {
    lf_shared_base first, slot, emptied; // emptied: the barrier of the slot before
    uint32_t turn, place;
};

template <enum lf_weight_format format, int rows, int groups, int blocks>
__device__ static void next_slot(struct wide_turn *at) {
    typedef wide_slot<format, rows, groups, blocks> slot;
    at->emptied = at->slot + offsetof(slot, empty);
    at->slot += (uint32_t)sizeof(slot);
    if (at->slot == at->first + slot::shape::slots * (uint32_t)sizeof(slot))
        at->slot = at->first, at->turn ^= 1;
}

template <enum lf_weight_format format, int rows, int groups, int blocks>
__device__ static void wait_full(const struct wide_turn &at) {
    typedef wide_slot<format, rows, groups, blocks> slot;
    lf_barrier_wait(at.slot + offsetof(slot, full), at.turn);
}

// Codes of eights that become operands next: those of slab `of` of a slot, block by block.
template <enum lf_weight_format format, int rows, int groups, int blocks>
__device__ static void load_slab(lf_shared_base slot, uint32_t of, struct wide_codes *codes) {
    typedef wide_shape<format, rows, groups, blocks> shape;
    load_codes(slot + (of % shape::slabs * shape::outs + of / shape::slabs * shape::of_groups) *
                          WIDE_SLAB_BYTES, codes);
}

// What a warpgroup holds of a tile under way.
template <enum lf_weight_format format, int rows, int groups, int blocks>
struct wide_state {
    typedef wide_shape<format, rows, groups, blocks> shape;
    struct wide_turn *at;
    struct wide_codes codes;
    uint32_t a[2][8]; // operands of the steps under way and of those that are decoded meanwhile
    struct wide_sums<rows, blocks> sums;
    lf_shared_base slot, emptied; // of the present stage
    lf_shared_rows rows_of;
    bool regular;
};

// While a slab's last steps go on: the codes of the next, which may be the next stage's first.
template <enum lf_weight_format format, int rows, int groups, int blocks>
__device__ static void load_next(struct wide_state<format, rows, groups, blocks> *s, uint32_t next,
                                 bool is_last) {
    typedef wide_shape<format, rows, groups, blocks> shape;
    const bool is_there = next < blocks * shape::slabs;
    if (!is_there) {
        next_slot<format, rows, groups, blocks>(s->at);
        if (!is_last)
            wait_full<format, rows, groups, blocks>(*s->at);
    }
    if (format != LF_WEIGHT_BF16 && (is_there || !is_last))
        load_slab<format, rows, groups, blocks>(is_there ? s->slot : s->at->slot,
                                                is_there ? next : 0, &s->codes);
}

// The steps of slab `of` of a stage. Warps decode one way or the other, and multiply together.
template <enum lf_weight_format format, int rows, int groups, int blocks>
__device__ static void multiply_slab(struct wide_state<format, rows, groups, blocks> *s,
                                     uint32_t of, const uint32_t scale[2], bool is_sum,
                                     bool is_last) {
    typedef wide_shape<format, rows, groups, blocks> shape;
    const uint32_t eights = shape::elements / 8, words = 4 / eights, slab = of % shape::slabs;
    bool is_odd =
        !s->regular && lf_are_odd<format, 4>(s->codes.low, s->codes.high, scale);
#pragma unroll
    for (uint32_t eight = 0; eight < eights; eight++) {
        const uint32_t i = of * eights + eight;
        decode_eight<format>(s->codes.low + eight * words, s->codes.high + eight * words, scale,
                             is_odd, s->a[i % 2]);
        add_steps<rows>(s->a[i % 2],
                        lf_shared_rows_from(s->rows_of,
                                            (slab * eights + eight) * 4 * shape::half_bytes),
                        shape::half_bytes, slab || eight || is_sum,
                        s->sums.part[of / shape::slabs]);
        if (eight + 1 == eights)
            load_next(s, of + 1, is_last);
        lf_wgmma_wait<1>();
        lf_wgmma_read(s->a[(i + 1) % 2]);
        if (!i)
            lf_barrier_pass(s->emptied);
    }
}

// A stage's steps. Codes of bf16, which are operands, come late.
template <enum lf_weight_format format, int rows, int groups, int blocks>
__device__ static void multiply_stage(
    struct wide_state<format, rows, groups, blocks> *s,
    const struct wide_scales<blocks, wide_shape<format, rows, groups, blocks>::slabs> &scale,
    bool is_sum, bool is_last) {
    typedef wide_shape<format, rows, groups, blocks> shape;
    s->slot = s->at->slot;
    s->emptied = s->at->emptied;
    s->rows_of = lf_shared_rows_at(s->slot + shape::codes_bytes, shape::half_bytes);
#pragma unroll
    for (uint32_t of = 0; of < blocks * shape::slabs; of++) {
        if (format == LF_WEIGHT_BF16)
            load_slab<format, rows, groups, blocks>(s->slot, of, &s->codes);
        multiply_slab(s, of, scale.of[of], is_sum, is_last);
    }
}

// The next part begins: until its first product is done its sums hold the one before.
template <int rows, int blocks>
__device__ static void end_part(struct wide_sums<rows, blocks> *sums) {
    lf_wgmma_wait<0>();
#pragma unroll
    for (int b = 0; b < blocks; b++) {
        lf_wgmma_settle(sums->part[b]);
#pragma unroll
        for (int i = 0; i < rows / 2; i++)
            sums->total[b][i] = sums->total[b][i] + sums->part[b][i];
    }
}

// What leaves any number as it is.
template <int rows, int blocks>
__device__ static void begin_sums(struct wide_sums<rows, blocks> *sums) {
#pragma unroll
    for (int b = 0; b < blocks; b++)
#pragma unroll
        for (int i = 0; i < rows / 2; i++)
            sums->total[b][i] = -0.0f, sums->part[b][i] = 0.0f;
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

// All of K of a tile whose first stage is full.
template <enum lf_weight_format format, int rows, int groups, int blocks>
__device__ static void run_tile(struct wide_block<format, rows, groups, blocks> *block,
                                bool regular, struct wide_turn *at) {
    typedef wide_shape<format, rows, groups, blocks> shape;
    const uint32_t in_part = LF_LINEAR_PART / shape::k;
    const struct lf_linear_place &place = block->place[at->place];
    struct wide_target to = {place.w, place.row, place.out + wide_out()};
    struct wide_scale_source<blocks> from =
        seek_scales<format, rows, groups, blocks>(to.w, to.out);
    struct wide_scales<blocks, shape::slabs> scale, next;
    struct wide_state<format, rows, groups, blocks> state = {};
    uint32_t stages = lf_same((to.w.in + shape::k - 1) / shape::k);
    state.at = at;
    state.regular = regular;
    begin_sums(&state.sums);
    if (format != LF_WEIGHT_BF16)
        load_codes(at->slot, &state.codes);
    load_scales<format, rows, groups, blocks>(&from, &next);
    for (uint32_t first = 0; first < stages; first += in_part) {
        uint32_t past = first + in_part < stages ? first + in_part : stages;
        for (uint32_t s = first; s < past; s++) {
            scale = next;
            load_scales<format, rows, groups, blocks>(&from, &next);
            multiply_stage<format, rows, groups, blocks>(&state, scale, s > first,
                                                         s + 1 == stages);
        }
        end_part<rows, blocks>(&state.sums);
        lf_wgmma_read(state.a[0]);
        lf_wgmma_read(state.a[1]);
    }
    store_tile<rows, blocks>(to, shape::of_groups, state.sums);
}

template <enum lf_weight_format format, int rows, int groups, int blocks>
__device__ static void multiply_tiles(const struct lf_linear_tiles &tiles,
                                      struct wide_block<format, rows, groups, blocks> *block) {
    const lf_shared_base first = lf_shared_base_of(block->slot);
    struct wide_turn at = {first, first, lf_shared_base_of(&block->nobodys), 0, 0};
    for (uint32_t t = blockIdx.x; t < tiles.all; t += gridDim.x) {
        wait_full<format, rows, groups, blocks>(at);
        run_tile(block, tiles.launch.regular, &at);
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
        lf_barrier_open(&block->slot[threadIdx.x].full, shape::full_passes);
        lf_barrier_open(&block->slot[threadIdx.x].empty, shape::multiply / LF_WARP);
    }
    if (threadIdx.x == shape::slots)
        lf_barrier_open(&block->nobodys, shape::multiply / LF_WARP);
    lf_show_tensor_cores();
    struct lf_linear_tiles tiles = lf_list_jobs(launch, lf_load_heads(launch), rows, shape::outs,
                                                (struct lf_linear_live *)(block + 1));
    __syncthreads();
    if (threadIdx.x >= shape::multiply) {
        lf_registers_fewer<shape::bring_registers>();
        if constexpr (shape::is_ordered)
            bring_ordered(tiles, block);
        else
            bring_tiles(tiles, block);
    } else {
        lf_registers_more<shape::multiply_registers>();
        multiply_tiles(tiles, block);
    }
}
