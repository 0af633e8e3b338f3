#include "kernel/expert_join/expert_join.h"

#include "kernel/launch.cuh"
#include "kernel/settle.h"

enum { THREADS = 256 };

__global__ static void expert_join_columns(struct lf_expert_join_args a) {
    uint32_t d = blockIdx.y * THREADS + threadIdx.x;
    if (d >= a.dim)
        return;
    size_t row = blockIdx.x;
    const uint32_t *pair = a.pair + row * a.top;
    float sum = 0;
    for (uint32_t k = 0; k < a.top; k++)
        sum = sum + lf_bf16_to_f32(a.expert[(size_t)pair[k] * a.dim + d]);
    if (a.shared)
        sum = sum + lf_bf16_to_f32(a.shared[row * a.dim + d]);
    a.y[row * a.dim + d] = lf_bf16_settle(sum);
}

void lf_expert_join_cuda(struct lf_device *device, const struct lf_expert_join_args *args) {
    dim3 grid(args->rows, lf_blocks(args->dim, THREADS));
    lf_cuda_launch(device, "expert_join", expert_join_columns, grid, THREADS, *args);
}
