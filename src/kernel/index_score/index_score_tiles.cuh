// Rows of a prompt that neighbour each other: what is made of their lane's entries is shared.
#pragma once
#include "kernel/index_score/index_score_keys.cuh"
#include "kernel/linear/wgmma.cuh"

// Three warpgroups, each with a run of entries at a time; four rows' heads share a product.
enum { TILE_ROWS = 16, FOURS = TILE_ROWS / 4, RUN = 64, RUN_WARP = 16, TILE_GROUPS = 3 };
enum { TILE_THREADS = TILE_GROUPS * 4 * LF_WARP, TILE_WARPS = TILE_THREADS / LF_WARP };
enum { COLUMNS = 4 * HEADS, EIGHTS = 2 * STEPS, EIGHT_BYTES = COLUMNS * 16 };

// Rows with blocks of their own score all entries where no more than so many times theirs.
enum { WORTH = 4, PLACES = 514, PLACED_RUNS = 48, NO_PLACE = 0xFFFF };

// Column 8i+2r+j of a product has head 2i+j of its r-th row: so a lane has all heads of one.
struct row_tile {
    uint8_t query[FOURS][EIGHTS][COLUMNS][16];
    float weight[TILE_ROWS][HEADS + 4];
    struct scored row[TILE_ROWS];
    uint32_t next[TILE_ROWS];           // the first of a row's blocks that has not ended
    uint16_t place[TILE_ROWS][PLACES];  // of the present entries' blocks in a row's list
};

// Whether a tile's rows are one lane's and score most of what they see together; its entries.
__device__ static bool rows_share(const struct lf_index_score_args &a, uint32_t first,
                                  uint32_t *most) {
    uint32_t row = first + threadIdx.x % TILE_ROWS;
    row = row < a.rows ? row : a.rows - 1;
    struct scored r = open_row(a, row);
    *most = __reduce_max_sync(LF_ALL_LANES, r.items.blocks ? a.visible[row] : r.items.n);
    bool is_alone = a.row[row].lane != a.row[first].lane ||
                    (r.items.blocks && *most / WORTH > r.items.n);
    return !__any_sync(LF_ALL_LANES, is_alone);
}

// A lane's group of one head's query, as products read it; four lanes find the head's span.
__device__ static void put_query(const struct lf_index_score_args &a, uint32_t item,
                                 struct row_tile *tile) {
    uint32_t group = item % 4, column = item / 4 % COLUMNS, four = item / 4 / COLUMNS;
    uint32_t at = four * 4 + column % 8 / 2, head = column / 8 * 2 + column % 2;
    struct scored *r = &tile->row[at];
    bool is_there = r->row < a.rows && head < a.heads && group * GROUP < a.dim;
    const uint16_t *q = a.q + ((size_t)r->row * a.heads + head) * a.dim + group * GROUP;
    int32_t low = SPAN_NEVER, high = 0;
#pragma unroll
    for (uint32_t i = 0; i < WORDS; i++) {
        uint4 eight = {0, 0, 0, 0};
        if (is_there)
            eight = load_eight(q + 8 * i);
        widen_eight(eight, &low, &high);
        const uint32_t pair[4] = {__byte_perm(eight.x, eight.z, 0x5410),
                                  __byte_perm(eight.x, eight.z, 0x7632),
                                  __byte_perm(eight.y, eight.w, 0x5410),
                                  __byte_perm(eight.y, eight.w, 0x7632)};
#pragma unroll
        for (uint32_t j = 0; j < 4; j++)
            *(uint32_t *)&tile->query[four][4 * i + j][column][4 * group] = pair[j];
    }
    uint32_t span = span_of(&low, &high);
    if (group == 0)
        atomicMax(&r->span, span);
}

// Queries and weights of a tile's rows; true where some have blocks.
__device__ static bool open_tile(const struct lf_index_score_args &a, uint32_t first,
                                 struct row_tile *tile) {
    bool is_limited = false;
    if (threadIdx.x < TILE_ROWS) {
        struct scored r = {first + threadIdx.x, 0, {NULL, 1, 0}};
        if (r.row < a.rows)
            r = open_row(a, r.row);
        tile->row[threadIdx.x] = r;
        is_limited = r.items.blocks != NULL;
    }
    is_limited = __syncthreads_or(is_limited);
    for (uint32_t i = threadIdx.x; i < FOURS * COLUMNS * 4; i += TILE_THREADS)
        put_query(a, i, tile);
    for (uint32_t i = threadIdx.x; i < TILE_ROWS * HEADS; i += TILE_THREADS)
        tile->weight[i / HEADS][i % HEADS] =
            first + i / HEADS < a.rows ? weight_of(a, first + i / HEADS, i % HEADS) : 0.0f;
    lf_show_tensor_cores();
    __syncthreads();
    return is_limited;
}

