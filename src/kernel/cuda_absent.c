// Stands for the CUDA column in a program built without CUDA: no device opens to call it with.
#include "base/error.h"
#include "kernel/cuda_table.h"

#define LF_KERNEL(name)                                                                            \
    void lf_##name##_cuda(struct lf_device *device, const struct lf_##name##_args *args) {         \
        (void)device, (void)args;                                                                  \
        LF_ASSERT(!"a device");                                                                    \
    }
#include "kernel/registry.def"
#undef LF_KERNEL
