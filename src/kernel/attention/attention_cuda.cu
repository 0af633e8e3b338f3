#include "kernel/attention/attention.h"

#include "kernel/math.h"
#include "kernel/packed_row.cuh"
#include "kernel/settle.h"

// A block works on some heads of one row, CHUNK elements of BLOCK keys at a time.
enum { BLOCK = 64, HEADS = 8, CHUNK = 64, THREADS = 256, DIM_MAX = 512, KEYS_A_GROUP = 4 };
// Key rows are padded so that the two groups of a warp read different banks.
enum { STRIDE = CHUNK + 4 };

struct stage {
    const uint8_t *row[BLOCK]; // packed
    float key[BLOCK][STRIDE];
    float q[HEADS][CHUNK];
    float p[HEADS][BLOCK]; // dot products, then weights
    float value[HEADS][DIM_MAX];
    float factor[HEADS], total[HEADS];
};

// A row's list: window positions first .. first+window-1, then n - window selected entries.
struct key_list {
    uint64_t first;
    uint32_t window, n;
};

// The maximum and the denominator of a warp's head, the same in all its lanes.
struct softmax {
    float m, denominator;
};

__device__ static struct key_list list_keys(const struct lf_attention_args &a, uint32_t r) {
    const struct lf_span *span = &a.span[a.row[r].lane];
    uint64_t end = a.row[r].position + 1, width = a.window;
    if (a.whole_span) {
        end = span->pos0 + span->rows;
        width += span->rows;
    }
    struct key_list list = {end > width ? end - width : 0, 0, 0};
    list.window = (uint32_t)(end - list.first);
    list.n = list.window + (a.entries ? a.n_selected[r] : 0);
    return list;
}

__device__ static const uint8_t *packed_row(const struct lf_attention_args &a, uint32_t r,
                                            const struct key_list &list, uint32_t at) {
    uint32_t lane = a.row[r].lane;
    if (at >= list.window) {
        uint32_t entry = a.selected[(size_t)r * a.topk + (at - list.window)];
        return a.entries[lane].page[entry / LF_PAGE_ROWS] +
               entry % LF_PAGE_ROWS * lf_qf4s_row_bytes(a.head_dim);
    }
    const struct lf_span *span = &a.span[lane];
    uint64_t position = list.first + at;
    size_t row_bytes = lf_qa8_row_bytes(a.head_dim);
    if (position >= span->pos0)
        return a.call_keys + (size_t)(span->first + (position - span->pos0)) * row_bytes;
    return a.ring[lane] + (size_t)(position & (a.ring_rows - 1)) * row_bytes;
}

// Elements d .. of the block's keys; zeros past its `terms` keys. windowed: how many are QA8.
__device__ static void load_keys(const struct lf_attention_args &a, struct stage *s, uint32_t d,
                                 uint32_t windowed, uint32_t terms) {
    for (uint32_t i = threadIdx.x; i < BLOCK * CHUNK; i += THREADS) {
        uint32_t t = i / CHUNK, at = d + i % CHUNK;
        float key = 0;
        if (t < terms && at < a.head_dim)
            key = t < windowed ? lf_qa8_at(s->row[t], a.head_dim, at)
                               : lf_qf4s_at(s->row[t], a.head_dim, at);
        s->key[t][i % CHUNK] = key;
    }
}

// s->p = dot products: 16 lanes hold the partials of all heads with four keys.
__device__ static void multiply(const struct lf_attention_args &a, struct stage *s,
                                const uint16_t *q, uint32_t heads, uint32_t windowed,
                                uint32_t terms) {
    uint32_t lane = threadIdx.x % 16, key = threadIdx.x / 16 * KEYS_A_GROUP;
    float partial[HEADS][KEYS_A_GROUP] = {};
    for (uint32_t d = 0; d < a.head_dim; d += CHUNK) {
        uint32_t n = a.head_dim - d < CHUNK ? a.head_dim - d : CHUNK;
        load_keys(a, s, d, windowed, terms);
        for (uint32_t i = threadIdx.x; i < heads * n; i += THREADS)
            s->q[i / n][i % n] = lf_bf16_to_f32(q[(size_t)(i / n) * a.head_dim + d + i % n]);
        __syncthreads();
        for (uint32_t at = lane; at < n; at += 16)
#pragma unroll
            for (uint32_t h = 0; h < HEADS; h++)
#pragma unroll
                for (uint32_t k = 0; k < KEYS_A_GROUP; k++)
                    partial[h][k] = fmaf(s->q[h][at], s->key[key + k][at], partial[h][k]);
        __syncthreads();
    }
#pragma unroll
    for (uint32_t h = 0; h < HEADS; h++)
#pragma unroll
        for (uint32_t k = 0; k < KEYS_A_GROUP; k++) {
            float z = lf_lanes_tree16(partial[h][k]);
            if (lane == 0)
                s->p[h][key + k] = z;
        }
    __syncthreads();
}

// NaN unless finite.
__device__ static float scaled(float z, float scale) {
    float v = z * scale;
    return v + (v - v);
}

