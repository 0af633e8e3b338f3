// What launch wrappers need of the device: its stream, and where failures go.
#pragma once
#include <cuda_runtime.h>
#include "device/cuda.h"

extern "C" {
// Sends the tables made since the last launch; false after a failure: then nothing is launched.
bool lf_cuda_begin(struct lf_cuda *cuda);
cudaStream_t lf_cuda_stream(struct lf_cuda *cuda);
// Whether the next launch may begin before the one ahead has ended.
bool lf_cuda_overlaps(struct lf_cuda *cuda);
// Whether a watcher was told of the launch instead.
bool lf_cuda_is_watched(struct lf_cuda *cuda, const char *name, const void *function,
                        const cudaLaunchConfig_t *config);
// Device memory for what one kernel's launches hand on, aligned to 256 bytes; NULL beside others.
enum { LF_CUDA_SCRATCH_BYTES = 160 << 20 };
void *lf_cuda_scratch(struct lf_cuda *cuda);
// Zeros, for launches that leave them so: blocks of a row that have come, for one.
enum { LF_CUDA_COUNTERS = 1024, LF_CUDA_TAKEN = LF_CUDA_COUNTERS - 1 }; // the last is linear's
uint32_t *lf_cuda_counters(struct lf_cuda *cuda);
// Zeros as well: words of a kind that blocks hand to later ones (kernel/hand.cuh).
enum { LF_CUDA_HANDED = 64 << 10 };
enum lf_cuda_handed { LF_CUDA_SUMS, LF_CUDA_COLUMNS, LF_CUDA_HANDED_KINDS };
uint32_t *lf_cuda_handed(struct lf_cuda *cuda, enum lf_cuda_handed kind);
// Keeps the first failure; what: "launch of rms_norm".
void lf_cuda_note(struct lf_cuda *cuda, cudaError_t status, const char *what);
}
