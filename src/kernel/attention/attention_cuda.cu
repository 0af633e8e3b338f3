#include "kernel/attention/attention.h"

#include "kernel/attention/attention_keys.cuh"
#include "kernel/math.h"
#include "kernel/settle.h"

// Three launches: dot products of tiles of keys, then each head's weights, then tiles of values.
enum { BLOCK = 64, HEADS = 32, THREADS = 256, WARPS = THREADS / LF_WARP, FOUR = 4 };

// What the launches hand on, of rows from `first` on.
struct work {
    struct lf_attention_args a;
    uint32_t first, keys, blocks; // room for keys of a row, a multiple of BLOCK
    float *z;                     // [rows][heads][keys]: dot products, then bf(P)
    float *factor;                // [rows][heads][blocks]: exp(m - m')
    float *total;                 // [rows][heads]: the denominator with the sink
    const uint8_t **key;          // [rows][keys]: packed
};

__device__ static void load_four(float out[4], const float *at) {
    float4 four = *(const float4 *)at;
    out[0] = four.x, out[1] = four.y, out[2] = four.z, out[3] = four.w;
}

__device__ static void store_four(float *at, const float four[4]) {
    *(float4 *)at = {four[0], four[1], four[2], four[3]};
}

// Scores: a thread has partials p and p + 8, p its warp, of eight heads and four keys.
enum { KEYS = 32, CHUNK = 64, EIGHT = 8, PARTS = 8, OUTS = HEADS * KEYS / THREADS };
enum { PIECES = CHUNK / PIECE }; // of a head or key: the lanes that read it are neighbours
static_assert((int)THREADS == PIECES * HEADS && (int)THREADS == PIECES * KEYS, "a piece a thread");

// Four of 32 columns swap places by the row's eighth, so that eight pieces meet no bank twice.
__device__ static uint32_t swizzled(uint32_t row, uint32_t column) {
    return column ^ row / PIECE % 8 * FOUR;
}

struct score_stage {
    float q[CHUNK][HEADS], key[CHUNK][KEYS];
};

// A thread's share of a chunk on its way, not yet looked at: PIECE elements of a head and a key.
struct share {
    uint4 q;
    struct piece key;
};

__device__ static uint4 fetch_query(const uint16_t *q, uint32_t dim, uint32_t at) {
    if (!q || at >= dim)
        return {0, 0, 0, 0};
    q += at;
    if ((uintptr_t)q % 16 == 0)
        return *(const uint4 *)q;
    return {q[0] | (uint32_t)q[1] << 16, q[2] | (uint32_t)q[3] << 16, q[4] | (uint32_t)q[5] << 16,
            q[6] | (uint32_t)q[7] << 16};
}

__device__ static void place_share(const struct share &share, struct score_stage *s) {
    uint32_t d = threadIdx.x % PIECES * PIECE, column = swizzled(d, threadIdx.x / PIECES);
    const uint32_t pair[PIECE / 2] = {share.q.x, share.q.y, share.q.z, share.q.w};
    float key[PIECE];
    place_piece(share.key, key);
#pragma unroll
    for (uint32_t i = 0; i < PIECE; i++) {
        s->q[d + i][column] = lf_bf16_to_f32((uint16_t)(pair[i / 2] >> i % 2 * 16));
        s->key[d + i][column] = key[i];
    }
}

// Lanes that read the same address are neighbours, so that a wide read serves them together.
__device__ static uint32_t score_heads(void) {
    return ((threadIdx.x & 1) + (threadIdx.x >> 3 & 2)) * EIGHT;
}

__device__ static uint32_t score_keys(void) {
    return (threadIdx.x >> 1 & 7) * FOUR;
}

// Of element `warp` of a piece of the chunk.
__device__ static void add_products(const struct score_stage *s, uint32_t warp, uint32_t piece,
                                    float sum[EIGHT][FOUR]) {
    float q[EIGHT], key[FOUR];
    uint32_t d = piece * PIECE;
    load_four(q, &s->q[d + warp][swizzled(d, score_heads())]);
    load_four(q + 4, &s->q[d + warp][swizzled(d, score_heads() + 4)]);
    load_four(key, &s->key[d + warp][swizzled(d, score_keys())]);
#pragma unroll
    for (uint32_t h = 0; h < EIGHT; h++)
#pragma unroll
        for (uint32_t k = 0; k < FOUR; k++)
            sum[h][k] = fmaf(q[h], key[k], sum[h][k]);
}

