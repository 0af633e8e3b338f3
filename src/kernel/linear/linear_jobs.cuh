// The jobs of a launch of linear as the device sees them, and whose tile is whose.
#pragma once
#include "kernel/block.cuh"
#include "kernel/settle.h"

// A job as the device sees it, read in pieces of 16 bytes.
struct alignas(16) lf_linear_work {
    const uint8_t *data, *scale;
    const uint16_t *x;
    const uint32_t *x_index;
    void *y;
    size_t x_stride, y_stride;
    const uint32_t *group; // NULL, or whose rows the job has
    uint32_t out, in, rows;
    uint32_t at : 29; // rows in order before its own; of a group before the rows of all groups
    uint32_t y_f32 : 1, whole : 1; // whole: x and bf16 weights can be read in vectors
    uint32_t shares : 1;           // its rows are those of the job before
};
static_assert(sizeof(struct lf_linear_work) == 80, "work that is read in five pieces");

// The job of `rows` of its rows alone, from `first` on (linear_groups.h).
__device__ static inline struct lf_linear_work lf_work_of_rows(const struct lf_linear_work &w,
                                                               uint32_t first, uint32_t rows) {
    struct lf_linear_work own = w;
    own.rows = rows;
    LF_CONTROL(13, own.x -= first ? own.x_stride : 0;) // 13: a group's x begins a row early
    if (own.x_index)
        own.x_index += first;
    else
        own.x += first * own.x_stride;
    LF_CONTROL(14, own.x_index = NULL;) // 14: x_index is not read
    own.y = (char *)own.y + first * own.y_stride * (own.y_f32 ? sizeof(float) : sizeof(uint16_t));
    return own;
}

// Rows of the tiles that suit a job of n rows. whole, orders: of all jobs of its launch.
__host__ __device__ static inline uint32_t lf_tile_rows(enum lf_weight_format format, bool whole,
                                                        bool orders, uint32_t n) {
    if (n <= 16 || !whole)
        return n <= 8 ? 8 : 16;
    if (!orders)
        return 64;
    if (format != LF_WEIGHT_MXFP4)
        return n <= 64 ? 64 : 128;
    if (n > 256)
        return 128;
    // Where tiles of 48, 64 or 128 have the fewest rows in all, the largest such.
    uint32_t of_48 = (n + 47) / 48 * 48, of_64 = (n + 63) / 64 * 64, of_128 = (n + 127) / 128 * 128;
    if (of_48 < of_64)
        return 48;
    return of_64 < of_128 ? 64 : 128;
}

// Whether such tiles have their rows in order.
__host__ __device__ static inline bool lf_is_in_order(enum lf_weight_format format, bool orders,
                                                      uint32_t tile_rows) {
    return orders && tile_rows > (format == LF_WEIGHT_MXFP4 ? 16 : 64);
}

// Whole eights of rows, as they lie in order.
__host__ __device__ static inline uint32_t lf_eights(uint32_t rows) {
    return (rows + 7) / 8 * 8;
}

// A launch takes the jobs of one format that tiles of so many rows suit.
enum { LF_LINEAR_JOBS = 1024, LF_LINEAR_OWN_JOBS = 32, LF_LINEAR_JOBS_A_THREAD = 4 };
struct lf_linear_launch {
    const struct lf_linear_work *table; // NULL: own
    uint32_t jobs;
    enum lf_weight_format format;
    uint32_t parts;         // of the longest row
    uint32_t parts_inverse; // 2^32 over them, rounded up
    // Of MXFP4's few rows: warps of a team, teams of a block, rounds that a team takes for a tile,
    uint32_t team_warps, teams, team_rounds;
    uint32_t team_inverse, team_ahead; // 2^32 over them, rounded up; tiles known from the start
    // of up to 8 rows tiles on the way to a block, their bytes each, of them codes at most.
    uint32_t feed_stages, feed_bytes, feed_codes;
    bool whole, regular;  // all jobs are
    bool waits_first;     // launches ahead write groups or indices
    uint32_t *taken;      // zero, of tiles that go to blocks as they ask; NULL where others launch
    uint32_t *sums;       // zeros, of tiles that two blocks share; NULL: none is shared
    bool is_counted;      // end is known to the host: tiles of jobs 0 .. j
    bool orders;          // rows of tiles of many are put in order ahead of them
    // A launch of such tiles has those that begin in a window of all jobs' rows; else no rows.
    uint32_t window_first, window_rows, row_bytes;
    uint8_t *ordered; // the window's rows
    uint32_t end[LF_LINEAR_OWN_JOBS];
    struct lf_linear_work own[LF_LINEAR_OWN_JOBS];
};

