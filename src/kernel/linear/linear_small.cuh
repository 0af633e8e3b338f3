// Few rows by few tiles: each has a block, whose weights are all on the way before launches end.
#pragma once
#include "kernel/linear/linear_unit.cuh"

enum { SMALL_PARTS = 8, SMALL_SHARED_MOST = 227 << 10 };

template <enum lf_weight_format format>
struct small_shape : unit_shape<format, 1> {
    static const uint32_t row_bytes = LF_LINEAR_PART * 2 + 16; // apart, so that banks differ
};

// What a warp has in shared memory, its part's rows behind it.
template <enum lf_weight_format format>
struct alignas(128) small_warp {
    typedef small_shape<format> shape;
    uint8_t room[shape::slabs][2][shape::side_bytes]; // slabs, and then its sums
    uint32_t scale[shape::scale_rows * shape::scale_words];
};

template <enum lf_weight_format format>
__host__ __device__ static inline uint32_t small_bytes(uint32_t rows) {
    uint32_t bytes = (uint32_t)sizeof(struct small_warp<format>);
    return (bytes + rows * small_shape<format>::row_bytes + 127) / 128 * 128;
}

template <enum lf_weight_format format>
__device__ static struct small_warp<format> *small_part(uint8_t *shared, uint32_t part,
                                                        uint32_t rows) {
    return (struct small_warp<format> *)(shared + part * small_bytes<format>(rows));
}

// All weights of a part are on their way.
template <enum lf_weight_format format>
__device__ static void small_send(const struct lf_linear_work &w, uint32_t k,
                                  struct small_warp<format> *own) {
    typedef small_shape<format> shape;
    struct unit_source from = source_of<format>(w, k);
    if (format != LF_WEIGHT_BF16)
        send_scales<format>(w, k, own->scale);
#pragma unroll
    for (uint32_t slab = 0; slab < shape::slabs; slab++)
        send_slab<format, true>(from, slab, own->room[slab]);
}

// The part's rows are on their way, zeros past their end.
template <enum lf_weight_format format>
__device__ static void small_send_rows(const struct lf_linear_work &w, uint32_t k, uint8_t *to) {
    const uint32_t eights = LF_LINEAR_PART / 8, lane = threadIdx.x % LF_WARP;
    const uint16_t *x = w.x + k + lane * 8;
    to += lane * 16;
#pragma unroll 1
    for (uint32_t r = 0; r < w.rows; r++, to += small_shape<format>::row_bytes) {
        const uint16_t *row = x + (w.x_index ? w.x_index[r] : r) * w.x_stride;
#pragma unroll
        for (uint32_t i = 0; i < eights; i += LF_WARP)
            if (i + LF_WARP <= eights || i + lane < eights)
                lf_copy_16(to + i * 16, row + i * 8, k + (i + lane) * 8 < w.in);
    }
    lf_copies_commit();
}

// Whether the other decoding is asked for: all lanes go one way.
template <enum lf_weight_format format>
__device__ static bool small_is_odd(const struct small_warp<format> &own,
                                    const uint32_t scale_at[2]) {
    typedef small_shape<format> shape;
    bool is_odd = false;
    for (uint32_t slab = 0; format != LF_WEIGHT_BF16 && slab < shape::slabs; slab++) {
        struct unit_slab<format, 1> s;
        take_slab<format, 1>(scale_at, slab, own.room[slab], own.scale, &s);
        is_odd |= lf_is_odd<format, 4>(s.word[0], s.scale[0]) |
                  lf_is_odd<format, 4>(s.word[1], s.scale[1]);
    }
    return format != LF_WEIGHT_BF16 && __any_sync(LF_ALL_LANES, is_odd);
}

