// A CUDA device behind cuda.h: every call's status is looked at, and the first failure is kept.
#include "device/cuda_state.cuh"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    RING_BYTES = 8 * LF_CUDA_TABLE_BYTES,
    HANDED_BYTES = LF_CUDA_HANDED_KINDS * LF_CUDA_HANDED * sizeof(uint32_t),
    ZERO_BYTES = HANDED_BYTES + LF_CUDA_COUNTERS * sizeof(uint32_t),
    TABLE_ALIGNMENT = 256,
    WAIT_S = 300,
    SPINS = 20000,    // polls before a waiter sleeps between them
    SLEEP_NS = 50000,
};
static const struct lf_error no_error = LF_ERROR_INIT;
static const size_t reserve_bytes = (size_t)512 << 20; // a device with less free is too full

bool lf_cuda_has_failed(const struct lf_cuda *cuda) {
    return cuda->failure.status != LF_OK;
}

// CUDA's present device is a property of each thread; -1: not known.
static thread_local int present = -1;

static void enter(struct lf_cuda *cuda) {
    if (present == cuda->index)
        return;
    cudaError_t status = cudaSetDevice(cuda->index);
    lf_cuda_note(cuda, status, "the device of a thread");
    present = status == cudaSuccess ? cuda->index : -1;
}

bool lf_cuda_ready(struct lf_cuda *cuda) {
    enter(cuda);
    return !lf_cuda_has_failed(cuda);
}

void lf_cuda_note(struct lf_cuda *cuda, cudaError_t status, const char *what) {
    if (status == cudaSuccess)
        return;
    lf_fail(&cuda->failure, LF_E_DEVICE, "CUDA: %s: %s (%s)", what, cudaGetErrorString(status),
            cudaGetErrorName(status));
    // While launches are kept nothing may be asked; the end notes its own error.
    if (cuda->kept)
        return;
    // An error that stays after it was taken has poisoned the context.
    cudaGetLastError();
    cudaError_t again = cudaStreamQuery(cuda->stream);
    cuda->lost |= again != cudaSuccess && again != cudaErrorNotReady;
}

static enum lf_status check_device(struct lf_cuda_info *info, int index, struct lf_error *err) {
    int count = 0;
    cudaError_t status = cudaGetDeviceCount(&count);
    if (status != cudaSuccess)
        return lf_fail(err, LF_E_ABSENT, "CUDA: no usable driver: %s", cudaGetErrorString(status));
    if (index < 0 || index >= count)
        return lf_fail(err, LF_E_ABSENT, "CUDA device %d: this machine has %d", index, count);
    cudaDeviceProp prop;
    status = cudaGetDeviceProperties(&prop, index);
    present = -1;
    if (status == cudaSuccess)
        status = cudaSetDevice(index);
    if (status == cudaSuccess)
        status = cudaMemGetInfo(&info->free_bytes, &info->memory_bytes);
    if (status != cudaSuccess)
        return lf_fail(err, LF_E_DEVICE, "CUDA device %d: %s", index, cudaGetErrorString(status));
    snprintf(info->name, sizeof info->name, "%.63s", prop.name);
    info->major = prop.major;
    info->minor = prop.minor;
    info->processors = (uint32_t)prop.multiProcessorCount;
    if (info->major != 9 || info->minor != 0)
        return lf_fail(err, LF_E_UNSUPPORTED,
                       "CUDA device %d (%s) has compute capability %d.%d; expected 9.0, the only "
                       "one whose tensor cores are known bit by bit", index, info->name,
                       info->major, info->minor);
    if (info->free_bytes < reserve_bytes)
        return lf_fail(err, LF_E_MEM, "CUDA device %d (%s) has %zu of %zu MiB free; expected %zu",
                       index, info->name, info->free_bytes >> 20, info->memory_bytes >> 20,
                       reserve_bytes >> 20);
    return LF_OK;
}

// The device's own pool: what is freed stays with the process, and is there at once when asked.
static cudaError_t open_pool(struct lf_cuda *cuda) {
    uint64_t kept_bytes = UINT64_MAX;
    cudaError_t status = cudaDeviceGetDefaultMemPool(&cuda->pool, cuda->index);
    if (status == cudaSuccess)
        status = cudaMemPoolSetAttribute(cuda->pool, cudaMemPoolAttrReleaseThreshold, &kept_bytes);
    return status;
}

