// The CUDA column of the kernel table: the same arguments, on a device.
#pragma once
#include "kernel/table.h"

// README.md says which pointers of the arguments are device memory; failures wait in lf_cuda_wait.
struct lf_cuda_kernels {
#define LF_KERNEL(name) void (*name)(struct lf_cuda *cuda, const struct lf_##name##_args *args);
#include "kernel/registry.def"
#undef LF_KERNEL
};
extern const struct lf_cuda_kernels lf_cuda_kernels;
