// CUDA's runtime played by the host: a block's threads take turns, so that kernels run anywhere.
#pragma once
#include <stdint.h>
#include <string.h>
#include "host_cuda.h"

#define __global__
#define __device__
#define __constant__
#define __host__
#define __shared__ static
#define __launch_bounds__(...)
#define __grid_constant__

struct dim3 {
    unsigned x, y, z;
    dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
};
struct uint2 {
    unsigned x, y;
};
struct uint4 {
    unsigned x, y, z, w;
};
struct float2 {
    float x, y;
};
struct float4 {
    float x, y, z, w;
};
static inline uint2 make_uint2(unsigned x, unsigned y) {
    return {x, y};
}
extern dim3 threadIdx, blockIdx, blockDim, gridDim;

enum cudaError_t {
    cudaSuccess = 0,
    cudaErrorInvalidValue = 1,
    cudaErrorMemoryAllocation = 2,
    cudaErrorNoDevice = 100,
    cudaErrorNotReady = 600,
    cudaErrorIllegalAddress = 700,
};
enum cudaMemcpyKind { cudaMemcpyHostToDevice, cudaMemcpyDeviceToHost, cudaMemcpyDeviceToDevice };
enum cudaMemPoolAttr {
    cudaMemPoolAttrReleaseThreshold,
    cudaMemPoolAttrUsedMemCurrent,
    cudaMemPoolAttrUsedMemHigh,
};
enum cudaStreamCaptureMode { cudaStreamCaptureModeThreadLocal };
enum { cudaStreamNonBlocking = 1 };
typedef struct host_stream *cudaStream_t;
typedef struct host_event *cudaEvent_t;
typedef struct host_graph *cudaGraph_t, *cudaGraphExec_t;
typedef struct host_pool *cudaMemPool_t;
enum cudaMemoryType {
    cudaMemoryTypeHost = 1,
    cudaMemoryTypeDevice = 2,
    cudaMemoryTypeManaged = 3,
};
struct cudaPointerAttributes {
    cudaMemoryType type;
};
struct cudaDeviceProp {
    char name[256];
    int major, minor, multiProcessorCount;
};
enum cudaLaunchAttributeID { cudaLaunchAttributeProgrammaticStreamSerialization = 6 };
struct cudaLaunchAttribute {
    cudaLaunchAttributeID id;
    struct {
        int programmaticStreamSerializationAllowed;
    } val;
};
struct cudaLaunchConfig_t {
    dim3 gridDim, blockDim;
    size_t dynamicSmemBytes;
    cudaStream_t stream;
    cudaLaunchAttribute *attrs;
    unsigned numAttrs;
};

const char *cudaGetErrorString(cudaError_t status);
const char *cudaGetErrorName(cudaError_t status);
cudaError_t cudaGetLastError();
cudaError_t cudaGetDeviceCount(int *count);
cudaError_t cudaGetDeviceProperties(cudaDeviceProp *prop, int index);
cudaError_t cudaSetDevice(int index);
cudaError_t cudaMemGetInfo(size_t *free_bytes, size_t *total);
cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags);
cudaError_t cudaStreamDestroy(cudaStream_t stream);
cudaError_t cudaStreamQuery(cudaStream_t stream);
cudaError_t cudaStreamSynchronize(cudaStream_t stream);
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags);
cudaError_t cudaEventCreate(cudaEvent_t *event);
cudaError_t cudaEventDestroy(cudaEvent_t event);
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream);
cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t from, cudaEvent_t to);
cudaError_t cudaMalloc(void **out, size_t bytes);
cudaError_t cudaMallocManaged(void **out, size_t bytes);
cudaError_t cudaFree(void *memory);
cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t *pool, int index);
cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t pool, cudaMemPoolAttr what, void *value);
cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t pool, cudaMemPoolAttr what, void *value);
cudaError_t cudaMallocAsync(void **out, size_t bytes, cudaStream_t stream);
cudaError_t cudaPointerGetAttributes(cudaPointerAttributes *out, const void *memory);
cudaError_t cudaFreeAsync(void *memory, cudaStream_t stream);
cudaError_t cudaMallocHost(void **out, size_t bytes);
cudaError_t cudaFreeHost(void *memory);
cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream);
cudaError_t cudaMemsetAsync(void *to, int byte, size_t bytes, cudaStream_t stream);