// Turns a head's dot products into bf(P); a warp, whose lane holds keys lane and lane + 32.
__device__ static void weigh_head(const struct lf_attention_args &a, struct stage *s,
                                  struct softmax *soft, uint32_t terms) {
    uint32_t head = threadIdx.x / LF_WARP, lane = threadIdx.x % LF_WARP;
    float low = lane < terms ? scaled(s->p[head][lane], a.scale) : -INFINITY;
    float high = lane + 32 < terms ? scaled(s->p[head][lane + 32], a.scale) : -INFINITY;
    float top = soft->m;
    top = low > top ? low : top;
    top = high > top ? high : top;
    for (int other = LF_WARP / 2; other; other /= 2) {
        float theirs = __shfl_xor_sync(LF_ALL_LANES, top, other);
        top = theirs > top ? theirs : top;
    }
    low = lane < terms ? lf_exp(low - top) : 0.0f;
    high = lane + 32 < terms ? lf_exp(high - top) : 0.0f;
    // Partial i takes keys i, i+16, i+32, i+48.
    float sum = __shfl_sync(LF_ALL_LANES, low, lane % 16);
    sum = sum + __shfl_sync(LF_ALL_LANES, low, lane % 16 + 16);
    sum = sum + __shfl_sync(LF_ALL_LANES, high, lane % 16);
    sum = sum + __shfl_sync(LF_ALL_LANES, high, lane % 16 + 16);
    float factor = lf_exp(soft->m - top);
    soft->denominator = fmaf(soft->denominator, factor, lf_lanes_tree16(sum));
    soft->m = top;
    s->p[head][lane] = lf_bf16_to_f32(lf_bf16_settle(low));
    s->p[head][lane + 32] = lf_bf16_to_f32(lf_bf16_settle(high));
    if (lane == 0)
        s->factor[head] = factor;
}

// The block's sum of bf(P) * key for one head and element, over `steps` times 16 keys.
__device__ static float value_of(const struct stage *s, uint32_t head, uint32_t d,
                                 uint32_t steps) {
    float a[16];
#pragma unroll
    for (uint32_t i = 0; i < 16; i++) {
        a[i] = s->p[head][i] * s->key[i][d];
        for (uint32_t step = 1; step < steps; step++)
            a[i] = fmaf(s->p[head][16 * step + i], s->key[16 * step + i][d], a[i]);
    }
#pragma unroll
    for (uint32_t half = 8; half >= 4; half /= 2)
#pragma unroll
        for (uint32_t i = 0; i < half; i++)
            a[i] = a[i] + a[i + half];
    return (a[0] + a[2]) + (a[1] + a[3]);
}

__device__ static void add_values(const struct lf_attention_args &a, struct stage *s,
                                  uint32_t windowed, uint32_t terms) {
    uint32_t steps = (terms + 15) / 16, d = threadIdx.x % CHUNK;
    for (uint32_t first = 0; first < a.head_dim; first += CHUNK) {
        load_keys(a, s, first, windowed, terms);
        __syncthreads();
        if (first + d < a.head_dim)
            for (uint32_t head = threadIdx.x / CHUNK; head < HEADS; head += THREADS / CHUNK) {
                float *value = &s->value[head][first + d];
                *value = fmaf(*value, s->factor[head], value_of(s, head, d, steps));
            }
        __syncthreads();
    }
}

__global__ static void attention_heads(struct lf_attention_args a) {
    __shared__ struct stage s;
    uint32_t r = blockIdx.x, first = blockIdx.y * HEADS, warp = threadIdx.x / LF_WARP;
    uint32_t heads = a.heads - first < HEADS ? a.heads - first : HEADS;
    size_t at = ((size_t)r * a.heads + first) * a.head_dim;
    struct key_list list = list_keys(a, r);
    struct softmax soft = {-1e30f, 0.0f};
    for (uint32_t i = threadIdx.x; i < HEADS * DIM_MAX; i += THREADS)
        s.value[i / DIM_MAX][i % DIM_MAX] = 0;
    for (uint32_t i = threadIdx.x; i < HEADS * CHUNK; i += THREADS)
        s.q[i / CHUNK][i % CHUNK] = 0;
    for (uint32_t t0 = 0; t0 < list.n; t0 += BLOCK) {
        uint32_t terms = list.n - t0 < BLOCK ? list.n - t0 : BLOCK;
        uint32_t windowed = list.window > t0 ? list.window - t0 : 0;
        if (threadIdx.x < terms)
            s.row[threadIdx.x] = packed_row(a, r, list, t0 + threadIdx.x);
        __syncthreads();
        multiply(a, &s, a.q + at, heads, windowed, terms);
        weigh_head(a, &s, &soft, terms);
        __syncthreads();
        add_values(a, &s, windowed, terms);
    }
    if (warp < heads && threadIdx.x % LF_WARP == 0)
        s.total[warp] = soft.denominator + lf_exp(a.sink[first + warp] - soft.m);
    __syncthreads();
    for (uint32_t i = threadIdx.x; i < heads * a.head_dim; i += THREADS) {
        uint32_t head = i / a.head_dim;
        a.o[at + i] = lf_bf16_settle(s.value[head][i % a.head_dim] / s.total[head]);
    }
}

void lf_attention_cuda(struct lf_cuda *cuda, const struct lf_attention_args *args) {
    LF_ASSERT(args->head_dim % 32 == 0 && args->head_dim <= DIM_MAX);
    struct lf_attention_args copy = *args;
    uint32_t lanes = lf_row_lanes(args->row, args->rows);
    copy.row = lf_cuda_table_of(cuda, args->row, args->rows);
    copy.span = lf_cuda_table_of(cuda, args->span, lanes);
    copy.ring = lf_cuda_table_of(cuda, args->ring, lanes);
    if (args->entries)
        copy.entries = lf_cuda_table_of(cuda, args->entries, lanes);
    dim3 grid(args->rows, lf_blocks(args->heads, HEADS));
    lf_cuda_launch(cuda, "attention", attention_heads, grid, THREADS, copy);
}
