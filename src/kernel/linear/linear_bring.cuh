// Many rows: some warps of a block bring codes and rows of its tiles to shared memory.
#pragma once
#include "kernel/linear/linear.h"
#include "kernel/linear/linear_chunk.cuh"
#include "kernel/linear/stream.cuh"

// Threads; bytes of a weight row; outputs whose codes all that bring bring at once.
enum { WIDE_GROUP = 4 * LF_WARP, WIDE_SLAB_BYTES = 64, WIDE_OUTS = WIDE_GROUP / 4 };

// Elements of a stage of K.
__host__ __device__ constexpr uint32_t wide_k(enum lf_weight_format format) {
    return (format == LF_WEIGHT_MXFP4 ? 1 : 2) * 4 * lf_chunk_elements(format);
}

// A tile of 64 outputs for each block of each group by `rows` rows. Groups multiply, others bring.
template <enum lf_weight_format format_, int rows_, int groups, int blocks_, bool ordered>
struct wide_shape {
    // ordered: rows lie in memory as a slot has them (linear_order.cuh).
    static const enum lf_weight_format format = format_;
    static const int rows = rows_, blocks = blocks_;
    static const bool is_ordered = ordered;
    // Products have as few eights of rows as a tile, and sums of the parts before lie apart.
    static const bool are_apart = groups > 2;
    static const uint32_t elements = lf_chunk_elements(format), slab = 4 * elements;
    static const uint32_t k = wide_k(format), slabs = k / slab;
    static const uint32_t quarters = k / 64; // four steps each
    static const uint32_t slots = format == LF_WEIGHT_BF16 || are_apart ? 5 : 4; // stages there
    static const uint32_t places = slots + 1;                       // tiles known there
    static const uint32_t of_groups = 64 * groups, outs = of_groups * blocks;
    static const uint32_t codes_bytes = slabs * outs * WIDE_SLAB_BYTES;
    // Eight numbers of all rows make half a step; stored by words four halves begin at other banks.
    static const uint32_t half_bytes = rows * 16 + (ordered ? 0 : 16);
    static const uint32_t rows_bytes = k / 8 * half_bytes;
    static const uint32_t passes = rows / 16; // in which the rows are brought
    static const uint32_t ahead = passes > 4 ? 2 : 4; // quarters of rows on the way
    static_assert(ahead % quarters == 0, "a quarter's place among those on the way is its own");
    static const uint32_t multiply = groups * WIDE_GROUP, threads = multiply + WIDE_GROUP;
    // A slot is full when its warps have said so, or its threads' copies and its rows are there.
    static const uint32_t full_passes = ordered ? WIDE_GROUP + 1 : WIDE_GROUP / LF_WARP;
    static const uint32_t apart = are_apart ? multiply * rows / 8 : 1; // sums, in fours
    // Registers of a thread that brings and of one that multiplies: together what all begin with.
    static const uint32_t bring_registers = are_apart ? 56 : 120;
    static const uint32_t multiply_registers = are_apart ? 104 : 192;
    static_assert(multiply * multiply_registers + WIDE_GROUP * bring_registers <=
                      lf_registers_of(threads), "registers that the block has");
};

// What a stage needs; warps that bring pass full, those that multiply empty.
template <typename shape>
struct alignas(128) wide_slot {
    uint8_t codes[shape::codes_bytes], rows_of[shape::rows_bytes];
    lf_barrier full, empty;
};

// Shared memory of a block. Before a tile's place is overwritten its first stage was emptied.
template <typename shape>
struct wide_block {
    struct wide_slot<shape> slot[shape::slots];
    float4 before[shape::apart]; // sums of the parts before, four of each thread after the other
    struct lf_linear_place place[shape::places];
    lf_barrier nobodys; // of a slot that no stage was in
};

