// Which planted fault shows: the contract tool writes it into the module.
#include "kernel/launch.cuh"

uint32_t lf_cuda_fault;