template <typename T>
static inline cudaError_t cudaMemcpyToSymbolAsync(T &symbol, const void *from, size_t bytes,
                                                  size_t offset, cudaMemcpyKind, cudaStream_t) {
    memcpy((char *)&symbol + offset, from, bytes);
    return cudaSuccess;
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode);
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *graph);
cudaError_t cudaGraphInstantiate(cudaGraphExec_t *exec, cudaGraph_t graph, unsigned flags);
cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream);
cudaError_t cudaGraphDestroy(cudaGraph_t graph);
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec);

// Runs body(ctx) in every thread of every block, or keeps it with a copy of ctx for a graph.
cudaError_t host_launch(dim3 grid, dim3 block, void (*body)(void *ctx), void *ctx, size_t bytes);

enum cudaFuncAttribute { cudaFuncAttributeMaxDynamicSharedMemorySize = 8 };
template <typename Kernel>
static cudaError_t cudaFuncSetAttribute(Kernel, cudaFuncAttribute, int) {
    return cudaSuccess;
}

struct cudaFuncAttributes {
    size_t sharedSizeBytes;
    int maxThreadsPerBlock, numRegs;
};
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes *out, const void *function);

template <typename Args>
struct host_call {
    void (*kernel)(Args);
    Args args;
};

template <typename Args>
static void host_run(void *ctx) {
    host_call<Args> *call = (host_call<Args> *)ctx;
    call->kernel(call->args);
}

template <typename Args>
static cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t *config, void (*kernel)(Args),
                                      Args args) {
    host_call<Args> call = {kernel, args};
    return host_launch(config->gridDim, config->blockDim, host_run<Args>, &call, sizeof call);
}

// The thread waits for the launches ahead, as each has to (device/cuda_turn.cuh).
void host_wait();
void host_read_old();
void __syncthreads();
// Others go on.
void host_yield();
int __syncthreads_or(int value);
// What lane `from` of the warp brings; bytes at most 8.
uint64_t host_exchange(uint64_t value, unsigned from);
unsigned host_lane();

template <typename T>
static T host_shuffle(T value, unsigned from) {
    uint64_t bits = 0;
    memcpy(&bits, &value, sizeof value);
    bits = host_exchange(bits, from);
    memcpy(&value, &bits, sizeof value);
    return value;
}

template <typename T>
static T __shfl_xor_sync(unsigned, T value, int other) {
    return host_shuffle(value, host_lane() ^ (unsigned)other);
}

template <typename T>
static T __shfl_up_sync(unsigned, T value, unsigned step) {
    return host_shuffle(value, host_lane() < step ? host_lane() : host_lane() - step);
}

template <typename T>
static T __shfl_sync(unsigned, T value, unsigned from) {
    return host_shuffle(value, from);
}

// Six words of every lane of the warp, until host_unshare.
struct host_words {
    uint32_t word[6];
};
const struct host_words *host_share(const struct host_words &own);
void host_unshare();

void __syncwarp();
static inline void __threadfence() {}

static inline void __threadfence_block() {}
unsigned __ballot_sync(unsigned mask, int flag);
int __any_sync(unsigned mask, int flag);
unsigned __reduce_max_sync(unsigned mask, unsigned value);

// Bytes of b and a, a's the lower four, as the selector's digits say.
static inline unsigned __byte_perm(unsigned a, unsigned b, unsigned selector) {
    uint64_t both = (uint64_t)b << 32 | a;
    unsigned out = 0;
    for (unsigned i = 0; i < 4; i++)
        out |= (unsigned)(both >> 8 * (selector >> 4 * i & 7) & 255) << 8 * i;
    return out;
}

static inline unsigned __funnelshift_r(unsigned low, unsigned high, unsigned shift) {
    return (unsigned)(((uint64_t)high << 32 | low) >> (shift & 31));
}

static inline int __ffs(int x) {
    return __builtin_ffs(x);
}

// A clock on which every look takes long.
static inline long long clock64() {
    static long long at;
    return at += 1 << 20;
}

static inline int __popc(unsigned x) {
    return __builtin_popcount(x);
}

// Threads take turns, so plain operations are atomic.
template <typename T>
static T atomicAdd(T *to, T value) {
    T old = *to;
    *to = old + value;
    return old;
}

template <typename T>
static T atomicMax(T *to, T value) {
    T old = *to;
    *to = value > old ? value : old;
    return old;
}