// Where entries first .. end-1 stand among a row's items: a warp a row.
__device__ static void put_places(uint32_t first, uint32_t end, uint32_t at,
                                  struct row_tile *tile) {
    const struct lf_items items = tile->row[at].items;
    uint32_t lane = threadIdx.x % LF_WARP, size = items.block_size, base = first / size;
    uint32_t n = lf_blocks(items.n, size), i = tile->next[at], ended;
    for (uint32_t p = lane; p < PLACES; p += LF_WARP)
        tile->place[at][p] = NO_PLACE;
    __syncwarp();
    do {
        uint32_t block = i + lane < n ? items.blocks[i + lane] : UINT32_MAX / size - 1;
        if (block >= base && block * size < end)
            tile->place[at][block - base] = (uint16_t)(i + lane);
        ended = __popc(__ballot_sync(LF_ALL_LANES, block * size + size <= end));
        i += ended;
    } while (ended == LF_WARP);
    __syncwarp();
    if (lane == 0)
        tile->next[at] = i;
}

// The first of a row's blocks that ends behind an entry.
__device__ static uint32_t find_next(const struct lf_items &items, uint32_t entry) {
    uint32_t low = 0, high = lf_blocks(items.n, items.block_size);
    while (low < high) {
        uint32_t middle = (low + high) / 2;
        if ((items.blocks[middle] + 1) * items.block_size <= entry)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

// What a lane holds of a run of its warpgroup.
struct held {
    uint32_t entry[2], span[2];
    float scale[2];
    uint32_t key[STEPS][4];
};

// The first of a lane's two entries of a run; the other is 8 further.
__device__ static uint32_t entry_of(uint32_t first) {
    return first + threadIdx.x / LF_WARP % 4 * RUN_WARP + threadIdx.x % LF_WARP / 4;
}

__device__ static void fetch_run(uint8_t *const *page, uint32_t dim, uint32_t first, uint32_t most,
                                 struct codes codes[2]) {
    uint32_t entry = entry_of(first);
#pragma unroll
    for (uint32_t i = 0; i < 2; i++)
        fetch_codes(entry + 8 * i < most ? key_of(page, entry + 8 * i, dim) : NULL, dim,
                    &codes[i]);
}

__device__ static void widen_run(const struct codes codes[2], uint32_t first, struct held *held) {
#pragma unroll
    for (uint32_t i = 0; i < 2; i++) {
        uint32_t top;
        held->entry[i] = entry_of(first) + 8 * i;
        held->span[i] = find_top(codes[i], &top);
        held->scale[i] = lf_f32_from_bits(top << 23);
        uint32_t factor = factor_of(codes[i], top);
#pragma unroll
        for (uint32_t p = 0; p < 2 * STEPS; p++)
            held->key[p / 2][p % 2 * 2 + i] = widen(codes[i], factor, p);
    }
}

// All heads of the lane's row for its two entries.
__device__ static void add_heads(const float (&d)[COLUMNS / 2], const float *weight,
                                 const float scale[2], float total[2]) {
    total[0] = total[1] = 0;
#pragma unroll
    for (uint32_t h = 0; h < HEADS; h += 4) {
        float4 four = *(const float4 *)&weight[h];
        const float w[4] = {four.x, four.y, four.z, four.w};
#pragma unroll
        for (uint32_t i = 0; i < 4; i++)
#pragma unroll
            for (uint32_t e = 0; e < 2; e++)
                total[e] = fmaf(w[i], relu_exact(d[(h + i) / 2 * 4 + 2 * e + i % 2] * scale[e]),
                                total[e]);
    }
}

// Scores of a run with four rows. base: the first block that `place` has.
__device__ static void score_four(const struct lf_index_score_args &a, uint8_t *const *page,
                                  const struct held &held, uint32_t four, uint32_t base,
                                  const struct row_tile &tile) {
    const lf_shared_rows query = lf_shared_rows_at(lf_shared_base_of(tile.query[four]),
                                                   EIGHT_BYTES);
    float d[COLUMNS / 2] = {}, total[2];
    lf_wgmma_begin();
#pragma unroll
    for (uint32_t step = 0; step < STEPS; step++)
        lf_wgmma_bf16(d, held.key[step], lf_shared_rows_from(query, step * 2 * EIGHT_BYTES), step);
    lf_wgmma_commit();
    lf_wgmma_wait<0>();
    lf_wgmma_settle(d);
#pragma unroll
    for (uint32_t step = 0; step < STEPS; step++)
        lf_wgmma_read(held.key[step]);
    const uint32_t at = four * 4 + threadIdx.x % 4;
    const struct scored &r = tile.row[at];
    add_heads(d, tile.weight[at], held.scale, total);
#pragma unroll
    for (uint32_t e = 0; e < 2; e++) {
        uint32_t item = held.entry[e], size = r.items.block_size;
        if (r.items.blocks) {
            uint32_t place = tile.place[at][item / size - base];
            item = place == NO_PLACE ? UINT32_MAX : place * size + item % size;
        }
        if (held.span[e] + r.span > SPAN_MAX && item < r.items.n)
            total[e] = score_slowly(a, r.row, key_of(page, held.entry[e], a.dim));
        store_score(a, r, item, total[e]);
    }
    __syncwarp();
}

// Whether one of four rows has items as far as an entry.
__device__ static bool is_reached(const struct row_tile &tile, uint32_t four, uint32_t entry) {
    bool is = false;
    for (uint32_t i = 0; i < 4; i++) {
        const struct lf_items &items = tile.row[four * 4 + i].items;
        is |= items.blocks || entry < items.n;
    }
    return is;
}

// Entries first .. end-1 of a lane, runs of them by warpgroups in turn.
__device__ static void score_runs(const struct lf_index_score_args &a, uint8_t *const *page,
                                  uint32_t first, uint32_t end, uint32_t base,
                                  const struct row_tile &tile) {
    const uint32_t step = TILE_GROUPS * RUN;
    struct codes next[2];
    first += lf_same(threadIdx.x / (4 * LF_WARP)) * RUN;
    fetch_run(page, a.dim, first, end, next);
#pragma unroll 1
    for (; first < end; first += step) {
        struct held held;
        struct codes codes[2];
        memcpy(codes, next, sizeof codes);
        fetch_run(page, a.dim, first + step, end, next);
        widen_run(codes, first, &held);
#pragma unroll 1
        for (uint32_t four = 0; four < FOURS; four++)
            if (is_reached(tile, four, first))
                score_four(a, page, held, four, base, tile);
    }
}

// A block's share of a tile's entries; where rows have blocks, so many that places are known.
__device__ static void score_tile(const struct lf_index_score_args &a, uint32_t most,
                                  bool is_limited, struct row_tile *tile) {
    uint8_t *const *page = pages_of(a, tile->row[0].row);
    uint32_t runs = lf_blocks(most, RUN), warp = threadIdx.x / LF_WARP;
    uint32_t from = (uint32_t)((uint64_t)runs * blockIdx.y / gridDim.y) * RUN;
    uint32_t to = (uint32_t)((uint64_t)runs * (blockIdx.y + 1) / gridDim.y) * RUN;
    to = to < most ? to : most;
    if (!is_limited) {
        score_runs(a, page, from, to, 0, *tile);
        return;
    }
    uint32_t size = a.candidates.block_size, known = (PLACES - 2) * size / RUN;
    known = (known < PLACED_RUNS ? known : (uint32_t)PLACED_RUNS) * RUN;
    for (uint32_t at = warp; at < TILE_ROWS; at += TILE_WARPS)
        if (tile->row[at].items.blocks)
            tile->next[at] = find_next(tile->row[at].items, from);
    for (uint32_t first = from; first < to; first += known) {
        uint32_t end = to - first < known ? to : first + known;
        __syncthreads();
        for (uint32_t at = warp; at < TILE_ROWS; at += TILE_WARPS)
            if (tile->row[at].items.blocks)
                put_places(first, end, at, tile);
        __syncthreads();
        score_runs(a, page, first, end, first / size, *tile);
    }
}

__global__ static void __launch_bounds__(TILE_THREADS, 1)
index_score_tiles(struct lf_index_score_args a) {
    lf_take_turn();
    LF_DYNAMIC_SHARED(shared);
    struct row_tile *tile = (struct row_tile *)shared;
    uint32_t first = blockIdx.x * TILE_ROWS, most;
    if (!rows_share(a, first, &most))
        return;
    bool is_limited = open_tile(a, first, tile);
    score_tile(a, most, is_limited, tile);
}