static cudaError_t open_parts(struct lf_cuda *cuda) {
    cudaError_t status = cudaStreamCreateWithFlags(&cuda->stream, cudaStreamNonBlocking);
    if (status == cudaSuccess)
        status = open_pool(cuda);
    if (status == cudaSuccess)
        status = cudaMallocHost((void **)&cuda->stage, LF_CUDA_STAGE_BYTES);
    if (status == cudaSuccess)
        status = cudaMallocHost((void **)&cuda->ring_host, RING_BYTES);
    if (status == cudaSuccess)
        status = cudaMalloc((void **)&cuda->ring_device, RING_BYTES);
    if (status == cudaSuccess)
        status = cudaMalloc(&cuda->scratch, LF_CUDA_SCRATCH_BYTES + ZERO_BYTES);
    if (status == cudaSuccess)
        status = cudaMemsetAsync(lf_cuda_handed(cuda, LF_CUDA_SUMS), 0, ZERO_BYTES, cuda->stream);
    return status;
}

enum lf_status lf_cuda_open(struct lf_cuda **out, int index, struct lf_error *err) {
    *out = NULL;
    struct lf_cuda_info info = {};
    LF_TRY(check_device(&info, index, err));
    struct lf_cuda *cuda = (struct lf_cuda *)calloc(1, sizeof *cuda);
    if (!cuda)
        return lf_fail(err, LF_E_MEM, "no memory for a device of %zu bytes", sizeof *cuda);
    cuda->info = info;
    cuda->index = index;
    cuda->wait_s = WAIT_S;
    cudaError_t status = open_parts(cuda);
    if (status != cudaSuccess) {
        lf_cuda_close(cuda);
        return lf_fail(err, LF_E_DEVICE, "CUDA device %d: opening its stream: %s", index,
                       cudaGetErrorString(status));
    }
    *out = cuda;
    return LF_OK;
}

void lf_cuda_close(struct lf_cuda *cuda) {
    if (!cuda)
        return;
    // Nothing can be done about a failure here, and a lost device fails each of these.
    enter(cuda);
    if (cuda->scratch)
        cudaFree(cuda->scratch);
    if (cuda->ring_device)
        cudaFree(cuda->ring_device);
    if (cuda->ring_host)
        cudaFreeHost(cuda->ring_host);
    if (cuda->stage)
        cudaFreeHost(cuda->stage);
    for (int i = 0; i < LF_CUDA_MARKS; i++)
        if (cuda->mark[i])
            cudaEventDestroy(cuda->mark[i]);
    if (cuda->fork)
        cudaEventDestroy(cuda->fork);
    for (struct lf_cuda_branch *b = cuda->branch; b < cuda->branch + LF_CUDA_BRANCHES; b++) {
        if (b->done)
            cudaEventDestroy(b->done);
        if (b->stream)
            cudaStreamDestroy(b->stream);
    }
    if (cuda->stream)
        cudaStreamDestroy(cuda->stream);
    free(cuda);
}

void lf_cuda_set_wait(struct lf_cuda *cuda, double wait_s) {
    cuda->wait_s = wait_s;
}

const struct lf_cuda_info *lf_cuda_info(const struct lf_cuda *cuda) {
    return &cuda->info;
}

static int64_t now_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

// The stream's end or its error; cudaErrorNotReady after the deadline.
static cudaError_t poll_stream(struct lf_cuda *cuda) {
    int64_t deadline_ms = now_ms() + (int64_t)(cuda->wait_s * 1000);
    cudaError_t status = cudaStreamQuery(cuda->stream);
    for (uint32_t polls = 0; status == cudaErrorNotReady; polls++) {
        if (polls >= SPINS) {
            struct timespec pause = {0, SLEEP_NS};
            nanosleep(&pause, NULL);
            if (now_ms() >= deadline_ms)
                return status;
        }
        status = cudaStreamQuery(cuda->stream);
    }
    return status;
}

bool lf_cuda_drain(struct lf_cuda *cuda) {
    if (cuda->lost)
        return false;
    enter(cuda);
    cudaError_t status = poll_stream(cuda);
    if (status == cudaErrorNotReady) {
        cuda->lost = true;
        lf_fail(&cuda->failure, LF_E_DEVICE, "CUDA: launches and copies did not end within %g s",
                cuda->wait_s);
    } else {
        lf_cuda_note(cuda, status, "launches");
        cuda->staged = 0;
    }
    return !lf_cuda_has_failed(cuda);
}

