#include "contract/cuda.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BUSY_BYTES = 32 << 20, LEAST_CLASS = 12 };

static uint32_t class_of(size_t bytes) {
    uint32_t k = LEAST_CLASS;
    while ((size_t)1 << k < bytes)
        k++;
    LF_ASSERT(k < LF_TRIAL_CLASSES);
    return k;
}

static void *open_block(struct lf_check_space *space, size_t bytes) {
    struct lf_trial_cuda *device = (struct lf_trial_cuda *)space;
    struct lf_error err = LF_ERROR_INIT;
    uint32_t k = class_of(bytes);
    void *block = device->kept[k];
    if (block) {
        memcpy(&device->kept[k], block, sizeof block);
        return block;
    }
    // Without memory nothing can be said about the kernel: the child ends, and its parent says so.
    if (lf_cuda_alloc_shared(device->cuda, &block, (size_t)1 << k, "operands", &err) != LF_OK) {
        fprintf(stderr, "%s\n", err.text);
        abort();
    }
    return block;
}

static void close_block(struct lf_check_space *space, void *memory, size_t bytes) {
    struct lf_trial_cuda *device = (struct lf_trial_cuda *)space;
    uint32_t k = class_of(bytes);
    memcpy(memory, &device->kept[k], sizeof memory);
    device->kept[k] = memory;
}

enum lf_status lf_trial_cuda_open(struct lf_trial_cuda **out, struct lf_error *err) {
    struct lf_trial_cuda *device = calloc(1, sizeof *device);
    *out = NULL;
    if (!device)
        return lf_fail(err, LF_E_MEM, "out of memory for a device of %zu bytes", sizeof *device);
    device->space = (struct lf_check_space){.open = open_block, .close = close_block};
    if (lf_cuda_open(&device->cuda, 0, err) == LF_OK &&
        lf_cuda_open(&device->beside, 0, err) == LF_OK &&
        lf_cuda_alloc(device->beside, &device->busy, BUSY_BYTES, "work beside", err) == LF_OK) {
        *out = device;
        return LF_OK;
    }
    lf_trial_cuda_close(device);
    return err->status;
}

void lf_trial_cuda_close(struct lf_trial_cuda *device) {
    if (!device)
        return;
    for (uint32_t k = 0; k < LF_TRIAL_CLASSES; k++)
        while (device->kept[k]) {
            void *block = device->kept[k];
            memcpy(&device->kept[k], block, sizeof block);
            lf_cuda_free(device->cuda, block);
        }
    if (device->busy)
        lf_cuda_free(device->beside, device->busy);
    lf_cuda_close(device->beside);
    lf_cuda_close(device->cuda);
    free(device);
}

void lf_trial_cuda_disturb(struct lf_trial_cuda *device) {
    lf_cuda_fill(device->beside, device->busy, LF_CHECK_GUARD_BYTE, BUSY_BYTES);
}
