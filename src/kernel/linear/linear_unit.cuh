// A unit of few rows: 16 outputs by `eights` times 8 rows by a part of K, which a warp takes.
#pragma once
#include "kernel/linear/linear_chunk.cuh"
#include "kernel/linear/linear.h"
#include "kernel/linear/stream.cuh"

enum { UNIT_OUTS = 16 };

template <enum lf_weight_format format, int eights>
struct unit_shape {
    static const uint32_t elements = lf_chunk_elements(format), slab = 4 * elements;
    static const uint32_t slabs = LF_LINEAR_PART / slab;
    static const uint32_t rows = 8 * eights, numbers = UNIT_OUTS * rows;
    static const uint32_t side_bytes = 16 * LF_WARP;
    static const uint32_t times = elements / 8; // of a chunk
    // Words with a part's scales: of each output, of FP8's all outputs together.
    static const uint32_t scale_words = LF_LINEAR_PART / 32 / 4 + 1;
    static const uint32_t scale_rows = format == LF_WEIGHT_MXFP4 ? UNIT_OUTS : 1;
};

// Where a lane's slabs on the way come from. Without elements left they are zeros.
struct unit_source {
    const uint8_t *data; // of the lane's output
    int32_t other, left; // bytes to that 8 further; elements from the lane's first on
};

// A slab of a lane: codes and scales of its two outputs, its rows eight elements at a time.
template <enum lf_weight_format format, int eights>
struct unit_slab {
    uint32_t word[2][4], scale[2], x[lf_chunk_elements(format) / 8][eights][4];
};

// The place's tile as a job of its own.
template <enum lf_weight_format format>
__device__ static struct lf_linear_work work_of_tile(const struct lf_linear_place &place) {
    struct lf_linear_work w = place.w;
    uint32_t scale_row = format == LF_WEIGHT_FP8 ? place.out / 32 : place.out;
    w.data += lf_chunk_at<format>((size_t)place.out * w.in);
    w.scale += (size_t)scale_row * (w.in / 32);
    if (w.x_index)
        w.x_index += place.row;
    else
        w.x += place.row * w.x_stride;
    w.y = (uint8_t *)w.y + (place.row * w.y_stride + place.out) * (w.y_f32 ? 4 : 2);
    w.out -= place.out;
    w.rows -= place.row;
    return w;
}

// A tile of a launch as a job of its own. A single row is looked up once for all warps.
template <enum lf_weight_format format, int eights>
__device__ static void find_unit(const struct lf_linear_tiles &tiles, uint32_t tile,
                                 struct lf_linear_work *to) {
    struct lf_linear_work w = work_of_tile<format>(
        lf_find_tile(tiles, tile, unit_shape<format, eights>::rows, UNIT_OUTS));
    if (w.rows == 1 && w.x_index) {
        w.x += *(const volatile uint32_t *)w.x_index * w.x_stride;
        w.x_index = NULL;
    }
    *to = w;
}

// The lane's slabs from element k on. Outputs past the last are the last once more.
template <enum lf_weight_format format>
__device__ static struct unit_source source_of(const struct lf_linear_work &w, uint32_t k) {
    const uint32_t elements = lf_chunk_elements(format), lane = threadIdx.x % LF_WARP;
    uint32_t out = lane / 4, other = out + 8, most = w.out - 1;
    out = out < most ? out : most, other = other < most ? other : most;
    return {w.data + lf_chunk_at<format>(out * w.in + k) + lane % 4 * 16,
            (int32_t)lf_chunk_at<format>((other - out) * w.in),
            (int32_t)(w.in - k - lane % 4 * elements)};
}

// The first scale of an output's part. Outputs past the last are the last once more.
template <enum lf_weight_format format>
__device__ static const uint8_t *scales_of(const struct lf_linear_work &w, uint32_t out,
                                           uint32_t k) {
    out = format == LF_WEIGHT_FP8 ? 0 : out < w.out ? out : w.out - 1;
    return w.scale + out * (w.in / 32) + k / 32;
}

// Words with scales of a part are on their way, two lanes bring an output's.
template <enum lf_weight_format format>
__device__ static void send_scales(const struct lf_linear_work &w, uint32_t k, uint32_t *to) {
    typedef unit_shape<format, 1> shape;
    const uint32_t words = shape::scale_words / 2, lane = threadIdx.x % LF_WARP;
    if (lane / 2 >= shape::scale_rows)
        return;
    const uint8_t *from = scales_of<format>(w, lane / 2, k);
    uint32_t first = lane % 2 * words;
    int32_t past = (int32_t)((uintptr_t)from % 4 + (w.in - k) / 32 - 4 * first);
    const uint32_t *word = lf_word_of(from) + first;
    to += lane / 2 * shape::scale_words + first;
#pragma unroll
    for (uint32_t i = 0; i < words; i++)
        lf_copy_word(to + i, word + i, 4 * (int32_t)i < past);
}

