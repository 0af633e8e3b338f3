#include "kernel/hc_collapse/hc_collapse.h"

#include "format/topology.h"
#include "kernel/rms_norm/norm_row.cuh"

enum { THREADS = 128, MANY_ROWS = 256 };

// The N columns of all of a row's streams that begin at x, dim apart.
template <uint32_t N, uint32_t MOST>
struct columns {
    struct lf_wide<N> of[MOST];
};

template <uint32_t N, uint32_t MOST>
__device__ static void load_columns(const uint16_t *x, uint32_t streams, uint32_t dim,
                                    struct columns<N, MOST> *columns) {
#pragma unroll
    for (uint32_t i = 0; i < MOST; i++)
        if (i < streams)
            columns->of[i] = lf_wide_load<N>(x + (size_t)i * dim);
}

template <uint32_t N, uint32_t MOST>
__device__ static struct lf_wide<N> collapsed(const struct columns<N, MOST> &x, uint32_t streams,
                                              const float *pre) {
    float sum[N];
    struct lf_wide<N> y;
    LF_CONTROL(11, streams -= streams > 1;) // 11: the last stream is not in the sum
#pragma unroll
    for (uint32_t i = 0; i < MOST; i++) {
        if (i >= streams)
            continue;
        float weight = pre[i];
        LF_CONTROL(12, weight = lf_fault_bf16(weight);) // 12: weights rounded to bf16
#pragma unroll
        for (uint32_t c = 0; c < N; c++) {
            float old = lf_bf16_to_f32(x.of[i].at[c]);
            sum[c] = i ? fmaf(weight, old, sum[c]) : weight * old;
            LF_CONTROL(13, sum[c] = lf_fault_bf16(sum[c]);) // 13: the running total as bf16
            LF_CONTROL(16, sum[c] = lf_fault_finite(sum[c]);) // 16: what is not finite counts as 0
        }
    }
#pragma unroll
    for (uint32_t c = 0; c < N; c++)
        y.at[c] = lf_bf16_settle(sum[c]);
    return y;
}

__device__ static const float *weights_of(const struct lf_hc_collapse_args &a) {
    LF_CONTROL(14, if (blockIdx.x == 5) return a.pre;) // 14: the row at place 5 takes the first's
    LF_CONTROL(15, a.y[(size_t)gridDim.x * a.dim] = 0;) // 15: a write past the row
    return a.pre + (size_t)blockIdx.x * a.streams;
}

// A thread N neighbouring columns.
template <uint32_t N, uint32_t MOST>
__global__ static void hc_collapse_columns(struct lf_hc_collapse_args a) {
    lf_take_turn();
    uint32_t d = (blockIdx.y * THREADS + threadIdx.x) * N;
    if (d >= a.dim)
        return;
    size_t row = blockIdx.x;
    struct columns<N, MOST> x;
    load_columns<N, MOST>(a.x + row * a.streams * a.dim + d, a.streams, a.dim, &x);
    lf_wide_store(a.y + row * a.dim + d, collapsed<N, MOST>(x, a.streams, weights_of(a)));
}

// A block a row, whose sums stay with their threads until they are normed.
template <uint32_t OWN, uint32_t MOST>
__global__ static void __launch_bounds__(LF_NORM_STAGE / OWN)
    hc_collapse_normed(struct lf_hc_collapse_args a) {
    __shared__ float4 stage[LF_NORM_STAGE / 4];
    const uint32_t N = LF_WIDE;
    struct lf_norm_share<N, OWN> own = {}, w;
    struct columns<N, MOST> x[OWN / N];
    size_t row = blockIdx.x;
    lf_let_next_begin();
    lf_norm_load(a.norm, a.dim, &w); // a weight: no launch writes it
    lf_wait_for_launches();
    const uint16_t *first = a.x + row * a.streams * a.dim;
    const float *pre = weights_of(a);
#pragma unroll
    for (uint32_t i = 0; i < OWN / N; i++)
        if (lf_norm_place<N>(i) < a.dim)
            load_columns<N, MOST>(first + lf_norm_place<N>(i), a.streams, a.dim, &x[i]);
#pragma unroll
    for (uint32_t i = 0; i < OWN / N; i++)
        if (lf_norm_place<N>(i) < a.dim)
            own.at[i] = collapsed<N, MOST>(x[i], a.streams, pre);
    float partial = lf_norm_add(own, a.dim, (float *)stage, 0);
    LF_CONTROL(17, a.eps = 1;) // 17: another eps
    float inverse = lf_norm_inverse(partial, a.dim, a.eps);
    uint16_t *quantized = a.quantized ? a.quantized + row * a.dim : NULL;
    LF_CONTROL(18, quantized = a.quantized;) // 18: all quantized rows at the first one's place
    lf_norm_store(own, w, inverse, a.dim, a.y + row * a.dim, quantized);
}

template <uint32_t N, uint32_t MOST>
static void launch_columns(struct lf_device *device, const struct lf_hc_collapse_args *args) {
    dim3 grid(args->rows, lf_blocks(args->dim, THREADS * N));
    lf_cuda_launch(device, "hc_collapse", hc_collapse_columns<N, MOST>, grid, THREADS, *args);
}

// Few rows in blocks of many threads: short code. Many rows in small ones.
template <uint32_t MOST>
static void launch_normed(struct lf_device *device, const struct lf_hc_collapse_args *args) {
    bool many = args->rows > MANY_ROWS;
    lf_cuda_launch(device, "hc_collapse",
                   many ? hc_collapse_normed<LF_NORM_LONG, MOST>
                        : hc_collapse_normed<LF_NORM_SHORT, MOST>,
                   dim3(args->rows),
                   many ? (uint32_t)LF_NORM_THREADS : (uint32_t)LF_NORM_MOST, *args);
}

void lf_hc_collapse_cuda(struct lf_device *device, const struct lf_hc_collapse_args *args) {
    enum { FEW = 4 };
    struct lf_rms_norm_args norm = lf_hc_collapse_norm(args);
    bool wide = lf_wide_fits(args->x, args->dim) && lf_norm_is_wide(&norm);
    bool few = args->streams <= FEW;
    LF_ASSERT(args->streams <= LF_STREAMS_MAX);
    LF_ASSERT(!args->quantized || (args->norm && args->dim % LF_ACT_GROUP == 0));
    // A longer row does not fit into a block's registers.
    if (args->norm && wide && args->dim <= LF_NORM_STAGE) {
        few ? launch_normed<FEW>(device, args) : launch_normed<LF_STREAMS_MAX>(device, args);
        return;
    }
    if (!wide)
        launch_columns<1, LF_STREAMS_MAX>(device, args);
    else if (few)
        launch_columns<LF_WIDE, FEW>(device, args);
    else
        launch_columns<LF_WIDE, LF_STREAMS_MAX>(device, args);
    if (args->norm)
        lf_rms_norm_cuda(device, &norm);
}
