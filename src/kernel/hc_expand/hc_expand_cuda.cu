#include "kernel/hc_expand/hc_expand.h"

#include "format/topology.h"
#include "kernel/hand.cuh"
#include "kernel/rms_norm/norm_row.cuh"

enum { THREADS = 128, FEW_ROWS = 16, FEW_STREAMS = 4 };
static_assert(FEW_ROWS * LF_NORM_STAGE / 2 <= LF_CUDA_HANDED, "columns of the rows have words");

// N columns of a row: its old streams, and what the sublayer adds to them.
template <uint32_t N, uint32_t MOST>
struct columns {
    struct lf_wide<N> old[MOST], b;
};

template <uint32_t N>
__device__ static void add_to(const struct lf_wide<N> &y, float sum[N]) {
#pragma unroll
    for (uint32_t c = 0; c < N; c++) {
        sum[c] = sum[c] + lf_bf16_to_f32(y.at[c]);
        LF_CONTROL(36, sum[c] = lf_fault_bf16(sum[c]);) // 36: the running total rounded to bf16
    }
}

// What a row's experts add up to: SIDE of them are on their way together.
template <uint32_t N>
__device__ static struct lf_wide<N> joined(const struct lf_hc_expand_args &a, size_t row,
                                           uint32_t d) {
    enum { SIDE = 8 };
    const uint32_t *pair = a.pair + row * a.top;
    uint32_t top = a.top;
    float sum[N] = {};
    struct lf_wide<N> own[SIDE], shared = {}, b;
    LF_CONTROL(33, top--;) // 33: the last expert is left out
    LF_CONTROL(35, pair -= row == 5 ? a.top : 0;) // 35: the row at place 5 takes its neighbour's
    if (a.shared)
        shared = lf_wide_load<N>(a.shared + row * a.dim + d);
#pragma unroll 1
    for (uint32_t first = 0; first < top; first += SIDE) {
        uint32_t at[SIDE];
#pragma unroll
        for (uint32_t k = 0; k < SIDE; k++) {
            at[k] = first + k < top ? pair[first + k] : 0;
            LF_CONTROL(34, if (first + k < top) at[k] = pair[top - 1 - first - k];) // 34: by pairs
        }
#pragma unroll
        for (uint32_t k = 0; k < SIDE; k++)
            if (first + k < top)
                own[k] = lf_wide_load<N>(a.expert + (size_t)at[k] * a.dim + d);
#pragma unroll
        for (uint32_t k = 0; k < SIDE; k++)
            if (first + k < top)
                add_to<N>(own[k], sum);
    }
#pragma unroll
    for (uint32_t c = 0; c < N; c++) {
        float last = lf_bf16_to_f32(shared.at[c]);
        LF_CONTROL(31, last = 2 * last;) // 31: the shared expert is added twice
        LF_CONTROL(32, last = 0;) // 32: the shared expert is left out
        if (a.shared)
            sum[c] = sum[c] + last;
        b.at[c] = lf_bf16_settle(sum[c]);
        LF_CONTROL(37, b.at[c] = (uint16_t)(lf_f32_bits(sum[c]) >> 16);) // 37: cut, not rounded
    }
    return b;
}

// JOINS: with experts.
template <uint32_t N, uint32_t MOST, bool JOINS>
__device__ static void load_columns(const struct lf_hc_expand_args &a, size_t row, uint32_t d,
                                    struct columns<N, MOST> *columns) {
    const uint16_t *x = a.x + row * a.streams * a.dim + d;
#pragma unroll
    for (uint32_t i = 0; i < MOST; i++)
        if (i < a.streams)
            columns->old[i] = lf_wide_load<N>(x + (size_t)i * a.dim);
    columns->b = JOINS ? joined<N>(a, row, d) : lf_wide_load<N>(a.b + row * a.dim + d);
}

// What a row's streams are multiplied by.
struct mix {
    const float *post, *comb, *pre;
};

__device__ static struct mix mix_of(const struct lf_hc_expand_args &a, size_t row) {
    size_t n = a.streams;
    struct mix mix = {a.post + row * n, a.comb + row * n * n, a.pre + row * n};
    LF_CONTROL(25, mix.comb = row == 5 ? a.comb : mix.comb;) // 25: place 5 takes the first row's
    LF_CONTROL(30, mix.pre = a.pre;) // 30: with the first row's weights
    return mix;
}

