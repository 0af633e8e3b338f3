#include "kernel/hc_expand/hc_expand.h"

#include "format/topology.h"
#include "kernel/wide.cuh"

enum { THREADS = 128 };

// A thread N columns of all streams: the old ones are read before the first new one is written.
template <uint32_t N, uint32_t MOST>
__global__ static void hc_expand_columns(struct lf_hc_expand_args a) {
    lf_take_turn();
    uint32_t d = (blockIdx.y * THREADS + threadIdx.x) * N;
    if (d >= a.dim)
        return;
    size_t row = blockIdx.x;
    uint16_t *x = a.x + row * a.streams * a.dim + d;
    const float *post = a.post + row * a.streams;
    const float *comb = a.comb + row * a.streams * a.streams;
    LF_CONTROL(5, comb = row == 5 ? a.comb : comb;) // 5: the row at place 5 takes the first's comb
    LF_CONTROL(6, if (d && d + N >= a.dim) return;) // 6: the last columns are left as they were
    LF_CONTROL(7, a.x[(size_t)gridDim.x * a.streams * a.dim] = 0;) // 7: past the last stream
    struct lf_wide<N> old[MOST], b = lf_wide_load<N>(a.b + row * a.dim + d);
#pragma unroll
    for (uint32_t i = 0; i < MOST; i++)
        if (i < a.streams)
            old[i] = lf_wide_load<N>(x + (size_t)i * a.dim);
    for (uint32_t j = 0; j < a.streams; j++) {
        float sum[N];
        struct lf_wide<N> y;
#pragma unroll
        for (uint32_t c = 0; c < N; c++) {
            sum[c] = post[j] * lf_bf16_to_f32(b.at[c]);
            LF_CONTROL(2, sum[c] = 0;) // 2: the sublayer's output is left out
        }
#pragma unroll
        for (uint32_t i = 0; i < MOST; i++)
            if (i < a.streams) {
                float weight = comb[i * a.streams + j];
                LF_CONTROL(1, weight = comb[j * a.streams + i];) // 1: over comb's second index
                LF_CONTROL(3, weight = i + 1 < a.streams ? weight : 0;) // 3: without the last one
#pragma unroll
                for (uint32_t c = 0; c < N; c++)
                    sum[c] = fmaf(weight, lf_bf16_to_f32(old[i].at[c]), sum[c]);
            }
#pragma unroll
        for (uint32_t c = 0; c < N; c++) {
            LF_CONTROL(8, sum[c] = lf_fault_finite(sum[c]);) // 8: what is not finite counts as 0
            y.at[c] = lf_bf16_settle(sum[c]);
        }
        LF_CONTROL(4, old[j] = y;) // 4: later streams see the new ones before them
        lf_wide_store(x + (size_t)j * a.dim, y);
    }
}

void lf_hc_expand_cuda(struct lf_device *device, const struct lf_hc_expand_args *args) {
    enum { FEW = 4 };
    LF_ASSERT(args->streams <= LF_STREAMS_MAX);
    bool wide = lf_wide_fits(args->x, args->dim) && lf_wide_fits(args->b, args->dim);
    dim3 grid(args->rows, lf_blocks(args->dim, THREADS * (wide ? LF_WIDE : 1)));
    lf_cuda_launch(device, "hc_expand",
                   !wide                  ? hc_expand_columns<1, LF_STREAMS_MAX>
                   : args->streams <= FEW ? hc_expand_columns<LF_WIDE, FEW>
                                          : hc_expand_columns<LF_WIDE, LF_STREAMS_MAX>,
                   grid, THREADS, *args);
}
