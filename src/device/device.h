// What a kernel is called with: who computes, and the memory that its arguments lie in.
#pragma once

struct lf_pool;
struct lf_cuda;
struct lf_mem;

struct lf_device {
    struct lf_pool *pool;  // threads of the CPU column, and of the host's own work
    struct lf_cuda *cuda;  // stream of the CUDA column; NULL: kernels run on pool
    struct lf_mem *memory; // NULL: the host's
};