// The new columns of stream j.
template <uint32_t N, uint32_t MOST>
__device__ static struct lf_wide<N> expanded(const struct lf_hc_expand_args &a, struct mix mix,
                                             const struct columns<N, MOST> &x, uint32_t j) {
    float sum[N], post = mix.post[j];
    struct lf_wide<N> y;
#pragma unroll
    for (uint32_t c = 0; c < N; c++) {
        sum[c] = post * lf_bf16_to_f32(x.b.at[c]);
        LF_CONTROL(22, sum[c] = 0;) // 22: the sublayer's output is left out
    }
#pragma unroll
    for (uint32_t i = 0; i < MOST; i++)
        if (i < a.streams) {
            float weight = mix.comb[i * a.streams + j];
            LF_CONTROL(21, weight = mix.comb[j * a.streams + i];) // 21: over comb's second index
            LF_CONTROL(23, weight = i + 1 < a.streams ? weight : 0;) // 23: without the last one
#pragma unroll
            for (uint32_t c = 0; c < N; c++)
                sum[c] = fmaf(weight, lf_bf16_to_f32(x.old[i].at[c]), sum[c]);
        }
#pragma unroll
    for (uint32_t c = 0; c < N; c++) {
        LF_CONTROL(28, sum[c] = lf_fault_finite(sum[c]);) // 28: what is not finite counts as 0
        y.at[c] = lf_bf16_settle(sum[c]);
    }
    return y;
}

// Old streams are in registers before the first new one is stored; their sum by pre: NEXT alone.
template <uint32_t N, uint32_t MOST, bool NEXT>
__device__ static struct lf_wide<N> store_columns(const struct lf_hc_expand_args &a, size_t row,
                                                  uint32_t d, struct mix mix,
                                                  struct columns<N, MOST> x) {
    float sum[N] = {};
    struct lf_wide<N> collapsed;
    LF_CONTROL(26, if (d && d + N >= a.dim) return {};) // 26: the last columns stay as they were
    LF_CONTROL(27, a.x[(size_t)gridDim.x * a.streams * a.dim] = 0;) // 27: past the last stream
#pragma unroll 1
    for (uint32_t j = 0; j < a.streams; j++) {
        uint16_t *to = a.x + (row * a.streams + j) * a.dim + d;
        struct lf_wide<N> y = expanded<N, MOST>(a, mix, x, j);
        lf_wide_store(to, y);
        LF_CONTROL(29, y = x.old[j];) // 29: the old streams are collapsed
        LF_CONTROL(24, x.old[j] = y;) // 24: later streams see the new ones before them
#pragma unroll
        for (uint32_t c = 0; NEXT && c < N; c++) {
            float v = lf_bf16_to_f32(y.at[c]);
            sum[c] = j ? fmaf(mix.pre[j], v, sum[c]) : mix.pre[j] * v;
        }
    }
#pragma unroll
    for (uint32_t c = 0; c < N; c++)
        collapsed.at[c] = lf_bf16_settle(sum[c]);
    return collapsed;
}

// A thread N columns of all streams.
template <uint32_t N, uint32_t MOST, bool JOINS>
__global__ static void hc_expand_columns(struct lf_hc_expand_args a) {
    lf_take_turn();
    uint32_t d = (blockIdx.y * THREADS + threadIdx.x) * N;
    struct columns<N, MOST> x;
    size_t row = blockIdx.x;
    if (d >= a.dim)
        return;
    load_columns<N, MOST, JOINS>(a, row, d, &x);
    store_columns<N, MOST, false>(a, row, d, mix_of(a, row), x);
}

// Of few rows: the last of a row's blocks norms what all of them collapsed.
enum { NORMED_THREADS = LF_NORM_MOST, NORMED_WIDE = 2 };
enum { NORMED_COLUMNS = NORMED_THREADS * NORMED_WIDE };
struct normed {
    struct lf_hc_expand_args a;
    uint32_t *handed; // [rows][dim / 2] zeros
};

// The row's own in shared memory, ahead of a meeting.
__device__ static struct mix bring_mix(const struct mix &mix, uint32_t streams, uint32_t i,
                                       float own, float *to) {
    if (i < streams * (streams + 2))
        to[i] = own;
    return {to, to + 2 * streams, to + streams};
}

__device__ static float load_mix(const struct mix &mix, uint32_t streams, uint32_t i) {
    if (i >= streams * (streams + 2))
        return 0;
    return i < streams ? mix.post[i] : i < 2 * streams ? mix.pre[i - streams]
                                                       : mix.comb[i - 2 * streams];
}

// Never all ones, as a NaN has one pattern.
__device__ static uint32_t word_of(struct lf_wide<2> two) {
    return two.at[0] | (uint32_t)two.at[1] << 16;
}

__device__ static struct lf_wide<LF_WIDE> wide_of(uint4 four) {
    struct lf_wide<LF_WIDE> wide;
    memcpy(&wide, &four, sizeof wide);
    return wide;
}

