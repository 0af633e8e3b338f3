#include "kernel/index_score/index_score.h"

#include "kernel/linear/mma.cuh"
#include "kernel/linear/stream.cuh"
#include "kernel/packed_row.cuh"
#include "kernel/settle.h"

// A warp works on PASS entries, in two tiles, against HEADS heads of a row at a time.
enum { TILE = 16, PASS = 2 * TILE, WARPS = 8, THREADS = WARPS * LF_WARP, DIM_MAX = 128 };
enum { HEADS = 32, HEAD_TILE = 8, HEAD_TILES = HEADS / HEAD_TILE, Z_STRIDE = HEADS + 4 };

// Four lanes share an entry or a head, each a GROUP of elements, two pairs j, j+4 of eight a step.
enum { GROUP = 32, WORDS = GROUP / 8, STEPS = GROUP / 4, HALVES = HEAD_TILES / 2 };

// Exponents that meet no end of float32; the most that spans of query and key may add up to.
enum { EXPONENT_MIN = 77, EXPONENT_MAX = 177, SPAN_NEVER = 255, SPAN_MAX = 12 };

// Read four heads at a time: a lane's entry begins four banks after its neighbour's.
struct alignas(16) stage {
    float z[PASS][Z_STRIDE]; // through the ReLU
    float weight[HEADS];
};

// A row's queries as the lanes of a step need them: two pairs of each of two tiles' heads.
struct query {
    uint4 of[STEPS][HALVES][LF_WARP];
};

// Of one lane: its group of an entry.
struct codes {
    uint32_t word[WORDS], exponent; // of the scale; SPAN_NEVER is NaN
};

// Sums of a lane: two entries by two heads of each tile.
struct sums {
    float of[2][HEAD_TILES][4];
};

