#include "kernel/compress_pool/compress_pool.h"

#include "kernel/launch.cuh"
#include "kernel/math.h"
#include "kernel/settle.h"

enum { THREADS = 128 };

__global__ static void compress_pool_columns(struct lf_compress_pool_args a) {
    uint32_t i = blockIdx.y * THREADS + threadIdx.x;
    if (i >= a.dim)
        return;
    const float *first = a.first[blockIdx.x], *second = a.second[blockIdx.x];
    float v0 = first[i], g0 = first[a.dim + i], v1 = second[i], g1 = second[a.dim + i];
    float top = g0 > g1 ? g0 : g1;
    float e0 = lf_exp(g0 - top), e1 = lf_exp(g1 - top), sum = e0 + e1;
    float weight0 = e0 / sum, weight1 = e1 / sum;
    a.y[(size_t)blockIdx.x * a.dim + i] = lf_bf16_settle(fmaf(weight1, v1, weight0 * v0));
}

void lf_compress_pool_cuda(struct lf_device *device, const struct lf_compress_pool_args *args) {
    dim3 grid(args->entries, lf_blocks(args->dim, THREADS));
    lf_cuda_launch(device, "compress_pool", compress_pool_columns, grid, THREADS, *args);
}
