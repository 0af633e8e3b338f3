#include "kernel/index_score/index_score.h"

#include "kernel/index_score/index_score_tiles.cuh"

// A warp works on PASS entries, in two tiles, against HEADS heads of a row at a time.
enum { PASS = 32, WARPS = 8, THREADS = WARPS * LF_WARP, OWN = PASS / 8 };
enum { HEAD_TILES = HEADS / 8, HALVES = HEAD_TILES / 2, LANE_HEADS = HEADS / 4 };

// A row's queries as the lanes of a step need them: two pairs of each of two tiles' heads.
struct query {
    uint4 of[STEPS][HALVES][LF_WARP];
};

// Sums of a lane: two entries by two heads of each tile.
struct sums {
    float of[2][HEAD_TILES][4];
};

// Which of the heads multiplied together a column of a tile is: a lane sums up neighbours.
__device__ static uint32_t head_of(uint32_t tile, uint32_t column) {
    return column / 2 * LANE_HEADS + 2 * tile + column % 2;
}

// The lane's words of a step and two tiles from device memory; zeros past heads and elements.
__device__ static uint4 load_words(const struct lf_index_score_args &a, uint32_t row, uint32_t head,
                                   uint32_t step, uint32_t half) {
    uint32_t lane = threadIdx.x % LF_WARP, at = lane % 4 * GROUP, word[4];
#pragma unroll
    for (uint32_t i = 0; i < 4; i++) {
        uint32_t h = head + head_of(2 * half + i / 2, lane / 4), pair = 2 * step + i % 2;
        const uint16_t *q = a.q + ((size_t)row * a.heads + h) * a.dim + at;
        q += pair / 4 * 8 + pair % 4;
        word[i] = h < a.heads && at < a.dim ? q[0] | (uint32_t)q[4] << 16 : 0;
    }
    return {word[0], word[1], word[2], word[3]};
}

// The first heads' words, for all warps.
__device__ static void fill_query(const struct lf_index_score_args &a, uint32_t row,
                                  struct query *query) {
    for (uint32_t step = threadIdx.x / LF_WARP; step < STEPS; step += WARPS)
        for (uint32_t half = 0; half < HALVES; half++)
            query->of[step][half][threadIdx.x % LF_WARP] = load_words(a, row, 0, step, half);
    __syncthreads();
}

// The span of a row's queries.
__device__ static uint32_t query_span(const struct lf_index_score_args &a, uint32_t row) {
    __shared__ uint32_t most;
    uint32_t span = 0, group = threadIdx.x % 4;
    if (threadIdx.x == 0)
        most = 0;
    __syncthreads();
    for (uint32_t first = 0; first < a.heads; first += THREADS / 4) {
        uint32_t h = first + threadIdx.x / 4;
        const uint16_t *q = a.q + ((size_t)row * a.heads + h) * a.dim + group * GROUP;
        int32_t low = SPAN_NEVER, high = 0;
        if (h < a.heads && group * GROUP < a.dim)
#pragma unroll
            for (uint32_t i = 0; i < WORDS; i++)
                widen_eight(load_eight(q + 8 * i), &low, &high);
        uint32_t own = span_of(&low, &high);
        span = own > span ? own : span;
    }
    span = __reduce_max_sync(LF_ALL_LANES, span);
    if (threadIdx.x % LF_WARP == 0)
        atomicMax(&most, span);
    __syncthreads();
    return most;
}

// Entries of a pass as a lane multiplies them, and how they come back to their size.
struct pass {
    struct codes codes[4];
    uint32_t top[4], factor[4], span; // span: the most that one of the warp's entries has
};

__device__ static void open_pass(struct pass *pass) {
    uint32_t span = 0;
#pragma unroll
    for (uint32_t i = 0; i < 4; i++) {
        uint32_t own = find_top(pass->codes[i], &pass->top[i]);
        span = own > span ? own : span;
        pass->factor[i] = factor_of(pass->codes[i], pass->top[i]);
    }
    pass->span = __reduce_max_sync(LF_ALL_LANES, span);
}

// Two tiles' operands of a step.
struct operands {
    uint32_t of[2][4];
};

__device__ static void widen_step(const struct pass &pass, uint32_t step, struct operands *keys) {
#pragma unroll
    for (uint32_t i = 0; i < 8; i++)
        keys->of[i / 4][i % 4] = widen(pass.codes[i / 4 * 2 + i % 2],
                                       pass.factor[i / 4 * 2 + i % 2], 2 * step + i % 4 / 2);
}

