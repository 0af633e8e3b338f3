#include "kernel/expert_join/expert_join.h"

#include "kernel/launch.cuh"
#include "kernel/settle.h"

enum { THREADS = 256 };

__global__ static void expert_join_columns(struct lf_expert_join_args a) {
    lf_take_turn();
    uint32_t d = blockIdx.y * THREADS + threadIdx.x;
    if (d >= a.dim)
        return;
    size_t row = blockIdx.x;
    const uint32_t *pair = a.pair + row * a.top;
    float sum = 0;
    uint32_t top = a.top;
    LF_CONTROL(3, top--;) // 3: the last expert is left out
    LF_CONTROL(5, pair -= row == 5 ? a.top : 0;)
    for (uint32_t k = 0; k < top; k++) {
        uint32_t at = pair[k];
        LF_CONTROL(4, at = pair[top - 1 - k];) // 4: experts in the order of their pairs
        sum = sum + lf_bf16_to_f32(a.expert[(size_t)at * a.dim + d]);
        LF_CONTROL(6, sum = lf_fault_bf16(sum);) // 6: the running total rounded to bf16
    }
    float shared = a.shared ? lf_bf16_to_f32(a.shared[row * a.dim + d]) : 0.0f;
    LF_CONTROL(1, shared = 2 * shared;) // 1: the shared expert is added twice
    LF_CONTROL(2, shared = 0;) // 2: the shared expert is left out
    LF_CONTROL(7, a.y[(size_t)gridDim.x * a.dim] = 0;) // 7: a write past the row
    if (a.shared)
        sum = sum + shared;
    a.y[row * a.dim + d] = lf_bf16_settle(sum);
}

void lf_expert_join_cuda(struct lf_device *device, const struct lf_expert_join_args *args) {
    dim3 grid(args->rows, lf_blocks(args->dim, THREADS));
    lf_cuda_launch(device, "expert_join", expert_join_columns, grid, THREADS, *args);
}