// Where part of the sum of head h and key k waits; half of the rows swap halves for the banks.
__device__ static uint32_t part_place(uint32_t h, uint32_t k) {
    return h * KEYS + (k ^ (h & EIGHT) * 2);
}

// The upper levels of the tree, over the warps' sums of partials p and p + 8.
__device__ static void store_scores(const struct work &w, size_t at, uint32_t heads, uint32_t keys,
                                    float (*part)[HEADS * KEYS]) {
#pragma unroll
    for (uint32_t i = 0; i < OUTS; i++) {
        uint32_t h = (threadIdx.x + i * THREADS) / KEYS, k = threadIdx.x % KEYS;
        uint32_t place = part_place(h, k);
        float c[4];
#pragma unroll
        for (uint32_t p = 0; p < 4; p++)
            c[p] = part[p][place] + part[p + 4][place];
        if (h < heads && k < keys)
            w.z[at + (size_t)h * w.keys + k] = (c[0] + c[2]) + (c[1] + c[3]);
    }
}

// A block: KEYS keys of a row and HEADS heads.
__global__ static void __launch_bounds__(THREADS, 2) attention_scores(struct work w) {
    __shared__ union {
        struct score_stage stage[2];
        float part[PARTS][HEADS * KEYS];
    } s;
    const struct lf_attention_args &a = w.a;
    uint32_t r = w.first + blockIdx.z, head = blockIdx.y * HEADS, t0 = blockIdx.x * KEYS;
    uint32_t column = threadIdx.x / PIECES, d = threadIdx.x % PIECES * PIECE;
    uint32_t warp = threadIdx.x / LF_WARP, dim = a.head_dim;
    struct key_list list = list_keys(a, r);
    if (t0 >= list.n)
        return;
    uint32_t keys = list.n - t0 < KEYS ? list.n - t0 : (uint32_t)KEYS;
    uint32_t heads = a.heads - head < HEADS ? a.heads - head : (uint32_t)HEADS;
    const uint8_t *key = column < keys ? packed_key(a, r, list, t0 + column) : NULL;
    const uint16_t *q = column < heads ? a.q + ((size_t)r * a.heads + head + column) * dim : NULL;
    bool windowed = t0 + column < list.window;
    if (blockIdx.y == 0 && d == 0)
        w.key[(size_t)blockIdx.z * w.keys + t0 + column] = key;
    float sum[2][EIGHT][FOUR] = {};
    struct share share;
    share.q = fetch_query(q, dim, d);
    share.key = fetch_piece(key, windowed, dim, d);
    for (uint32_t at = 0, turn = 0; at < dim; at += CHUNK, turn ^= 1) {
        place_share(share, &s.stage[turn]);
        __syncthreads();
        share.q = fetch_query(q, dim, at + CHUNK + d);
        share.key = fetch_piece(key, windowed, dim, at + CHUNK + d);
#pragma unroll
        for (uint32_t i = 0; i < CHUNK; i += 16)
            if (at + i < dim) {
                add_products(&s.stage[turn], warp, i / PIECE, sum[0]);
                add_products(&s.stage[turn], warp, i / PIECE + 1, sum[1]);
            }
    }
    __syncthreads();
#pragma unroll
    for (uint32_t h = 0; h < EIGHT; h++) {
        float b[FOUR];
#pragma unroll
        for (uint32_t k = 0; k < FOUR; k++)
            b[k] = sum[0][h][k] + sum[1][h][k];
        store_four(&s.part[warp][part_place(score_heads() + h, score_keys())], b);
    }
    __syncthreads();
    size_t at = ((size_t)blockIdx.z * a.heads + head) * w.keys + t0;
    store_scores(w, at, heads, keys, s.part);
}

// NaN unless finite.
__device__ static float scaled(float z, float scale) {
    float v = z * scale;
    return v + (v - v);
}

// The maximum and the denominator of a warp's head, the same in all its lanes.
struct softmax {
    float m, denominator;
};