// Where a thread's share of the next stage lies.
template <typename shape>
struct wide_source {
    uint32_t tile, place, k, in; // k: of the stage
    const uint8_t *codes, *ordered; // of its first output; rows of the stage, of so many bytes
    uint32_t stage_bytes;
    uint32_t outs, further; // outputs from the first on; bytes to that WIDE_OUTS further
    const uint16_t *x;
    uint32_t x_at[shape::passes]; // row t/8 of 16: so many times 16 bytes from the first
};

// What a thread brings of a quarter: eight numbers of a chunk of each of its rows.
template <uint32_t passes>
struct wide_quarter {
    uint4 eight[passes];
};

// After place i of n.
__device__ static inline uint32_t wide_next(uint32_t i, uint32_t n) {
    return i + 1 == n ? 0 : i + 1;
}

// The place among the rows of a tile that a thread brings in a pass.
__device__ static inline uint32_t wide_row(uint32_t pass) {
    return pass * 16 + threadIdx.x % WIDE_GROUP / 8;
}

// Eight threads bring a row's quarter, from one line where it is in one: chunk, and which eight.
template <enum lf_weight_format format>
__device__ static uint32_t wide_chunk(void) {
    return format == LF_WEIGHT_BF16 ? threadIdx.x % 4 : threadIdx.x % 8 / 2;
}

template <enum lf_weight_format format>
__device__ static uint32_t wide_eight(void) {
    return format == LF_WEIGHT_BF16 ? threadIdx.x % 8 / 4 : threadIdx.x % 2;
}

// A thread's numbers in a quarter, from the stage's first.
template <enum lf_weight_format format>
__device__ static uint32_t wide_first(uint32_t quarter) {
    uint32_t elements = lf_chunk_elements(format);
    return quarter * (format == LF_WEIGHT_MXFP4 ? 16 : 64) + wide_chunk<format>() * elements +
           wide_eight<format>() * (format == LF_WEIGHT_BF16 ? 4 * elements : 8);
}

// A tile's codes from the first stage on.
template <typename shape>
__device__ static void seek_codes(const struct lf_linear_place &place,
                                  struct wide_source<shape> *from) {
    const struct lf_linear_work &w = place.w;
    const uint32_t t = threadIdx.x % WIDE_GROUP, out = place.out + t / 4;
    from->k = 0;
    from->in = w.in;
    from->outs = w.out > out ? w.out - out : 0;
    from->further = (uint32_t)lf_chunk_at<shape::format>((size_t)WIDE_OUTS * w.in);
    from->codes =
        w.data + lf_chunk_at<shape::format>((size_t)out * w.in + t % 4 * shape::elements);
}

// The scales of a tile of MXFP4 come to the second cache: later each is wanted at once.
template <typename shape>
__device__ static void ask_for_scales(const struct lf_linear_place &place) {
    const struct lf_linear_work &w = place.w;
    const uint32_t outs = w.out - place.out < shape::outs ? w.out - place.out : shape::outs;
    if (shape::format == LF_WEIGHT_MXFP4 && threadIdx.x % WIDE_GROUP == 0)
        lf_ask_for(w.scale + (size_t)place.out * (w.in / 32), outs * (w.in / 32));
}

// Bytes of a half step's rows of a tile that lies in order: whole eights of rows.
template <typename shape>
__device__ static uint32_t ordered_half(const struct lf_linear_place &place) {
    uint32_t left = lf_eights(place.w.rows - place.row);
    return (left < shape::rows ? left : shape::rows) * 16;
}

// The same of its rows.
template <typename shape>
__device__ static void seek_rows(const struct lf_linear_launch &launch,
                                 const struct lf_linear_place &place,
                                 struct wide_source<shape> *from) {
    const struct lf_linear_work &w = place.w;
    if constexpr (shape::is_ordered) {
        from->ordered = launch.ordered + place.ordered * launch.row_bytes;
        from->stage_bytes = shape::k / 8 * ordered_half<shape>(place);
        return;
    }
    from->x = w.x;
#pragma unroll
    for (uint32_t p = 0; p < shape::passes; p++) {
        uint32_t r = place.row + wide_row(p);
        r = r < w.rows ? r : w.rows - 1;
        size_t row = (w.x_index ? w.x_index[r] : r) * w.x_stride;
        from->x_at[p] = (uint32_t)((row + wide_first<shape::format>(0)) / 8);
    }
}

