// A block's norm of one row, for rms_norm and for kernels that norm what they store.
#pragma once
#include "kernel/act_quant/quantize.cuh"
#include "kernel/chain.cuh"
#include "kernel/rms_norm/rms_norm.h"
#include "kernel/wide.cuh"

// Numbers of a row that a block holds at once: eight a thread, or of longer rows 24.
enum { LF_NORM_THREADS = 256, LF_NORM_MOST = 768, LF_NORM_SHORT = 8, LF_NORM_LONG = 24 };
enum { LF_NORM_STAGE = LF_NORM_THREADS * LF_NORM_LONG };
static_assert(LF_NORM_THREADS * LF_NORM_SHORT % LF_CHAIN_STEP == 0, "partials begin anew");
static_assert(LF_NORM_MOST * LF_NORM_SHORT == LF_NORM_STAGE, "both have room for the same rows");

// A thread's numbers of a stage, all on their way together.
template <uint32_t N, uint32_t OWN>
struct lf_norm_share {
    struct lf_wide<N> at[OWN / N];
};

template <uint32_t N>
__device__ static inline uint32_t lf_norm_place(uint32_t i) {
    return (i * blockDim.x + threadIdx.x) * N;
}

template <uint32_t N, uint32_t OWN>
__device__ static inline void lf_norm_load(const uint16_t *from, uint32_t n,
                                           struct lf_norm_share<N, OWN> *share) {
#pragma unroll
    for (uint32_t i = 0; i < OWN / N; i++) {
        share->at[i] = {};
        if (lf_norm_place<N>(i) < n)
            share->at[i] = lf_wide_load<N>(from + lf_norm_place<N>(i));
    }
}

// Numbers to where the chains read them, with zeros behind them.
template <uint32_t N, uint32_t OWN>
__device__ static inline void lf_norm_stage(const struct lf_norm_share<N, OWN> &share, uint32_t n,
                                            float *stage) {
#pragma unroll
    for (uint32_t i = 0; i < OWN / N; i++)
#pragma unroll
        for (uint32_t e = 0; e < N; e++) {
            uint32_t at = lf_norm_place<N>(i) + e;
            float v = at < n ? lf_bf16_to_f32(share.at[i].at[e]) : 0.0f;
            LF_CONTROL(6, v = lf_fault_finite(v);) // 6: what is not finite counts as 0
            if (at < lf_chain_room(n))
                stage[lf_chain_place(lf_norm_place<N>(i), e)] = v;
        }
}

// The squares of n numbers into a warp's partials, in both of its halves.
template <uint32_t N, uint32_t OWN>
__device__ static inline float lf_norm_add(const struct lf_norm_share<N, OWN> &share, uint32_t n,
                                           float *stage, float partial) {
    lf_norm_stage(share, n, stage);
    __syncthreads();
    if (threadIdx.x < LF_WARP)
        partial = lf_chain_add(stage, stage, lf_chain_room(n), partial);
    __syncthreads();
    return partial;
}

// What all threads multiply a row's numbers by.
__device__ static inline float lf_norm_inverse(float partial, uint32_t dim, float eps) {
    __shared__ float inverse;
    if (threadIdx.x < LF_WARP) {
        float mean = lf_lanes_tree16(partial) / (float)dim;
        float root = sqrtf(mean + eps);
        LF_CONTROL(2, root = sqrtf(mean) + eps;) // 2: eps outside the root
        if (threadIdx.x == 0)
            inverse = 1.0f / root;
    }
    __syncthreads();
    return inverse;
}

// To y, and where quantized is given its QA8 values there.
template <uint32_t N, uint32_t OWN>
__device__ static inline void lf_norm_store(const struct lf_norm_share<N, OWN> &x,
                                            const struct lf_norm_share<N, OWN> &w, float inverse,
                                            uint32_t n, uint16_t *y, uint16_t *quantized) {
#pragma unroll
    for (uint32_t i = 0; i < OWN / N; i++) {
        struct lf_wide<N> out;
        uint32_t at = lf_norm_place<N>(i);
#pragma unroll
        for (uint32_t e = 0; e < N; e++) {
            float v = lf_bf16_to_f32(x.at[i].at[e]) * inverse;
            LF_CONTROL(3, v = lf_fault_bf16(v);) // 3: rounded to bf16 before the weight
            out.at[e] = lf_bf16_settle(lf_bf16_to_f32(w.at[i].at[e]) * v);
        }
        if (at < n)
            lf_wide_store(y + at, out);
        if (!quantized)
            continue;
        LF_CONTROL(7, if (at < n) lf_wide_store(quantized + at, out); continue;) // 7: as they are
        LF_CONTROL(8, if (at / LF_ACT_GROUP + 1 == n / LF_ACT_GROUP) continue;) // 8: the last group
        out = lf_quantize<N>(LF_ACT_QA8, out);
        if (at < n)
            lf_wide_store(quantized + at, out);
    }
}

// Whether a row's numbers can be read eight at once.
static inline bool lf_norm_is_wide(const struct lf_rms_norm_args *args) {
    return lf_wide_fits(args->x, args->dim) && lf_wide_fits(args->y, args->dim) &&
           lf_wide_fits(args->w, args->dim) && lf_wide_fits(args->quantized, args->dim) &&
           args->x_stride % LF_WIDE == 0 && args->y_stride % LF_WIDE == 0;
}
