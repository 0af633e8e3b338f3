#include "kernel/rms_norm/rms_norm.h"

#include "kernel/rms_norm/norm_row.cuh"

__device__ static uint32_t in_stage(uint32_t dim, uint32_t first) {
    return dim - first < LF_NORM_STAGE ? dim - first : (uint32_t)LF_NORM_STAGE;
}

// A block a row: all threads bring the numbers, one warp adds the partials.
template <uint32_t N, uint32_t OWN>
__global__ static void __launch_bounds__(LF_NORM_THREADS) rms_norm_rows(struct lf_rms_norm_args a) {
    __shared__ float4 fours[LF_NORM_STAGE / 4];
    float *stage = (float *)fours;
    const uint16_t *x = a.x + blockIdx.x * a.x_stride;
    uint16_t *y = a.y + blockIdx.x * a.y_stride;
    uint16_t *quantized = a.quantized ? a.quantized + blockIdx.x * a.y_stride : NULL;
    struct lf_norm_share<N, OWN> own, w;
    float partial = 0;
    lf_let_next_begin();
    lf_norm_load(a.w, in_stage(a.dim, 0), &w); // a weight: no launch writes it
    lf_wait_for_launches();
    for (uint32_t first = 0; first < a.dim; first += LF_NORM_STAGE) {
        uint32_t n = in_stage(a.dim, first);
        lf_norm_load(x + first, n, &own);
        LF_CONTROL(1, n -= first + n == a.dim;) // 1: the last element is not in the sum
        LF_CONTROL(4, n -= blockIdx.x == 5 && first + n == a.dim;)
        partial = lf_norm_add(own, n, stage, partial);
    }
    float inverse = lf_norm_inverse(partial, a.dim, a.eps);
    LF_CONTROL(5, a.y[(gridDim.x - 1) * a.y_stride + a.dim] = 0;) // 5: a write past the row
    for (uint32_t first = 0; first < a.dim; first += LF_NORM_STAGE) {
        uint32_t n = in_stage(a.dim, first);
        // Of a longer row the registers hold the last stage alone.
        if (a.dim > LF_NORM_STAGE) {
            lf_norm_load(x + first, n, &own);
            lf_norm_load(a.w + first, n, &w);
        }
        lf_norm_store(own, w, inverse, n, y + first, quantized ? quantized + first : NULL);
    }
}

void lf_rms_norm_cuda(struct lf_device *device, const struct lf_rms_norm_args *args) {
    LF_ASSERT(!args->quantized || args->dim % LF_ACT_GROUP == 0);
    // What runs once, for few rows, takes as long as its code is.
    bool is_short = args->dim <= LF_NORM_THREADS * LF_NORM_SHORT;
    lf_cuda_launch(device, "rms_norm",
                   !lf_norm_is_wide(args) ? rms_norm_rows<1, LF_NORM_LONG>
                   : is_short             ? rms_norm_rows<LF_WIDE, LF_NORM_SHORT>
                                          : rms_norm_rows<LF_WIDE, LF_NORM_LONG>,
                   dim3(args->rows), LF_NORM_THREADS, *args);
}