// Codes of a slab: 16 bytes of an output's chunk at a time; zeros past the last output and K.
template <typename shape, bool all_outs>
__device__ static void send_slab(const struct wide_source<shape> &from, uint32_t slab,
                                 uint8_t *to) {
    const uint32_t t = threadIdx.x % WIDE_GROUP, passes = shape::outs / WIDE_OUTS;
    bool is_there = from.k + slab * shape::slab + t % 4 * shape::elements < from.in;
    to += slab * shape::outs * WIDE_SLAB_BYTES + 16 * t;
#pragma unroll
    for (uint32_t i = 0; i < passes; i++)
        lf_copy_16(to + i * WIDE_OUTS * WIDE_SLAB_BYTES,
                   from.codes + (size_t)i * from.further + slab * WIDE_SLAB_BYTES,
                   is_there && (all_outs || i * WIDE_OUTS < from.outs));
}

template <typename shape>
__device__ static void send_codes(const struct wide_source<shape> &from, uint8_t *to) {
    const bool are_all = from.outs > shape::outs - WIDE_OUTS;
#pragma unroll
    for (uint32_t slab = 0; slab < shape::slabs; slab++)
        if (are_all)
            send_slab<shape, true>(from, slab, to);
        else
            send_slab<shape, false>(from, slab, to);
}

// A quarter's rows are on their way to registers; zeros past the end of K.
template <typename shape>
__device__ static void
load_quarter(const struct wide_source<shape> &from, uint32_t quarter,
             struct wide_quarter<shape::passes> *own) {
    const uint32_t first = wide_first<shape::format>(quarter);
    const uint16_t *x = from.x + from.k + first - wide_first<shape::format>(0);
    if (from.k + shape::k <= from.in) {
#pragma unroll
        for (uint32_t p = 0; p < shape::passes; p++)
            own->eight[p] = lf_load_16(x + (size_t)from.x_at[p] * 8);
        return;
    }
#pragma unroll
    for (uint32_t p = 0; p < shape::passes; p++) {
        own->eight[p] = {0, 0, 0, 0};
        if (from.k + first < from.in)
            own->eight[p] = lf_load_16(x + (size_t)from.x_at[p] * 8);
    }
}

// Word by word to where the steps of a quarter read them: those of a row's four chunks together.
template <typename shape>
__device__ static void
store_quarter(const struct wide_quarter<shape::passes> &own,
              uint8_t *to) {
    to += wide_eight<shape::format>() * 4 * shape::half_bytes + wide_chunk<shape::format>() * 4;
#pragma unroll
    for (uint32_t p = 0; p < shape::passes; p++) {
        uint4 all = own.eight[p];
        uint32_t word[4] = {all.x, all.y, all.z, all.w};
        lf_order_x<shape::format>(word);
#pragma unroll
        for (uint32_t i = 0; i < 4; i++)
            *(uint32_t *)(to + i * shape::half_bytes + wide_row(p) * 16) = word[i];
    }
}

// The source's tile: its place goes to those that multiply. False: there is none.
template <typename shape>
__device__ static bool
begin_source(const struct lf_linear_tiles &tiles,
             struct wide_block<shape> *block,
             struct wide_source<shape> *from) {
    if (from->tile >= tiles.all)
        return false;
    struct lf_linear_place place = lf_find_tile(tiles, from->tile, shape::rows, shape::outs);
    seek_codes(place, from);
    ask_for_scales<shape>(place);
    seek_rows(tiles.launch, place, from);
    if (threadIdx.x % WIDE_GROUP == 0)
        block->place[from->place] = place;
    from->place = wide_next(from->place, shape::places);
    return true;
}

