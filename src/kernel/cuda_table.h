// The CUDA column of the kernel table: the same arguments, on a device.
#pragma once
#include "kernel/table.h"

// README.md says which pointers of the arguments are device memory; failures wait in lf_cuda_wait.
extern const struct lf_kernels lf_cuda_kernels;
// Sizes of a model that its entries take.
enum {
    LF_CUDA_HEAD_DIM_MAX = 512,
    LF_CUDA_INDEX_DIM_MAX = 128,
    LF_CUDA_EXPERTS_MAX = 1024,
    LF_CUDA_TOP_MAX = 64,
};
// Names its bits: linear's and attention's are its own (LF_..._CUDA_CONTRACT).
#define LF_CUDA_ARITHMETIC "cuda k640 a16"