// The lane's words of a step and two tiles from device memory; zeros past heads and elements.
__device__ static uint4 load_words(const struct lf_index_score_args &a, uint32_t row, uint32_t head,
                                   uint32_t step, uint32_t half) {
    uint32_t lane = threadIdx.x % LF_WARP, at = lane % 4 * GROUP, word[4];
#pragma unroll
    for (uint32_t i = 0; i < 4; i++) {
        uint32_t h = head + (2 * half + i / 2) * HEAD_TILE + lane / 4, pair = 2 * step + i % 2;
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

// Powers of two between the lowest place and the greatest number of any head's query.
__device__ static uint32_t query_span(const struct lf_index_score_args &a, uint32_t row) {
    __shared__ uint32_t most;
    uint32_t span = 0;
    if (threadIdx.x == 0)
        most = 0;
    __syncthreads();
    for (uint32_t h = threadIdx.x / 8; h < (a.heads + WARPS * 4 - 1) / (WARPS * 4) * WARPS * 4;
         h += WARPS * 4) {
        uint32_t low = SPAN_NEVER, high = 0;
        const uint16_t *q = a.q + ((size_t)row * a.heads + h) * a.dim;
        for (uint32_t d = threadIdx.x % 8; h < a.heads && d < a.dim; d += 8) {
            uint32_t exponent = q[d] >> 7 & 255, significand = (q[d] & 0x7Fu) | 0x80u;
            if ((q[d] & 0x7FFFu) == 0)
                continue;
            bool inside = exponent >= EXPONENT_MIN && exponent <= EXPONENT_MAX;
            uint32_t lowest = inside ? exponent - 8 + (uint32_t)__ffs((int)significand) : 0;
            low = lowest < low ? lowest : low;
            high = exponent > high ? exponent : high;
        }
        for (int other = 4; other; other /= 2) {
            uint32_t theirs = __shfl_xor_sync(LF_ALL_LANES, low, other);
            low = theirs < low ? theirs : low;
            theirs = __shfl_xor_sync(LF_ALL_LANES, high, other);
            high = theirs > high ? theirs : high;
        }
        uint32_t own = high < low ? 0 : low ? high - low : (uint32_t)SPAN_NEVER;
        span = own > span ? own : span;
    }
    atomicMax(&most, span);
    __syncthreads();
    return most;
}

__device__ static const uint8_t *key_at(const struct lf_index_score_args &a, uint32_t row,
                                        uint32_t entry) {
    uint32_t lane = a.row[row].lane;
    LF_CONTROL(4, entry -= entry % LF_PAGE_ROWS == LF_PAGE_ROWS - 1;)
    LF_CONTROL(8, lane = 0;) // 8: the first lane's keys for every row
    return lf_paged_row(&a.keys[lane], entry, lf_qf4e_row_bytes(a.dim));
}

// Zeros of exponent 127 past the items and their elements.
__device__ static void fetch_codes(const struct lf_index_score_args &a, uint32_t row,
                                   const struct lf_items &items, uint32_t item,
                                   struct codes *codes) {
    uint32_t group = threadIdx.x % 4;
    const uint8_t *key = NULL;
    if (item < items.n && group * GROUP < a.dim)
        key = key_at(a, row, lf_item_entry(&items, item));
#pragma unroll
    for (uint32_t i = 0; i < WORDS; i++)
        codes->word[i] = key ? lf_load_word(key + group * (GROUP / 2) + 4 * i) : 0;
    codes->exponent = key ? key[a.dim / 2 + group] : 127;
}

// A lane's two entries of each tile.
__device__ static void fetch_pass(const struct lf_index_score_args &a, uint32_t row,
                                  const struct lf_items &items, uint32_t first,
                                  struct codes codes[4]) {
#pragma unroll
    for (uint32_t i = 0; i < 4; i++)
        fetch_codes(a, row, items, first + i * 8 + threadIdx.x % LF_WARP / 4, &codes[i]);
}

// The greatest exponent of an entry's groups that are not all zeros; returns their span.
__device__ static uint32_t find_top(const struct codes &codes, uint32_t *top) {
    uint32_t any = 0;
#pragma unroll
    for (uint32_t i = 0; i < WORDS; i++)
        any |= codes.word[i];
    bool is_zero = !(any & 0x77777777u) && codes.exponent != SPAN_NEVER;
    uint32_t low = is_zero ? (uint32_t)SPAN_NEVER : codes.exponent;
    uint32_t high = is_zero ? 0 : codes.exponent;
    for (int other = 2; other; other /= 2) {
        uint32_t theirs = __shfl_xor_sync(LF_ALL_LANES, low, other);
        low = theirs < low ? theirs : low;
        theirs = __shfl_xor_sync(LF_ALL_LANES, high, other);
        high = theirs > high ? theirs : high;
    }
    *top = high >= low ? high : 127;
    bool is_inside = low >= EXPONENT_MIN && high <= EXPONENT_MAX;
    return high < low ? 0 : is_inside ? high - low : (uint32_t)SPAN_NEVER;
}

// In both halves: what makes codes in bf16's places 2^(127 - top) times what they say.
__device__ static uint32_t factor_of(const struct codes &codes, uint32_t top) {
    uint32_t biased = 253 + codes.exponent - top; // of 2^126 and the scale
    return (biased <= 253 ? biased << 7 : 0) * 0x10001u;
}

// Pair i of the lane's group.
__device__ static uint32_t widen(const struct codes &codes, uint32_t factor, uint32_t i) {
    uint32_t word = codes.word[i / 4], at = i % 4 * 4;
    uint32_t size = (at < 6 ? word << (6 - at) : word >> (at - 6)) & 0x01C001C0u;
    return lf_mul_bf16x2(size | (word << (12 - at) & 0x80008000u), factor);
}

__device__ static float relu(float z) {
    LF_CONTROL(1, return z;) // 1: no ReLU
    LF_CONTROL(6, z = lf_fault_bf16(z);) // 6: dot products rounded to bf16
    LF_CONTROL(9, return z > 0.0f ? z : 0.0f;) // 9: the ReLU of a NaN is 0
    return z < 0.0f ? 0.0f : z;
}

// The same of an exact sum, which is neither NaN nor -0.
__device__ static float relu_exact(float z) {
    LF_CONTROL(1, return z;)
    LF_CONTROL(6, z = lf_fault_bf16(z);)
    return fmaxf(z, 0.0f);
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
__device__ static void multiply_step(const struct lf_index_score_args &a, uint32_t row,
                                     uint32_t head, uint32_t step, const struct operands &keys,
                                     const struct query &query, struct sums *sums) {
#pragma unroll
    for (uint32_t half = 0; half < HALVES; half++) {
        uint4 four = a.heads > HEADS ? load_words(a, row, head, step, half)
                                     : query.of[step][half][threadIdx.x % LF_WARP];
        const uint32_t first[2] = {four.x, four.y}, second[2] = {four.z, four.w};
#pragma unroll
        for (uint32_t tile = 0; tile < 2; tile++) {
            lf_mma_bf16(sums->of[tile][2 * half], keys.of[tile], first);
            lf_mma_bf16(sums->of[tile][2 * half + 1], keys.of[tile], second);
        }
    }
}

// Sums of a pass to where each lane finds those of its entry.
__device__ static void store_sums(const struct sums &sums, const uint32_t top[4],
                                  float (*z)[Z_STRIDE]) {
    uint32_t lane = threadIdx.x % LF_WARP;
#pragma unroll
    for (uint32_t i = 0; i < 4; i++) {
        float scale = lf_f32_from_bits(top[i] << 23);
#pragma unroll
        for (uint32_t tile = 0; tile < HEAD_TILES; tile++) {
            const float *of = sums.of[i / 2][tile] + i % 2 * 2;
            *(float2 *)&z[lane / 4 + i * 8][tile * HEAD_TILE + lane % 4 * 2] = {
                relu_exact(of[0] * scale), relu_exact(of[1] * scale)};
        }
    }
}

// Entries whose sums may round: a lane an entry, in the contract's order.
__device__ static void multiply_slowly(const struct lf_index_score_args &a, uint32_t row,
                                       uint32_t head, uint32_t heads, uint32_t entry,
                                       float (*z)[Z_STRIDE]) {
    const uint8_t *key = key_at(a, row, entry);
    for (uint32_t h = 0; h < heads; h++) {
        const uint16_t *q = a.q + ((size_t)row * a.heads + head + h) * a.dim;
        float partial[16] = {};
        for (uint32_t d = 0; d < a.dim; d += 16)
#pragma unroll
            for (uint32_t i = 0; i < 16; i++)
                partial[i] = fmaf(lf_bf16_to_f32(q[d + i]), lf_qf4e_at(key, a.dim, d + i),
                                  partial[i]);
        z[threadIdx.x % LF_WARP][h] = relu(lf_own_tree16(partial));
    }
}

// Weights of up to HEADS heads from `head` on.
__device__ static void put_weights(const struct lf_index_score_args &a, uint32_t row,
                                   uint32_t head, float *weight) {
    uint32_t lane = threadIdx.x % LF_WARP, of = head + lane;
    float scale = a.weight_scale;
    LF_CONTROL(2, of = (of + 1) % a.heads;) // 2: each head with the weight of the next
    LF_CONTROL(3, scale = 1.0f;) // 3: the weights' scale left out
    LF_CONTROL(5, scale = of + 1 == a.heads ? 0.0f : scale;) // 5: the last head left out
    if (head + lane < a.heads)
        weight[lane] = lf_bf16_to_f32(a.head_weight[(size_t)row * a.heads + of]) * scale;
}

__device__ static float add_heads(const float *z, const float *weight, uint32_t heads,
                                  float total) {
    uint32_t fours = heads / 4 * 4;
#pragma unroll 8
    for (uint32_t h = 0; h < fours; h += 4) {
        float4 w = *(const float4 *)&weight[h], four = *(const float4 *)&z[h];
        total = fmaf(w.x, four.x, total);
        total = fmaf(w.y, four.y, total);
        total = fmaf(w.z, four.z, total);
        total = fmaf(w.w, four.w, total);
    }
    for (uint32_t h = fours; h < heads; h++)
        total = fmaf(weight[h], z[h], total);
    __syncwarp();
    return total;
}

// Where a warp's dot products, through the ReLU, are added up, and what is known of a row.
struct scored {
    uint32_t row, span;
    struct lf_items items;
};

// The scores of a pass from item `first` on. keys: all steps' operands, or NULL: widened here.
__device__ static void score_pass(const struct lf_index_score_args &a, const struct scored &r,
                                  uint32_t first, const struct pass &pass,
                                  const struct operands *keys, const struct query &query,
                                  struct stage *stage) {
    uint32_t lane = threadIdx.x % LF_WARP, item = first + lane;
    float total = 0;
    for (uint32_t head = 0; head < a.heads; head += HEADS) {
        uint32_t heads = a.heads - head < HEADS ? a.heads - head : (uint32_t)HEADS;
        put_weights(a, r.row, head, stage->weight);
        if (pass.span + r.span <= SPAN_MAX) {
            struct sums sums = {};
#pragma unroll
            for (uint32_t step = 0; step < STEPS; step++) {
                struct operands own;
                if (!keys)
                    widen_step(pass, step, &own);
                multiply_step(a, r.row, head, step, keys ? keys[step] : own, query, &sums);
            }
            store_sums(sums, pass.top, stage->z);
        } else if (item < r.items.n) {
            multiply_slowly(a, r.row, head, heads, lf_item_entry(&r.items, item), stage->z);
        }
        __syncwarp();
        total = add_heads(stage->z[lane], stage->weight, heads, total);
    }
    LF_CONTROL(7, if (item < a.score_stride) a.score[r.row * a.score_stride + item] = 1;)
    if (item < r.items.n)
        a.score[r.row * a.score_stride + item] = lf_f32_settle(total);
}

__device__ static struct scored open_row(const struct lf_index_score_args &a, uint32_t row) {
    struct scored r = {row, 0, lf_items_of(&a.candidates, row, a.visible[row])};
    LF_CONTROL(10, r.items.n -= r.items.n > 0;) // 10: the newest entry is not scored
    LF_CONTROL(13, r.items.blocks = NULL;) // 13: a row's blocks ignored
    return r;
}

// A block's share of a row.
__device__ static void score_row(const struct lf_index_score_args &a, struct scored r,
                                 struct query *query, struct stage *stage) {
    uint32_t first = (blockIdx.y * WARPS + threadIdx.x / LF_WARP) * PASS;
    uint32_t step = gridDim.y * WARPS * PASS;
    if (blockIdx.y * WARPS * PASS >= r.items.n)
        return;
    r.span = query_span(a, r.row);
    fill_query(a, r.row, query);
    struct pass pass, next;
    fetch_pass(a, r.row, r.items, first, next.codes);
    for (; first < r.items.n; first += step) {
        memcpy(pass.codes, next.codes, sizeof pass.codes);
        fetch_pass(a, r.row, r.items, first + step, next.codes);
        open_pass(&pass);
        score_pass(a, r, first, pass, NULL, *query, stage);
    }
}

__global__ static void __launch_bounds__(THREADS, 2)
index_score_items(struct lf_index_score_args a) {
    lf_take_turn();
    __shared__ struct stage stages[WARPS];
    __shared__ struct query query;
    score_row(a, open_row(a, blockIdx.x), &query, &stages[threadIdx.x / LF_WARP]);
}

// Neighbouring rows of a prompt have one lane's entries: these are widened once for all of them.
enum { TILE_ROWS = 8, TILED_ROWS = 128 };
struct row_tile {
    struct query query[TILE_ROWS];
    struct stage stage[WARPS];
    struct scored row[TILE_ROWS];
};

// Whether all rows of a tile score the entries of one lane; *most: of one row.
__device__ static bool open_rows(const struct lf_index_score_args &a, uint32_t first,
                                 uint32_t rows, struct row_tile *tile, uint32_t *most) {
    bool is_one = true;
    *most = 0;
    for (uint32_t i = 0; i < rows; i++) {
        struct scored r = open_row(a, first + i);
        is_one &= !r.items.blocks && a.row[first + i].lane == a.row[first].lane;
        *most = r.items.n > *most ? r.items.n : *most;
        if (threadIdx.x == 0)
            tile->row[i] = r;
    }
    __syncthreads();
    return is_one;
}

// A block's share of a tile's rows.
__device__ static void score_rows(const struct lf_index_score_args &a, uint32_t rows,
                                  uint32_t most, struct row_tile *tile) {
    uint32_t first = (blockIdx.y * WARPS + threadIdx.x / LF_WARP) * PASS;
    const struct lf_items items = {NULL, 1, most};
    if (blockIdx.y * WARPS * PASS >= most)
        return;
    for (uint32_t i = 0; i < rows; i++) {
        uint32_t span = query_span(a, tile->row[i].row);
        if (threadIdx.x == 0)
            tile->row[i].span = span;
        fill_query(a, tile->row[i].row, &tile->query[i]);
    }
    for (; first < most; first += gridDim.y * WARPS * PASS) {
        struct pass pass;
        struct operands keys[STEPS];
        fetch_pass(a, tile->row[0].row, items, first, pass.codes);
        open_pass(&pass);
#pragma unroll
        for (uint32_t step = 0; step < STEPS; step++)
            widen_step(pass, step, &keys[step]);
#pragma unroll 1
        for (uint32_t i = 0; i < rows; i++)
            if (first < tile->row[i].items.n)
                score_pass(a, tile->row[i], first, pass, keys, tile->query[i],
                           &tile->stage[threadIdx.x / LF_WARP]);
    }
}

__global__ static void __launch_bounds__(THREADS, 2)
index_score_tiles(struct lf_index_score_args a) {
    lf_take_turn();
    LF_DYNAMIC_SHARED(shared);
    struct row_tile *tile = (struct row_tile *)shared;
    uint32_t first = blockIdx.x * TILE_ROWS, most;
    uint32_t rows = a.rows - first < TILE_ROWS ? a.rows - first : (uint32_t)TILE_ROWS;
    if (open_rows(a, first, rows, tile, &most)) {
        score_rows(a, rows, most, tile);
        return;
    }
    for (uint32_t i = 0; i < rows; i++) {
        score_row(a, tile->row[i], &tile->query[0], &tile->stage[threadIdx.x / LF_WARP]);
        __syncthreads();
    }
}

// Whether blocks may leave out some of a row's entries: then rows share none.
static bool are_limited(const struct lf_index_score_args *args) {
    const struct lf_candidates *among = &args->candidates;
    return among->blocks &&
           args->score_stride >= (size_t)among->topk_blocks * among->block_size;
}

// How many entries are visible is device memory: blocks share out what the stride has room for.
void lf_index_score_cuda(struct lf_device *device, const struct lf_index_score_args *args) {
    LF_ASSERT(args->dim % GROUP == 0 && args->dim <= DIM_MAX);
    bool tiled = args->rows >= TILED_ROWS && !are_limited(args);
    uint32_t blocks = lf_blocks(args->score_stride, WARPS * PASS);
    uint32_t tiles = tiled ? lf_blocks(args->rows, TILE_ROWS) : args->rows;
    uint32_t most = tiles ? lf_blocks(2 * lf_cuda_info(device->cuda)->processors, tiles) : 1;
    dim3 grid(tiles, blocks < most ? blocks : most);
    if (tiled)
        lf_cuda_launch(device, "index_score", index_score_tiles, grid, THREADS, *args,
                       (uint32_t)sizeof(struct row_tile));
    else
        lf_cuda_launch(device, "index_score", index_score_items, grid, THREADS, *args);
}
