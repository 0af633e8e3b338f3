#include "kernel/hc_expand/hc_expand.h"

#include "format/topology.h"
#include "kernel/launch.cuh"
#include "kernel/settle.h"

enum { THREADS = 256 };

// A thread a column of all streams: the old ones are read before the first new one is written.
__global__ static void hc_expand_columns(struct lf_hc_expand_args a) {
    uint32_t d = blockIdx.y * THREADS + threadIdx.x;
    if (d >= a.dim)
        return;
    size_t row = blockIdx.x;
    uint16_t *x = a.x + row * a.streams * a.dim + d;
    const float *post = a.post + row * a.streams;
    const float *comb = a.comb + row * a.streams * a.streams;
    float old[LF_STREAMS_MAX], b = lf_bf16_to_f32(a.b[row * a.dim + d]);
#pragma unroll
    for (uint32_t i = 0; i < LF_STREAMS_MAX; i++)
        old[i] = i < a.streams ? lf_bf16_to_f32(x[(size_t)i * a.dim]) : 0.0f;
    for (uint32_t j = 0; j < a.streams; j++) {
        float sum = post[j] * b;
#pragma unroll
        for (uint32_t i = 0; i < LF_STREAMS_MAX; i++)
            if (i < a.streams)
                sum = fmaf(comb[i * a.streams + j], old[i], sum);
        x[(size_t)j * a.dim] = lf_bf16_settle(sum);
    }
}

void lf_hc_expand_cuda(struct lf_device *device, const struct lf_hc_expand_args *args) {
    LF_ASSERT(args->streams <= LF_STREAMS_MAX);
    dim3 grid(args->rows, lf_blocks(args->dim, THREADS));
    lf_cuda_launch(device, "hc_expand", hc_expand_columns, grid, THREADS, *args);
}
