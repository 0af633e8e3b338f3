#include "kernel/hc_expand/hc_expand.h"

#include "format/topology.h"
#include "kernel/wide.cuh"

enum { THREADS = 128 };

// A thread N columns of all streams: the old ones are read before the first new one is written.
template <uint32_t N>
__global__ static void hc_expand_columns(struct lf_hc_expand_args a) {
    uint32_t d = (blockIdx.y * THREADS + threadIdx.x) * N;
    if (d >= a.dim)
        return;
    size_t row = blockIdx.x;
    uint16_t *x = a.x + row * a.streams * a.dim + d;
    const float *post = a.post + row * a.streams;
    const float *comb = a.comb + row * a.streams * a.streams;
    struct lf_wide<N> old[LF_STREAMS_MAX], b = lf_wide_load<N>(a.b + row * a.dim + d);
#pragma unroll
    for (uint32_t i = 0; i < LF_STREAMS_MAX; i++)
        if (i < a.streams)
            old[i] = lf_wide_load<N>(x + (size_t)i * a.dim);
    for (uint32_t j = 0; j < a.streams; j++) {
        float sum[N];
        struct lf_wide<N> y;
#pragma unroll
        for (uint32_t c = 0; c < N; c++)
            sum[c] = post[j] * lf_bf16_to_f32(b.at[c]);
#pragma unroll
        for (uint32_t i = 0; i < LF_STREAMS_MAX; i++)
            if (i < a.streams)
#pragma unroll
                for (uint32_t c = 0; c < N; c++)
                    sum[c] = fmaf(comb[i * a.streams + j], lf_bf16_to_f32(old[i].at[c]), sum[c]);
#pragma unroll
        for (uint32_t c = 0; c < N; c++)
            y.at[c] = lf_bf16_settle(sum[c]);
        lf_wide_store(x + (size_t)j * a.dim, y);
    }
}

void lf_hc_expand_cuda(struct lf_device *device, const struct lf_hc_expand_args *args) {
    LF_ASSERT(args->streams <= LF_STREAMS_MAX);
    bool wide = lf_wide_fits(args->x, args->dim) && lf_wide_fits(args->b, args->dim);
    dim3 grid(args->rows, lf_blocks(args->dim, THREADS * (wide ? LF_WIDE : 1)));
    lf_cuda_launch(device, "hc_expand", wide ? hc_expand_columns<LF_WIDE> : hc_expand_columns<1>,
                   grid, THREADS, *args);
}
