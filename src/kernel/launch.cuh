// How NAME_cuda.cu launches: one parameter, a struct by value, on the device's stream.
#pragma once
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include "device/cuda_stream.cuh"
#include "device/cuda_turn.cuh"
#include "device/device.h"
#include "kernel/fault.cuh"

// Registers that a block's threads have from the start: warpgroups that ask for more wait forever.
constexpr uint32_t lf_registers_of(uint32_t threads) {
    return 65536 / threads / 8 * 8 * threads;
}

enum { LF_WARP = 32 };
#define LF_ALL_LANES 0xFFFFFFFFu

enum { LF_PARAMETER_BYTES = 4096 }; // of a launch, on every toolkit

// Launches overlap (cuda_turn.cuh); one without blocks is none. name: for a failure's sentence.
template <typename Args>
static void lf_cuda_launch(struct lf_device *device, const char *name, void (*kernel)(Args),
                           dim3 grid, uint32_t threads, const Args &args,
                           uint32_t shared_bytes = 0) {
    static_assert(sizeof(Args) <= LF_PARAMETER_BYTES, "a launch's parameter is too large");
    if (!lf_cuda_begin(device->cuda) || !grid.x || !grid.y || !grid.z)
        return;
    cudaLaunchConfig_t config = {};
    cudaLaunchAttribute early = {};
    early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    early.val.programmaticStreamSerializationAllowed = 1;
    config.gridDim = grid;
    config.blockDim = dim3(threads);
    config.dynamicSmemBytes = shared_bytes;
    config.stream = lf_cuda_stream(device->cuda);
    config.attrs = &early;
    config.numAttrs = lf_cuda_overlaps(device->cuda);
    if (lf_cuda_is_watched(device->cuda, name, (const void *)kernel, &config))
        return;
    if (shared_bytes)
        lf_cuda_note(device->cuda,
                     cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                          (int)shared_bytes), name);
#ifdef LF_FAULTS
    lf_cuda_note(device->cuda, cudaMemcpyToSymbolAsync(lf_fault_number, &lf_cuda_fault,
                                                       sizeof lf_cuda_fault, 0,
                                                       cudaMemcpyHostToDevice, config.stream),
                 "the planted fault");
#endif
    lf_cuda_note(device->cuda, cudaLaunchKernelEx(&config, kernel, Args(args)), name);
}

__host__ __device__ static inline uint32_t lf_blocks(uint64_t items, uint32_t a_block) {
    return (uint32_t)((items + a_block - 1) / a_block);
}

// True in the last of a row's blocks to come here: what all of them wrote can be read then.
__device__ static inline bool lf_is_last_block(uint32_t *come, uint32_t blocks) {
    __shared__ uint32_t before;
    __syncthreads();
    if (threadIdx.x == 0) {
        __threadfence();
        before = atomicAdd(come, 1u);
        if (before == blocks - 1)
            *come = 0;
        __threadfence();
    }
    __syncthreads();
    return before == blocks - 1;
}

// A value that all lanes have: said so that the compiler knows it.
__device__ static inline uint32_t lf_same(uint32_t value) {
    return __shfl_sync(LF_ALL_LANES, value, 0);
}

// Place of a thread among all of a launch in one dimension.
__device__ static inline uint64_t lf_thread(void) {
    return (uint64_t)blockIdx.x * blockDim.x + threadIdx.x;
}

// The tree of sum16.h over 16 neighbouring lanes that hold a partial each: all get the sum.
__device__ static inline float lf_lanes_tree16(float a) {
    a = a + __shfl_xor_sync(LF_ALL_LANES, a, 8);
    a = a + __shfl_xor_sync(LF_ALL_LANES, a, 4);
    a = a + __shfl_xor_sync(LF_ALL_LANES, a, 2);
    return a + __shfl_xor_sync(LF_ALL_LANES, a, 1);
}

// The same tree of partials that one thread holds.
__device__ static inline float lf_own_tree16(const float a[16]) {
    float b[8], c[4];
#pragma unroll
    for (int i = 0; i < 8; i++)
        b[i] = a[i] + a[i + 8];
#pragma unroll
    for (int i = 0; i < 4; i++)
        c[i] = b[i] + b[i + 4];
    return (c[0] + c[2]) + (c[1] + c[3]);
}
