#include "kernel/cuda_table.h"

const struct lf_kernels lf_cuda_kernels = {
#define LF_KERNEL(name) .name = lf_##name##_cuda,
#include "kernel/registry.def"
#undef LF_KERNEL
};
