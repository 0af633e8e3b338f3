#include "kernel/expert_group/expert_group.h"

#include "kernel/block.cuh"

enum { THREADS = 1024, STAGE = 2048 };

// Choices before `end` of the stage that are the thread's expert's; marks each one's pair.
__device__ static uint32_t take_stage(const struct lf_expert_group_args &a, const uint32_t *stage,
                                      uint32_t first, uint32_t n, uint32_t pair, bool marks) {
    for (uint32_t i = 0; i < n; i++) {
        if (stage[i] != threadIdx.x)
            continue;
        uint32_t at = pair++;
        if (marks) {
            LF_CONTROL(1, at = a.first[threadIdx.x] + a.first[threadIdx.x + 1] - 1 - at;)
            a.pair_row[at] = (first + i) / a.top;
            a.pair_weight[at] = a.weight[first + i];
            a.pair_of[first + i] = at;
            LF_CONTROL(2, a.pair_weight[at] = a.weight[at];)
            LF_CONTROL(3, a.pair_row[at] = (first + i) % a.top;)
            LF_CONTROL(6, if (a.rows * a.top > 900 && first + i + 1 == a.rows * a.top)
                       a.pair_of[first + i] = 0;)
        }
    }
    return pair;
}

// A thread an expert: it sees all choices in order, so its pairs stand in the order of rows.
__global__ static void __launch_bounds__(THREADS) expert_groups(struct lf_expert_group_args a) {
    lf_take_turn();
    __shared__ uint32_t stage[STAGE];
    uint32_t choices = a.rows * a.top, pair = 0;
    for (int turn = 0; turn < 2; turn++) {
        for (uint32_t first = 0; first < choices; first += STAGE) {
            uint32_t n = choices - first < STAGE ? choices - first : (uint32_t)STAGE;
            __syncthreads();
            for (uint32_t i = threadIdx.x; i < n; i += THREADS)
                stage[i] = a.id[first + i];
            __syncthreads();
            pair = take_stage(a, stage, first, n, pair, turn == 1);
        }
        if (turn == 0) {
            uint32_t total, before = lf_block_sum_before(pair, &total);
            if (threadIdx.x < a.experts)
                a.first[threadIdx.x] = before;
            if (threadIdx.x == 0)
                a.first[a.experts] = total;
            LF_CONTROL(5, a.first[a.experts + 1] = 0;) // 5: a write past the starts
            LF_CONTROL(4, if (threadIdx.x == 0) a.first[0] = pair;)
            pair = before;
        }
    }
}

void lf_expert_group_cuda(struct lf_device *device, const struct lf_expert_group_args *args) {
    LF_ASSERT(args->experts <= THREADS);
    lf_cuda_launch(device, "expert_group", expert_groups, dim3(args->rows > 0), THREADS, *args);
}
