#include "kernel/hc_mix/hc_mix.h"

#include "format/topology.h"
#include "kernel/launch.cuh"
#include "kernel/math.h"
#include "kernel/settle.h"

// A block of dots: a row and two outputs; each thread brings SHARE elements of a stretch near.
enum { OUTS = 2, DOT_THREADS = 256, SHARE = 8, STRETCH = DOT_THREADS * SHARE };
enum { MIX_THREADS = LF_STREAMS_MAX * LF_STREAMS_MAX };

struct stretch {
    float fn[OUTS][STRETCH], x[STRETCH];
};

// A thread's elements of the stretch that begins at k0, on their way; zeros past the row.
struct share {
    float fn[OUTS][SHARE];
    uint16_t x[SHARE];
};

__device__ static void fetch(const float *const fn[OUTS], const uint16_t *x, uint32_t k0,
                             uint32_t n, struct share *share) {
#pragma unroll
    for (uint32_t i = 0; i < SHARE; i++) {
        uint32_t k = k0 + i * DOT_THREADS + threadIdx.x;
        share->x[i] = k < n ? x[k] : 0;
#pragma unroll
        for (uint32_t o = 0; o < OUTS; o++)
            share->fn[o][i] = k < n ? fn[o][k] : 0.0f;
    }
}

__device__ static void place(const struct share *share, struct stretch *s) {
#pragma unroll
    for (uint32_t i = 0; i < SHARE; i++) {
        uint32_t at = i * DOT_THREADS + threadIdx.x;
        s->x[at] = lf_bf16_to_f32(share->x[i]);
#pragma unroll
        for (uint32_t o = 0; o < OUTS; o++)
            s->fn[o][at] = share->fn[o][i];
    }
}

// 16 threads a sum: both outputs' dots, then x^2 in the second warp's two halves alike.
__device__ static float partial_of(const struct stretch *s, uint32_t n, float partial) {
    const float *left = threadIdx.x < LF_WARP ? s->fn[threadIdx.x / 16] : s->x;
#pragma unroll 8
    for (uint32_t k = threadIdx.x % 16; k < n; k += 16)
        partial = fmaf(left[k], s->x[k], partial);
    return partial;
}

// Output `out` of a row: pre and post are ready, comb still has its softmax before it.
__device__ static void store_output(const struct lf_hc_mix_args &a, size_t row, uint32_t out,
                                    float dot, float rho) {
    uint32_t s = a.streams;
    float m = dot * rho * a.scale[out < s ? 0 : out < 2 * s ? 1 : 2] + a.base[out];
    if (out < s)
        a.pre[row * s + out] = lf_f32_settle(lf_sigmoid(m) + a.hc_eps);
    else if (out < 2 * s)
        a.post[row * s + (out - s)] = lf_f32_settle(2.0f * lf_sigmoid(m));
    else
        a.comb[row * s * s + (out - 2 * s)] = m;
}

__global__ static void hc_mix_dots(struct lf_hc_mix_args a) {
    __shared__ struct stretch stretch;
    __shared__ float dot[OUTS], square;
    uint32_t outs = a.streams * (2 + a.streams), out = blockIdx.y * OUTS, t = threadIdx.x;
    uint32_t n = a.streams * a.dim;
    const uint16_t *x = a.x + (size_t)blockIdx.x * n;
    const float *fn[OUTS];
    float partial = 0;
    struct share share;
    for (uint32_t o = 0; o < OUTS; o++)
        fn[o] = a.fn + (size_t)(out + o < outs ? out + o : outs - 1) * n;
    fetch(fn, x, 0, n, &share);
    for (uint32_t k = 0; k < n; k += STRETCH) {
        place(&share, &stretch);
        __syncthreads();
        fetch(fn, x, k + STRETCH, n, &share);
        if (t < 2 * LF_WARP)
            partial = partial_of(&stretch, n - k < STRETCH ? n - k : STRETCH, partial);
        __syncthreads();
    }
    float sum = lf_lanes_tree16(partial);
    if (t < LF_WARP && t % 16 == 0)
        dot[t / 16] = sum;
    else if (t == LF_WARP)
        square = sum;
    __syncthreads();
    if (t < OUTS && out + t < outs) {
        float rho = 1.0f / sqrtf(square / (float)n + a.norm_eps);
        store_output(a, blockIdx.x, out + t, dot[t], rho);
    }
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

// A block a row. The softmax is the first pass by rows.
__global__ static void hc_mix_comb(struct lf_hc_mix_args a) {
    __shared__ float comb[MIX_THREADS];
    uint32_t s = a.streams, t = threadIdx.x;
    float *own = a.comb + (size_t)blockIdx.x * s * s + t;
    if (t < s * s)
        comb[t] = *own;
    __syncthreads();
    if (t < s)
        softmax_row(comb + t * s, s, a.hc_eps);
    __syncthreads();
    for (uint32_t iter = 0; iter < a.sinkhorn_iters; iter++) {
        if (iter >= 1)
            normalize(comb, s, 1, a.hc_eps);
        normalize(comb, s, s, a.hc_eps);
    }
    if (t < s * s)
        *own = lf_f32_settle(comb[t]);
}

void lf_hc_mix_cuda(struct lf_device *device, const struct lf_hc_mix_args *args) {
    LF_ASSERT(args->streams <= LF_STREAMS_MAX);
    dim3 grid(args->rows, lf_blocks(args->streams * (2 + args->streams), OUTS));
    lf_cuda_launch(device, "hc_mix", hc_mix_dots, grid, DOT_THREADS, *args);
    uint32_t threads = (args->streams * args->streams + LF_WARP - 1) / LF_WARP * LF_WARP;
    lf_cuda_launch(device, "hc_mix", hc_mix_comb, dim3(args->rows), threads, *args);
}
