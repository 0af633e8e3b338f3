#include "kernel/hc_collapse/hc_collapse.h"

#include "kernel/wide.cuh"

enum { THREADS = 128 };

// A thread N neighbouring columns.
template <uint32_t N>
__global__ static void hc_collapse_columns(struct lf_hc_collapse_args a) {
    lf_take_turn();
    uint32_t d = (blockIdx.y * THREADS + threadIdx.x) * N;
    if (d >= a.dim)
        return;
    size_t row = blockIdx.x;
    const uint16_t *x = a.x + row * a.streams * a.dim + d;
    const float *pre = a.pre + row * a.streams;
    float sum[N];
    LF_CONTROL(1, a.streams -= a.streams > 1;) // 1: the last stream is not in the sum
    LF_CONTROL(4, pre = row == 5 ? a.pre : pre;) // 4: the row at place 5 takes the first row's
    LF_CONTROL(5, a.y[(size_t)gridDim.x * a.dim] = 0;) // 5: a write past the row
#pragma unroll 4
    for (uint32_t i = 0; i < a.streams; i++) {
        struct lf_wide<N> own = lf_wide_load<N>(x + (size_t)i * a.dim);
        float weight = pre[i];
        LF_CONTROL(2, weight = lf_fault_bf16(weight);) // 2: weights rounded to bf16
#pragma unroll
        for (uint32_t c = 0; c < N; c++) {
            float old = lf_bf16_to_f32(own.at[c]);
            sum[c] = i ? fmaf(weight, old, sum[c]) : weight * old;
            LF_CONTROL(3, sum[c] = lf_fault_bf16(sum[c]);) // 3: the running total rounded to bf16
            LF_CONTROL(6, sum[c] = lf_fault_finite(sum[c]);) // 6: what is not finite counts as 0
        }
    }
    struct lf_wide<N> y;
#pragma unroll
    for (uint32_t c = 0; c < N; c++)
        y.at[c] = lf_bf16_settle(sum[c]);
    lf_wide_store(a.y + row * a.dim + d, y);
}

void lf_hc_collapse_cuda(struct lf_device *device, const struct lf_hc_collapse_args *args) {
    bool wide = lf_wide_fits(args->x, args->dim) && lf_wide_fits(args->y, args->dim);
    dim3 grid(args->rows, lf_blocks(args->dim, THREADS * (wide ? LF_WIDE : 1)));
    lf_cuda_launch(device, "hc_collapse",
                   wide ? hc_collapse_columns<LF_WIDE> : hc_collapse_columns<1>, grid, THREADS,
                   *args);
}
