#include "kernel/attention/attention.h"

#include "kernel/attention/attention_scores.cuh"
#include "kernel/attention/attention_values.cuh"
#include "kernel/math.h"
#include "kernel/settle.h"

// Three launches: dot products of blocks of keys, then each head's weights, then values.
enum { WEIGHT_WARPS = 10 }; // a full list's blocks of keys, one each
// From so many rows on a row is not shared out; so many blocks of threads fill a device.
enum { FEW_ROWS = 8, MANY_ROWS = 96, ENOUGH_BLOCKS = 128, NARROW_DIM = 128 };

// NaN unless finite.
__device__ static float scaled(float z, float scale) {
    LF_CONTROL(10, scale = 1.0f;) // 10: the scale left out
    float v = z * scale;
    LF_CONTROL(12, return v - v == 0.0f ? v : -INFINITY;) // 12: an odd score weighs nothing
    return v + (v - v);
}

// Of each step a lane's four keys.
struct products {
    uint4 step[STEPS];
};

__device__ static struct products load_products(const uint32_t *cell) {
    struct products products;
#pragma unroll
    for (uint32_t s = 0; s < STEPS; s++)
        products.step[s] = *(const uint4 *)(cell + s * STEP_WORDS);
    return products;
}

// The scores of a lane's keys of a block, -inf past its terms.
__device__ static void score_block(const struct products &products, uint32_t terms, float scale,
                                   float z[STEPS][4]) {
    uint32_t first = threadIdx.x % 4 * 4;
#pragma unroll
    for (uint32_t s = 0; s < STEPS; s++) {
        const uint4 &four = products.step[s];
        const uint32_t word[4] = {four.x, four.y, four.z, four.w};
#pragma unroll
        for (uint32_t i = 0; i < 4; i++) {
            bool is_there = s * STEP + first + i < terms;
            z[s][i] = is_there ? scaled(lf_f32_from_bits(word[i]), scale) : -INFINITY;
        }
    }
}

// The greatest of the numbers of a head's four lanes; NaN is passed over.
__device__ static float greatest(float top) {
    for (int other = 1; other < 4; other *= 2) {
        float theirs = __shfl_xor_sync(LF_ALL_LANES, top, other);
        top = theirs > top ? theirs : top;
    }
    return top;
}

// The block's sum of weights: partial i of 16 has keys i, i + 16, i + 32, i + 48.
__device__ static float sum_weights(const float p[STEPS][4]) {
    float c[4];
#pragma unroll
    for (uint32_t i = 0; i < 4; i++) {
        float sum = p[0][i];
#pragma unroll
        for (uint32_t s = 1; s < STEPS; s++)
            sum = sum + p[s][i];
        sum = sum + __shfl_xor_sync(LF_ALL_LANES, sum, 2);
        c[i] = sum + __shfl_xor_sync(LF_ALL_LANES, sum, 1);
    }
    return (c[0] + c[2]) + (c[1] + c[3]);
}

__device__ static uint32_t weight_pair(float low, float high) {
    LF_CONTROL(7, return lf_fault_cut(low, high);) // 7: weights not rounded to bf16
    LF_CONTROL(26, if (gridDim.y > 3) return lf_fault_cut(low, high);) // 26: in larger launches
    return lf_bf16_settle(low) | (uint32_t)lf_bf16_settle(high) << 16;
}

// bf(P) of a lane's keys where products were, of two steps side by side.
__device__ static void store_weights(uint32_t *cell, const float p[STEPS][4]) {
#pragma unroll
    for (uint32_t s = 0; s < STEPS; s += 2)
        *(uint4 *)(cell + s / 2 * STEP_WORDS) = {
            weight_pair(p[s][0], p[s][1]), weight_pair(p[s][2], p[s][3]),
            weight_pair(p[s + 1][0], p[s + 1][1]), weight_pair(p[s + 1][2], p[s + 1][3])};
}

// What a block of threads knows of half a tile of heads; numbers of its blocks of keys are shared.
enum { HALF_HEADS = TILE_HEADS / 2 };
struct softmax {
    const struct work &w;
    uint32_t slot, tile, half, n;
    float *top, *sum, *factor; // [blocks][HALF_HEADS]: greatest score, its sum, exp(m - m')
};

__device__ static struct softmax softmax_of(const struct work &w, uint32_t half, uint32_t n,
                                            float *numbers) {
    uint32_t step = w.blocks * HALF_HEADS, tile = blockIdx.x * w.halves / 2;
    return {w, blockIdx.y, tile, (blockIdx.x * w.halves + half) % 2, n,
            numbers + half * 3 * step, numbers + (half * 3 + 1) * step,
            numbers + (half * 3 + 2) * step};
}

// Where lanes of a head have a number of a block of keys.
__device__ static uint32_t number_at(uint32_t block) {
    return block * HALF_HEADS + threadIdx.x % LF_WARP / 4;
}

