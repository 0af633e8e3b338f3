#include "kernel/attention/attention.h"

#include "kernel/math.h"
#include "kernel/packed_row.cuh"
#include "kernel/settle.h"

// A block works on HEADS heads of one row, CHUNK elements of BLOCK keys at a time.
enum { BLOCK = 64, CHUNK = 64, THREADS = 256, CHUNKS = 8, DIM_MAX = CHUNKS * CHUNK };
enum { KEYS_A_GROUP = 4, PIECE = 16, PIECES = CHUNK / PIECE };
// Key rows are padded so that the two groups of a warp read different banks.
enum { STRIDE = CHUNK + 4, WIDE_HEADS = 8, NARROW_HEADS = 4 };

template <int HEADS>
struct stage {
    const uint8_t *row[BLOCK]; // packed
    float key[BLOCK][STRIDE];
    float q[HEADS][DIM_MAX];
    float p[HEADS][BLOCK]; // dot products, then weights
    float factor[HEADS], total[HEADS];
};

// PIECE elements of a packed key: a thread's share of a chunk.
struct piece {
    uint4 code; // the lower half for 4-bit codes
    uint32_t scale;
    bool windowed;
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

// Bytes of any alignment as words.
__device__ static uint32_t load_word(const uint8_t *bytes) {
    return bytes[0] | bytes[1] << 8 | bytes[2] << 16 | (uint32_t)bytes[3] << 24;
}

__device__ static uint4 load_codes(const uint8_t *bytes, uint32_t n) {
    if ((uintptr_t)bytes % n == 0) {
        if (n == 16)
            return *(const uint4 *)bytes;
        uint2 half = *(const uint2 *)bytes;
        return {half.x, half.y, 0, 0};
    }
    uint4 all = {load_word(bytes), load_word(bytes + 4), 0, 0};
    if (n == 16)
        all.z = load_word(bytes + 8), all.w = load_word(bytes + 12);
    return all;
}

// Elements from `at` on of the thread's key; codes of zero past the keys and their elements.
template <int HEADS>
__device__ static struct piece fetch_piece(const struct stage<HEADS> *s, uint32_t dim, uint32_t d,
                                           uint32_t windowed, uint32_t terms) {
    uint32_t t = threadIdx.x / PIECES, at = d + threadIdx.x % PIECES * PIECE;
    struct piece piece = {{0, 0, 0, 0}, 127, true};
    if (t >= terms || at >= dim)
        return piece;
    const uint8_t *row = s->row[t];
    piece.windowed = t < windowed;
    if (piece.windowed) {
        piece.code = load_codes(row + at, PIECE);
        piece.scale = row[dim + at / 32];
    } else {
        piece.code = load_codes(row + at / 2, PIECE / 2);
        piece.scale = row[dim / 2 + at / 16];
    }
    return piece;
}

__device__ static uint32_t word_of(const uint4 &words, uint32_t i) {
    return i == 0 ? words.x : i == 1 ? words.y : i == 2 ? words.z : words.w;
}

template <int HEADS>
__device__ static void place_piece(struct stage<HEADS> *s, const struct piece &piece) {
    float *key = &s->key[threadIdx.x / PIECES][threadIdx.x % PIECES * PIECE];
    float scale = piece.windowed ? lf_ue8m0_to_f32((uint8_t)piece.scale)
                                 : lf_cache_e4m3((uint8_t)piece.scale);
#pragma unroll
    for (uint32_t i = 0; i < PIECE; i++) {
        uint32_t byte = word_of(piece.code, i / 4) >> 8 * (i % 4);
        uint32_t nibble = word_of(piece.code, i / 8) >> 4 * (i % 8);
        key[i] = (piece.windowed ? lf_cache_e4m3((uint8_t)byte) : lf_e2m1_value(nibble)) * scale;
    }
}

// s->p = dot products: 16 lanes hold the partials of all heads with four keys.
template <int HEADS>
__device__ static void multiply(struct stage<HEADS> *s, uint32_t dim, uint32_t windowed,
                                uint32_t terms) {
    uint32_t lane = threadIdx.x % 16, key = threadIdx.x / 16 * KEYS_A_GROUP;
    float partial[HEADS][KEYS_A_GROUP] = {};
    struct piece piece = fetch_piece(s, dim, 0, windowed, terms);
    for (uint32_t d = 0; d < dim; d += CHUNK) {
        uint32_t n = dim - d < CHUNK ? dim - d : CHUNK;
        place_piece(s, piece);
        __syncthreads();
        piece = fetch_piece(s, dim, d + CHUNK, windowed, terms);
        for (uint32_t at = lane; at < n; at += 16)
#pragma unroll
            for (uint32_t h = 0; h < HEADS; h++)
#pragma unroll
                for (uint32_t k = 0; k < KEYS_A_GROUP; k++)
                    partial[h][k] = fmaf(s->q[h][d + at], s->key[key + k][at], partial[h][k]);
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
template <int HEADS>
__device__ static void weigh_head(struct stage<HEADS> *s, struct softmax *soft, uint32_t terms,
                                  float scale) {
    uint32_t head = threadIdx.x / LF_WARP, lane = threadIdx.x % LF_WARP;
    float low = lane < terms ? scaled(s->p[head][lane], scale) : -INFINITY;
    float high = lane + 32 < terms ? scaled(s->p[head][lane + 32], scale) : -INFINITY;
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
template <int HEADS>
__device__ static float value_of(const struct stage<HEADS> *s, uint32_t head, uint32_t d,
                                 uint32_t steps) {
    float a[16];
#pragma unroll
    for (uint32_t i = 0; i < 16; i++)
        a[i] = s->p[head][i] * s->key[i][d];
    for (uint32_t step = 1; step < steps; step++)
#pragma unroll
        for (uint32_t i = 0; i < 16; i++)
            a[i] = fmaf(s->p[head][16 * step + i], s->key[16 * step + i][d], a[i]);
    return lf_own_tree16(a);
}

// value: of the thread's element of every chunk, for heads threadIdx.x / CHUNK and 4 on.
template <int HEADS>
__device__ static void add_values(struct stage<HEADS> *s, uint32_t dim, uint32_t windowed,
                                  uint32_t terms, float value[HEADS / 4][CHUNKS]) {
    uint32_t steps = (terms + 15) / 16, d = threadIdx.x % CHUNK, head = threadIdx.x / CHUNK;
    struct piece piece = fetch_piece(s, dim, 0, windowed, terms);
#pragma unroll
    for (uint32_t c = 0; c < CHUNKS; c++)
        if (c * CHUNK < dim) {
            place_piece(s, piece);
            __syncthreads();
            piece = fetch_piece(s, dim, (c + 1) * CHUNK, windowed, terms);
#pragma unroll
            for (uint32_t i = 0; i < HEADS / 4; i++)
                value[i][c] = fmaf(value[i][c], s->factor[head + 4 * i],
                                   value_of(s, head + 4 * i, d, steps));
            __syncthreads();
        }
}

// Queries of the block's heads; zeros past them.
template <int HEADS>
__device__ static void load_queries(const struct lf_attention_args &a, struct stage<HEADS> *s,
                                    size_t at, uint32_t heads) {
    for (uint32_t i = threadIdx.x; i < HEADS * DIM_MAX; i += THREADS) {
        uint32_t head = i / DIM_MAX, d = i % DIM_MAX;
        bool is_there = head < heads && d < a.head_dim;
        s->q[head][d] = is_there ? lf_bf16_to_f32(a.q[at + (size_t)head * a.head_dim + d]) : 0.0f;
    }
}

template <int HEADS>
__global__ static void __launch_bounds__(THREADS) attention_heads(struct lf_attention_args a) {
    __shared__ struct stage<HEADS> s;
    uint32_t r = blockIdx.x, first = blockIdx.y * HEADS, warp = threadIdx.x / LF_WARP;
    uint32_t heads = a.heads - first < HEADS ? a.heads - first : HEADS, dim = a.head_dim;
    size_t at = ((size_t)r * a.heads + first) * dim;
    struct key_list list = list_keys(a, r);
    struct softmax soft = {-1e30f, 0.0f};
    float value[HEADS / 4][CHUNKS] = {};
    load_queries(a, &s, at, heads);
    for (uint32_t t0 = 0; t0 < list.n; t0 += BLOCK) {
        uint32_t terms = list.n - t0 < BLOCK ? list.n - t0 : BLOCK;
        uint32_t windowed = list.window > t0 ? list.window - t0 : 0;
        if (threadIdx.x < terms)
            s.row[threadIdx.x] = packed_row(a, r, list, t0 + threadIdx.x);
        __syncthreads();
        multiply(&s, dim, windowed, terms);
        if (warp < HEADS)
            weigh_head(&s, &soft, terms, a.scale);
        __syncthreads();
        add_values(&s, dim, windowed, terms, value);
    }
    if (warp < heads && threadIdx.x % LF_WARP == 0)
        s.total[warp] = soft.denominator + lf_exp(a.sink[first + warp] - soft.m);
    __syncthreads();
    uint32_t d = threadIdx.x % CHUNK, head = threadIdx.x / CHUNK;
#pragma unroll
    for (uint32_t c = 0; c < CHUNKS; c++)
#pragma unroll
        for (uint32_t i = 0; i < HEADS / 4; i++)
            if (c * CHUNK + d < dim && head + 4 * i < heads)
                a.o[at + (size_t)(head + 4 * i) * dim + c * CHUNK + d] =
                    lf_bf16_settle(value[i][c] / s.total[head + 4 * i]);
}

void lf_attention_cuda(struct lf_device *device, const struct lf_attention_args *args) {
    LF_ASSERT(args->head_dim % 32 == 0 && args->head_dim <= DIM_MAX);
    // Few rows share their heads out among more processors; the bits are the same.
    uint32_t wide = lf_blocks(args->heads, WIDE_HEADS);
    if ((uint64_t)args->rows * wide >= lf_cuda_info(device->cuda)->processors)
        lf_cuda_launch(device, "attention", attention_heads<WIDE_HEADS>, dim3(args->rows, wide),
                       THREADS, *args);
    else
        lf_cuda_launch(device, "attention", attention_heads<NARROW_HEADS>,
                       dim3(args->rows, lf_blocks(args->heads, NARROW_HEADS)), THREADS, *args);
}