// A stage further, at a tile's end to the next. False: there is none.
template <typename shape>
__device__ static bool
next_stage(const struct lf_linear_tiles &tiles,
           struct wide_block<shape> *block,
           struct wide_source<shape> *from) {
    from->k += shape::k;
    if (from->k >= from->in) {
        from->tile += gridDim.x;
        return begin_source(tiles, block, from);
    }
    from->codes += shape::slabs * WIDE_SLAB_BYTES;
    from->ordered += from->stage_bytes;
    return true;
}

// A quarter that has come goes to its slot; with its last one a stage is full.
template <typename shape>
__device__ static void
show_quarter(const struct wide_quarter<shape::passes> &own,
             uint32_t quarter, uint32_t slot,
             struct wide_block<shape> *block) {
    uint8_t *rows_of = block->slot[slot].rows_of;
    store_quarter<shape>(own, rows_of + quarter * 8 * shape::half_bytes);
    if (quarter + 1 < shape::quarters)
        return;
    lf_copies_wait<shape::ahead + shape::quarters - 2>();
    lf_show_tensor_cores();
    lf_barrier_pass(&block->slot[slot].full);
}

// All stages of all tiles of the block. Some quarters are on their way to registers.
template <typename shape>
__device__ static void bring_tiles(const struct lf_linear_tiles &tiles,
                                   struct wide_block<shape> *block) {
    struct wide_quarter<shape::passes> own[shape::ahead];
    struct wide_source<shape> from = {};
    uint32_t sent = 0, shown = 0, to = 0, full = 0, turn = 1; // quarters; their slots; of to
    from.tile = blockIdx.x;
    bool is_left = begin_source(tiles, block, &from), are_sent = false;
    while (is_left || shown < sent) {
#pragma unroll
        for (uint32_t i = 0; i < shape::ahead; i++) {
            const uint32_t quarter = i % shape::quarters;
            const bool is_last = quarter + 1 == shape::quarters;
            if (are_sent && shown < sent) {
                show_quarter(own[i], quarter, full, block);
                full = is_last ? wide_next(full, shape::slots) : full;
                shown++;
            }
            if (is_left) {
                if (!quarter && sent >= shape::slots * shape::quarters)
                    lf_barrier_wait(&block->slot[to].empty, turn);
                if (!quarter)
                    send_codes(from, block->slot[to].codes);
                // Loads that the compiler moved ahead of copies would be waited for with them.
                __syncwarp();
                load_quarter(from, quarter, &own[i]);
                to = is_last ? wide_next(to, shape::slots) : to;
                turn ^= is_last && !to;
                is_left = !is_last || next_stage(tiles, block, &from);
                sent++;
            }
            lf_copies_commit();
        }
        are_sent = true;
    }
}

// The same where rows are in order: nothing goes through registers, all slots can be on their way.
template <typename shape>
__device__ static void bring_ordered(const struct lf_linear_tiles &tiles,
                                     struct wide_block<shape> *block) {
    struct wide_source<shape> from = {};
    uint32_t to = 0, turn = 1;
    from.tile = blockIdx.x;
    for (bool is_left = begin_source(tiles, block, &from); is_left;
         is_left = next_stage(tiles, block, &from)) {
        lf_barrier_wait(&block->slot[to].empty, turn);
        if (threadIdx.x % WIDE_GROUP == 0)
            lf_barrier_pass_bytes(&block->slot[to].full, block->slot[to].rows_of, from.ordered,
                                  from.stage_bytes);
        send_codes(from, block->slot[to].codes);
        lf_barrier_pass_copies(&block->slot[to].full);
        to = wide_next(to, shape::slots);
        turn ^= !to;
    }
    lf_copies_commit();
    lf_copies_wait<0>();
}