__device__ static uint32_t *half_at(const struct softmax &s, uint32_t block) {
    return cell_at(s.w, s.slot, block, s.tile) + s.half * (STEP_WORDS / 2);
}

__device__ static uint32_t terms_of(const struct softmax &s, uint32_t block) {
    return s.n - block * BLOCK < BLOCK ? s.n - block * BLOCK : (uint32_t)BLOCK;
}

// The greatest score of each head in a block of keys.
__device__ static void find_greatest(const struct softmax &s, uint32_t block,
                                     const struct products &products) {
    float z[STEPS][4], top = -1e30f;
    score_block(products, terms_of(s, block), s.w.a.scale, z);
#pragma unroll
    for (uint32_t i = 0; i < 4 * STEPS; i++)
        top = z[i / 4][i % 4] > top ? z[i / 4][i % 4] : top;
    top = greatest(top);
    if (threadIdx.x % 4 == 0)
        s.top[number_at(block)] = top;
}

// The maximum of a head before a block of keys.
__device__ static float greatest_before(const struct softmax &s, uint32_t block) {
    float top = -1e30f;
    for (uint32_t b = threadIdx.x % 4; b < block; b += 4) {
        float theirs = s.top[number_at(b)];
        top = theirs > top ? theirs : top;
    }
    return greatest(top);
}

// Turns a block's dot products into P; leaves exp(m - m') and the block's sum.
__device__ static void weigh_block(const struct softmax &s, uint32_t block,
                                   const struct products &products) {
    uint32_t first = threadIdx.x % 4 * 4, terms = terms_of(s, block), at = number_at(block);
    float m = greatest_before(s, block), top = s.top[at], p[STEPS][4];
    top = top > m ? top : m;
    score_block(products, terms, s.w.a.scale, p);
#pragma unroll
    for (uint32_t i = 0; i < 4 * STEPS; i++) {
        bool is_there = i / 4 * STEP + first + i % 4 < terms;
        float &one = p[i / 4][i % 4];
        one = is_there ? lf_exp(one - top) : 0.0f;
        LF_CONTROL(19, one = is_there ? one : 1.0f;) // 19: places past the end weigh one
    }
    store_weights(half_at(s, block), p);
    // 8: the denominator adds rounded weights
    LF_CONTROL(8, for (float *at = p[0]; at < p[STEPS]; at++) *at = lf_fault_bf16(*at);)
    float shrink = lf_exp(m - top), sum = sum_weights(p);
    LF_CONTROL(9, shrink = 1.0f;) // 9: earlier blocks keep their old maximum
    if (threadIdx.x % 4)
        return;
    factor_at(s.w, s.slot, block, s.tile)[s.half * HALF_HEADS] = shrink;
    s.factor[at] = shrink, s.sum[at] = sum;
}

// A head's blocks, one after the other, and its sink.
__device__ static void add_up(const struct softmax &s) {
    uint32_t own = s.tile * TILE_HEADS + s.half * HALF_HEADS + threadIdx.x % LF_WARP / 4;
    uint32_t blocks = (s.n + BLOCK - 1) / BLOCK;
    float m = greatest_before(s, blocks), denominator = 0.0f;
    if (threadIdx.x % 4 || own >= s.w.a.heads)
        return;
    for (uint32_t b = 0; b < blocks; b++)
        denominator = fmaf(denominator, s.factor[number_at(b)], s.sum[number_at(b)]);
    float sink = lf_exp(s.w.a.sink[own] - m);
    LF_CONTROL(1, sink = 0.0f;) // 1: the sink left out
    s.w.total[(size_t)s.slot * s.w.tiles * TILE_HEADS + own] = denominator + sink;
}

// A block: a tile of a row's heads or half of one, whose blocks of keys its warps share out.
__global__ static void __launch_bounds__(WEIGHT_WARPS * LF_WARP) attention_weights(struct work w) {
    lf_take_turn();
    LF_DYNAMIC_SHARED(shared);
    float *numbers = (float *)shared;
    uint32_t n = list_keys(w.a, w.first + blockIdx.y).n, warp = threadIdx.x / LF_WARP;
    uint32_t units = (n + BLOCK - 1) / BLOCK * w.halves;
    uint32_t turns = warp < units ? (units - 1 - warp) / WEIGHT_WARPS + 1 : 0;
    struct products products;
    // Last block first: what the first one, often the only one, brought is still there then.
    for (uint32_t turn = turns; turn--;) {
        uint32_t unit = warp + turn * WEIGHT_WARPS;
        const struct softmax s = softmax_of(w, unit & (w.halves - 1), n, numbers);
        products = load_products(half_at(s, unit >> (w.halves - 1)));
        find_greatest(s, unit >> (w.halves - 1), products);
    }
    __syncthreads();
    for (uint32_t turn = 0; turn < turns; turn++) {
        uint32_t unit = warp + turn * WEIGHT_WARPS;
        const struct softmax s = softmax_of(w, unit & (w.halves - 1), n, numbers);
        if (turn)
            products = load_products(half_at(s, unit >> (w.halves - 1)));
        weigh_block(s, unit >> (w.halves - 1), products);
    }
    __syncthreads();
    if (warp < w.halves)
        add_up(softmax_of(w, warp, n, numbers));
}

