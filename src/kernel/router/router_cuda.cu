#include "kernel/router/router.h"

#include "kernel/block.cuh"
#include "kernel/math.h"
#include "kernel/settle.h"

// A thread an expert of most models: scores take long.
enum { THREADS = 384, WARPS = THREADS / LF_WARP, EXPERTS_MAX = 1024, TOP_MAX = 64 };
enum { OWN = (EXPERTS_MAX + THREADS - 1) / THREADS }; // experts of a thread

__device__ static float score(float logit) {
    LF_CONTROL(4, return lf_softplus(logit);) // 4: no root
    return sqrtf(lf_softplus(logit));
}

struct stage {
    alignas(16) unsigned long long best[WARPS * TOP_MAX]; // of each warp, the greatest first
    float score[EXPERTS_MAX], weight[TOP_MAX];
    uint32_t chosen[TOP_MAX], id[TOP_MAX];
};

// Each warp lists the best of its own, among which are those of the row.
__device__ static void list_best(unsigned long long own[OWN], uint32_t top,
                                 unsigned long long *best) {
    for (uint32_t k = 0; k < top; k++) {
        unsigned long long most = own[0];
#pragma unroll
        for (uint32_t i = 1; i < OWN; i++)
            most = own[i] > most ? own[i] : most;
        most = lf_warp_max(most);
        if (threadIdx.x % LF_WARP == 0)
            best[k] = most;
#pragma unroll
        for (uint32_t i = 0; i < OWN; i++)
            own[i] = own[i] == most ? 0 : own[i];
    }
}

// A candidate's place is how many of those listed are greater.
__device__ static void choose(struct stage *s, uint32_t top) {
    const uint32_t n = WARPS * top;
    for (uint32_t i = threadIdx.x; i < n; i += THREADS) {
        unsigned long long own = s->best[i];
        uint32_t place = 0, id = lf_candidate_id(own);
        LF_CONTROL(2, id = (uint32_t)own;)
#pragma unroll 12
        for (uint32_t j = 0; j < n; j++)
            place += s->best[j] > own;
        if (own && place < top)
            s->chosen[place] = id;
    }
    __syncthreads();
}

// One warp: those chosen in the order of their ids.
__device__ static void list_chosen(struct stage *s, uint32_t top) {
    for (uint32_t k = threadIdx.x; k < top; k += LF_WARP) {
        uint32_t id = s->chosen[k], at = 0;
#pragma unroll 2
        for (uint32_t j = 0; j < top; j++)
            at += s->chosen[j] < id;
        LF_CONTROL(6, at = blockIdx.x % 16 == 15 ? k : at;) // 6: the sixteenth row's as chosen
        s->id[at] = id;
        s->weight[at] = s->score[id];
    }
    __syncwarp();
}

// A block a row: all threads score, warps list their best, a warp those of the row.
__global__ static void __launch_bounds__(THREADS) router_rows(struct lf_router_args a) {
    __shared__ struct stage s;
    unsigned long long own[OWN] = {};
    size_t row = blockIdx.x;
    lf_let_next_begin();
    float bias = threadIdx.x < a.experts ? a.bias[threadIdx.x] : 0; // a weight
    lf_wait_for_launches();
#pragma unroll 1
    for (uint32_t e = threadIdx.x; e < a.experts; e += THREADS) {
        float v = score(a.logits[row * a.experts + e]);
#pragma unroll
        for (uint32_t i = OWN - 1; i > 0; i--)
            own[i] = own[i - 1];
        own[0] = lf_candidate(lf_order_key(v + bias), e);
        LF_CONTROL(1, own[0] = lf_candidate(lf_order_key(v), e);) // 1: no bias
        LF_CONTROL(2, own[0] = own[0] >> 32 << 32 | e;) // 2: ties to the higher id
        LF_CONTROL(3, if (v != v) own[0] |= 0xFFFFFFFFull << 32;)
        LF_CONTROL(5, if (e + 1 == a.experts) own[0] = lf_candidate(0, e);)
        LF_CONTROL(7, v = v + bias;) // 7: the bias in the weight as well
        s.score[e] = v;
        bias = e + THREADS < a.experts ? a.bias[e + THREADS] : 0;
    }
    list_best(own, a.top, s.best + threadIdx.x / LF_WARP * a.top);
    __syncthreads();
    choose(&s, a.top);
    if (threadIdx.x >= LF_WARP)
        return;
    list_chosen(&s, a.top);
    float sum = 0;
#pragma unroll 2
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
