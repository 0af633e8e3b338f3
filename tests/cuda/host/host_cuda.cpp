// The runtime behind host/cuda_runtime.h: memory is memory, and threads are contexts of one thread.
#include "cuda_runtime.h"

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <ucontext.h>
#include <vector>

enum { THREADS_MAX = 1024, STACK_BYTES = 128 << 10, WARP = 32 };

struct host_cuda host_cuda = {1, 9, 0, (size_t)8 << 30, (size_t)8 << 30, 0, false, 0, 0, false};
dim3 threadIdx, blockIdx, blockDim, gridDim;

struct barrier {
    unsigned waiting, turn;
};

static struct {
    ucontext_t launcher, context[THREADS_MAX]; // where a thread begins
    jmp_buf place[THREADS_MAX];                // where it waits, once it has begun
    bool begun[THREADS_MAX];
    char *stack;
    bool ended[THREADS_MAX], waited[THREADS_MAX];
    bool any_waited; // of the launch
    unsigned threads, alive, current;
    struct barrier block, warp[THREADS_MAX / WARP];
    unsigned warp_alive[THREADS_MAX / WARP];
    uint64_t slot[THREADS_MAX];
    struct host_words words[THREADS_MAX];
    int any;
    void (*body)(void *ctx);
    void *ctx;
} host;

static void set_thread(unsigned i) {
    host.current = i;
    threadIdx = dim3(i);
}

// A jump costs no system call, unlike a change of context.
static void go_to(unsigned i) {
    set_thread(i);
    if (host.begun[i])
        _longjmp(host.place[i], 1);
    host.begun[i] = true;
    setcontext(&host.context[i]);
    abort();
}

// The next thread that has not ended; the launcher when all have.
static void yield_to_next() {
    unsigned from = host.current, next = from;
    do
        next = next + 1 == host.threads ? 0 : next + 1;
    while (host.ended[next] && next != from);
    if (next == from && !host.ended[from])
        return;
    if (host.ended[next]) {
        setcontext(&host.launcher);
        abort();
    }
    if (host.ended[from] || !_setjmp(host.place[from]))
        go_to(next);
}

// Those that ended are not waited for.
static void wait_at(struct barrier *barrier, const unsigned *alive) {
    unsigned turn = barrier->turn;
    barrier->waiting++;
    while (barrier->turn == turn) {
        if (barrier->waiting >= *alive) {
            barrier->waiting = 0;
            barrier->turn++;
        } else {
            yield_to_next();
        }
    }
}

// What old launches wrote lies among the rest, so that all can be read.
void host_read_old() {
    if (!host.any_waited && host_cuda.wait)
        host_cuda.wait();
    host.any_waited = true;
}

void host_wait() {
    host_read_old();
    host.waited[host.current] = true;
}

static void thread_main() {
    host.body(host.ctx);
    if (!host.waited[host.current]) {
        fprintf(stderr, "thread %u of a kernel did not wait for the launches ahead\n",
                host.current);
        abort();
    }
    host.ended[host.current] = true;
    host.alive--;
    host.warp_alive[host.current / WARP]--;
    yield_to_next();
    abort();
}

static void run_block(unsigned threads) {
    host.threads = host.alive = threads;
    host.block.waiting = 0;
    for (unsigned w = 0; w < (threads + WARP - 1) / WARP; w++) {
        host.warp[w].waiting = 0;
        host.warp_alive[w] = threads - w * WARP < WARP ? threads - w * WARP : (unsigned)WARP;
    }
    for (unsigned i = 0; i < threads; i++) {
        host.ended[i] = host.begun[i] = host.waited[i] = false;
        getcontext(&host.context[i]);
        host.context[i].uc_stack.ss_sp = host.stack + (size_t)i * STACK_BYTES;
        host.context[i].uc_stack.ss_size = STACK_BYTES;
        host.context[i].uc_link = NULL;
        makecontext(&host.context[i], thread_main, 0);
    }
    set_thread(0);
    host.begun[0] = true;
    swapcontext(&host.launcher, &host.context[0]);
}

// A launch that is kept, with its own copy of the parameter.
struct host_kept {
    dim3 grid, block;
    void (*body)(void *ctx);
    std::vector<char> ctx;
};
struct host_graph {
    std::vector<host_kept> launch;
};
static host_graph *capturing; // memory is not to be touched meanwhile, and no time is taken
static cudaStream_t capturing_on;
static bool is_forked; // a stream besides has launches that the capture's own does not wait for

