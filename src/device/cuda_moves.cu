// Memory of a CUDA device, and what goes there and comes back: all through one pinned stage.
#include "device/cuda_state.cuh"

#include <stdlib.h>
#include <string.h>

enum { STAGE_ALIGNMENT = 64 };

static void count(struct lf_cuda *cuda) {
    uint64_t held = 0, most = 0;
    if (cudaMemPoolGetAttribute(cuda->pool, cudaMemPoolAttrUsedMemCurrent, &held) != cudaSuccess ||
        cudaMemPoolGetAttribute(cuda->pool, cudaMemPoolAttrUsedMemHigh, &most) != cudaSuccess)
        return;
    __atomic_store_n(&cuda->held, held, __ATOMIC_RELAXED);
    __atomic_store_n(&cuda->held_most, most, __ATOMIC_RELAXED);
}

uint64_t lf_cuda_held_bytes(const struct lf_cuda *cuda, uint64_t *most) {
    *most = __atomic_load_n(&cuda->held_most, __ATOMIC_RELAXED);
    return __atomic_load_n(&cuda->held, __ATOMIC_RELAXED);
}

static cudaError_t take(struct lf_cuda *cuda, void **out, size_t bytes, enum cudaMemoryType type) {
    if (type == cudaMemoryTypeManaged)
        return cudaMallocManaged(out, bytes);
    if (type == cudaMemoryTypeHost)
        return cudaMallocHost(out, bytes);
    return cudaMallocAsync(out, bytes, cuda->stream);
}

static enum lf_status alloc(struct lf_cuda *cuda, void **out, size_t bytes,
                            enum cudaMemoryType type, const char *what, struct lf_error *err) {
    *out = NULL;
    if (!lf_cuda_ready(cuda))
        return lf_fail(err, cuda->failure.status, "%s", cuda->failure.text);
    bytes += !bytes;
    cudaError_t status = take(cuda, out, bytes, type);
    if (status == cudaSuccess) {
        count(cuda);
        return LF_OK;
    }
    size_t free_bytes = 0, all = 0;
    cudaGetLastError();
    *out = NULL;
    if (status == cudaErrorMemoryAllocation && cudaMemGetInfo(&free_bytes, &all) == cudaSuccess)
        return lf_fail(err, LF_E_MEM, "CUDA: no memory for %s: %zu MiB asked for, %zu of %zu free",
                       what, bytes >> 20, free_bytes >> 20, all >> 20);
    lf_cuda_note(cuda, status, what);
    return lf_fail(err, LF_E_DEVICE, "CUDA: memory for %s: %s", what, cudaGetErrorString(status));
}

enum lf_status lf_cuda_alloc(struct lf_cuda *cuda, void **out, size_t bytes, const char *what,
                             struct lf_error *err) {
    return alloc(cuda, out, bytes, cudaMemoryTypeDevice, what, err);
}

enum lf_status lf_cuda_alloc_shared(struct lf_cuda *cuda, void **out, size_t bytes,
                                    const char *what, struct lf_error *err) {
    return alloc(cuda, out, bytes, cudaMemoryTypeManaged, what, err);
}

enum lf_status lf_cuda_alloc_pinned(struct lf_cuda *cuda, void **out, size_t bytes,
                                    const char *what, struct lf_error *err) {
    return alloc(cuda, out, bytes, cudaMemoryTypeHost, what, err);
}

void lf_cuda_free(struct lf_cuda *cuda, void *memory) {
    cudaPointerAttributes about = {};
    // After a failure too; NULL has no attributes.
    lf_cuda_ready(cuda);
    if (!memory)
        return;
    cudaError_t status = cudaPointerGetAttributes(&about, memory);
    if (status == cudaSuccess && about.type == cudaMemoryTypeManaged)
        status = cudaFree(memory);
    else if (status == cudaSuccess && about.type == cudaMemoryTypeHost)
        status = cudaFreeHost(memory);
    else if (status == cudaSuccess)
        status = cudaFreeAsync(memory, cuda->stream);
    lf_cuda_note(cuda, status, "freeing memory");
    count(cuda);
}

// Room for bytes of the stage that no copy under way uses; NULL after a failure.
static uint8_t *stage_room(struct lf_cuda *cuda, size_t bytes) {
    if (!lf_cuda_ready(cuda) ||
        (cuda->staged + bytes > LF_CUDA_STAGE_BYTES && !lf_cuda_drain(cuda)))
        return NULL;
    uint8_t *room = cuda->stage + cuda->staged;
    cuda->staged += (bytes + STAGE_ALIGNMENT - 1) / STAGE_ALIGNMENT * STAGE_ALIGNMENT;
    return room;
}

static size_t piece(size_t left) {
    return left < LF_CUDA_PIECE_BYTES ? left : LF_CUDA_PIECE_BYTES;
}

static void queue_upload(struct lf_cuda *cuda, void *to, const void *pinned, size_t bytes) {
    lf_cuda_note(cuda, cudaMemcpyAsync(to, pinned, bytes, cudaMemcpyHostToDevice, cuda->stream),
                 "upload");
}

void lf_cuda_upload(struct lf_cuda *cuda, void *to, const void *from, size_t bytes) {
    for (size_t at = 0, n; at < bytes; at += n) {
        n = piece(bytes - at);
        uint8_t *room = stage_room(cuda, n);
        if (!room)
            return;
        memcpy(room, (const uint8_t *)from + at, n);
        queue_upload(cuda, (uint8_t *)to + at, room, n);
    }
}

void lf_cuda_send(struct lf_cuda *cuda, void *to, const void *pinned, size_t bytes) {
    if (lf_cuda_ready(cuda) && bytes)
        queue_upload(cuda, to, pinned, bytes);
}

void lf_cuda_fill(struct lf_cuda *cuda, void *to, uint8_t byte, size_t bytes) {
    if (lf_cuda_ready(cuda) && bytes)
        lf_cuda_note(cuda, cudaMemsetAsync(to, byte, bytes, cuda->stream), "fill");
}

void lf_cuda_copy(struct lf_cuda *cuda, void *to, const void *from, size_t bytes) {
    if (lf_cuda_ready(cuda) && bytes)
        lf_cuda_note(cuda, cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, cuda->stream),
                     "copy");
}

void lf_cuda_read(struct lf_cuda *cuda, void *to, const void *from, size_t bytes) {
    for (size_t at = 0, n; at < bytes; at += n) {
        n = piece(bytes - at);
        uint8_t *room = stage_room(cuda, n);
        if (room)
            lf_cuda_note(cuda, cudaMemcpyAsync(room, (const uint8_t *)from + at, n,
                                               cudaMemcpyDeviceToHost, cuda->stream), "download");
        if (room && lf_cuda_drain(cuda))
            memcpy((uint8_t *)to + at, room, n);
        else
            memset((uint8_t *)to + at, 0, n);
    }
}

enum lf_status lf_cuda_download(struct lf_cuda *cuda, void *to, const void *from, size_t bytes,
                                struct lf_error *err) {
    lf_cuda_read(cuda, to, from, bytes);
    return lf_cuda_wait(cuda, err);
}