// Two ways, so that a launch's own are read as parameters.
__device__ static inline struct lf_linear_work
lf_launch_work(const struct lf_linear_launch &launch, uint32_t j) {
    if (launch.table)
        return launch.table[j];
    return launch.own[j];
}

// A tile of `rows` by `outs` of a job, from these on. ordered: its rows in their window.
struct lf_linear_place {
    struct lf_linear_work w;
    uint32_t row, out;
    size_t ordered;
};

// Rows of a job that a launch has.
struct lf_linear_rows {
    uint32_t first, n;
};

// Those of n whose tiles begin in the launch's window. at: rows in order before the job's.
__host__ __device__ static inline struct lf_linear_rows
lf_rows_of_window(const struct lf_linear_launch &launch, uint32_t at, uint32_t n, uint32_t rows) {
    if (!launch.window_rows)
        return {0, n};
    uint32_t first = launch.window_first, past = first + launch.window_rows;
    first = first > at ? (first - at + rows - 1) / rows * rows : 0;
    past = past > at ? (past - at + rows - 1) / rows * rows : 0;
    first = first < n ? first : n;
    return {first, (past < n ? past : n) - first};
}

// Those of a job of n rows that have tiles of so many.
__host__ __device__ static inline struct lf_linear_rows
lf_rows_of_tiles(const struct lf_linear_launch &launch, uint32_t at, uint32_t n, uint32_t rows) {
    if (!n || lf_tile_rows(launch.format, launch.whole, launch.orders, n) != rows)
        return {0, 0};
    return lf_rows_of_window(launch, at, n, rows);
}

// Tiles of `rows` by `outs`.
__host__ __device__ static inline uint32_t lf_tiles_of(uint32_t n, uint32_t out, uint32_t rows,
                                                       uint32_t outs) {
    return (n + rows - 1) / rows * ((out + outs - 1) / outs);
}

// What a thread needs to know of its jobs, up to four neighbours, ahead of their rows.
struct lf_linear_heads {
    const uint32_t *group[LF_LINEAR_JOBS_A_THREAD];
    uint32_t rows[LF_LINEAR_JOBS_A_THREAD], out[LF_LINEAR_JOBS_A_THREAD];
    uint32_t at[LF_LINEAR_JOBS_A_THREAD], first, jobs;
};

__device__ static inline struct lf_linear_heads
lf_load_heads(const struct lf_linear_launch &launch) {
    struct lf_linear_heads heads = {};
    uint32_t each = (launch.jobs + blockDim.x - 1) / blockDim.x, first = threadIdx.x * each;
    heads.first = first;
    heads.jobs = first + each < launch.jobs ? each : first < launch.jobs ? launch.jobs - first : 0;
#pragma unroll
    for (uint32_t i = 0; i < LF_LINEAR_JOBS_A_THREAD; i++)
        if (i < heads.jobs && !launch.is_counted) {
            const struct lf_linear_work &w = launch.table ? launch.table[first + i]
                                                          : launch.own[first + i];
            heads.group[i] = w.group, heads.rows[i] = w.rows;
            heads.out[i] = w.out, heads.at[i] = launch.window_rows ? w.at : 0;
        }
    return heads;
}

// Jobs that have tiles, in their order, where only the device knows which: in shared memory.
struct lf_linear_live {
    uint32_t end[LF_LINEAR_JOBS]; // tiles of these jobs up to this one
    uint32_t first[LF_LINEAR_JOBS], rows[LF_LINEAR_JOBS];
    uint16_t job[LF_LINEAR_JOBS];
};

// The tiles of a launch. live: not of one that the host has counted.
struct lf_linear_tiles {
    const struct lf_linear_launch &launch;
    const struct lf_linear_live *live;
    uint32_t jobs, all; // to look through; tiles
};

