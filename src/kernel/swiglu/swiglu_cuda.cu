#include "kernel/swiglu/swiglu.h"

#include "kernel/launch.cuh"
#include "kernel/math.h"
#include "kernel/settle.h"

enum { THREADS = 256 };

// Comparisons are written so that a NaN is neither clamped nor lost.
__global__ static void swiglu_elements(struct lf_swiglu_args a) {
    lf_take_turn();
    uint64_t at = lf_thread();
    if (at >= (uint64_t)a.rows * a.dim)
        return;
    float up = lf_bf16_to_f32(a.up[at]), gate = lf_bf16_to_f32(a.gate[at]);
    up = up > a.limit ? a.limit : up;
    LF_CONTROL(8, up = up < a.limit ? up : a.limit;) // 8: a NaN is clamped
    float low = -a.limit, high = a.limit;
    LF_CONTROL(1, high = INFINITY;) // 1: the gate is not clamped
    LF_CONTROL(2, low = -INFINITY;) // 2: up is clamped on one side only
    up = up < low ? low : up;
    gate = gate > high ? high : gate;
    float h = gate * lf_sigmoid(gate) * up;
    LF_CONTROL(3, h = lf_sigmoid(gate) * up;) // 3: the sigmoid without the gate
    LF_CONTROL(5, h = lf_fault_bf16(h);) // 5: rounded to bf16 before the weight
    uint64_t row = at / a.dim;
    LF_CONTROL(4, a.weight = NULL;) // 4: the weight is left out
    LF_CONTROL(6, row = row == 5 ? 0 : row;) // 6: the row at place 5 takes the first row's weight
    if (a.weight)
        h = a.weight[row] * h;
    a.y[at] = lf_bf16_settle(h);
    LF_CONTROL(7, a.y[(uint64_t)a.rows * a.dim] = 0;) // 7: a write past the row
}

void lf_swiglu_cuda(struct lf_device *device, const struct lf_swiglu_args *args) {
    uint32_t blocks = lf_blocks((uint64_t)args->rows * args->dim, THREADS);
    lf_cuda_launch(device, "swiglu", swiglu_elements, dim3(blocks), THREADS, *args);
}
