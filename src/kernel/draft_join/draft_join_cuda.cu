#include "kernel/draft_join/draft_join.h"

#include "kernel/launch.cuh"
#include "kernel/settle.h"

enum { THREADS = 256 };

__global__ static void draft_join_ids(struct lf_draft_join_args a) {
    uint32_t id = blockIdx.y * THREADS + threadIdx.x;
    if (id >= a.vocab)
        return;
    float *logit = a.logits + blockIdx.x * a.logits_stride + id;
    *logit = lf_f32_settle(*logit + a.bias[(size_t)blockIdx.x * a.vocab + id]);
}

void lf_draft_join_cuda(struct lf_device *device, const struct lf_draft_join_args *args) {
    dim3 grid(args->rows, lf_blocks(args->vocab, THREADS));
    lf_cuda_launch(device, "draft_join", draft_join_ids, grid, THREADS, *args);
}
