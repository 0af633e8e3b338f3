#include "kernel/rms_norm/rms_norm.h"

#include "kernel/chain16.cuh"
#include "kernel/settle.h"

enum { THREADS = 256, STAGE = 8192 };

// Elements first .. first+STAGE-1 of a row as numbers; zeros past it, up to a whole step.
__device__ static uint32_t bring(const uint16_t *x, uint32_t first, uint32_t dim, float *stage) {
    uint32_t n = dim - first < STAGE ? dim - first : (uint32_t)STAGE;
    uint32_t whole = (n + LF_CHAIN_STEP - 1) / LF_CHAIN_STEP * LF_CHAIN_STEP;
#pragma unroll 8
    for (uint32_t i = threadIdx.x; i < whole; i += THREADS)
        stage[lf_chain_place(i)] = i < n ? lf_bf16_to_f32(x[first + i]) : 0.0f;
    return whole;
}

// One warp adds the 16 partials, each in both of its halves; all threads bring the elements near.
__global__ static void rms_norm_rows(struct lf_rms_norm_args a) {
    __shared__ float stage[STAGE];
    __shared__ float inverse;
    const uint16_t *x = a.x + blockIdx.x * a.x_stride;
    uint16_t *y = a.y + blockIdx.x * a.y_stride;
    float partial = 0;
    for (uint32_t first = 0; first < a.dim; first += STAGE) {
        uint32_t whole = bring(x, first, a.dim, stage);
        __syncthreads();
        if (threadIdx.x < LF_WARP)
            partial = lf_chain_add(stage, stage, whole, partial);
        __syncthreads();
    }
    if (threadIdx.x < LF_WARP) {
        float mean = lf_lanes_tree16(partial) / (float)a.dim;
        if (threadIdx.x == 0)
            inverse = 1.0f / sqrtf(mean + a.eps);
    }
    __syncthreads();
    for (uint32_t i = threadIdx.x; i < a.dim; i += THREADS)
        y[i] = lf_bf16_settle(lf_bf16_to_f32(a.w[i]) * (lf_bf16_to_f32(x[i]) * inverse));
}

void lf_rms_norm_cuda(struct lf_device *device, const struct lf_rms_norm_args *args) {
    lf_cuda_launch(device, "rms_norm", rms_norm_rows, dim3(args->rows), THREADS, *args);
}
