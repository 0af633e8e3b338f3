#include "kernel/rope/rope.h"

#include "kernel/launch.cuh"
#include "kernel/settle.h"

enum { THREADS = 256 };

// A thread a pair of one head.
__global__ static void rope_pairs(struct lf_rope_args a) {
    uint32_t pairs = a.rope_dim / 2, at = blockIdx.y * THREADS + threadIdx.x;
    if (at >= a.heads * pairs)
        return;
    uint32_t head = at / pairs, i = at % pairs;
    uint16_t *x = a.x + blockIdx.x * a.x_stride + (size_t)head * a.head_dim +
                  (a.head_dim - a.rope_dim) + 2 * i;
    float c = a.cos[(size_t)blockIdx.x * pairs + i];
    float s = (a.inverse ? -1.0f : 1.0f) * a.sin[(size_t)blockIdx.x * pairs + i];
    float e = lf_bf16_to_f32(x[0]), o = lf_bf16_to_f32(x[1]);
    x[0] = lf_bf16_settle(e * c - o * s);
    x[1] = lf_bf16_settle(e * s + o * c);
}

void lf_rope_cuda(struct lf_device *device, const struct lf_rope_args *args) {
    dim3 grid(args->rows, lf_blocks((uint64_t)args->heads * (args->rope_dim / 2), THREADS));
    lf_cuda_launch(device, "rope", rope_pairs, grid, THREADS, *args);
}
