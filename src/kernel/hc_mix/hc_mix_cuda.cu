#include "kernel/hc_mix/hc_mix.h"

#include "format/topology.h"
#include "kernel/launch.cuh"
#include "kernel/math.h"
#include "kernel/settle.h"

enum { GROUPS = 26, THREADS = 16 * GROUPS, OUTS_MAX = LF_STREAMS_MAX * (2 + LF_STREAMS_MAX) };

// A lane's partial of output `out`, or past the outputs of x^2.
__device__ static float partial_of(const struct lf_hc_mix_args &a, const uint16_t *x, size_t n,
                                   uint32_t out, uint32_t outs) {
    const float *fn = a.fn + out * n;
    float partial = 0;
    if (out < outs) {
#pragma unroll 16
        for (size_t k = threadIdx.x % 16; k < n; k += 16)
            partial = fmaf(fn[k], lf_bf16_to_f32(x[k]), partial);
    } else if (out == outs) {
#pragma unroll 16
        for (size_t k = threadIdx.x % 16; k < n; k += 16) {
            float v = lf_bf16_to_f32(x[k]);
            partial = fmaf(v, v, partial);
        }
    }
    return partial;
}

// Softmax of one row of comb, then eps on every element; a thread a row.
__device__ static void softmax_row(float *c, uint32_t s, float eps) {
    float max = c[0], sum = 0;
    for (uint32_t j = 1; j < s; j++)
        max = c[j] > max ? c[j] : max;
    for (uint32_t j = 0; j < s; j++) {
        c[j] = lf_exp(c[j] - max);
        sum = sum + c[j];
    }
    for (uint32_t j = 0; j < s; j++)
        c[j] = c[j] / sum + eps;
}

// Each thread divides its element by the sum of its row (step 1) or column (step s), and eps.
__device__ static void normalize(float *comb, uint32_t s, uint32_t step, float eps) {
    uint32_t t = threadIdx.x, first = step == 1 ? t / s * s : t % s;
    float sum = 0;
    for (uint32_t j = 0; t < s * s && j < s; j++)
        sum = sum + comb[first + j * step];
    sum = sum + eps;
    __syncthreads();
    if (t < s * s)
        comb[t] = comb[t] / sum;
    __syncthreads();
}

// The softmax was the first pass by rows.
__device__ static void sinkhorn(float *comb, uint32_t s, uint32_t iters, float eps) {
    if (threadIdx.x < s)
        softmax_row(comb + threadIdx.x * s, s, eps);
    __syncthreads();
    for (uint32_t iter = 0; iter < iters; iter++) {
        if (iter >= 1)
            normalize(comb, s, 1, eps);
        normalize(comb, s, s, eps);
    }
}

// A block a row; 16 threads an output and its 16 partials.
__global__ static void hc_mix_rows(struct lf_hc_mix_args a) {
    __shared__ float dot[OUTS_MAX + 1];
    uint32_t s = a.streams, outs = s * (2 + s), t = threadIdx.x;
    size_t n = (size_t)s * a.dim, row = blockIdx.x;
    const uint16_t *x = a.x + row * n;
    // Both groups of a warp stay in the loop, because the tree needs all lanes.
    for (uint32_t pair = t / LF_WARP * 2; pair <= outs; pair += GROUPS) {
        uint32_t out = pair + t % LF_WARP / 16;
        float sum = lf_lanes_tree16(partial_of(a, x, n, out, outs));
        if (t % 16 == 0 && out <= outs)
            dot[out] = sum;
    }
    __syncthreads();
    float m = 0;
    if (t < outs) {
        float rho = 1.0f / sqrtf(dot[outs] / (float)n + a.norm_eps);
        m = dot[t] * rho * a.scale[t < s ? 0 : t < 2 * s ? 1 : 2] + a.base[t];
    }
    __syncthreads();
    if (t < s)
        a.pre[row * s + t] = lf_f32_settle(lf_sigmoid(m) + a.hc_eps);
    else if (t < 2 * s)
        a.post[row * s + (t - s)] = lf_f32_settle(2.0f * lf_sigmoid(m));
    else if (t < outs)
        dot[t - 2 * s] = m;
    __syncthreads();
    sinkhorn(dot, s, a.sinkhorn_iters, a.hc_eps);
    if (t < s * s)
        a.comb[row * s * s + t] = lf_f32_settle(dot[t]);
}

void lf_hc_mix_cuda(struct lf_cuda *cuda, const struct lf_hc_mix_args *args) {
    LF_ASSERT(args->streams <= LF_STREAMS_MAX);
    lf_cuda_launch(cuda, "hc_mix", hc_mix_rows, dim3(args->rows), THREADS, *args);
}
