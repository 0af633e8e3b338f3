// The model over the CUDA column, in memory that the host reads too: played, or waited for by CUDA.
#include "device/cuda_memory.h"
#include "kernel/cuda_table.h"
#include "trial.h"

static struct lf_cuda_memory memory;

static void *alloc_shared(struct lf_mem *mem, size_t bytes) {
    struct lf_error err = LF_ERROR_INIT;
    void *at;
    (void)mem;
    lf_trial_must(lf_cuda_alloc_shared(memory.cuda, &at, bytes, "a buffer", &err), &err);
    lf_cuda_fill(memory.cuda, at, 0, bytes);
    lf_trial_must(lf_cuda_wait(memory.cuda, &err), &err);
    return at;
}

void lf_trial_column(struct lf_model_options *options) {
    static struct lf_mem_ops ops;
    static struct lf_model_device device;
    struct lf_error err = LF_ERROR_INIT;
    if (!device.cuda) {
        lf_trial_must(lf_cuda_open(&device.cuda, 0, &err), &err);
        lf_cuda_memory_init(&memory, device.cuda);
        ops = *memory.mem.ops;
        ops.alloc = alloc_shared;
        memory.mem.ops = &ops;
        device.kernels = &lf_cuda_kernels;
        device.memory = device.aside = &memory.mem;
        device.arithmetic = LF_CUDA_ARITHMETIC;
        device.name = "column";
    }
    options->device = &device;
}
