#include "kernel/router/router.h"

#include "kernel/block.cuh"
#include "kernel/math.h"
#include "kernel/settle.h"

enum { EXPERTS_MAX = 1024, TOP_MAX = 64 };

__device__ static float score(float logit) {
    return sqrtf(lf_softplus(logit));
}

__device__ static void sort_ascending(uint32_t *id, uint32_t n) {
    for (uint32_t i = 1; i < n; i++)
        for (uint32_t k = i; k > 0 && id[k - 1] > id[k]; k--) {
            uint32_t held = id[k];
            id[k] = id[k - 1];
            id[k - 1] = held;
        }
}

// A warp a row: the best candidate is taken out `top` times.
__global__ static void router_rows(struct lf_router_args a) {
    __shared__ unsigned long long candidate[EXPERTS_MAX];
    __shared__ uint32_t id[TOP_MAX];
    __shared__ float weight[TOP_MAX], divisor;
    size_t row = blockIdx.x;
    const float *logits = a.logits + row * a.experts;
    for (uint32_t e = threadIdx.x; e < a.experts; e += LF_WARP)
        candidate[e] = lf_candidate(lf_order_key(score(logits[e]) + a.bias[e]), e);
    __syncthreads();
    for (uint32_t k = 0; k < a.top; k++) {
        unsigned long long best = 0;
        for (uint32_t e = threadIdx.x; e < a.experts; e += LF_WARP)
            best = candidate[e] > best ? candidate[e] : best;
        best = lf_warp_max(best);
        __syncthreads();
        if (threadIdx.x == 0) {
            id[k] = lf_candidate_id(best);
            candidate[id[k]] = 0;
        }
        __syncthreads();
    }
    if (threadIdx.x == 0)
        sort_ascending(id, a.top);
    __syncthreads();
    for (uint32_t k = threadIdx.x; k < a.top; k += LF_WARP)
        weight[k] = score(logits[id[k]]);
    __syncthreads();
    if (threadIdx.x == 0) {
        float sum = 0;
        for (uint32_t k = 0; k < a.top; k++)
            sum = sum + weight[k];
        divisor = sum + 1e-20f;
    }
    __syncthreads();
    for (uint32_t k = threadIdx.x; k < a.top; k += LF_WARP) {
        a.id[row * a.top + k] = id[k];
        a.weight[row * a.top + k] = lf_f32_settle(weight[k] / divisor * a.route_scale);
    }
}

void lf_router_cuda(struct lf_device *device, const struct lf_router_args *args) {
    LF_ASSERT(args->top <= args->experts && args->experts <= EXPERTS_MAX && args->top <= TOP_MAX);
    lf_cuda_launch(device, "router", router_rows, dim3(args->rows), LF_WARP, *args);
}
