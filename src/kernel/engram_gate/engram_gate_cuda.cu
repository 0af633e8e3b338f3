#include "kernel/engram_gate/engram_gate.h"

#include "kernel/launch.cuh"
#include "kernel/math.h"
#include "kernel/settle.h"

enum { THREADS = 256, STAGE = 2048, SUMS = 3, SUMMING = 64 };

// One block a row and stream. The sums are of x^2, key^2 and x w key, 16 threads each.
struct stage {
    float x[STAGE], key[STAGE], weighted[STAGE]; // 24 KiB
};

__device__ static void fill_stage(const struct lf_engram_gate_args &a, struct stage *stage,
                                  uint32_t first, uint32_t n, const uint16_t *x,
                                  const uint16_t *key) {
    size_t weights = (size_t)blockIdx.y * a.dim + first;
    for (uint32_t c = threadIdx.x; c < n; c += THREADS) {
        float xs = lf_bf16_to_f32(x[first + c]), keys = lf_bf16_to_f32(key[first + c]);
        float q = lf_bf16_to_f32(a.q_weight[weights + c]);
        float k = lf_bf16_to_f32(a.k_weight[weights + c]);
        LF_CONTROL(6, k = 1.0f;) // 6: k_weight left out
        LF_CONTROL(17, q = 1.0f;) // 17: q_weight left out
        stage->x[c] = xs;
        stage->key[c] = keys;
        stage->weighted[c] = xs * (q * k);
    }
}

__device__ static float inverse_rms(float sum, const struct lf_engram_gate_args &a) {
    LF_CONTROL(2, return 1.0f / sqrtf(sum / (float)a.dim);) // 2: eps left out
    return 1.0f / sqrtf(sum / (float)a.dim + a.eps);
}

__device__ static float gate_of(const float sum[SUMS], const struct lf_engram_gate_args &a) {
    float dot = sum[2] * (inverse_rms(sum[0], a) * inverse_rms(sum[1], a)) * a.dot_scale;
    LF_CONTROL(7, dot = sum[2] * inverse_rms(sum[0], a) * a.dot_scale;)
    LF_CONTROL(8, dot = sum[2] * (inverse_rms(sum[0], a) * inverse_rms(sum[1], a));)
    LF_CONTROL(16, dot = sum[2] * inverse_rms(sum[1], a) * a.dot_scale;)
    float size = fabsf(dot) < 1e-6f ? 1e-6f : fabsf(dot);
    LF_CONTROL(3, return lf_sigmoid(copysignf(size, dot));) // 3: no root of the dot
    LF_CONTROL(4, return lf_sigmoid(sqrtf(size));) // 4: the sign of the dot lost after the root
    LF_CONTROL(5, size = fabsf(dot);) // 5: no least dot under the root
    LF_CONTROL(19, return copysignf(sqrtf(size), dot);) // 19: no sigmoid
    return lf_sigmoid(copysignf(sqrtf(size), dot));
}

__global__ static void engram_gate_streams(struct lf_engram_gate_args a) {
    lf_take_turn();
    __shared__ struct stage stage;
    __shared__ float sum[SUMS + 1];
    size_t row = blockIdx.x, stream = blockIdx.y;
    uint16_t *x = a.x + (row * a.streams + stream) * a.dim;
    const uint16_t *kv = a.kv + row * (a.streams + 1) * a.dim;
    LF_CONTROL(12, kv -= row == 5 ? (a.streams + 1) * a.dim : 0;)
    const uint16_t *key = kv + stream * a.dim, *value = kv + (size_t)a.streams * a.dim;
    LF_CONTROL(9, value = kv + (size_t)(a.streams - 1) * a.dim;)
    uint32_t which = threadIdx.x / 16 % (SUMS + 1), lane = threadIdx.x % 16;
    which = which < SUMS ? which : 0;
    const float *left = which == 0 ? stage.x : which == 1 ? stage.key : stage.weighted;
    const float *right = which == 0 ? stage.x : stage.key;
    float partial = 0;
    for (uint32_t first = 0; first < a.dim; first += STAGE) {
        uint32_t n = a.dim - first < STAGE ? a.dim - first : STAGE;
        LF_CONTROL(10, n -= first + n == a.dim;) // 10: the last column is not in the sums
        fill_stage(a, &stage, first, n, x, key);
        __syncthreads();
        if (threadIdx.x < SUMMING)
#pragma unroll 8
            for (uint32_t i = lane; i < n; i += 16)
                partial = fmaf(left[i], right[i], partial);
        __syncthreads();
    }
    float total = lf_lanes_tree16(partial);
    if (threadIdx.x < 16 * SUMS && lane == 0)
        sum[which] = total;
    __syncthreads();
    float gate = a.dead && a.dead[row] ? 0.0f : gate_of(sum, a);
    LF_CONTROL(1, gate = 0;) // 1: every gate is zero, Engram is left out
    LF_CONTROL(11, gate = gate_of(sum, a);) // 11: dead rows are joined
    LF_CONTROL(18, gate = gate == gate ? gate : 0;) // 18: a NaN gate counts as 0
    if (a.gate && threadIdx.x == 0)
        a.gate[row * a.streams + stream] = lf_f32_settle(gate);
    LF_CONTROL(13, a.x[(size_t)gridDim.x * a.streams * a.dim] = 0;)
    LF_CONTROL(14, gate = lf_fault_bf16(gate);) // 14: the gate rounded to bf16 before the join
    for (uint32_t d = threadIdx.x; d < a.dim; d += THREADS) {
        float v = lf_bf16_to_f32(value[d]), old = lf_bf16_to_f32(x[d]), joined = fmaf(gate, v, old);
        LF_CONTROL(15, joined = lf_fault_bf16(gate * v) + old;)
        x[d] = lf_bf16_settle(joined);
    }
}

void lf_engram_gate_cuda(struct lf_device *device, const struct lf_engram_gate_args *args) {
    dim3 grid(args->rows, args->streams);
    lf_cuda_launch(device, "engram_gate", engram_gate_streams, grid, THREADS, *args);
}
