// The CUDA column of the kernel table: the same arguments, on a device.
#pragma once
#include "kernel/table.h"

// README.md says which pointers of the arguments are device memory; failures wait in lf_cuda_wait.
extern const struct lf_kernels lf_cuda_kernels;
// Names its bits: those of linear are its own (LF_LINEAR_CUDA_CONTRACT).
#define LF_CUDA_ARITHMETIC "cuda k640"
