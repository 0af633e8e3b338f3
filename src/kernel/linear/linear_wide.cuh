// Many rows: warpgroups decode weights into registers and multiply on wgmma.
#pragma once
#include "kernel/linear/linear_bring.cuh"
#include "kernel/linear/wgmma.cuh"

// What a warpgroup needs to know of its tile: out is the lane's first output.
struct wide_target {
    struct lf_linear_work w;
    uint32_t row, out;
};

// The same but for the rows that are multiplied, which may be fewer.
template <typename shape, int rows_>
struct wide_few : shape {
    static const int rows = rows_;
};

// What a lane holds of a tile: the present part's sums and, where they have room, the others'.
template <typename shape>
struct wide_sums {
    float part[shape::blocks][shape::rows / 2];
    float total[shape::blocks][shape::are_apart ? 1 : shape::rows / 2];
};

// The lane's first of 64 outputs a warpgroup; the other is 8 further.
__device__ static inline uint32_t wide_out(void) {
    return threadIdx.x / LF_WARP * 16 + threadIdx.x % LF_WARP / 4;
}

// Scales of the lane's chunks of a stage: of each block and slab, of both outputs.
template <typename shape>
struct wide_scales {
    uint32_t of[shape::blocks * shape::slabs][2];
};

// Where a lane's scales of the next stage lie; left: elements from its first on. FP8: one for both.
template <typename shape>
struct wide_scale_source {
    static const uint32_t outputs = shape::format == LF_WEIGHT_MXFP4 ? 2 : 1;
    const uint8_t *at[shape::blocks][outputs];
    int32_t left;
};

template <typename shape>
__device__ static struct wide_scale_source<shape> seek_scales(const struct lf_linear_work &w,
                                                              uint32_t out) {
    struct wide_scale_source<shape> from = {};
    uint32_t k = threadIdx.x % 4 * shape::elements;
    from.left = (int32_t)(w.in - k);
#pragma unroll
    for (uint32_t b = 0; b < shape::blocks; b++)
#pragma unroll
        for (uint32_t i = 0; i < from.outputs; i++) {
            uint32_t o = out + b * shape::of_groups + i * 8;
            o = o < w.out ? o : w.out - 1;
            from.at[b][i] = w.scale + lf_scale_at<shape::format>(w.in, o, k);
        }
    return from;
}

// The next stage's. Past the row's end, where codes are zeros, they stay those of another stage.
template <typename shape>
__device__ static void load_scales(struct wide_scale_source<shape> *from,
                                   struct wide_scales<shape> *scale) {
    if constexpr (shape::format != LF_WEIGHT_BF16) {
#pragma unroll
        for (uint32_t i = 0; i < shape::blocks * shape::slabs; i++) {
            const uint32_t b = i / shape::slabs, further = i % shape::slabs * shape::slab;
            if (from->left <= (int32_t)further)
                continue;
#pragma unroll
            for (uint32_t j = 0; j < from->outputs; j++)
                scale->of[i][j] = lf_load_byte(from->at[b][j] + further / 32);
        }
#pragma unroll
        for (uint32_t b = 0; b < shape::blocks; b++)
#pragma unroll
            for (uint32_t j = 0; j < from->outputs; j++)
                from->at[b][j] += shape::k / 32;
        from->left -= shape::k;
    }
}

// A lane's codes of a slab: of its output and of that 8 further.
struct wide_codes {
    uint32_t low[4], high[4];
};

__device__ static inline void load_word4(lf_shared_base at, uint32_t word[4]) {
    uint4 four = lf_load_shared_16(at);
    word[0] = four.x, word[1] = four.y, word[2] = four.z, word[3] = four.w;
}