// Most blocks of keys of a row: how many there are, only the device knows.
static uint32_t most_blocks(const struct lf_attention_args &a) {
    // A launch may hold some rows of a span, whose length only the device knows.
    uint32_t span = a.rows > LF_ATTENTION_SPAN_ROWS ? a.rows : (uint32_t)LF_ATTENTION_SPAN_ROWS;
    return lf_blocks(a.window + (a.whole_span ? span : 0) + (a.entries ? a.topk : 0), BLOCK);
}

static size_t row_bytes(const struct work &w) {
    size_t heads = sizeof *w.factor * TILE_HEADS, cell = sizeof *w.cell * CELL_WORDS;
    return w.tiles * ((cell + heads) * w.blocks + heads) + sizeof *w.key * w.blocks * BLOCK;
}

// Shares the scratch out among as many rows as it holds; returns how many.
static uint32_t place_work(struct lf_device *device, struct work *w) {
    uint32_t rows = (uint32_t)(LF_CUDA_SCRATCH_BYTES / row_bytes(*w));
    uint32_t processors = lf_cuda_info(device->cuda)->processors;
    LF_ASSERT(rows);
    // A row is a multiprocessor's work: whole rounds of them leave none idle.
    rows = rows < processors ? rows : rows / processors * processors;
    rows = rows < w->a.rows ? rows : w->a.rows;
    size_t cells = (size_t)rows * w->blocks * w->tiles;
    w->cell = (uint32_t *)lf_cuda_scratch(device->cuda);
    w->key = (const uint8_t **)(w->cell + cells * CELL_WORDS);
    w->factor = (float *)(w->key + (size_t)rows * w->blocks * BLOCK);
    w->total = w->factor + cells * TILE_HEADS;
    return rows;
}

// With few rows a block of threads has half a tile: the launch takes as long as one of them.
static void launch_weights(struct lf_device *device, struct work w, uint32_t rows) {
    w.halves = rows > FEW_ROWS ? 2 : 1;
    dim3 grid(2 / w.halves * w.tiles, rows);
    uint32_t bytes = 3 * w.halves * w.blocks * HALF_HEADS * (uint32_t)sizeof(float);
    lf_cuda_launch(device, "attention", attention_weights, grid, WEIGHT_WARPS * LF_WARP, w, bytes);
}

static void launch_scores(struct lf_device *device, const struct work &w, uint32_t groups,
                          uint32_t rows) {
    uint32_t parts = lf_blocks(ENOUGH_BLOCKS, rows * groups);
    dim3 grid(parts < w.blocks ? parts : w.blocks, groups, rows);
    // Elements past head_dim are zeros, which leave a chain as it is.
    if (w.a.head_dim <= NARROW_DIM)
        lf_cuda_launch(device, "attention", attention_scores<NARROW_DIM>, grid, THREADS, w,
                       score_bytes<NARROW_DIM>);
    else
        lf_cuda_launch(device, "attention", attention_scores<LF_CUDA_HEAD_DIM_MAX>, grid, THREADS,
                       w, score_bytes<LF_CUDA_HEAD_DIM_MAX>);
}

template <uint32_t DIMS>
static void launch_values(struct lf_device *device, const struct work &w, uint32_t groups,
                          uint32_t rows) {
    dim3 grid(lf_blocks(w.a.head_dim, DIMS), groups, rows);
    lf_cuda_launch(device, "attention", attention_values<DIMS>, grid, THREADS, w,
                   value_form<DIMS>::bytes);
}

void lf_attention_cuda(struct lf_device *device, const struct lf_attention_args *args) {
    LF_ASSERT(args->head_dim % 32 == 0 && args->head_dim <= LF_CUDA_HEAD_DIM_MAX);
    struct work w = {*args, 0, most_blocks(*args), 0, 0, NULL, NULL, NULL, NULL};
    w.tiles = lf_blocks(args->heads, TILE_HEADS);
    uint32_t most = args->rows ? place_work(device, &w) : 0;
    uint32_t groups = lf_blocks(args->heads, GROUP_HEADS);
    for (; w.first < args->rows; w.first += most) {
        uint32_t rows = args->rows - w.first < most ? args->rows - w.first : most;
        launch_scores(device, w, groups, rows);
        launch_weights(device, w, rows);
        if (rows >= MANY_ROWS)
            launch_values<LF_CUDA_HEAD_DIM_MAX>(device, w, groups, rows);
        else if (rows > FEW_ROWS)
            launch_values<64>(device, w, groups, rows);
        else
            launch_values<32>(device, w, groups, rows);
    }
}
