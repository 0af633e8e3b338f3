#include "kernel/logprobs/logprobs.h"

#include "kernel/block.cuh"
#include "kernel/math.h"

// Blocks share a row out in parts of PART logits; OWN: of a thread.
enum { THREADS = 1024, OWN = 4, PART = THREADS * OWN, PARTS_MAX = 256 };
typedef unsigned long long u64;

// What the launches of a row hand on; first and bad are zeros at first.
struct progress {
    u64 first; // candidate of the greatest logit
    uint32_t bad;
    u64 best[PARTS_MAX][LF_LOGPROBS_MAX]; // of each part, the best candidates, then zeros
};

struct work {
    struct lf_logprobs_args a;
    struct progress *progress; // [rows]
    double *term;              // [rows][vocab]: exp(logit - greatest)
};

// The candidate of the i-th of a thread's logits of the block's part; 0: none.
__device__ static u64 own_candidate(const struct lf_logprobs_args &a, const float *logits,
                                    uint32_t i) {
    uint32_t id = blockIdx.x * PART + i * THREADS + threadIdx.x;
    LF_CONTROL(10, if (id + 1 == a.vocab) return 0;) // 10: the last id is no alternative
    return id < a.vocab && logits[id] > -INFINITY ? lf_candidate(lf_order_key(logits[id]), id) : 0;
}

__global__ static void __launch_bounds__(THREADS) logprobs_first(struct work w) {
    lf_take_turn();
    const float *logits = w.a.logits + blockIdx.y * w.a.logits_stride;
    u64 best = 0;
    int bad = 0;
#pragma unroll
    for (uint32_t i = 0; i < OWN; i++) {
        uint32_t id = blockIdx.x * PART + i * THREADS + threadIdx.x;
        bool is_bad = id < w.a.vocab && !(logits[id] < INFINITY);
        LF_CONTROL(6, is_bad = is_bad && logits[id] == INFINITY;) // 6: a NaN is not seen
        LF_CONTROL(13, is_bad = is_bad && logits[id] != logits[id];) // 13: +infinity is not seen
        bad |= is_bad;
        u64 candidate = own_candidate(w.a, logits, i);
        best = candidate > best ? candidate : best;
    }
    best = lf_block_max(best);
    bad = __syncthreads_or(bad);
    if (threadIdx.x == 0) {
        atomicMax(&w.progress[blockIdx.y].first, best);
        if (bad)
            atomicMax(&w.progress[blockIdx.y].bad, 1u);
    }
}

// The best `top` of all threads' candidates, best first, then zeros; a thread has `OWN`.
__device__ static void list_best(u64 own[OWN], uint32_t top, u64 *out) {
    u64 best = 1;
    for (uint32_t k = 0; k < top; k++) {
        u64 most = 0;
#pragma unroll
        for (uint32_t i = 0; i < OWN; i++)
            most = own[i] > most ? own[i] : most;
        if (best)
            best = lf_block_max(most);
        if (threadIdx.x == 0)
            out[k] = best;
#pragma unroll
        for (uint32_t i = 0; i < OWN; i++)
            own[i] = own[i] == best ? 0 : own[i];
    }
}

// A part's terms of the sum and its best candidates.
__global__ static void __launch_bounds__(THREADS) logprobs_terms(struct work w) {
    lf_take_turn();
    const float *logits = w.a.logits + blockIdx.y * w.a.logits_stride;
    struct progress *p = &w.progress[blockIdx.y];
    if (p->bad || !p->first)
        return;
    double most = (double)logits[lf_candidate_id(p->first)];
    u64 own[OWN];
#pragma unroll
    for (uint32_t i = 0; i < OWN; i++) {
        uint32_t id = blockIdx.x * PART + i * THREADS + threadIdx.x;
        if (id < w.a.vocab)
            w.term[(size_t)blockIdx.y * w.a.vocab + id] = lf_exp64((double)logits[id] - most);
        LF_CONTROL(2, if (id < w.a.vocab) w.term[(size_t)blockIdx.y * w.a.vocab + id] =
                   lf_exp64(((double)logits[id] - most) / 2);)
        own[i] = own_candidate(w.a, logits, i);
        LF_CONTROL(5, if (id < w.a.vocab && logits[id] == -INFINITY) own[i] = lf_candidate(1, id);)
    }
    list_best(own, w.a.top, p->best[blockIdx.x]);
}

// One warp adds, a lane a partial; the other warps bring terms, one stretch ahead of it.
enum { BRINGERS = THREADS - LF_WARP, SHARE = 2, STRETCH = BRINGERS * SHARE };
static_assert(STRETCH % 16 == 0, "partials begin anew with each stretch");

__device__ static void fetch_terms(const double *term, uint32_t first, uint32_t vocab,
                                   double own[SHARE]) {
#pragma unroll
    for (uint32_t i = 0; i < SHARE; i++) {
        uint32_t id = first + i * BRINGERS + threadIdx.x - LF_WARP;
        own[i] = id < vocab ? term[id] : 0.0;
    }
}

