#include "kernel/compress_pool/compress_pool.h"

#include "kernel/launch.cuh"
#include "kernel/math.h"
#include "kernel/settle.h"

enum { THREADS = 128 };

__global__ static void compress_pool_columns(struct lf_compress_pool_args a) {
    lf_take_turn();
    uint32_t i = blockIdx.y * THREADS + threadIdx.x;
    if (i >= a.dim)
        return;
    const float *first = a.first[blockIdx.x], *second = a.second[blockIdx.x];
    LF_CONTROL(7, second = blockIdx.x == 5 ? a.second[4] : second;)
    float v0 = first[i], g0 = first[a.dim + i], v1 = second[i], g1 = second[a.dim + i];
    LF_CONTROL(9, g0 = g0 == g0 ? g0 : -INFINITY;) // 9: a NaN gate counts as minus infinity
    float top = g0 > g1 ? g0 : g1;
    LF_CONTROL(1, top = 0;) // 1: the maximum is not subtracted
    float e0 = lf_exp(g0 - top), e1 = lf_exp(g1 - top), sum = e0 + e1;
    LF_CONTROL(2, e1 = 0; sum = e0;) // 2: the second entry dropped
    float weight0 = e0 / sum, weight1 = e1 / sum;
    LF_CONTROL(3, float held = weight0; weight0 = weight1; weight1 = held;)
    LF_CONTROL(5, weight0 = lf_fault_bf16(weight0); weight1 = lf_fault_bf16(weight1);)
    LF_CONTROL(6, weight0 = e0; weight1 = e1;) // 6: not divided by the sum
    float product = weight0 * v0;
    LF_CONTROL(4, product = lf_fault_bf16(product);) // 4: the first product rounded to bf16
    LF_CONTROL(8, a.y[(size_t)gridDim.x * a.dim] = 0;) // 8: a write past the entry
    a.y[(size_t)blockIdx.x * a.dim + i] = lf_bf16_settle(fmaf(weight1, v1, product));
}

void lf_compress_pool_cuda(struct lf_device *device, const struct lf_compress_pool_args *args) {
    dim3 grid(args->entries, lf_blocks(args->dim, THREADS));
    lf_cuda_launch(device, "compress_pool", compress_pool_columns, grid, THREADS, *args);
}
