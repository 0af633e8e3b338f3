// A CUDA device as memory that kernels work in (memory.h).
#pragma once
#include "device/cuda.h"
#include "device/memory.h"

struct lf_cuda_memory {
    struct lf_mem mem; // first
    struct lf_cuda *cuda;
};

// cuda must outlive the memory; calls of one thread at a time, as all of cuda.h.
void lf_cuda_memory_init(struct lf_cuda_memory *memory, struct lf_cuda *cuda);
