// Made-up weights on a device: a thread makes every few words of a tensor.
#include "device/cuda_dummy.h"

#include "device/cuda_stream.cuh"
#include "device/cuda_turn.cuh"

enum { THREADS = 256, WORDS_A_THREAD = 32 };

struct made_up {
    struct lf_dummy_rule rule;
    uint8_t *to;
    uint64_t offset, bytes; // of the tensor
};

__global__ static void make_up(const struct made_up m) {
    lf_take_turn();
    uint64_t threads = (uint64_t)gridDim.x * blockDim.x, end = m.offset + m.bytes;
    uint64_t first = m.offset / 8 + (uint64_t)blockIdx.x * blockDim.x + threadIdx.x;
    for (uint64_t word = first; word * 8 < end; word += threads) {
        uint64_t value = lf_dummy_word(&m.rule, word), at = word * 8;
        if (m.offset % 8 == 0 && at + 8 <= end) {
            *(uint64_t *)(m.to + (at - m.offset)) = value;
            continue;
        }
        for (uint64_t i = at < m.offset ? m.offset : at; i < at + 8 && i < end; i++)
            m.to[i - m.offset] = (uint8_t)(value >> 8 * (i - at));
    }
}

void lf_cuda_dummy(struct lf_cuda *cuda, void *to, const struct lf_dummy_rule *rule,
                   uint64_t offset, uint64_t bytes) {
    struct made_up m = {*rule, (uint8_t *)to, offset, bytes};
    uint64_t blocks = (bytes / 8 + 2) / (THREADS * WORDS_A_THREAD) + 1;
    cudaLaunchConfig_t config = {};
    if (!bytes || !lf_cuda_begin(cuda))
        return;
    config.gridDim = dim3((unsigned)blocks);
    config.blockDim = dim3(THREADS);
    config.stream = lf_cuda_stream(cuda);
    lf_cuda_note(cuda, cudaLaunchKernelEx(&config, make_up, m), "made-up weights");
}
