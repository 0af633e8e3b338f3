#include "kernel/hc_collapse/hc_collapse.h"

#include "kernel/launch.cuh"
#include "kernel/settle.h"

enum { THREADS = 256 };

__global__ static void hc_collapse_columns(struct lf_hc_collapse_args a) {
    uint32_t d = blockIdx.y * THREADS + threadIdx.x;
    if (d >= a.dim)
        return;
    size_t row = blockIdx.x;
    const uint16_t *x = a.x + row * a.streams * a.dim + d;
    const float *pre = a.pre + row * a.streams;
    float sum = pre[0] * lf_bf16_to_f32(x[0]);
    for (uint32_t i = 1; i < a.streams; i++)
        sum = fmaf(pre[i], lf_bf16_to_f32(x[(size_t)i * a.dim]), sum);
    a.y[row * a.dim + d] = lf_bf16_settle(sum);
}

void lf_hc_collapse_cuda(struct lf_device *device, const struct lf_hc_collapse_args *args) {
    dim3 grid(args->rows, lf_blocks(args->dim, THREADS));
    lf_cuda_launch(device, "hc_collapse", hc_collapse_columns, grid, THREADS, *args);
}