// Blocks list the jobs that have rows, so that nothing is looked for among all of them again.
__device__ static inline struct lf_linear_tiles
lf_list_jobs(const struct lf_linear_launch &launch, const struct lf_linear_heads &heads,
             uint32_t tile_rows, uint32_t outs, struct lf_linear_live *live) {
    uint32_t tiles[LF_LINEAR_JOBS_A_THREAD], first[LF_LINEAR_JOBS_A_THREAD];
    uint32_t rows[LF_LINEAR_JOBS_A_THREAD];
    unsigned long long sum = 0, all; // tiles, and above them jobs
    if (launch.is_counted)
        return {launch, live, launch.jobs, launch.end[launch.jobs - 1]};
    if (!launch.waits_first)
        lf_read_old();
#pragma unroll
    for (uint32_t i = 0; i < LF_LINEAR_JOBS_A_THREAD; i++) {
        // What was written while other launches' blocks were here is not to be found in a cache.
        const volatile uint32_t *group = i < heads.jobs ? heads.group[i] : NULL;
        first[i] = group ? group[0] : 0;
        rows[i] = group ? group[1] - first[i] : i < heads.jobs ? heads.rows[i] : 0;
        struct lf_linear_rows own = lf_rows_of_tiles(launch, heads.at[i] + first[i], rows[i],
                                                     tile_rows);
        first[i] += own.first, rows[i] = own.n;
        tiles[i] = lf_tiles_of(own.n, heads.out[i], tile_rows, outs);
        sum += ((unsigned long long)(tiles[i] > 0) << 32) + tiles[i];
    }
    unsigned long long before = lf_block_sum_before(sum, &all);
    uint32_t at = (uint32_t)(before >> 32), end = (uint32_t)before;
#pragma unroll
    for (uint32_t i = 0; i < LF_LINEAR_JOBS_A_THREAD; i++) {
        if (!tiles[i])
            continue;
        end += tiles[i];
        live->end[at] = end, live->first[at] = first[i], live->rows[at] = rows[i];
        live->job[at++] = (uint16_t)(heads.first + i);
    }
    __syncthreads();
    return {launch, live, (uint32_t)(all >> 32), (uint32_t)all};
}

__device__ static inline uint32_t lf_end_of(const struct lf_linear_tiles &tiles, uint32_t i) {
    return tiles.launch.is_counted ? tiles.launch.end[i] : tiles.live->end[i];
}

// Whose a tile is: a job and its rows, and the tile's first row and output.
struct lf_linear_spot {
    uint32_t job, first, rows, row, out;
};

// Tiles of one job go row by row first: neighbours share its weights.
__device__ static inline struct lf_linear_spot
lf_seek_tile(const struct lf_linear_tiles &tiles, uint32_t tile, uint32_t rows, uint32_t outs) {
    uint32_t low = 0, high = tiles.jobs - 1;
    while (low < high) {
        uint32_t middle = (low + high) / 2;
        if (lf_end_of(tiles, middle) > tile)
            high = middle;
        else
            low = middle + 1;
    }
    struct lf_linear_spot spot = {low, 0, 0, 0, 0};
    if (tiles.launch.is_counted) {
        const struct lf_linear_work &w = tiles.launch.own[low];
        struct lf_linear_rows own = lf_rows_of_window(tiles.launch, w.at, w.rows, rows);
        spot.first = own.first, spot.rows = own.n;
    } else
        spot.job = tiles.live->job[low], spot.first = tiles.live->first[low],
        spot.rows = tiles.live->rows[low];
    uint32_t own = tile - (low ? lf_end_of(tiles, low - 1) : 0);
    uint32_t row_tiles = (spot.rows + rows - 1) / rows;
    // Mostly one: a division takes long.
    uint32_t out_tile = row_tiles == 1 ? own : own / row_tiles;
    spot.row = (own - out_tile * row_tiles) * rows;
    spot.out = out_tile * outs;
    return spot;
}

// The same with the job.
__device__ static inline struct lf_linear_place
lf_find_tile(const struct lf_linear_tiles &tiles, uint32_t tile, uint32_t rows, uint32_t outs) {
    struct lf_linear_spot spot = lf_seek_tile(tiles, tile, rows, outs);
    struct lf_linear_work w = lf_launch_work(tiles.launch, spot.job);
    return {lf_work_of_rows(w, spot.first, spot.rows), spot.row, spot.out,
            w.at + spot.first + spot.row - tiles.launch.window_first};
}

// Nothing where a tile passes the job's rows or outputs.
__device__ static inline void lf_store_sum(const struct lf_linear_work &w, uint32_t r, uint32_t o,
                                           float sum) {
    if (r >= w.rows || o >= w.out)
        return;
    LF_CONTROL(5, sum = lf_fault_f16(sum);) // 5: the total kept in fp16
    if (w.y_f32)
        ((float *)w.y)[r * w.y_stride + o] = lf_f32_settle(sum);
    else
        ((uint16_t *)w.y)[r * w.y_stride + o] = lf_bf16_settle(sum);
    LF_CONTROL(6, if (!w.y_f32) ((uint16_t *)w.y)[r * w.y_stride + o] = (uint16_t)(lf_f32_bits(sum)
               >> 16);)
    LF_CONTROL(8, if (w.y_f32) ((float *)w.y)[(w.rows - 1) * w.y_stride + w.out] = 0;)
}