enum lf_status lf_cuda_wait(struct lf_cuda *cuda, struct lf_error *err) {
    if (lf_cuda_drain(cuda))
        return LF_OK;
    lf_fail(err, cuda->failure.status, "%s", cuda->failure.text);
    if (!cuda->lost)
        cuda->failure = no_error;
    return err->status;
}

bool lf_cuda_is_lost(const struct lf_cuda *cuda) {
    return cuda->lost;
}

// Room at the ring's end is made by waiting until no launch reads the ring any more.
static void restart_ring(struct lf_cuda *cuda) {
    if (lf_cuda_begin(cuda))
        lf_cuda_drain(cuda);
    cuda->used = cuda->sent = 0;
}

// A launch has few tables: those before a restart lie at the ring's end, and stay whole.
void *lf_cuda_table_room(struct lf_cuda *cuda, size_t bytes, const void **at) {
    *at = NULL;
    if (lf_cuda_has_failed(cuda))
        return NULL;
    if (bytes > LF_CUDA_TABLE_BYTES) {
        lf_fail(&cuda->failure, LF_E_TOO_LARGE, "CUDA: a launch table of %zu bytes; at most %d",
                bytes, (int)LF_CUDA_TABLE_BYTES);
        return NULL;
    }
    size_t room = (bytes + TABLE_ALIGNMENT - 1) / TABLE_ALIGNMENT * TABLE_ALIGNMENT;
    cuda->table_bytes += room;
    if (cuda->kept)
        return lf_cuda_graph_room(cuda, room, at);
    if (cuda->used + room > RING_BYTES)
        restart_ring(cuda);
    size_t place = cuda->used;
    cuda->used += room;
    *at = cuda->ring_device + place;
    return cuda->ring_host + place;
}

bool lf_cuda_begin(struct lf_cuda *cuda) {
    size_t bytes = cuda->used - cuda->sent;
    if (lf_cuda_ready(cuda) && bytes)
        lf_cuda_note(cuda, cudaMemcpyAsync(cuda->ring_device + cuda->sent,
                                           cuda->ring_host + cuda->sent, bytes,
                                           cudaMemcpyHostToDevice, cuda->stream), "launch tables");
    cuda->sent = cuda->used;
    cuda->launches++;
    return !lf_cuda_has_failed(cuda);
}

cudaStream_t lf_cuda_stream(struct lf_cuda *cuda) {
    return cuda->aside ? cuda->aside->stream : cuda->stream;
}

bool lf_cuda_overlaps(struct lf_cuda *cuda) {
    bool waits = cuda->waits;
    cuda->waits = false;
    return !waits;
}

void *lf_cuda_scratch(struct lf_cuda *cuda) {
    return cuda->aside ? NULL : cuda->scratch;
}

uint32_t *lf_cuda_handed(struct lf_cuda *cuda, enum lf_cuda_handed kind) {
    return (uint32_t *)((uint8_t *)cuda->scratch + LF_CUDA_SCRATCH_BYTES) + kind * LF_CUDA_HANDED;
}

uint32_t *lf_cuda_counters(struct lf_cuda *cuda) {
    return lf_cuda_handed(cuda, LF_CUDA_HANDED_KINDS);
}

void lf_cuda_mark(struct lf_cuda *cuda, int mark) {
    cudaEvent_t *event = &cuda->mark[mark];
    LF_ASSERT(mark >= 0 && mark < LF_CUDA_MARKS);
    if (lf_cuda_ready(cuda) && !*event)
        lf_cuda_note(cuda, cudaEventCreate(event), "time mark");
    if (!lf_cuda_has_failed(cuda))
        lf_cuda_note(cuda, cudaEventRecord(*event, cuda->stream), "time mark");
}

float lf_cuda_between_ms(struct lf_cuda *cuda, int from, int to) {
    float ms = 0;
    if (!lf_cuda_has_failed(cuda))
        lf_cuda_note(cuda, cudaEventElapsedTime(&ms, cuda->mark[from], cuda->mark[to]),
                     "time marks");
    return ms;
}

uint64_t lf_cuda_launches(const struct lf_cuda *cuda) {
    return cuda->launches;
}