// The operands of an eight of both outputs, from their words of it on: two steps.
template <enum lf_weight_format format>
__device__ static void decode_eight(const uint32_t *low, const uint32_t *high,
                                    const uint32_t scale[2], const uint32_t factor[2], bool is_odd,
                                    uint32_t a[8]) {
    const uint32_t words = 32 / lf_chunk_elements(format);
    uint32_t pair[8];
    if (format != LF_WEIGHT_BF16 && is_odd) {
        lf_decode_any<format, words>(low, scale[0], pair);
        lf_decode_any<format, words>(high, scale[1], pair + 4);
    } else {
        lf_decode_by<format, words>(low, factor[0], pair);
        lf_decode_by<format, words>(high, factor[1], pair + 4);
    }
#pragma unroll
    for (uint32_t i = 0; i < 4; i++) {
        a[i / 2 * 4 + i % 2 * 2] = pair[i];
        a[i / 2 * 4 + i % 2 * 2 + 1] = pair[4 + i];
    }
}

// The steps of an eight begin and go on.
template <int sums>
__device__ static void add_steps(const uint32_t a[8], lf_shared_rows rows_of, uint32_t half_bytes,
                                 bool is_sum, float (&sum)[sums]) {
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

template <typename shape>
__device__ static void next_slot(struct wide_turn *at) {
    typedef wide_slot<shape> slot;
    at->emptied = at->slot + offsetof(slot, empty);
    at->slot += (uint32_t)sizeof(slot);
    if (at->slot == at->first + shape::slots * (uint32_t)sizeof(slot))
        at->slot = at->first, at->turn ^= 1;
}

template <typename shape>
__device__ static lf_shared_base full_of(const struct wide_turn &at) {
    typedef wide_slot<shape> slot;
    return at.slot + offsetof(slot, full);
}

// What a warpgroup holds of a tile under way.
template <typename shape>
struct wide_state {
    struct wide_turn *at; // of the stage after the present one
    struct wide_codes codes;
    uint32_t a[2][8]; // operands of the steps under way and of those that are decoded meanwhile
    struct wide_sums<shape> sums;
    struct wide_scales<shape> scale, factor;
    lf_shared_base slot, emptied; // of the present stage
    float4 *before;               // the lane's sums of the parts before, where they lie apart
    bool are_before;              // there are any
    lf_shared_rows rows_of;
    uint32_t codes_at;   // the lane's first codes in a slot
    uint32_t half_bytes; // of the tile's rows
    bool is_full;        // the stage after it was seen to be
};

// Codes of slab `of` of a slot, block by block.
template <typename shape>
__device__ static void load_slab(struct wide_state<shape> *s, lf_shared_base slot, uint32_t of) {
    slot += s->codes_at + (of % shape::slabs * shape::outs + of / shape::slabs * shape::of_groups) *
                              WIDE_SLAB_BYTES;
    load_word4(slot, s->codes.low);
    load_word4(slot + 8 * WIDE_SLAB_BYTES, s->codes.high);
}

// The codes of the next slab, which may be the next stage's first.
template <typename shape>
__device__ static void load_next(struct wide_state<shape> *s, uint32_t next, bool is_last) {
    const bool is_there = next < shape::blocks * shape::slabs;
    if (!is_there && is_last)
        return;
    if (!is_there && !s->is_full)
        lf_barrier_wait(full_of<shape>(*s->at), s->at->turn);
    if (shape::format != LF_WEIGHT_BF16)
        load_slab(s, is_there ? s->slot : s->at->slot, is_there ? next : 0);
}

// The same where the parts before, if there are any, lie in shared memory; at last in `part`.
template <int sums, uint32_t threads>
__device__ static void end_apart(float (&part)[sums], float4 *before, bool are_any, bool is_last) {
#pragma unroll
    for (int i = 0; i < sums; i += 4) {
        float4 *total = before + i / 4 * threads;
        if (are_any) {
            float4 sum = *total;
            part[i] = sum.x + part[i], part[i + 1] = sum.y + part[i + 1];
            part[i + 2] = sum.z + part[i + 2], part[i + 3] = sum.w + part[i + 3];
        }
        if (!is_last)
            *total = {part[i], part[i + 1], part[i + 2], part[i + 3]};
    }
}

// What a part's products came to is added to the parts before; the next part's begin after it.
template <typename shape>
__device__ static void end_part(struct wide_state<shape> *s, bool is_last) {
    struct wide_sums<shape> *sums = &s->sums;
    lf_wgmma_wait<0>();
#pragma unroll
    for (int b = 0; b < shape::blocks; b++) {
        lf_wgmma_settle(sums->part[b]);
        if constexpr (!shape::are_apart) {
#pragma unroll
            for (int i = 0; i < shape::rows / 2; i++)
                sums->total[b][i] = sums->total[b][i] + sums->part[b][i];
        }
    }
    if constexpr (shape::are_apart)
        end_apart<shape::rows / 2, shape::multiply>(sums->part[0], s->before, s->are_before,
                                                    is_last);
    s->are_before = true;
}

// The steps of slab `of` of a stage. Warps decode one way or the other, and multiply together.
template <typename shape, bool regular>
__device__ static void multiply_slab(struct wide_state<shape> *s, uint32_t of, bool is_first,
                                     bool is_sum, bool is_last) {
    const uint32_t eights = shape::elements / 8, words = 4 / eights, slab = of % shape::slabs;
    const bool has_codes = shape::format != LF_WEIGHT_BF16;
    bool is_odd = !regular && lf_are_odd<shape::format, 4>(s->codes.low, s->codes.high,
                                                           s->scale.of[of]);
#pragma unroll
    for (uint32_t eight = 0; eight < eights; eight++) {
        const uint32_t i = of * eights + eight, left = shape::blocks * shape::slabs * eights - i;
        // Asked ahead of the decoding behind which it is wanted.
        if (left == 1 && !is_last && has_codes)
            s->is_full = lf_barrier_try(full_of<shape>(*s->at), s->at->turn);
        decode_eight<shape::format>(s->codes.low + eight * words, s->codes.high + eight * words,
                                    s->scale.of[of], s->factor.of[of], is_odd, s->a[i % 2]);
        if (eight + 1 == eights && has_codes)
            load_next(s, of + 1, is_last);
        if (!i && !is_sum && !is_first)
            end_part(s, false);
        add_steps(s->a[i % 2],
                  lf_shared_rows_from(s->rows_of, (slab * eights + eight) * 4 * s->half_bytes),
                  s->half_bytes, slab || eight || is_sum, s->sums.part[of / shape::slabs]);
        if (eight + 1 == eights && !has_codes)
            load_next(s, of + 1, is_last);
        lf_wgmma_wait<1>();
        lf_wgmma_read(s->a[(i + 1) % 2]);
        if (!i)
            lf_barrier_pass(s->emptied);
    }
}

// A stage's steps. Codes of bf16, which are operands, come late.
template <typename shape, bool regular>
__device__ static void multiply_stage(struct wide_state<shape> *s, bool is_first, bool is_sum,
                                      bool is_last) {
    s->slot = s->at->slot;
    s->emptied = s->at->emptied;
    s->rows_of = lf_shared_rows_at(s->slot + shape::codes_bytes, s->half_bytes);
    next_slot<shape>(s->at);
#pragma unroll
    for (uint32_t of = 0; of < shape::blocks * shape::slabs; of++) {
        if (shape::format == LF_WEIGHT_BF16)
            load_slab(s, s->slot, of);
        multiply_slab<shape, regular>(s, of, is_first, is_sum, is_last);
    }
}

// What leaves any number as it is.
template <typename shape>
__device__ static void begin_sums(struct wide_sums<shape> *sums) {
#pragma unroll
    for (int b = 0; b < shape::blocks; b++)
#pragma unroll
        for (int i = 0; i < shape::rows / 2; i++)
            sums->total[b][shape::are_apart ? 0 : i] = -0.0f, sums->part[b][i] = -0.0f;
}

// Two rows of an output, rounded.
__device__ static inline uint32_t settle_rows(float first, float second) {
    LF_CONTROL(5, first = lf_fault_f16(first); second = lf_fault_f16(second);)
    uint32_t pair = lf_bf16_pair(first, second);
    LF_CONTROL(6, pair = lf_f32_bits(first) >> 16 | (lf_f32_bits(second) & 0xFFFF0000u);)
    if (first != first || second != second)
        pair = lf_bf16_settle(first) | (uint32_t)lf_bf16_settle(second) << 16;
    return pair;
}

// Two neighbouring outputs of a row.
__device__ static inline void store_outputs(const struct lf_linear_work &w, bool are_words,
                                            uint32_t row, uint32_t out, uint32_t pair) {
    uint16_t *y = (uint16_t *)w.y + row * w.y_stride + out;
    if (row >= w.rows || out >= w.out)
        return;
    if (are_words && out + 1 < w.out) {
        *(uint32_t *)y = pair;
        return;
    }
    y[0] = (uint16_t)pair;
    if (out + 1 < w.out)
        y[1] = (uint16_t)(pair >> 16);
}

// What all parts came to.
template <typename shape>
__device__ static float sum_of(const struct wide_sums<shape> &sums, uint32_t b, uint32_t i) {
    return shape::are_apart ? sums.part[b][i] : sums.total[b][shape::are_apart ? 0 : i];
}

// A lane has two rows of an output, and stores two outputs of a row.
template <typename shape>
__device__ static void store_bf16(const struct wide_target &to,
                                  const struct wide_sums<shape> &sums) {
    const uint32_t lane = threadIdx.x % LF_WARP;
    const bool are_words = to.w.y_stride % 2 == 0 && (uintptr_t)to.w.y % 4 == 0;
#pragma unroll
    for (uint32_t b = 0; b < shape::blocks; b++)
#pragma unroll
        for (uint32_t i = 0; i < shape::rows / 4; i++) {
            uint32_t pair = settle_rows(sum_of(sums, b, 2 * i), sum_of(sums, b, 2 * i + 1));
            uint32_t out = to.out - lane / 4 + b * shape::of_groups + i % 2 * 8 + lane % 4 * 2;
            store_outputs(to.w, are_words, to.row + i / 2 * 8 + lane / 4, out, lf_turned(pair));
        }
}

template <typename shape>
__device__ static void store_tile(const struct wide_target &to,
                                  const struct wide_sums<shape> &sums) {
    if (!to.w.y_f32) {
        store_bf16(to, sums);
        return;
    }
#pragma unroll
    for (uint32_t b = 0; b < shape::blocks; b++)
#pragma unroll
        for (uint32_t i = 0; i < shape::rows / 2; i++)
            lf_store_sum(to.w, to.row + i / 4 * 8 + threadIdx.x % 4 * 2 + i % 2,
                         to.out + b * shape::of_groups + i % 4 / 2 * 8, sum_of(sums, b, i));
}

// The scales of a stage that begins, and the powers of two that they are.
template <typename shape>
__device__ static void take_scales(const struct wide_scales<shape> &next,
                                   struct wide_state<shape> *s) {
#pragma unroll
    for (uint32_t i = 0; i < 2 * shape::blocks * shape::slabs; i++) {
        uint32_t scale = next.of[i / 2][shape::format == LF_WEIGHT_MXFP4 ? i % 2 : 0];
        s->scale.of[i / 2][i % 2] = scale;
        s->factor.of[i / 2][i % 2] = lf_kept(lf_factor_of<shape::format>(scale));
    }
}

// The same for all lanes, and known to be.
__device__ static inline struct wide_turn same_turn(const struct wide_turn &at) {
    return {lf_same_place(at.first), lf_same_place(at.slot), lf_same_place(at.emptied),
            lf_same(at.turn), at.place};
}

// All of K of a tile whose first stage is full.
template <typename shape, bool regular>
__device__ static void run_tile(const struct lf_linear_place &place, float4 *before,
                                uint32_t codes_at, struct wide_turn *turn) {
    const uint32_t in_part = LF_LINEAR_PART / shape::k;
    struct wide_scale_source<shape> from = seek_scales<shape>(place.w, place.out + wide_out());
    struct wide_scales<shape> next;
    struct wide_state<shape> state = {};
    struct wide_turn at = same_turn(*turn);
    uint32_t stages = lf_same((place.w.in + shape::k - 1) / shape::k), in_its_part = 0;
    state.at = &at;
    state.codes_at = codes_at;
    state.before = before;
    state.half_bytes = shape::is_ordered ? lf_same(ordered_half<shape>(place)) : shape::half_bytes;
    begin_sums(&state.sums);
#pragma unroll
    for (uint32_t i = 0; i < 2 * shape::blocks * shape::slabs; i++)
        next.of[i / 2][i % 2] = 127;
    if (shape::format != LF_WEIGHT_BF16)
        load_slab(&state, at.slot, 0);
    load_scales(&from, &next);
    for (uint32_t s = 0; s < stages; s++) {
        take_scales(next, &state);
        load_scales(&from, &next);
        multiply_stage<shape, regular>(&state, !s, in_its_part, s + 1 == stages);
        in_its_part = wide_next(in_its_part, in_part);
    }
    end_part(&state, true);
    lf_wgmma_read(state.a[0]);
    lf_wgmma_read(state.a[1]);
    store_tile({place.w, place.row, place.out + wide_out()}, state.sums);
    *turn = at;
}

// A tile whose products have no more eights of rows than it has, where those are more than two.
template <typename shape, bool regular, int rows>
__device__ static void run_eights(const struct lf_linear_place &place, float4 *before,
                                  uint32_t codes_at, struct wide_turn *at) {
    if (rows < shape::rows && lf_same(ordered_half<shape>(place)) > rows * 16)
        run_eights<shape, regular, (rows < shape::rows ? rows + 8 : rows)>(place, before, codes_at,
                                                                         at);
    else
        run_tile<wide_few<shape, rows>, regular>(place, before, codes_at, at);
}

template <typename shape, bool regular>
__device__ static void multiply_tiles(const struct lf_linear_tiles &tiles,
                                      struct wide_block<shape> *block) {
    const lf_shared_base first = lf_shared_base_of_all(block->slot);
    const uint32_t codes_at = lf_kept(wide_out() * WIDE_SLAB_BYTES + threadIdx.x % 4 * 16);
    struct wide_turn at = {first, first, lf_shared_base_of(&block->nobodys), 0, 0};
    float4 *before = block->before + threadIdx.x;
    for (uint32_t t = blockIdx.x; t < tiles.all; t += gridDim.x) {
        const struct lf_linear_place &place = block->place[at.place];
        lf_barrier_wait(full_of<shape>(at), at.turn);
        if constexpr (shape::are_apart)
            run_eights<shape, regular, 24>(place, before, codes_at, &at);
        else
            run_tile<shape, regular>(place, before, codes_at, &at);
        at.place = wide_next(at.place, shape::places);
    }
}

// Blocks share out all tiles of all jobs: only the device knows how many rows a group has.
template <typename shape, bool regular>
__global__ static void __launch_bounds__(shape::threads, 1)
linear_wide(const __grid_constant__ struct lf_linear_launch launch) {
    lf_take_turn();
    LF_DYNAMIC_SHARED(shared);
    auto *block = (struct wide_block<shape> *)shared;
    if (threadIdx.x < shape::slots) {
        lf_barrier_open(&block->slot[threadIdx.x].full, shape::full_passes);
        lf_barrier_open(&block->slot[threadIdx.x].empty, shape::multiply / LF_WARP);
    }
    if (threadIdx.x == shape::slots)
        lf_barrier_open(&block->nobodys, shape::multiply / LF_WARP);
    lf_show_tensor_cores();
    struct lf_linear_tiles tiles = lf_list_jobs(launch, lf_load_heads(launch), shape::rows,
                                                shape::outs,
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
        multiply_tiles<shape, regular>(tiles, block);
    }
}
