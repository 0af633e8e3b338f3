#include "kernel/rms_norm/rms_norm.h"

#include "kernel/chain.cuh"
#include "kernel/wide.cuh"

enum { THREADS = 256, STAGE = 6144 };
static_assert(STAGE % LF_CHAIN_STEP == 0, "partials begin anew with each stage");

// A thread's numbers of a stage, all on their way together.
template <uint32_t N>
struct share {
    struct lf_wide<N> at[STAGE / THREADS / N];
};

template <uint32_t N>
__device__ static uint32_t place_in_stage(uint32_t i) {
    return (i * THREADS + threadIdx.x) * N;
}

template <uint32_t N>
__device__ static void load_share(const uint16_t *from, uint32_t n, struct share<N> *share) {
#pragma unroll
    for (uint32_t i = 0; i < STAGE / THREADS / N; i++) {
        share->at[i] = {};
        if (place_in_stage<N>(i) < n)
            share->at[i] = lf_wide_load<N>(from + place_in_stage<N>(i));
    }
}

// Numbers to where the chains read them, with zeros behind them.
template <uint32_t N>
__device__ static void stage_share(const struct share<N> &share, uint32_t n, float *stage) {
#pragma unroll
    for (uint32_t i = 0; i < STAGE / THREADS / N; i++)
#pragma unroll
        for (uint32_t e = 0; e < N; e++) {
            uint32_t at = place_in_stage<N>(i) + e;
            float v = at < n ? lf_bf16_to_f32(share.at[i].at[e]) : 0.0f;
            LF_CONTROL(6, v = lf_fault_finite(v);) // 6: what is not finite counts as 0
            if (at < lf_chain_room(n))
                stage[lf_chain_place(place_in_stage<N>(i), e)] = v;
        }
}

template <uint32_t N>
__device__ static void store_share(const struct share<N> &x, const struct share<N> &w,
                                   float inverse, uint32_t n, uint16_t *y) {
#pragma unroll
    for (uint32_t i = 0; i < STAGE / THREADS / N; i++) {
        struct lf_wide<N> out;
#pragma unroll
        for (uint32_t e = 0; e < N; e++) {
            float v = lf_bf16_to_f32(x.at[i].at[e]) * inverse;
            LF_CONTROL(3, v = lf_fault_bf16(v);) // 3: rounded to bf16 before the weight
            out.at[e] = lf_bf16_settle(lf_bf16_to_f32(w.at[i].at[e]) * v);
        }
        if (place_in_stage<N>(i) < n)
            lf_wide_store(y + place_in_stage<N>(i), out);
    }
}

__device__ static uint32_t in_stage(uint32_t dim, uint32_t first) {
    return dim - first < STAGE ? dim - first : (uint32_t)STAGE;
}

// A block a row: all threads bring the numbers, one warp adds the partials, in both of its halves.
template <uint32_t N>
__global__ static void __launch_bounds__(THREADS) rms_norm_rows(struct lf_rms_norm_args a) {
    __shared__ float4 fours[STAGE / 4];
    __shared__ float inverse;
    float *stage = (float *)fours;
    const uint16_t *x = a.x + blockIdx.x * a.x_stride;
    uint16_t *y = a.y + blockIdx.x * a.y_stride;
    struct share<N> own, w;
    float partial = 0;
    lf_let_next_begin();
    load_share<N>(a.w, in_stage(a.dim, 0), &w); // a weight: no launch writes it
    lf_wait_for_launches();
    for (uint32_t first = 0; first < a.dim; first += STAGE) {
        uint32_t n = in_stage(a.dim, first);
        load_share<N>(x + first, n, &own);
        LF_CONTROL(1, n -= first + n == a.dim;) // 1: the last element is not in the sum
        LF_CONTROL(4, n -= blockIdx.x == 5 && first + n == a.dim;)
        stage_share<N>(own, n, stage);
        __syncthreads();
        if (threadIdx.x < LF_WARP)
            partial = lf_chain_add(stage, stage, lf_chain_room(n), partial);
        __syncthreads();
    }
    if (threadIdx.x < LF_WARP) {
        float mean = lf_lanes_tree16(partial) / (float)a.dim;
        float root = sqrtf(mean + a.eps);
        LF_CONTROL(2, root = sqrtf(mean) + a.eps;) // 2: eps outside the root
        if (threadIdx.x == 0)
            inverse = 1.0f / root;
    }
    __syncthreads();
    LF_CONTROL(5, a.y[(gridDim.x - 1) * a.y_stride + a.dim] = 0;) // 5: a write past the row
    for (uint32_t first = 0; first < a.dim; first += STAGE) {
        uint32_t n = in_stage(a.dim, first);
        // Of a longer row the registers hold the last stage alone.
        if (a.dim > STAGE) {
            load_share<N>(x + first, n, &own);
            load_share<N>(a.w + first, n, &w);
        }
        store_share<N>(own, w, inverse, n, y + first);
    }
}

void lf_rms_norm_cuda(struct lf_device *device, const struct lf_rms_norm_args *args) {
    bool wide = lf_wide_fits(args->x, args->dim) && lf_wide_fits(args->y, args->dim) &&
                lf_wide_fits(args->w, args->dim) && args->x_stride % LF_WIDE == 0 &&
                args->y_stride % LF_WIDE == 0;
    lf_cuda_launch(device, "rms_norm", wide ? rms_norm_rows<LF_WIDE> : rms_norm_rows<1>,
                   dim3(args->rows), THREADS, *args);
}