// A lane's products of a block: of keys lane and lane + 32.
struct products {
    float low, high;
};

__device__ static struct products load_products(const float *z, uint32_t terms) {
    uint32_t lane = threadIdx.x % LF_WARP;
    return {lane < terms ? z[lane] : 0.0f, lane + 32 < terms ? z[lane + 32] : 0.0f};
}

// Turns a block's dot products into bf(P), stored at z.
__device__ static void weigh_block(struct products products, float *z, struct softmax *soft,
                                   float *factor, uint32_t terms, float scale) {
    uint32_t lane = threadIdx.x % LF_WARP;
    float low = lane < terms ? scaled(products.low, scale) : -INFINITY;
    float high = lane + 32 < terms ? scaled(products.high, scale) : -INFINITY;
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
    float shrink = lf_exp(soft->m - top);
    soft->denominator = fmaf(soft->denominator, shrink, lf_lanes_tree16(sum));
    soft->m = top;
    z[lane] = lf_bf16_to_f32(lf_bf16_settle(low));
    z[lane + 32] = lf_bf16_to_f32(lf_bf16_settle(high));
    if (lane == 0)
        *factor = shrink;
}

// A warp a head of a row.
__global__ static void attention_weights(struct work w) {
    uint32_t head = blockIdx.x * WARPS + threadIdx.x / LF_WARP, r = w.first + blockIdx.y;
    if (head >= w.a.heads)
        return;
    struct key_list list = list_keys(w.a, r);
    struct softmax soft = {-1e30f, 0.0f};
    size_t at = (size_t)blockIdx.y * w.a.heads + head;
    float *z = w.z + at * w.keys, *factor = w.factor + at * w.blocks;
    struct products next = load_products(z, list.n);
    for (uint32_t t0 = 0; t0 < list.n; t0 += BLOCK, z += BLOCK, factor++) {
        struct products now = next;
        if (t0 + BLOCK < list.n)
            next = load_products(z + BLOCK, list.n - t0 - BLOCK);
        uint32_t terms = list.n - t0 < BLOCK ? list.n - t0 : (uint32_t)BLOCK;
        weigh_block(now, z, &soft, factor, terms, w.a.scale);
    }
    if (threadIdx.x % LF_WARP == 0)
        w.total[at] = soft.denominator + lf_exp(w.a.sink[head] - soft.m);
}

// Values: a thread has partials g, g+4, g+8, g+12 of four heads and four elements.
enum { DIMS = 32, WARP_DIMS = 16, KEY_STRIDE = DIMS + 16, WEIGHT_STRIDE = HEADS + 8 };

struct value_stage {
    float key[BLOCK][KEY_STRIDE], weight[BLOCK][WEIGHT_STRIDE];
};

// Where a thread's tile lies in its block's.
struct value_place {
    uint32_t group, head, d;
};

__device__ static struct value_place place_values(void) {
    uint32_t lane = threadIdx.x % LF_WARP, warp = threadIdx.x / LF_WARP;
    return {lane / 8, warp / 2 * 8 + lane % 2 * FOUR, warp % 2 * WARP_DIMS + lane / 2 % 4 * FOUR};
}

// Keys t0 + threadIdx.x / 4 and weights of head threadIdx.x / PIECES on their way.
struct value_share {
    struct piece key;
    float weight[PIECE];
};

__device__ static void fetch_values(const struct work &w, const uint8_t *key, bool windowed,
                                    const float *weight, uint32_t at, struct value_share *share) {
    share->key = fetch_piece(key, windowed, w.a.head_dim, at);
#pragma unroll
    for (uint32_t i = 0; i < PIECE; i++)
        share->weight[i] = 0.0f;
    if (weight) {
        load_four(share->weight, weight);
        load_four(share->weight + 4, weight + 4);
    }
}

