// Plain reading, plain products, and nothing (limits.h).
#include "kernel/limits.h"

#include "kernel/launch.cuh"
#include "kernel/linear/mma.cuh"

enum { THREADS = 256, LOADS = 8, BLOCKS_A_PROCESSOR = 8, CHAINS = 8, CYCLES_A_US = 2000 };

struct reading {
    const uint4 *from;
    size_t n;
    uint32_t *to;
};

__global__ static void limit_read(struct reading r) {
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

static uint32_t blocks_of(struct lf_device *device) {
    return lf_cuda_info(device->cuda)->processors * BLOCKS_A_PROCESSOR;
}

void lf_limit_read(struct lf_device *device, const void *from, size_t bytes, uint32_t *to) {
    struct reading r = {(const uint4 *)from, bytes / sizeof(uint4), to};
    lf_cuda_launch(device, "limit_read", limit_read, dim3(blocks_of(device)), THREADS, r);
}

struct products {
    uint32_t steps;
    float *to;
};

__global__ static void limit_products(struct products p) {
    float sum[CHAINS][4] = {};
    uint32_t a[4], b[2];
    for (uint32_t i = 0; i < 4; i++)
        a[i] = 0x3F803F80u + (threadIdx.x + i) % 64;
    for (uint32_t i = 0; i < 2; i++)
        b[i] = 0x3F003F00u + (threadIdx.x + i) % 32;
    for (uint32_t step = 0; step < p.steps; step++) {
#pragma unroll
        for (uint32_t i = 0; i < CHAINS; i++)
            lf_mma_bf16(sum[i], a, b);
    }
    float all = 0;
    for (uint32_t i = 0; i < CHAINS * 4; i++)
        all += sum[i / 4][i % 4];
    p.to[lf_thread()] = all;
}

void lf_limit_products(struct lf_device *device, uint32_t steps, float *to) {
    struct products p = {steps, to};
    lf_cuda_launch(device, "limit_products", limit_products, dim3(blocks_of(device)), THREADS, p);
}

size_t lf_limit_products_bytes(struct lf_device *device) {
    return (size_t)blocks_of(device) * THREADS * sizeof(float);
}

double lf_limit_operations(struct lf_device *device, uint32_t steps) {
    double warps = (double)blocks_of(device) * THREADS / LF_WARP;
    return 2.0 * warps * steps * CHAINS * 16 * 8 * 16;
}

struct hold {
    long long cycles;
};

__global__ static void limit_hold(struct hold h) {
    long long began = clock64();
    while (clock64() - began < h.cycles)
        ;
}

void lf_limit_hold(struct lf_device *device, uint32_t us) {
    struct hold h = {(long long)us * CYCLES_A_US};
    lf_cuda_launch(device, "limit_hold", limit_hold, dim3(1), 1, h);
}