cudaError_t host_launch(dim3 grid, dim3 block, void (*body)(void *ctx), void *ctx, size_t bytes) {
    if (host_cuda.fail_launch) {
        cudaError_t status = (cudaError_t)host_cuda.fail_launch;
        host_cuda.sticky = host_cuda.fail_sticks ? (int)status : 0;
        host_cuda.fail_launch = 0;
        return status;
    }
    if (block.x > THREADS_MAX || grid.y > 65535 || grid.z > 65535)
        return cudaErrorInvalidValue;
    if (capturing) {
        const char *from = (const char *)ctx;
        capturing->launch.push_back({grid, block, body, std::vector<char>(from, from + bytes)});
        return cudaSuccess;
    }
    if (!host.stack)
        host.stack = (char *)malloc((size_t)THREADS_MAX * STACK_BYTES);
    if (!host.stack)
        return cudaErrorMemoryAllocation;
    if (host_cuda.enter)
        host_cuda.enter();
    host.any_waited = false;
    host.body = body;
    host.ctx = ctx;
    gridDim = grid;
    blockDim = block;
    for (unsigned z = 0; z < grid.z; z++)
        for (unsigned y = 0; y < grid.y; y++)
            for (unsigned x = 0; x < grid.x; x++) {
                blockIdx = dim3(x, y, z);
                run_block(block.x);
            }
    if (host_cuda.leave)
        host_cuda.leave();
    return cudaSuccess;
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode) {
    if (capturing)
        return cudaErrorInvalidValue;
    capturing = new host_graph;
    capturing_on = stream;
    is_forked = false;
    return cudaSuccess;
}

cudaError_t cudaStreamEndCapture(cudaStream_t, cudaGraph_t *graph) {
    if (is_forked) {
        delete capturing;
        capturing = NULL;
    }
    *graph = capturing;
    capturing = NULL;
    return *graph ? cudaSuccess : cudaErrorInvalidValue;
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t *exec, cudaGraph_t graph, unsigned) {
    *exec = new host_graph(*graph);
    return cudaSuccess;
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t) {
    cudaError_t status = cudaSuccess;
    host_cuda.graphs++;
    for (size_t i = 0; i < exec->launch.size() && status == cudaSuccess; i++) {
        host_kept &kept = exec->launch[i];
        status = host_launch(kept.grid, kept.block, kept.body, kept.ctx.data(), kept.ctx.size());
    }
    return status;
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
    delete graph;
    return cudaSuccess;
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) {
    delete exec;
    return cudaSuccess;
}

// Static shared memory is the host's own: how much a kernel has is not known.
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes *out, const void *) {
    *out = {0, THREADS_MAX, host_cuda.registers};
    return host_cuda.sticky ? (cudaError_t)host_cuda.sticky : cudaSuccess;
}

void __syncthreads() {
    wait_at(&host.block, &host.alive);
}

void host_yield() {
    yield_to_next();
}

int __syncthreads_or(int value) {
    __syncthreads();
    host.any = 0;
    __syncthreads();
    host.any |= value;
    __syncthreads();
    return host.any != 0;
}

unsigned host_lane() {
    return host.current % WARP;
}

static void sync_warp() {
    unsigned w = host.current / WARP;
    wait_at(&host.warp[w], &host.warp_alive[w]);
}

uint64_t host_exchange(uint64_t value, unsigned from) {
    host.slot[host.current] = value;
    sync_warp();
    uint64_t theirs = host.slot[host.current / WARP * WARP + from % WARP];
    sync_warp();
    return theirs;
}

const struct host_words *host_share(const struct host_words &own) {
    host.words[host.current] = own;
    sync_warp();
    return &host.words[host.current / WARP * WARP];
}

void host_unshare() {
    sync_warp();
}

void __syncwarp() {
    sync_warp();
}

int __any_sync(unsigned mask, int flag) {
    return __ballot_sync(mask, flag) != 0;
}

unsigned __ballot_sync(unsigned, int flag) {
    unsigned first = host.current / WARP * WARP, flags = 0;
    host.slot[host.current] = flag != 0;
    sync_warp();
    for (unsigned lane = 0; lane < WARP; lane++)
        flags |= (unsigned)(host.slot[first + lane] << lane);
    sync_warp();
    return flags;
}

unsigned __reduce_max_sync(unsigned, unsigned value) {
    unsigned first = host.current / WARP * WARP, most = 0;
    host.slot[host.current] = value;
    sync_warp();
    for (unsigned lane = 0; lane < WARP; lane++)
        most = host.slot[first + lane] > most ? (unsigned)host.slot[first + lane] : most;
    sync_warp();
    return most;
}

static cudaError_t state() {
    return (cudaError_t)host_cuda.sticky;
}

const char *cudaGetErrorString(cudaError_t status) {
    return status == cudaErrorMemoryAllocation ? "out of memory"
           : status == cudaErrorNoDevice       ? "no CUDA-capable device is detected"
           : status == cudaErrorIllegalAddress ? "an illegal memory access was encountered"
                                               : "an error";
}

const char *cudaGetErrorName(cudaError_t status) {
    return status == cudaErrorIllegalAddress ? "cudaErrorIllegalAddress" : "cudaError";
}

cudaError_t cudaGetLastError() {
    return state();
}

