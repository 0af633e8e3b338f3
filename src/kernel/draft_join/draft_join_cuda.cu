#include "kernel/draft_join/draft_join.h"

#include "kernel/launch.cuh"
#include "kernel/settle.h"

enum { THREADS = 256 };

__global__ static void draft_join_ids(struct lf_draft_join_args a) {
    lf_take_turn();
    uint32_t id = blockIdx.y * THREADS + threadIdx.x;
    if (id >= a.vocab)
        return;
    size_t row = blockIdx.x;
    float *logit = a.logits + row * a.logits_stride + id;
    float bias = a.bias[row * a.vocab + id];
    LF_CONTROL(1, bias = a.bias[(row - (row > 0)) * a.vocab + id];)
    LF_CONTROL(2, bias = id + 1 == a.vocab ? 0 : bias;) // 2: the bias of the last id left out
    LF_CONTROL(3, bias = lf_fault_bf16(bias);) // 3: the bias rounded to bf16
    float sum = *logit + bias;
    LF_CONTROL(6, if (row == 5 && id + 1 == a.vocab) return;)
    LF_CONTROL(7, sum = lf_fault_f16(sum);) // 7: the sum kept in fp16
    *logit = lf_f32_settle(sum);
    LF_CONTROL(4, *logit = sum;) // 4: a NaN keeps its own pattern
    LF_CONTROL(5, if (row + 1 == gridDim.x) a.logits[row * a.logits_stride + a.vocab] = 0;)
}

void lf_draft_join_cuda(struct lf_device *device, const struct lf_draft_join_args *args) {
    dim3 grid(args->rows, lf_blocks(args->vocab, THREADS));
    lf_cuda_launch(device, "draft_join", draft_join_ids, grid, THREADS, *args);
}
