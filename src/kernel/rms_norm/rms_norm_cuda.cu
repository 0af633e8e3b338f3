#include "kernel/rms_norm/rms_norm.h"

#include "kernel/launch.cuh"
#include "kernel/settle.h"

enum { THREADS = 256, STAGE = 4096 };

// One warp adds the 16 partials, each in both of its halves; all threads bring the elements near.
__global__ static void rms_norm_rows(struct lf_rms_norm_args a) {
    __shared__ uint16_t stage[STAGE];
    __shared__ float inverse;
    const uint16_t *x = a.x + blockIdx.x * a.x_stride;
    uint16_t *y = a.y + blockIdx.x * a.y_stride;
    float partial = 0;
    for (uint32_t first = 0; first < a.dim; first += STAGE) {
        uint32_t n = a.dim - first < STAGE ? a.dim - first : STAGE;
        for (uint32_t i = threadIdx.x; i < n; i += THREADS)
            stage[i] = x[first + i];
        __syncthreads();
        if (threadIdx.x < LF_WARP)
#pragma unroll 8
            for (uint32_t i = threadIdx.x % 16; i < n; i += 16) {
                float v = lf_bf16_to_f32(stage[i]);
                partial = fmaf(v, v, partial);
            }
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
