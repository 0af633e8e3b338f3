#include "kernel/ring_store/ring_store.h"

#include "kernel/launch.cuh"

enum { THREADS = 128 };

__device__ static bool is_stored(const struct lf_ring_store_args &a, const struct lf_row &row) {
    if (row.depth < a.depth_min)
        return false;
    if (!a.span)
        return true;
    uint64_t end = a.span[row.lane].pos0 + a.span[row.lane].rows;
    return row.position + a.kept >= end;
}

__global__ static void ring_store_rows(struct lf_ring_store_args a) {
    const struct lf_row row = a.row[blockIdx.x];
    if (!is_stored(a, row))
        return;
    uint8_t *to = a.ring[row.lane] + row.position % a.ring_rows * a.ring_pitch;
    const uint8_t *from = (const uint8_t *)a.x + (size_t)blockIdx.x * a.row_bytes;
    for (uint32_t i = threadIdx.x; i < a.row_bytes; i += THREADS)
        to[i] = from[i];
}

void lf_ring_store_cuda(struct lf_device *device, const struct lf_ring_store_args *args) {
    LF_ASSERT(args->kept <= args->ring_rows && args->row_bytes <= args->ring_pitch);
    lf_cuda_launch(device, "ring_store", ring_store_rows, dim3(args->rows), THREADS, *args);
}
