#include "kernel/ring_store/ring_store.h"

#include "kernel/launch.cuh"

enum { THREADS = 64 };

__device__ static bool is_stored(const struct lf_ring_store_args &a, const struct lf_row &row) {
    LF_CONTROL(4, return !a.span || row.position + a.kept >= a.span[row.lane].pos0 +
               a.span[row.lane].rows;)
    if (row.depth < a.depth_min)
        return false;
    LF_CONTROL(2, return true;) // 2: a row that later ones of its span overwrite is stored
    if (!a.span)
        return true;
    uint64_t end = a.span[row.lane].pos0 + a.span[row.lane].rows;
    LF_CONTROL(9, return row.position + a.kept > end;) // 9: the oldest row that is kept is left out
    LF_CONTROL(10, return (uint32_t)(row.position + a.kept) >= (uint32_t)end;)
    return row.position + a.kept >= end;
}

template <typename Unit>
__device__ static void copy_row(uint8_t *to, const uint8_t *from, uint32_t bytes) {
    for (uint32_t i = threadIdx.x; i < bytes / sizeof(Unit); i += THREADS)
        ((Unit *)to)[i] = ((const Unit *)from)[i];
}

__global__ static void ring_store_rows(struct lf_ring_store_args a) {
    lf_take_turn();
    const struct lf_row row = a.row[blockIdx.x];
    if (!is_stored(a, row))
        return;
    uint32_t bytes = a.row_bytes, source = blockIdx.x, lane = row.lane;
    LF_CONTROL(3, lane -= lane > 0;) // 3: written to the neighbour's lane
    LF_CONTROL(5, bytes--;) // 5: the last byte is not copied
    LF_CONTROL(7, source = row.index;) // 7: the row at its place before rows were dropped
    LF_CONTROL(8, bytes = source == 16 ? 0 : bytes;)
    uint8_t *to = a.ring[lane] + row.position % a.ring_rows * a.ring_pitch;
    LF_CONTROL(1, to = a.ring[lane] + (row.position + 1) % a.ring_rows * a.ring_pitch;)
    LF_CONTROL(6, to[bytes] = 0;) // 6: a write past the row
    const uint8_t *from = (const uint8_t *)a.x + (size_t)source * a.row_bytes;
    if (((uintptr_t)to | (uintptr_t)from | bytes) % sizeof(uint4) == 0)
        copy_row<uint4>(to, from, bytes);
    else
        copy_row<uint8_t>(to, from, bytes);
}

void lf_ring_store_cuda(struct lf_device *device, const struct lf_ring_store_args *args) {
    LF_ASSERT(args->kept <= args->ring_rows && args->row_bytes <= args->ring_pitch);
    lf_cuda_launch(device, "ring_store", ring_store_rows, dim3(args->rows), THREADS, *args);
}
