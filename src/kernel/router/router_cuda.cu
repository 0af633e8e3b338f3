#include "kernel/router/router.h"

#include "kernel/block.cuh"
#include "kernel/math.h"
#include "kernel/settle.h"

// A thread an expert of most models: scores take long.
enum { THREADS = 384, EXPERTS_MAX = 1024, TOP_MAX = 64 };

__device__ static float score(float logit) {
    LF_CONTROL(4, return lf_softplus(logit);) // 4: no root
    return sqrtf(lf_softplus(logit));
}

struct stage {
    unsigned long long candidate[EXPERTS_MAX];
    float score[EXPERTS_MAX], weight[TOP_MAX];
    uint32_t id[TOP_MAX];
};

// The lane's best candidate.
__device__ static unsigned long long best_of_lane(const struct stage *s, uint32_t experts) {
    unsigned long long best = 0;
#pragma unroll 8
    for (uint32_t e = threadIdx.x; e < experts; e += LF_WARP)
        best = s->candidate[e] > best ? s->candidate[e] : best;
    return best;
}

// One warp: the best candidate is taken out `top` times; only its lane looks for another.
__device__ static void choose(struct stage *s, uint32_t experts, uint32_t top) {
    unsigned long long own = best_of_lane(s, experts);
    for (uint32_t k = 0; k < top; k++) {
        unsigned long long best = lf_warp_max(own);
        if (own == best) {
            uint32_t id = lf_candidate_id(best);
            LF_CONTROL(2, id = (uint32_t)best;)
            LF_CONTROL(6, s->id[k] = id; s->weight[k] = s->score[id];)
            s->candidate[id] = 0;
            own = best_of_lane(s, experts);
        }
    }
    __syncwarp();
}

// Lists those that were taken out: a warp's lanes look at neighbouring experts, in order.
__device__ static void list_chosen(struct stage *s, uint32_t experts) {
    uint32_t lane = threadIdx.x, listed = 0;
    LF_CONTROL(6, if (blockIdx.x % 16 == 15) return;) // 6: the sixteenth row's in order of choice
#pragma unroll 4
    for (uint32_t first = 0; first < experts; first += LF_WARP) {
        bool chosen = first + lane < experts && !s->candidate[first + lane];
        uint32_t all = __ballot_sync(LF_ALL_LANES, chosen);
        uint32_t at = listed + (uint32_t)__popc(all & ((1u << lane) - 1));
        if (chosen) {
            s->id[at] = first + lane;
            s->weight[at] = s->score[first + lane];
        }
        listed += (uint32_t)__popc(all);
    }
    __syncwarp();
}

// A block a row: all threads score, a warp chooses.
__global__ static void router_rows(struct lf_router_args a) {
    lf_take_turn();
    __shared__ struct stage s;
    size_t row = blockIdx.x;
    for (uint32_t e = threadIdx.x; e < a.experts; e += THREADS) {
        s.score[e] = score(a.logits[row * a.experts + e]);
        s.candidate[e] = lf_candidate(lf_order_key(s.score[e] + a.bias[e]), e);
        LF_CONTROL(1, s.candidate[e] = lf_candidate(lf_order_key(s.score[e]), e);) // 1: no bias
        LF_CONTROL(2, s.candidate[e] = s.candidate[e] >> 32 << 32 | e;) // 2: ties to the higher id
        LF_CONTROL(3, if (s.score[e] != s.score[e]) s.candidate[e] |= 0xFFFFFFFFull << 32;)
        LF_CONTROL(5, if (e + 1 == a.experts) s.candidate[e] = lf_candidate(0, e);)
        LF_CONTROL(7, s.score[e] = s.score[e] + a.bias[e];) // 7: the bias in the weight as well
    }
    __syncthreads();
    if (threadIdx.x >= LF_WARP)
        return;
    choose(&s, a.experts, a.top);
    list_chosen(&s, a.experts);
    float sum = 0;
    for (uint32_t k = 0; k < a.top; k++)
        sum = sum + s.weight[k];
    float divisor = sum + 1e-20f;
    LF_CONTROL(8, divisor = 1;) // 8: weights are not normalised
    LF_CONTROL(9, divisor = sum;) // 9: nothing is added to the sum
    LF_CONTROL(10, a.weight[(size_t)gridDim.x * a.top] = 0;) // 10: a write past the row's weights
    LF_CONTROL(11, a.route_scale = 1;) // 11: route_scale left out
    for (uint32_t k = threadIdx.x; k < a.top; k += LF_WARP) {
        a.id[row * a.top + k] = s.id[k];
        a.weight[row * a.top + k] = lf_f32_settle(s.weight[k] / divisor * a.route_scale);
    }
}

void lf_router_cuda(struct lf_device *device, const struct lf_router_args *args) {
    LF_ASSERT(args->top <= args->experts && args->experts <= EXPERTS_MAX && args->top <= TOP_MAX);
    lf_cuda_launch(device, "router", router_rows, dim3(args->rows), THREADS, *args);
}
