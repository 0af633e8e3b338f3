// Plain reading, plain products, and nothing (limits.h).
#include "kernel/limits.h"

#include "kernel/launch.cuh"
#include "kernel/linear/stream.cuh"
#include "kernel/linear/wgmma.cuh"

enum {
    THREADS = 256,
    LOADS = 8,
    BLOCKS_A_PROCESSOR = 8,
    ROWS = 192,
    HALF_BYTES = ROWS * 16,
    CYCLES_A_US = 2000
};

struct reading {
    const uint4 *from;
    size_t n;
    uint32_t *to;
};

__global__ static void limit_read(struct reading r) {
    lf_take_turn();
    size_t threads = (size_t)gridDim.x * blockDim.x;
    uint32_t mixed = 0;
    for (size_t at = lf_thread(); at < r.n; at += LOADS * threads) {
        uint4 all[LOADS];
#pragma unroll
        for (uint32_t i = 0; i < LOADS; i++)
            all[i] = r.from[at + i * threads < r.n ? at + i * threads : at];
#pragma unroll
        for (uint32_t i = 0; i < LOADS; i++)
            mixed ^= all[i].x ^ all[i].y ^ all[i].z ^ all[i].w;
    }
    if (mixed == 0x5EED5EED)
        r.to[0] = mixed;
}

void lf_limit_read(struct lf_device *device, const void *from, size_t bytes, uint32_t *to) {
    struct reading r = {(const uint4 *)from, bytes / sizeof(uint4), to};
    uint32_t blocks = lf_cuda_info(device->cuda)->processors * BLOCKS_A_PROCESSOR;
    lf_cuda_launch(device, "limit_read", limit_read, dim3(blocks), THREADS, r);
}

struct products {
    const uint32_t *numbers;
    uint32_t steps;
    float *to;
};

__global__ static void __launch_bounds__(THREADS, 1) limit_products(struct products p) {
    lf_take_turn();
    __shared__ uint32_t rows[2 * HALF_BYTES / 4];
    float sum[ROWS / 2] = {};
    uint32_t a[4], steps = lf_same(p.steps);
    for (uint32_t i = threadIdx.x; i < 2 * HALF_BYTES / 4; i += THREADS)
        rows[i] = p.numbers[i];
    for (uint32_t i = 0; i < 4; i++)
        a[i] = p.numbers[threadIdx.x * 4 + i];
    lf_show_tensor_cores();
    __syncthreads();
    for (uint32_t step = 0; step < steps; step += 4) {
        lf_wgmma_begin();
#pragma unroll
        for (uint32_t i = 0; i < 4; i++)
            lf_wgmma_bf16(sum, a, lf_shared_rows_at(lf_shared_base_of(rows), HALF_BYTES), true);
        lf_wgmma_commit();
        lf_wgmma_wait<0>();
    }
    lf_wgmma_settle(sum);
    for (uint32_t i = 0; i < ROWS / 2; i++)
        p.to[lf_thread() * (ROWS / 2) + i] = sum[i];
}

void lf_limit_products(struct lf_device *device, const void *numbers, uint32_t steps, float *to) {
    struct products p = {(const uint32_t *)numbers, steps, to};
    lf_cuda_launch(device, "limit_products", limit_products,
                   dim3(lf_cuda_info(device->cuda)->processors), THREADS, p);
}

size_t lf_limit_products_bytes(struct lf_device *device) {
    return (size_t)lf_cuda_info(device->cuda)->processors * THREADS * (ROWS / 2) * sizeof(float);
}

double lf_limit_operations(struct lf_device *device, uint32_t steps) {
    return 2.0 * lf_cuda_info(device->cuda)->processors * steps * (2 * 64) * ROWS * 16;
}

struct hold {
    long long cycles;
};

__global__ static void limit_hold(struct hold h) {
    lf_take_turn();
    long long began = clock64();
    while (clock64() - began < h.cycles)
        ;
}

void lf_limit_hold(struct lf_device *device, uint32_t us) {
    struct hold h = {(long long)us * CYCLES_A_US};
    lf_cuda_launch(device, "limit_hold", limit_hold, dim3(1), 1, h);
}
