#include "kernel/rms_norm/rms_norm.h"

#include "kernel/launch.cuh"
#include "kernel/settle.h"

enum { THREADS = 256, STAGE = 4096 };

// One warp adds the 16 partials, each in both of its halves; all threads bring the elements near.
__global__ static void rms_norm_rows(struct lf_rms_norm_args a) {
    lf_take_turn();
    __shared__ uint16_t stage[STAGE];
    __shared__ float inverse;
    const uint16_t *x = a.x + blockIdx.x * a.x_stride;
    uint16_t *y = a.y + blockIdx.x * a.y_stride;
    float partial = 0;
    for (uint32_t first = 0; first < a.dim; first += STAGE) {
        uint32_t n = a.dim - first < STAGE ? a.dim - first : STAGE;
        LF_CONTROL(1, n -= first + n == a.dim;) // 1: the last element is not in the sum
        LF_CONTROL(4, n -= blockIdx.x == 5 && first + n == a.dim;)
        for (uint32_t i = threadIdx.x; i < n; i += THREADS)
            stage[i] = x[first + i];
        LF_CONTROL(6, for (uint32_t i = threadIdx.x; i < n; i += THREADS) stage[i] *= (stage[i] &
                   0x7F80) < 0x7F80;)
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
        float root = sqrtf(mean + a.eps);
        LF_CONTROL(2, root = sqrtf(mean) + a.eps;) // 2: eps outside the root
        if (threadIdx.x == 0)
            inverse = 1.0f / root;
    }
    __syncthreads();
    LF_CONTROL(5, a.y[(gridDim.x - 1) * a.y_stride + a.dim] = 0;) // 5: a write past the row
    for (uint32_t i = threadIdx.x; i < a.dim; i += THREADS) {
        float v = lf_bf16_to_f32(x[i]) * inverse;
        LF_CONTROL(3, v = lf_fault_bf16(v);) // 3: rounded to bf16 before the weight
        y[i] = lf_bf16_settle(lf_bf16_to_f32(a.w[i]) * v);
    }
}

void lf_rms_norm_cuda(struct lf_device *device, const struct lf_rms_norm_args *args) {
    lf_cuda_launch(device, "rms_norm", rms_norm_rows, dim3(args->rows), THREADS, *args);
}