// Slab `slab` from the source's first is on its way to where a lane alone reads it.
template <enum lf_weight_format format, bool whole>
__device__ static void send_slab(const struct unit_source &from, uint32_t slab,
                                 uint8_t (*to)[16 * LF_WARP]) {
    const uint32_t elements = 4 * lf_chunk_elements(format), lane = threadIdx.x % LF_WARP;
#pragma unroll
    for (uint32_t side = 0; side < 2; side++) {
        const uint8_t *data = from.data + (side ? from.other : 0);
        if (whole || format != LF_WEIGHT_BF16)
            lf_copy_16_once(to[side] + 16 * lane, data + lf_chunk_at<format>(slab * elements),
                            (int32_t)(slab * elements) < from.left);
        else
            lf_load_eight((const uint16_t *)data, slab * elements, lf_left(from.left), false,
                          (uint32_t *)(to[side] + 16 * lane));
    }
    lf_copies_commit();
}

// Where the lane's first scales are among those sent.
template <enum lf_weight_format format>
__device__ static void find_scales(const struct lf_linear_work &w, uint32_t k, uint32_t at[2]) {
    typedef unit_shape<format, 1> shape;
    const uint32_t lane = threadIdx.x % LF_WARP;
#pragma unroll
    for (uint32_t side = 0; side < 2; side++) {
        uint32_t out = format == LF_WEIGHT_FP8 ? 0 : side * 8 + lane / 4;
        uint32_t block_of = lane % 4 * shape::elements / 32;
        LF_CONTROL(4, block_of -= k + block_of ? 1 : 0;) // 4: the scale of the block before
        at[side] = out * shape::scale_words * 4 +
                   (uint32_t)((uintptr_t)scales_of<format>(w, out, k) % 4) + block_of;
    }
}

// The lane's codes, once they have come, and their scales.
template <enum lf_weight_format format, int eights>
__device__ static void take_slab(const uint32_t scale_at[2], uint32_t slab,
                                 const uint8_t (*room)[16 * LF_WARP], const uint32_t *scale,
                                 struct unit_slab<format, eights> *own) {
    typedef unit_shape<format, eights> shape;
#pragma unroll
    for (uint32_t side = 0; side < 2; side++) {
        uint4 four = *(const uint4 *)(room[side] + 16 * (threadIdx.x % LF_WARP));
        uint32_t *word = own->word[side];
        word[0] = four.x, word[1] = four.y, word[2] = four.z, word[3] = four.w;
        // FP8's outputs of a unit have one scale together.
        if (format == LF_WEIGHT_MXFP4 || (format == LF_WEIGHT_FP8 && !side))
            own->scale[side] =
                ((const uint8_t *)scale)[scale_at[side] + slab * shape::slab / 32];
        else
            own->scale[side] = side ? own->scale[0] : 0;
    }
}

// Eight elements of each lane's chunks are two k16 steps.
template <enum lf_weight_format format, int eights, bool is_odd>
__device__ static void multiply_slab(struct unit_slab<format, eights> *own,
                                     float sum[eights][4]) {
    const uint32_t times = unit_shape<format, eights>::times, words = 4 / times;
#pragma unroll
    for (uint32_t e = 0; e < times; e++) {
        uint32_t pair[8];
        lf_decode<format, words>(own->word[0] + e * words, own->word[1] + e * words, own->scale,
                                 is_odd, pair);
#pragma unroll
        for (int i = 0; i < eights; i++) {
            const uint32_t *x = own->x[e][i];
#pragma unroll
            for (uint32_t step = 0; step < 4; step += 2) {
                uint32_t n = step;
                LF_CONTROL(18, n = 2 - step;) // 18: two steps change places
                uint32_t a[4] = {pair[n], pair[4 + n], pair[n + 1], pair[5 + n]};
                lf_mma_bf16(sum[i], a, x + n);
            }
        }
    }
}

// Past the row's end codes are zeros, scales are another's: these are none that is odd.
template <enum lf_weight_format format, int eights>
__device__ static void level_scales(uint32_t slab, int32_t left,
                                    struct unit_slab<format, eights> *own) {
    typedef unit_shape<format, eights> shape;
    if ((int32_t)(slab * shape::slab + threadIdx.x % 4 * shape::elements) >= left)
        own->scale[0] = own->scale[1] = 127;
}

// Lane l has outputs l/4 and l/4+8 of rows 2(l%4) and the next.
template <int eights>
__device__ static void keep_sums(const float sum[eights][4], float *part) {
    uint32_t lane = threadIdx.x % LF_WARP;
#pragma unroll
    for (int i = 0; i < 2 * eights; i++)
        *(float2 *)(part + (lane / 4 + i % 2 * 8) * (8 * eights) + i / 2 * 8 + lane % 4 * 2) = {
            sum[i / 2][i % 2 * 2], sum[i / 2][i % 2 * 2 + 1]};
}
