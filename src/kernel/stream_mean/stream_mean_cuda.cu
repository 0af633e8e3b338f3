#include "kernel/stream_mean/stream_mean.h"

#include "kernel/launch.cuh"
#include "kernel/settle.h"

enum { THREADS = 256 };

__global__ static void stream_mean_columns(struct lf_stream_mean_args a) {
    uint32_t d = blockIdx.y * THREADS + threadIdx.x;
    if (d >= a.dim)
        return;
    size_t row = blockIdx.x;
    const uint16_t *x = a.x + row * a.streams * a.dim + d;
    float sum = lf_bf16_to_f32(x[0]);
    for (uint32_t i = 1; i < a.streams; i++)
        sum = sum + lf_bf16_to_f32(x[(size_t)i * a.dim]);
    a.y[row * a.dim + d] = lf_bf16_settle(sum / (float)a.streams);
}

void lf_stream_mean_cuda(struct lf_device *device, const struct lf_stream_mean_args *args) {
    dim3 grid(args->rows, lf_blocks(args->dim, THREADS));
    lf_cuda_launch(device, "stream_mean", stream_mean_columns, grid, THREADS, *args);
}