// A step's products with the heads; exact sums in any order.
template <bool MANY>
__device__ static void multiply_step(const struct lf_index_score_args &a, uint32_t row,
                                     uint32_t head, uint32_t step, const struct operands &keys,
                                     const struct query &query, struct sums *sums) {
#pragma unroll
    for (uint32_t half = 0; half < HALVES; half++) {
        uint4 four = MANY ? load_words(a, row, head, step, half)
                          : query.of[step][half][threadIdx.x % LF_WARP];
        const uint32_t first[2] = {four.x, four.y}, second[2] = {four.z, four.w};
#pragma unroll
        for (uint32_t tile = 0; tile < 2; tile++) {
            lf_mma_bf16(sums->of[tile][2 * half], keys.of[tile], first);
            lf_mma_bf16(sums->of[tile][2 * half + 1], keys.of[tile], second);
        }
    }
}

// What a lane adds up goes on from lane to lane of an entry's four; the last has all heads.
__device__ static void add_heads(const struct sums &sums, const uint32_t top[OWN],
                                 const float *weight, float total[OWN]) {
    const float4 *eight = (const float4 *)&weight[threadIdx.x % 4 * LANE_HEADS];
    const float4 low = eight[0], high = eight[1];
    const float w[LANE_HEADS] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
    float z[LANE_HEADS][OWN];
#pragma unroll
    for (uint32_t i = 0; i < OWN; i++)
#pragma unroll
        for (uint32_t h = 0; h < LANE_HEADS; h++)
            z[h][i] = relu_exact(sums.of[i / 2][h / 2][i % 2 * 2 + h % 2] *
                                 lf_f32_from_bits(top[i] << 23));
#pragma unroll
    for (uint32_t turn = 0; turn < 4; turn++) {
#pragma unroll
        for (uint32_t i = 0; i < OWN && turn; i++)
            total[i] = __shfl_up_sync(LF_ALL_LANES, total[i], 1);
#pragma unroll
        for (uint32_t h = 0; h < LANE_HEADS; h++)
#pragma unroll
            for (uint32_t i = 0; i < OWN; i++)
                total[i] = fmaf(w[h], z[h][i], total[i]);
    }
}

// Weights of up to HEADS heads from `head` on.
__device__ static void put_weights(const struct lf_index_score_args &a, uint32_t row,
                                   uint32_t head, float *weight) {
    uint32_t lane = threadIdx.x % LF_WARP;
    __syncwarp();
    weight[lane] = weight_of(a, row, head + lane);
    __syncwarp();
}

// The scores of a pass from item `first` on.
template <bool MANY>
__device__ static void score_pass(const struct lf_index_score_args &a, const struct scored &r,
                                  uint32_t first, const struct pass &pass,
                                  const struct query &query, float *weight) {
    uint32_t lane = threadIdx.x % LF_WARP;
    if (pass.span + r.span > SPAN_MAX) {
        uint32_t item = first + lane;
        float total = 0;
        if (item < r.items.n)
            total = score_slowly(a, r.row, key_of(pages_of(a, r.row),
                                                  lf_item_entry(&r.items, item), a.dim));
        store_score(a, r, item, total);
        __syncwarp();
        return;
    }
    float total[OWN] = {};
    for (uint32_t head = 0; head < (MANY ? a.heads : 1); head += HEADS) {
        struct sums sums = {};
#pragma unroll
        for (uint32_t step = 0; step < STEPS; step++) {
            struct operands keys;
            widen_step(pass, step, &keys);
            multiply_step<MANY>(a, r.row, head, step, keys, query, &sums);
        }
        if (MANY && head)
#pragma unroll
            for (uint32_t i = 0; i < OWN; i++)
                total[i] = __shfl_sync(LF_ALL_LANES, total[i], lane | 3);
        if (MANY)
            put_weights(a, r.row, head, weight);
        add_heads(sums, pass.top, weight, total);
    }
#pragma unroll
    for (uint32_t i = 0; i < OWN; i++)
        if (lane % 4 == 3)
            store_score(a, r, first + 8 * i + lane / 4, total[i]);
}

// Of passes to come: codes of the next, a key of the one after.
struct ahead {
    struct codes codes[OWN];
    const uint8_t *key; // NULL: none
    uint32_t entry;     // of the third; UINT32_MAX: none
};

// Of an entry's four lanes each looks up one of those that they share.
__device__ static void find_entry(const struct lf_items &items, uint32_t first,
                                  struct ahead *ahead) {
    uint32_t item = first + threadIdx.x % 4 * 8 + threadIdx.x % LF_WARP / 4;
    ahead->entry = item < items.n ? lf_item_entry(&items, item) : UINT32_MAX;
}

__device__ static void find_key(uint8_t *const *page, uint32_t dim, struct ahead *ahead) {
    ahead->key = ahead->entry == UINT32_MAX ? NULL : key_of(page, ahead->entry, dim);
}

