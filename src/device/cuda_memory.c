#include "device/cuda_memory.h"

static struct lf_cuda *cuda_of(struct lf_mem *memory) {
    return ((struct lf_cuda_memory *)memory)->cuda;
}

static void *cuda_alloc(struct lf_mem *memory, size_t bytes) {
    struct lf_error err = LF_ERROR_INIT;
    void *at;
    // The caller says what there is no memory for; other failures wait in the device.
    if (lf_cuda_alloc(cuda_of(memory), &at, bytes, "a buffer", &err) != LF_OK)
        return NULL;
    lf_cuda_fill(cuda_of(memory), at, 0, bytes);
    return at;
}

static void cuda_free(struct lf_mem *memory, void *at) {
    lf_cuda_free(cuda_of(memory), at);
}

static void cuda_upload(struct lf_mem *memory, void *to, const void *from, size_t bytes) {
    lf_cuda_upload(cuda_of(memory), to, from, bytes);
}

static void cuda_download(struct lf_mem *memory, void *to, const void *from, size_t bytes) {
    lf_cuda_read(cuda_of(memory), to, from, bytes);
}

static void cuda_copy(struct lf_mem *memory, void *to, const void *from, size_t bytes) {
    lf_cuda_copy(cuda_of(memory), to, from, bytes);
}

static enum lf_status cuda_wait(struct lf_mem *memory, struct lf_error *err) {
    return lf_cuda_wait(cuda_of(memory), err);
}

void lf_cuda_memory_init(struct lf_cuda_memory *memory, struct lf_cuda *cuda) {
    static const struct lf_mem_ops ops = {.alloc = cuda_alloc, .free = cuda_free,
                                          .upload = cuda_upload, .download = cuda_download,
                                          .copy = cuda_copy, .wait = cuda_wait};
    *memory = (struct lf_cuda_memory){.mem = {.ops = &ops}, .cuda = cuda};
}
