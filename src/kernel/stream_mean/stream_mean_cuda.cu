#include "kernel/stream_mean/stream_mean.h"

#include "kernel/launch.cuh"
#include "kernel/settle.h"

enum { THREADS = 256 };

__global__ static void stream_mean_columns(struct lf_stream_mean_args a) {
    lf_take_turn();
    uint32_t d = blockIdx.y * THREADS + threadIdx.x;
    if (d >= a.dim)
        return;
    size_t row = blockIdx.x;
    const uint16_t *x = a.x + row * a.streams * a.dim + d;
    uint32_t n = a.streams;
    float sum = 0, divisor = (float)a.streams;
    LF_CONTROL(1, n--;) // 1: the last stream is not in the sum
    LF_CONTROL(2, divisor = 1;) // 2: the sum is not divided
    LF_CONTROL(4, n -= row == 5;) // 4: the row at place 5 loses its last stream
    for (uint32_t i = 0; i < n; i++) {
        float v = lf_bf16_to_f32(x[(size_t)i * a.dim]);
        LF_CONTROL(6, v = lf_fault_finite(v);) // 6: what is not finite counts as 0
        sum = i ? sum + v : v;
        LF_CONTROL(3, sum = lf_fault_bf16(sum);) // 3: the running total rounded to bf16
    }
    a.y[row * a.dim + d] = lf_bf16_settle(sum / divisor);
    LF_CONTROL(5, a.y[(size_t)gridDim.x * a.dim] = 0;) // 5: a write past the row
}

void lf_stream_mean_cuda(struct lf_device *device, const struct lf_stream_mean_args *args) {
    dim3 grid(args->rows, lf_blocks(args->dim, THREADS));
    lf_cuda_launch(device, "stream_mean", stream_mean_columns, grid, THREADS, *args);
}
