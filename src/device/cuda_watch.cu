// Launches that are looked at instead of made.
#include "device/cuda_state.cuh"

void lf_cuda_watch(struct lf_cuda *cuda, lf_cuda_watcher *watcher, void *ctx) {
    cuda->watcher = watcher;
    cuda->watcher_ctx = ctx;
}

bool lf_cuda_is_watched(struct lf_cuda *cuda, const char *name, const void *function,
                        const cudaLaunchConfig_t *config) {
    if (!cuda->watcher)
        return false;
    cudaFuncAttributes attributes = {};
    lf_cuda_note(cuda, cudaFuncGetAttributes(&attributes, function), name);
    struct lf_cuda_shape shape = {
        name, {config->gridDim.x, config->gridDim.y, config->gridDim.z}, config->blockDim.x,
        attributes.sharedSizeBytes + config->dynamicSmemBytes, (uint32_t)attributes.numRegs,
        (uint32_t)attributes.maxThreadsPerBlock};
    cuda->watcher(cuda->watcher_ctx, &shape);
    return true;
}
