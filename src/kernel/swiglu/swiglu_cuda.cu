#include "kernel/swiglu/swiglu.h"

#include "kernel/act_quant/quantize.cuh"
#include "kernel/math.h"

enum { THREADS = 256 };

// Comparisons are written so that a NaN is neither clamped nor lost.
__device__ static float activated(const struct lf_swiglu_args &a, float gate, float up) {
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
    return h;
}

// A thread N neighbouring elements of one row.
template <uint32_t N>
__global__ static void swiglu_elements(struct lf_swiglu_args a) {
    lf_take_turn();
    uint64_t at = lf_thread() * N, row = at / a.dim;
    bool inside = row < a.rows;
    struct lf_wide<N> gate = {}, up = {}, y;
    if (inside) {
        gate = lf_wide_load<N>(a.gate + at);
        up = lf_wide_load<N>(a.up + at);
    }
    bool weighs = row < a.weighted;
    LF_CONTROL(4, weighs = false;) // 4: the weight is left out
    LF_CONTROL(9, weighs = row + 1 < a.weighted;) // 9: the last row that has a weight goes without
    LF_CONTROL(6, row = row == 5 ? 0 : row;) // 6: the row at place 5 takes the first row's weight
    float weight = weighs ? a.weight[row] : 0;
#pragma unroll
    for (uint32_t e = 0; e < N; e++) {
        float h = activated(a, lf_bf16_to_f32(gate.at[e]), lf_bf16_to_f32(up.at[e]));
        y.at[e] = lf_bf16_settle(weighs ? weight * h : h);
    }
    LF_CONTROL(7, a.y[(uint64_t)a.rows * a.dim] = 0;) // 7: a write past the row
    if (inside)
        lf_wide_store(a.y + at, y);
    if (!a.quantized)
        return;
    struct lf_wide<N> values = lf_quantize<N>(LF_ACT_QA8, y);
    LF_CONTROL(10, values = y;) // 10: quantized values are those that are stored
    if (inside)
        lf_wide_store(a.quantized + at, values);
}

void lf_swiglu_cuda(struct lf_device *device, const struct lf_swiglu_args *args) {
    LF_ASSERT(!args->quantized || args->dim % LF_ACT_GROUP == 0);
    bool wide = lf_wide_fits(args->gate, args->dim) && lf_wide_fits(args->up, args->dim) &&
                lf_wide_fits(args->y, args->dim) && lf_wide_fits(args->quantized, args->dim);
    uint64_t elements = (uint64_t)args->rows * args->dim;
    lf_cuda_launch(device, "swiglu", wide ? swiglu_elements<LF_WIDE> : swiglu_elements<1>,
                   dim3(lf_blocks(elements, THREADS * (wide ? LF_WIDE : 1))), THREADS, *args);
}
