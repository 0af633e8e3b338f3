#include "kernel/logprobs/logprobs.h"

#include "kernel/block.cuh"
#include "kernel/math.h"

// OWN: logits of a thread that are read together.
enum { THREADS = 1024, OWN = 8, TURN = THREADS * OWN, STAGE = 2048 };

// The candidate of the greatest logit; 0 where the row has no distribution.
__device__ static unsigned long long find_greatest(const float *logits, uint32_t vocab) {
    unsigned long long best = 0;
    int bad = 0;
#pragma unroll 4
    for (uint32_t id = threadIdx.x; id < vocab; id += THREADS) {
        bad |= !(logits[id] < INFINITY);
        unsigned long long candidate = lf_candidate(lf_order_key(logits[id]), id);
        best = logits[id] > -INFINITY && candidate > best ? candidate : best;
    }
    best = lf_block_max(best);
    return __syncthreads_or(bad) ? 0 : best;
}

// The best candidate after `last` in the order of engine.md S-4, or 0.
__device__ static unsigned long long find_next(const float *logits, uint32_t vocab,
                                               unsigned long long last) {
    unsigned long long best = 0;
    for (uint32_t id = threadIdx.x; id < vocab; id += TURN) {
        float logit[OWN];
#pragma unroll
        for (uint32_t i = 0; i < OWN; i++)
            logit[i] = id + i * THREADS < vocab ? logits[id + i * THREADS] : -INFINITY;
#pragma unroll
        for (uint32_t i = 0; i < OWN; i++) {
            unsigned long long candidate = lf_candidate(lf_order_key(logit[i]), id + i * THREADS);
            if (logit[i] > -INFINITY && candidate < last && candidate > best)
                best = candidate;
        }
    }
    return lf_block_max(best);
}

// The sum of exp(logit - most): all threads make the terms, 16 of them add in the contract's order.
__device__ static double sum_exp(const float *logits, uint32_t vocab, double most) {
    __shared__ double term[STAGE], sum;
    double partial = 0;
    for (uint32_t first = 0; first < vocab; first += STAGE) {
        uint32_t n = vocab - first < STAGE ? vocab - first : STAGE;
        for (uint32_t i = threadIdx.x; i < n; i += THREADS)
            term[i] = lf_exp64((double)logits[first + i] - most);
        __syncthreads();
        if (threadIdx.x < LF_WARP)
#pragma unroll 8
            for (uint32_t i = threadIdx.x % 16; i < n; i += 16)
                partial += term[i];
        __syncthreads();
    }
    if (threadIdx.x < LF_WARP)
        for (int other = 8; other; other /= 2)
            partial = partial + __shfl_xor_sync(LF_ALL_LANES, partial, other);
    if (threadIdx.x == 0)
        sum = partial;
    __syncthreads();
    return sum;
}

__global__ static void __launch_bounds__(THREADS) logprobs_rows(struct lf_logprobs_args a) {
    const float *logits = a.logits + blockIdx.x * a.logits_stride;
    struct lf_logprob_row *row = &a.row[blockIdx.x];
    for (uint32_t i = threadIdx.x; i < LF_LOGPROBS_MAX; i += THREADS) {
        row->id[i] = 0;
        row->value[i] = 0;
    }
    if (threadIdx.x == 0) {
        row->drawn = lf_f32_from_bits(0x7FC00000u);
        row->n = 0;
    }
    unsigned long long best = find_greatest(logits, a.vocab);
    if (!best)
        return;
    double most = (double)logits[lf_candidate_id(best)];
    double log_sum = lf_log64(sum_exp(logits, a.vocab, most));
    for (uint32_t k = 0; k < a.top && best; k++) {
        uint32_t id = lf_candidate_id(best);
        if (threadIdx.x == 0) {
            row->id[k] = id;
            row->value[k] = (float)(((double)logits[id] - most) - log_sum);
            row->n = k + 1;
        }
        best = find_next(logits, a.vocab, best);
    }
    uint32_t drawn = a.drawn[blockIdx.x];
    if (threadIdx.x == 0 && drawn < a.vocab)
        row->drawn = (float)(((double)logits[drawn] - most) - log_sum);
}

void lf_logprobs_cuda(struct lf_device *device, const struct lf_logprobs_args *args) {
    LF_ASSERT(args->top <= LF_LOGPROBS_MAX);
    lf_cuda_launch(device, "logprobs", logprobs_rows, dim3(args->rows), THREADS, *args);
}