// The part's chain of k16 steps from zero; past the row's end all is zeros, which change no sum.
template <enum lf_weight_format format, bool is_odd>
__device__ static void small_chain(const struct small_warp<format> &own,
                                   const uint32_t scale_at[2], uint32_t rows, int32_t left,
                                   float sum[1][4]) {
    typedef small_shape<format> shape;
    const uint32_t lane = threadIdx.x % LF_WARP, row = lane / 4 < rows ? lane / 4 : 0;
    const uint8_t *x = (const uint8_t *)(&own + 1) + row * shape::row_bytes +
                       lane % 4 * shape::elements * 2;
#pragma unroll(is_odd ? 1 : 5)
    for (uint32_t slab = 0; slab < shape::slabs; slab++) {
        struct unit_slab<format, 1> s;
        take_slab<format, 1>(scale_at, slab, own.room[slab], own.scale, &s);
        if (is_odd)
            level_scales(slab, left, &s);
#pragma unroll
        for (uint32_t e = 0; e < shape::times; e++) {
            uint4 four = *(const uint4 *)(x + slab * shape::slab * 2 + e * 16);
            uint32_t *eight = s.x[e][0];
            eight[0] = four.x, eight[1] = four.y, eight[2] = four.z, eight[3] = four.w;
        }
        multiply_slab<format, 1, is_odd>(&s, sum);
    }
}

// A block adds its tile's parts, ascending.
template <enum lf_weight_format format>
__device__ static void small_store(const struct lf_linear_work &w, const uint8_t *shared) {
    typedef small_shape<format> shape;
    const uint32_t bytes = small_bytes<format>(w.rows);
    for (uint32_t n = threadIdx.x; n < UNIT_OUTS * w.rows; n += blockDim.x) {
        uint32_t row = n / UNIT_OUTS, out = n % UNIT_OUTS, at = out * shape::rows + row;
        float part[SMALL_PARTS], total;
#pragma unroll
        for (uint32_t i = 0; i < SMALL_PARTS; i++)
            part[i] = i * LF_LINEAR_PART < w.in ? ((const float *)(shared + i * bytes))[at] : 0;
        total = part[0];
#pragma unroll
        for (uint32_t i = 1; i < SMALL_PARTS; i++)
            total = i * LF_LINEAR_PART < w.in ? total + part[i] : total;
        lf_store_sum(w, row, out, total);
    }
}

// A block a tile of jobs whose rows the host knows.
template <enum lf_weight_format format>
__global__ static void __launch_bounds__(SMALL_PARTS *LF_WARP)
linear_small(const __grid_constant__ struct lf_linear_launch launch) {
    typedef small_shape<format> shape;
    LF_DYNAMIC_SHARED(shared);
    lf_let_next_begin();
    struct lf_linear_tiles tiles = {launch, NULL, launch.jobs, launch.end[launch.jobs - 1]};
    const struct lf_linear_work w = work_of_tile<format>(
        lf_find_tile(tiles, blockIdx.x, shape::rows, UNIT_OUTS));
    const uint32_t part = threadIdx.x / LF_WARP, k = part * LF_LINEAR_PART;
    struct small_warp<format> *own = small_part<format>(shared, part, w.rows);
    uint32_t scale_at[2] = {};
    float sum[1][4] = {};
    bool is_there = k < w.in, is_odd = false;
    if (is_there) {
        small_send(w, k, own);
        if (format != LF_WEIGHT_BF16)
            find_scales<format>(w, k, scale_at);
        lf_copies_wait<0>();
        __syncwarp();
        is_odd = !launch.regular && small_is_odd(*own, scale_at);
    }
    lf_wait_for_launches();
    if (is_there) {
        small_send_rows<format>(w, k, (uint8_t *)(own + 1));
        lf_copies_wait<0>();
        __syncwarp();
        if (format != LF_WEIGHT_BF16 && is_odd)
            small_chain<format, true>(*own, scale_at, w.rows, (int32_t)(w.in - k), sum);
        else
            small_chain<format, false>(*own, scale_at, w.rows, (int32_t)(w.in - k), sum);
        __syncwarp();
        keep_sums<1>(sum, (float *)own->room);
    }
    __syncthreads();
    small_store<format>(w, shared);
}