cudaError_t cudaGetDeviceCount(int *count) {
    *count = host_cuda.devices;
    return host_cuda.devices ? cudaSuccess : cudaErrorNoDevice;
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp *prop, int) {
    snprintf(prop->name, sizeof prop->name, "host");
    prop->major = host_cuda.major;
    prop->minor = host_cuda.minor;
    prop->multiProcessorCount = 3;
    return cudaSuccess;
}

cudaError_t cudaSetDevice(int) {
    return state();
}

cudaError_t cudaMemGetInfo(size_t *free_bytes, size_t *total) {
    *free_bytes = host_cuda.free_bytes;
    *total = host_cuda.memory_bytes;
    return state();
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned) {
    static char made[1 << 16];
    static unsigned streams;
    *stream = (cudaStream_t)&made[streams++ % sizeof made];
    return state();
}

cudaError_t cudaStreamDestroy(cudaStream_t) {
    return state();
}

cudaError_t cudaStreamQuery(cudaStream_t) {
    if (capturing)
        return cudaErrorInvalidValue;
    return host_cuda.busy && !host_cuda.sticky ? cudaErrorNotReady : state();
}

cudaError_t cudaStreamSynchronize(cudaStream_t) {
    return state();
}

// Launches run or are kept in the order they come, whatever their stream.
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t, unsigned) {
    if (capturing)
        is_forked = stream != capturing_on;
    return state();
}

struct host_event {
    struct timespec at;
};

cudaError_t cudaEventCreate(cudaEvent_t *event) {
    *event = (cudaEvent_t)calloc(1, sizeof **event);
    return state();
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
    free(event);
    return state();
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t) {
    if (capturing)
        return state();
    clock_gettime(CLOCK_MONOTONIC, &event->at);
    return state();
}

cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t from, cudaEvent_t to) {
    *ms = (float)(to->at.tv_sec - from->at.tv_sec) * 1e3f +
          (float)(to->at.tv_nsec - from->at.tv_nsec) * 1e-6f;
    return state();
}

static bool alloc_fails(size_t bytes) {
    return bytes > host_cuda.free_bytes || (host_cuda.fail_alloc && !--host_cuda.fail_alloc);
}

// What stands in front of every piece of memory.
struct head {
    size_t bytes;
    cudaMemoryType type;
};
enum { HEAD_BYTES = 256 };
static uint64_t pool_used, pool_high;

static struct head *head_of(const void *memory) {
    return (struct head *)((char *)memory - HEAD_BYTES);
}

// Memory of the device holds what was there before, never zeros.
static cudaError_t take(void **out, size_t bytes, cudaMemoryType type) {
    size_t whole = HEAD_BYTES + (bytes + 255) / 256 * 256;
    struct head *head = alloc_fails(bytes) ? NULL : (struct head *)aligned_alloc(256, whole);
    *out = NULL;
    if (!head)
        return cudaErrorMemoryAllocation;
    memset(head, 0xA5, whole);
    *head = {bytes, type};
    *out = (char *)head + HEAD_BYTES;
    return state();
}

cudaError_t cudaMalloc(void **out, size_t bytes) {
    return take(out, bytes, cudaMemoryTypeDevice);
}

cudaError_t cudaMallocManaged(void **out, size_t bytes) {
    return take(out, bytes, cudaMemoryTypeManaged);
}

cudaError_t cudaMallocHost(void **out, size_t bytes) {
    return take(out, bytes, cudaMemoryTypeHost);
}

cudaError_t cudaFree(void *memory) {
    if (memory)
        free(head_of(memory));
    return state();
}

cudaError_t cudaFreeHost(void *memory) {
    return cudaFree(memory);
}

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes *out, const void *memory) {
    out->type = head_of(memory)->type;
    return state();
}

cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t *pool, int) {
    *pool = (cudaMemPool_t)&pool_used;
    return state();
}

cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t, cudaMemPoolAttr, void *) {
    return state();
}

cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t, cudaMemPoolAttr what, void *value) {
    *(uint64_t *)value = what == cudaMemPoolAttrUsedMemHigh ? pool_high : pool_used;
    return state();
}

cudaError_t cudaMallocAsync(void **out, size_t bytes, cudaStream_t) {
    if (capturing)
        return cudaErrorInvalidValue;
    cudaError_t status = cudaMalloc(out, bytes);
    if (*out)
        pool_used += bytes;
    pool_high = pool_used > pool_high ? pool_used : pool_high;
    return status;
}

cudaError_t cudaFreeAsync(void *memory, cudaStream_t) {
    if (capturing)
        return cudaErrorInvalidValue;
    pool_used -= head_of(memory)->bytes;
    return cudaFree(memory);
}

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, cudaMemcpyKind,
                            cudaStream_t) {
    if (capturing)
        return cudaErrorInvalidValue;
    memmove(to, from, bytes);
    return state();
}

cudaError_t cudaMemsetAsync(void *to, int byte, size_t bytes, cudaStream_t) {
    if (capturing)
        return cudaErrorInvalidValue;
    memset(to, byte, bytes);
    return state();
}
