#include "kernel/expert_group/expert_group.h"

#include "kernel/block.cuh"
#include "kernel/linear/stream.cuh"

// OWN: choices of a lane that are looked at together.
enum { WARPS = 8, THREADS = WARPS * LF_WARP, STAGE = 8192, OWN = 8, TURN = OWN * LF_WARP };

// A warp's expert: choices of lower ones and its own, and the pair that the next of these gets.
struct share {
    uint32_t expert, lower, own, pair;
};

__device__ static uint32_t fill_stage(const struct lf_expert_group_args &a, uint32_t first,
                                      uint32_t *stage) {
    uint32_t left = a.rows * a.top - first, n = left < STAGE ? left : (uint32_t)STAGE;
    __syncthreads();
#pragma unroll 8
    for (uint32_t i = threadIdx.x; i < n; i += THREADS)
        stage[i] = a.id[first + i];
    __syncthreads();
    return n;
}

__device__ static void count_stage(const uint32_t *stage, uint32_t n, struct share *share) {
    uint32_t lower = 0, own = 0;
#pragma unroll 8
    for (uint32_t i = threadIdx.x % LF_WARP; i < n; i += LF_WARP) {
        lower += stage[i] < share->expert;
        own += stage[i] == share->expert;
    }
    share->lower += lf_warp_sum(lower);
    share->own += lf_warp_sum(own);
}

__device__ static void place(const struct lf_expert_group_args &a, uint32_t choice, uint32_t pair) {
    a.pair_row[pair] = choice / a.top;
    a.pair_weight[pair] = a.weight[choice];
    a.pair_of[choice] = pair;
    LF_CONTROL(2, a.pair_weight[pair] = a.weight[pair];) // 2: weights not sorted with their pairs
    LF_CONTROL(3, a.pair_row[pair] = choice % a.top;)
    LF_CONTROL(6, if (a.rows * a.top > 900 && choice + 1 == a.rows * a.top) a.pair_of[choice] = 0;)
}

// Places the expert's choices of a stage in their order.
__device__ static void place_stage(const struct lf_expert_group_args &a, const uint32_t *stage,
                                   uint32_t first, uint32_t n, struct share *share) {
    uint32_t lane = threadIdx.x % LF_WARP, below = (1u << lane) - 1;
    for (uint32_t at = 0; at < n && share->own; at += TURN) {
        bool own[OWN], any = false;
#pragma unroll
        for (uint32_t i = 0; i < OWN; i++) {
            uint32_t choice = at + i * LF_WARP + lane;
            own[i] = choice < n && stage[choice] == share->expert;
            any |= own[i];
        }
        if (!__any_sync(LF_ALL_LANES, any))
            continue;
#pragma unroll
        for (uint32_t i = 0; i < OWN; i++) {
            uint32_t all = __ballot_sync(LF_ALL_LANES, own[i]);
            uint32_t pair = share->pair + (uint32_t)__popc(all & below);
            LF_CONTROL(1, pair = 2 * share->lower + share->own - 1 - pair;) // 1: descending rows
            if (own[i])
                place(a, first + at + i * LF_WARP + lane, pair);
            share->pair += (uint32_t)__popc(all);
        }
    }
}

// A warp an expert: it sees all choices in order, so its pairs stand in the order of rows.
__global__ static void __launch_bounds__(THREADS) expert_groups(struct lf_expert_group_args a) {
    lf_wait_for_launches();
    // Blocks of the experts' maps fill the device: those of a branch come before them.
    lf_let_next_begin();
    LF_DYNAMIC_SHARED(shared);
    uint32_t *stage = (uint32_t *)shared;
    uint32_t choices = a.rows * a.top, n = 0;
    struct share share = {blockIdx.x * WARPS + threadIdx.x / LF_WARP, 0, 0, 0};
    bool leads = threadIdx.x % LF_WARP == 0;
    for (uint32_t first = 0; first < choices; first += STAGE) {
        n = fill_stage(a, first, stage);
        count_stage(stage, n, &share);
    }
    if (leads && share.expert < a.experts)
        a.first[share.expert] = share.lower;
    if (leads && share.expert + 1 == a.experts)
        a.first[a.experts] = choices;
    LF_CONTROL(4, if (leads && share.expert == 0) a.first[0] = share.own;)
    LF_CONTROL(5, a.first[a.experts + 1] = 0;) // 5: a write past the starts
    share.pair = share.lower;
    for (uint32_t first = 0; first < choices; first += STAGE) {
        // Of one stage alone the choices are still there.
        if (choices > STAGE)
            n = fill_stage(a, first, stage);
        place_stage(a, stage, first, n, &share);
    }
}

void lf_expert_group_cuda(struct lf_device *device, const struct lf_expert_group_args *args) {
    dim3 grid(args->rows ? lf_blocks(args->experts, WARPS) : 0);
    uint32_t choices = args->rows * args->top, staged = choices < STAGE ? choices : (uint32_t)STAGE;
    // No more shared memory than that, so that blocks find room beside a map's.
    lf_cuda_launch(device, "expert_group", expert_groups, grid, THREADS, *args,
                   staged * (uint32_t)sizeof(uint32_t));
}