// A thread's columns of the row that its blocks collapsed.
__device__ static struct lf_norm_share<LF_WIDE, LF_NORM_SHORT> take_columns(uint32_t *handed,
                                                                            uint32_t dim) {
    struct lf_norm_share<LF_WIDE, LF_NORM_SHORT> own = {};
    uint32_t at = lf_norm_place<LF_WIDE>(0);
    if (at < dim)
        own.at[0] = wide_of(lf_take_four(handed + at / 2));
    LF_CONTROL(38, if (at + LF_WIDE == dim) own = {};) // 38: the row's last columns do not come
    return own;
}

template <bool JOINS>
__global__ static void __launch_bounds__(NORMED_THREADS)
    hc_expand_normed(const __grid_constant__ struct normed n) {
    __shared__ float4 stage[LF_NORM_STAGE / 4];
    __shared__ float mixed[FEW_STREAMS * (FEW_STREAMS + 2)];
    struct lf_norm_share<LF_WIDE, LF_NORM_SHORT> own, w;
    struct columns<NORMED_WIDE, FEW_STREAMS> x;
    const struct lf_hc_expand_args &a = n.a;
    size_t row = blockIdx.x, first = row * a.dim;
    uint32_t d = blockIdx.y * NORMED_COLUMNS + threadIdx.x * NORMED_WIDE;
    lf_let_next_begin();
    lf_norm_load(a.norm, a.dim, &w); // a weight: no launch writes it
    lf_wait_for_launches();
    struct mix mix = mix_of(a, row);
    float weight = load_mix(mix, a.streams, threadIdx.x);
    if (d < a.dim)
        load_columns<NORMED_WIDE, FEW_STREAMS, JOINS>(a, row, d, &x);
    mix = bring_mix(mix, a.streams, threadIdx.x, weight, mixed);
    __syncthreads();
    if (d < a.dim)
        lf_hand(n.handed + (first + d) / 2,
                word_of(store_columns<NORMED_WIDE, FEW_STREAMS, true>(a, row, d, mix, x)));
    if (blockIdx.y + 1 < gridDim.y)
        return;
    own = take_columns(n.handed + first / 2, a.dim);
    float partial = lf_norm_add(own, a.dim, (float *)stage, 0);
    float inverse = lf_norm_inverse(partial, a.dim, a.eps);
    lf_norm_store(own, w, inverse, a.dim, a.y + first, a.quantized ? a.quantized + first : NULL);
}

static void launch_normed(struct lf_device *device, const struct lf_hc_expand_args *args) {
    struct normed normed = {*args, lf_cuda_handed(device->cuda, LF_CUDA_COLUMNS)};
    dim3 grid(args->rows, lf_blocks(args->dim, NORMED_COLUMNS));
    lf_cuda_launch(device, "hc_expand",
                   args->pair ? hc_expand_normed<true> : hc_expand_normed<false>, grid,
                   NORMED_THREADS, normed);
}

template <uint32_t N, uint32_t MOST>
static void launch_columns(struct lf_device *device, const struct lf_hc_expand_args *args) {
    dim3 grid(args->rows, lf_blocks(args->dim, THREADS * N));
    lf_cuda_launch(device, "hc_expand",
                   args->pair ? hc_expand_columns<N, MOST, true>
                              : hc_expand_columns<N, MOST, false>,
                   grid, THREADS, *args);
}

static bool is_wide(const struct lf_hc_expand_args *args) {
    return lf_wide_fits(args->x, args->dim) && lf_wide_fits(args->b, args->dim) &&
           lf_wide_fits(args->expert, args->dim) && lf_wide_fits(args->shared, args->dim) &&
           lf_wide_fits(args->norm, args->dim) && lf_wide_fits(args->y, args->dim) &&
           lf_wide_fits(args->quantized, args->dim);
}

void lf_hc_expand_cuda(struct lf_device *device, const struct lf_hc_expand_args *args) {
    bool few = args->streams <= FEW_STREAMS, wide = is_wide(args);
    LF_ASSERT(args->streams <= LF_STREAMS_MAX && (!args->pre || args->norm));
    LF_ASSERT(args->pair ? args->expert : args->b);
    LF_ASSERT(!args->quantized || (args->pre && args->dim % LF_ACT_GROUP == 0));
    // Of more rows two launches take less.
    bool at_once = args->dim <= LF_NORM_STAGE && args->rows <= FEW_ROWS;
    if (args->pre && wide && few && at_once) {
        launch_normed(device, args);
        return;
    }
    if (!wide)
        launch_columns<1, LF_STREAMS_MAX>(device, args);
    else if (few)
        launch_columns<LF_WIDE, FEW_STREAMS>(device, args);
    else
        launch_columns<LF_WIDE, LF_STREAMS_MAX>(device, args);
    if (args->pre) {
        struct lf_hc_collapse_args next = lf_hc_expand_next(args);
        lf_hc_collapse_cuda(device, &next);
    }
}
