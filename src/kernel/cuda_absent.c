// Stands for the CUDA column in a program built without CUDA: no device opens to call it with.
#include "base/error.h"
#include "kernel/cuda_table.h"
#include "kernel/limits.h"

#define LF_KERNEL(name)                                                                            \
    void lf_##name##_cuda(struct lf_device *device, const struct lf_##name##_args *args) {         \
        (void)device, (void)args;                                                                  \
        LF_ASSERT(!"a device");                                                                    \
    }
#include "kernel/registry.def"
#undef LF_KERNEL

void lf_linear_look_cuda(struct lf_device *device, const struct lf_matrix *m, uint32_t *is_odd) {
    (void)device, (void)m, (void)is_odd;
    LF_ASSERT(!"a device");
}

void lf_linear_turn_cuda(struct lf_device *device, void *codes, uint64_t bytes) {
    (void)device, (void)codes, (void)bytes;
    LF_ASSERT(!"a device");
}

void lf_limit_read(struct lf_device *device, const void *from, size_t bytes, uint32_t *to) {
    (void)device, (void)from, (void)bytes, (void)to;
    LF_ASSERT(!"a device");
}

void lf_limit_products(struct lf_device *device, const void *numbers, uint32_t steps, float *to) {
    (void)device, (void)numbers, (void)steps, (void)to;
    LF_ASSERT(!"a device");
}

size_t lf_limit_products_bytes(struct lf_device *device) {
    (void)device;
    LF_ASSERT(!"a device");
    return 0;
}

double lf_limit_operations(struct lf_device *device, uint32_t steps) {
    (void)device, (void)steps;
    LF_ASSERT(!"a device");
    return 0;
}

void lf_limit_hold(struct lf_device *device, uint32_t us) {
    (void)device, (void)us;
    LF_ASSERT(!"a device");
}