__device__ static void fetch_pass(uint32_t dim, struct ahead *ahead) {
    unsigned long long own = (uintptr_t)ahead->key;
#pragma unroll
    for (uint32_t i = 0; i < OWN; i++) {
        uint32_t from = threadIdx.x % LF_WARP / 4 * 4 + i;
        fetch_codes((const uint8_t *)(uintptr_t)__shfl_sync(LF_ALL_LANES, own, from), dim,
                    &ahead->codes[i]);
    }
}

// A block's share of a row.
template <bool MANY>
__device__ static void score_row(const struct lf_index_score_args &a, struct scored r,
                                 struct query *query, float *weight) {
    uint32_t first = (blockIdx.y * WARPS + threadIdx.x / LF_WARP) * PASS;
    uint32_t step = gridDim.y * WARPS * PASS;
    if (blockIdx.y * WARPS * PASS >= r.items.n)
        return;
    uint8_t *const *page = pages_of(a, r.row);
    struct pass pass;
    struct ahead ahead;
    find_entry(r.items, first, &ahead), find_key(page, a.dim, &ahead);
    find_entry(r.items, first + step, &ahead);
    fetch_pass(a.dim, &ahead);
    find_key(page, a.dim, &ahead);
    find_entry(r.items, first + 2 * step, &ahead);
    r.span = query_span(a, r.row);
    fill_query(a, r.row, query);
    put_weights(a, r.row, 0, weight);
    for (; first < r.items.n; first += step) {
        memcpy(pass.codes, ahead.codes, sizeof pass.codes);
        fetch_pass(a.dim, &ahead);
        find_key(page, a.dim, &ahead);
        find_entry(r.items, first + 3 * step, &ahead);
        open_pass(&pass);
        score_pass<MANY>(a, r, first, pass, *query, weight);
    }
}

// is_tiled: rows that share their entries are index_score_tiles'.
struct items_work {
    struct lf_index_score_args a;
    uint32_t is_tiled;
};

// MANY: rows have more heads than are multiplied together.
template <bool MANY>
__global__ static void __launch_bounds__(THREADS, MANY ? 1 : 2)
index_score_items(struct items_work w) {
    lf_take_turn();
    alignas(16) __shared__ float weight[WARPS][HEADS];
    __shared__ struct query query;
    uint32_t most;
    if (w.is_tiled && rows_share(w.a, blockIdx.x / TILE_ROWS * TILE_ROWS, &most))
        return;
    score_row<MANY>(w.a, open_row(w.a, blockIdx.x), &query, weight[threadIdx.x / LF_WARP]);
}

// Blocks that share out each of so many pieces of work, so that the last round of them is full.
static uint32_t parts_of(uint32_t pieces, uint32_t at_once, uint32_t most) {
    uint32_t parts = 1, rounds = lf_blocks(pieces, at_once);
    for (uint32_t n = 2; n <= most && (uint64_t)pieces * n <= 4ull * at_once; n++) {
        uint32_t as = lf_blocks((uint64_t)pieces * n, at_once);
        // A part more costs its beginning: some hundredths of a whole piece.
        if ((uint64_t)as * parts * 100 < (uint64_t)rounds * n * 95)
            parts = n, rounds = as;
    }
    return parts;
}

// From so many rows on neighbours are looked at.
enum { TILED_ROWS = 128 };

// How many entries are visible is device memory: blocks share out what the stride has room for.
void lf_index_score_cuda(struct lf_device *device, const struct lf_index_score_args *args) {
    LF_ASSERT(args->dim % GROUP == 0 && args->dim <= DIM_MAX);
    uint32_t processors = lf_cuda_info(device->cuda)->processors;
    bool tiled = args->rows >= TILED_ROWS && args->heads <= HEADS &&
                 args->candidates.topk_blocks < NO_PLACE;
    if (tiled) {
        uint32_t tiles = lf_blocks(args->rows, TILE_ROWS);
        uint32_t runs = lf_blocks(args->score_stride, TILE_GROUPS * RUN);
        lf_cuda_launch(device, "index_score", index_score_tiles,
                       dim3(tiles, parts_of(tiles, processors, runs)), TILE_THREADS, *args,
                       (uint32_t)sizeof(struct row_tile));
    }
    uint32_t passes = lf_blocks(args->score_stride, WARPS * PASS);
    dim3 grid(args->rows, args->rows ? parts_of(args->rows, 2 * processors, passes) : 1);
    struct items_work work = {*args, tiled};
    lf_cuda_launch(device, "index_score", args->heads > HEADS ? index_score_items<true>
                                                              : index_score_items<false>,
                   grid, THREADS, work);
}