__device__ static void put_values(const struct value_share &share, struct value_stage *s) {
    uint32_t t = threadIdx.x / 4, at = threadIdx.x % 4 * PIECE, odd = t % 2;
    uint32_t first = threadIdx.x % PIECES * PIECE;
    uint32_t head = swizzled(first, threadIdx.x / PIECES);
    float key[PIECE];
    place_piece(share.key, key);
    // Neighbouring keys write their halves in turn, for the banks.
    float half[2][4];
#pragma unroll
    for (uint32_t i = 0; i < 4; i++) {
        half[0][i] = odd ? key[4 + i] : key[i];
        half[1][i] = odd ? key[i] : key[4 + i];
    }
    store_four(&s->key[t][at + 4 * odd], half[0]);
    store_four(&s->key[t][at + 4 - 4 * odd], half[1]);
#pragma unroll
    for (uint32_t i = 0; i < PIECE; i++)
        s->weight[first + i][head] = share.weight[i];
}

// The term of key t, of a partial's sum from its second term on.
__device__ static void add_term(const struct value_stage *s, const struct value_place &place,
                                uint32_t t, bool is_first, float sum[FOUR][FOUR]) {
    float weight[FOUR], key[FOUR];
    load_four(weight, &s->weight[t][swizzled(t, place.head)]);
    load_four(key, &s->key[t][place.d]);
#pragma unroll
    for (uint32_t h = 0; h < FOUR; h++)
#pragma unroll
        for (uint32_t d = 0; d < FOUR; d++)
            sum[h][d] = is_first ? weight[h] * key[d] : fmaf(weight[h], key[d], sum[h][d]);
}

// A partial: its terms every sixteenth key from `t` on.
__device__ static void add_partial(const struct value_stage *s, const struct value_place &place,
                                   uint32_t t, uint32_t steps, float sum[FOUR][FOUR]) {
    add_term(s, place, t, true, sum);
#pragma unroll
    for (uint32_t step = 1; step < BLOCK / 16; step++)
        if (step < steps)
            add_term(s, place, t + 16 * step, false, sum);
}

// The tree over partials that lie in lanes 8 and 16 apart; leaves head `group` of the tile's four.
__device__ static void join_groups(const float c[FOUR][FOUR], uint32_t group, float sum[FOUR]) {
    bool upper = group >= 2, odd = group % 2;
#pragma unroll
    for (uint32_t d = 0; d < FOUR; d++) {
        float two[2];
#pragma unroll
        for (uint32_t h = 0; h < 2; h++) {
            float mine = upper ? c[2 + h][d] : c[h][d], theirs = upper ? c[h][d] : c[2 + h][d];
            two[h] = mine + __shfl_xor_sync(LF_ALL_LANES, theirs, 16);
        }
        float mine = odd ? two[1] : two[0], theirs = odd ? two[0] : two[1];
        sum[d] = mine + __shfl_xor_sync(LF_ALL_LANES, theirs, 8);
    }
}

// The block's sums of bf(P) * key for head `group` of the thread's tile.
__device__ static void sum_values(const struct value_stage *s, const struct value_place &place,
                                  uint32_t steps, float sum[FOUR]) {
    float c[FOUR][FOUR];
#pragma unroll
    for (uint32_t half = 0; half < 2; half++) {
        float a[FOUR][FOUR], b[FOUR][FOUR];
        uint32_t t = place.group + 4 * half;
        add_partial(s, place, t, steps, a);
        add_partial(s, place, t + 8, steps, b);
#pragma unroll
        for (uint32_t h = 0; h < FOUR; h++)
#pragma unroll
            for (uint32_t d = 0; d < FOUR; d++) {
                float two = a[h][d] + b[h][d];
                c[h][d] = half ? c[h][d] + two : two;
            }
    }
    join_groups(c, place.group, sum);
}