// A zero past the vocabulary adds nothing.
__device__ static double sum_terms(const double *term, uint32_t vocab) {
    __shared__ double stage[2][STRETCH], sum;
    bool adds = threadIdx.x < LF_WARP;
    double partial = 0, own[SHARE];
    LF_CONTROL(1, vocab--;) // 1: the last id is not in the sum
    if (!adds)
        fetch_terms(term, 0, vocab, own);
    for (uint32_t first = 0, turn = 0; first < vocab; first += STRETCH, turn ^= 1) {
        if (!adds) {
#pragma unroll
            for (uint32_t i = 0; i < SHARE; i++)
                stage[turn][i * BRINGERS + threadIdx.x - LF_WARP] = own[i];
            fetch_terms(term, first + STRETCH, vocab, own);
        }
        __syncthreads();
        if (adds)
#pragma unroll 31
            for (uint32_t i = threadIdx.x % 16; i < STRETCH; i += 16)
                partial += stage[turn][i];
    }
    LF_CONTROL(4, partial = (double)(float)partial;) // 4: the sum in float32
    if (adds)
        for (int other = 8; other; other /= 2)
            partial = partial + __shfl_xor_sync(LF_ALL_LANES, partial, other);
    if (threadIdx.x == 0)
        sum = partial;
    __syncthreads();
    return sum;
}

__device__ static void clear_row(struct lf_logprob_row *row) {
    for (uint32_t i = threadIdx.x; i < LF_LOGPROBS_MAX; i += THREADS) {
        LF_CONTROL(7, continue;) // 7: what lies past the alternatives is left
        row->id[i] = 0;
        row->value[i] = 0;
    }
    if (threadIdx.x == 0) {
        row->drawn = lf_f32_from_bits(0x7FC00000u);
        row->n = 0;
    }
}

// The best candidates of all parts, which lie side by side.
__device__ static void join_best(const struct work &w, const struct progress *p, u64 *best) {
    uint32_t parts = lf_blocks(w.a.vocab, PART), n = parts * w.a.top;
    for (uint32_t first = 0; first < n; first += PART - LF_LOGPROBS_MAX) {
        u64 own[OWN];
#pragma unroll
        for (uint32_t i = 0; i < OWN; i++) {
            uint32_t at = i * THREADS + threadIdx.x, from = first + at - LF_LOGPROBS_MAX;
            own[i] = 0;
            if (at < LF_LOGPROBS_MAX)
                own[i] = first && at < w.a.top ? best[at] : 0;
            else if (from < n)
                own[i] = p->best[from / w.a.top][from % w.a.top];
        }
        __syncthreads();
        list_best(own, w.a.top, best);
        __syncthreads();
    }
}

__global__ static void __launch_bounds__(THREADS) logprobs_rows(struct work w) {
    lf_take_turn();
    __shared__ u64 best[LF_LOGPROBS_MAX];
    const float *logits = w.a.logits + blockIdx.x * w.a.logits_stride;
    struct lf_logprob_row *row = &w.a.row[blockIdx.x];
    const struct progress *p = &w.progress[blockIdx.x];
    uint32_t t = threadIdx.x, drawn = w.a.drawn[blockIdx.x];
    LF_CONTROL(8, drawn = blockIdx.x == 5 ? w.a.drawn[4] : drawn;)
    LF_CONTROL(9, drawn = drawn < w.a.vocab ? drawn : w.a.vocab - 1;)
    clear_row(row);
    if (p->bad || !p->first)
        return;
    join_best(w, p, best);
    double most = (double)logits[lf_candidate_id(p->first)];
    double log_sum = lf_log64(sum_terms(w.term + (size_t)blockIdx.x * w.a.vocab, w.a.vocab));
    bool is_there = t < w.a.top && best[t];
    if (is_there) {
        uint32_t id = lf_candidate_id(best[t]);
        LF_CONTROL(3, id = t && best[t - 1] >> 32 == best[t] >> 32 ? lf_candidate_id(best[t - 1]) :
                   id;)
        row->id[t] = id;
        row->value[t] = (float)(((double)logits[id] - most) - log_sum);
        LF_CONTROL(11, row->value[t] = (float)((double)(float)((double)logits[id] - most) -
                   log_sum);)
    }
    if (t < LF_WARP) {
        uint32_t n = (uint32_t)__popc(__ballot_sync(LF_ALL_LANES, is_there));
        if (t == 0)
            row->n = n;
    }
    LF_CONTROL(12, most = 0;) // 12: the greatest logit is not taken off the drawn one
    if (t == 0 && drawn < w.a.vocab)
        row->drawn = (float)(((double)logits[drawn] - most) - log_sum);
}

void lf_logprobs_cuda(struct lf_device *device, const struct lf_logprobs_args *args) {
    static_assert((int)LF_LOGPROBS_MAX <= (int)LF_WARP, "a lane an alternative");
    LF_ASSERT(args->top <= LF_LOGPROBS_MAX && args->vocab <= PARTS_MAX * PART);
    size_t row_bytes = sizeof(struct progress) + sizeof(double) * args->vocab;
    uint32_t most = (uint32_t)(LF_CUDA_SCRATCH_BYTES / row_bytes);
    for (uint32_t first = 0; first < args->rows; first += most) {
        uint32_t n = args->rows - first < most ? args->rows - first : most;
        struct work w = {*args, (struct progress *)lf_cuda_scratch(device->cuda), NULL};
        w.term = (double *)(w.progress + n);
        w.a.logits += first * args->logits_stride;
        w.a.drawn += first;
        w.a.row += first;
        dim3 grid(lf_blocks(args->vocab, PART), n);
        lf_cuda_fill(device->cuda, w.progress, 0, sizeof *w.progress * n);
        lf_cuda_launch(device, "logprobs", logprobs_first, grid, THREADS, w);
        lf_cuda_launch(device, "logprobs", logprobs_terms, grid, THREADS, w);
        lf_cuda_launch(device, "logprobs", logprobs_rows, dim3(n), THREADS, w);
    }
}
