// The model runs over the CUDA column, on the device that the host plays: its memory can be read.
#include "device/cuda_memory.h"
#include "kernel/cuda_table.h"
#include "trial.h"

void lf_trial_column(struct lf_model_options *options) {
    static struct lf_cuda_memory memory;
    static struct lf_model_device device;
    struct lf_error err = LF_ERROR_INIT;
    if (!device.cuda) {
        lf_trial_must(lf_cuda_open(&device.cuda, 0, &err), &err);
        lf_cuda_memory_init(&memory, device.cuda);
        device.kernels = &lf_cuda_kernels;
        device.memory = device.aside = &memory.mem;
        device.arithmetic = LF_CUDA_ARITHMETIC;
        device.name = "played";
    }
    options->device = &device;
}
