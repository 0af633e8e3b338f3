#include "kernel/swiglu/swiglu.h"

#include "kernel/launch.cuh"
#include "kernel/math.h"
#include "kernel/settle.h"

enum { THREADS = 256 };

// Comparisons are written so that a NaN is neither clamped nor lost.
__global__ static void swiglu_elements(struct lf_swiglu_args a) {
    uint64_t at = lf_thread();
    if (at >= (uint64_t)a.rows * a.dim)
        return;
    float up = lf_bf16_to_f32(a.up[at]), gate = lf_bf16_to_f32(a.gate[at]);
    up = up > a.limit ? a.limit : up;
    up = up < -a.limit ? -a.limit : up;
    gate = gate > a.limit ? a.limit : gate;
    float h = gate * lf_sigmoid(gate) * up;
    if (a.weight)
        h = a.weight[at / a.dim] * h;
    a.y[at] = lf_bf16_settle(h);
}

void lf_swiglu_cuda(struct lf_device *device, const struct lf_swiglu_args *args) {
    uint32_t blocks = lf_blocks((uint64_t)args->rows * args->dim, THREADS);
    lf_cuda_launch(device, "swiglu", swiglu_elements, dim3(blocks), THREADS, *args);
}