// A block: DIMS elements of HEADS heads of a row.
__global__ static void __launch_bounds__(THREADS, 2) attention_values(struct work w) {
    __shared__ struct value_stage stage[2];
    const struct lf_attention_args &a = w.a;
    uint32_t slot = blockIdx.z, r = w.first + slot, first = blockIdx.y * HEADS;
    uint32_t own = threadIdx.x / 4, d = blockIdx.x * DIMS + threadIdx.x % 4 * PIECE;
    uint32_t column = first + threadIdx.x / PIECES, keys = list_keys(a, r).n;
    uint32_t window = list_keys(a, r).window;
    struct value_place place = place_values();
    uint32_t head = first + place.head + place.group;
    size_t at = (size_t)slot * a.heads + head;
    const uint8_t *const *key = w.key + (size_t)slot * w.keys;
    const float *weight = NULL;
    if (column < a.heads)
        weight = w.z + ((size_t)slot * a.heads + column) * w.keys + threadIdx.x % PIECES * PIECE;
    float value[FOUR] = {};
    struct value_share share;
    fetch_values(w, own < keys ? key[own] : NULL, own < window, weight, d, &share);
    const uint8_t *next = own + BLOCK < keys ? key[own + BLOCK] : NULL;
    for (uint32_t t0 = 0, turn = 0; t0 < keys; t0 += BLOCK, turn ^= 1) {
        put_values(share, &stage[turn]);
        __syncthreads();
        if (t0 + BLOCK < keys) {
            fetch_values(w, next, own + t0 + BLOCK < window, weight ? weight + t0 + BLOCK : NULL, d,
                         &share);
            next = own + t0 + 2 * BLOCK < keys ? key[own + t0 + 2 * BLOCK] : NULL;
        }
        float factor = head < a.heads ? w.factor[at * w.blocks + t0 / BLOCK] : 0.0f, sum[FOUR];
        uint32_t terms = keys - t0 < BLOCK ? keys - t0 : (uint32_t)BLOCK;
        sum_values(&stage[turn], place, (terms + 15) / 16, sum);
#pragma unroll
        for (uint32_t i = 0; i < FOUR; i++)
            value[i] = fmaf(value[i], factor, sum[i]);
    }
    uint32_t out = blockIdx.x * DIMS + place.d;
    if (head >= a.heads)
        return;
#pragma unroll
    for (uint32_t i = 0; i < FOUR; i++)
        a.o[((size_t)r * a.heads + head) * a.head_dim + out + i] =
            lf_bf16_settle(value[i] / w.total[at]);
}

// Most keys of a row: how many there are, only the device knows.
static uint32_t most_keys(const struct lf_attention_args &a) {
    // A launch may hold some rows of a span, whose length only the device knows.
    uint32_t span = a.rows > LF_ATTENTION_SPAN_ROWS ? a.rows : (uint32_t)LF_ATTENTION_SPAN_ROWS;
    uint32_t keys = a.window + (a.whole_span ? span : 0) + (a.entries ? a.topk : 0);
    return (keys + BLOCK - 1) / BLOCK * BLOCK;
}

static size_t row_bytes(const struct work &w) {
    return sizeof *w.z * w.a.heads * (w.keys + w.blocks + 1) + sizeof *w.key * w.keys;
}

// Shares the scratch out among as many rows as it holds; returns how many.
static uint32_t place_work(struct lf_device *device, struct work *w) {
    uint32_t rows = (uint32_t)(LF_CUDA_SCRATCH_BYTES / row_bytes(*w));
    LF_ASSERT(rows);
    rows = rows < w->a.rows ? rows : w->a.rows;
    size_t heads = (size_t)rows * w->a.heads;
    w->key = (const uint8_t **)lf_cuda_scratch(device->cuda);
    w->z = (float *)(w->key + (size_t)rows * w->keys);
    w->factor = w->z + heads * w->keys;
    w->total = w->factor + heads * w->blocks;
    return rows;
}

void lf_attention_cuda(struct lf_device *device, const struct lf_attention_args *args) {
    LF_ASSERT(args->head_dim % 32 == 0);
    struct work w = {*args, 0, most_keys(*args), 0, NULL, NULL, NULL, NULL};
    w.blocks = w.keys / BLOCK;
    uint32_t most = args->rows ? place_work(device, &w) : 0, groups = lf_blocks(args->heads, HEADS);
    for (; w.first < args->rows; w.first += most) {
        uint32_t rows = args->rows - w.first < most ? args->rows - w.first : most;
        lf_cuda_launch(device, "attention", attention_scores,
                       dim3(w.keys / KEYS, groups, rows), THREADS, w);
        lf_cuda_launch(device, "attention", attention_weights,
                       dim3(lf_blocks(args->heads, WARPS), rows), THREADS, w);
        lf_cuda_launch(device, "attention", attention_values,
                       dim3(args->head_dim / DIMS, groups, rows), THREADS, w);
    }
}
