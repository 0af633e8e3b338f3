// The jobs of a launch of linear as the device sees them, and whose tile is whose.
#pragma once
#include "kernel/block.cuh"
#include "kernel/settle.h"

// A job as the device sees it.
struct lf_linear_work {
    const uint8_t *data, *scale;
    const uint16_t *x;
    const uint32_t *x_index;
    void *y;
    size_t x_stride, y_stride;
    const uint32_t *group; // NULL, or whose rows the job has
    uint32_t out, in, rows;
    bool y_f32, whole; // whole: x and bf16 weights can be read in vectors
};

// The job of a group's rows alone (linear_groups.h).
__device__ static inline struct lf_linear_work lf_work_of_group(const struct lf_linear_work &w) {
    struct lf_linear_work own = w;
    if (!w.group)
        return own;
    size_t first = w.group[0];
    own.rows = w.group[1] - w.group[0];
    LF_CONTROL(13, own.x -= first ? own.x_stride : 0;) // 13: a group's x begins a row early
    if (own.x_index)
        own.x_index += first;
    else
        own.x += first * own.x_stride;
    LF_CONTROL(14, own.x_index = NULL;) // 14: x_index is not read
    own.y = (char *)own.y + first * own.y_stride * (own.y_f32 ? sizeof(float) : sizeof(uint16_t));
    return own;
}

// Rows of the tiles that suit a job of n rows. whole: of all jobs of its launch.
__host__ __device__ static inline uint32_t lf_tile_rows(enum lf_weight_format format, bool whole,
                                                        uint32_t n) {
    if (n <= 16 || !whole)
        return n <= 8 ? 8 : 16;
    if (format != LF_WEIGHT_MXFP4)
        return n <= 64 ? 64 : 128;
    if (n <= 32 || n > 256)
        return n <= 32 ? 32 : 128;
    // Where tiles of 48, 64 or 128 have the fewest rows in all, the largest such.
    uint32_t of_48 = (n + 47) / 48 * 48, of_64 = (n + 63) / 64 * 64, of_128 = (n + 127) / 128 * 128;
    if (of_48 < of_64)
        return 48;
    return of_64 < of_128 ? 64 : 128;
}

// A launch takes the jobs of one format that tiles of so many rows suit.
enum { LF_LINEAR_JOBS = 1024, LF_LINEAR_OWN_JOBS = 32, LF_LINEAR_JOBS_A_THREAD = 4 };
struct lf_linear_launch {
    const struct lf_linear_work *table; // NULL: own
    uint32_t jobs, tile_rows;
    enum lf_weight_format format;
    uint32_t parts;       // of the longest row
    bool whole;           // all jobs are
    bool has_chosen_rows; // a kernel before this one wrote groups or indices
    bool is_counted;      // end is known to the host: tiles of jobs 0 .. j
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

// A tile of `rows` by `outs` of a job, from these on.
struct lf_linear_place {
    struct lf_linear_work w;
    uint32_t row, out;
};

// Tiles of a job that has n rows.
__host__ __device__ static inline uint32_t lf_tiles_of(const struct lf_linear_launch &launch,
                                                       uint32_t n, uint32_t out, uint32_t outs) {
    uint32_t rows = launch.tile_rows;
    if (!n || lf_tile_rows(launch.format, launch.whole, n) != rows)
        return 0;
    return (n + rows - 1) / rows * ((out + outs - 1) / outs);
}

// What a thread needs to know of its jobs, up to four neighbours, ahead of their rows.
struct lf_linear_heads {
    const uint32_t *group[LF_LINEAR_JOBS_A_THREAD];
    uint32_t rows[LF_LINEAR_JOBS_A_THREAD], out[LF_LINEAR_JOBS_A_THREAD], first, jobs;
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
            heads.group[i] = w.group, heads.rows[i] = w.rows, heads.out[i] = w.out;
        }
    return heads;
}

// end[j]: tiles of jobs 0 .. j. Returns all.
__device__ static inline uint32_t lf_count_tiles(const struct lf_linear_launch &launch,
                                                 const struct lf_linear_heads &heads,
                                                 uint32_t outs, uint32_t end[LF_LINEAR_JOBS]) {
    uint32_t tiles[LF_LINEAR_JOBS_A_THREAD], sum = 0, all;
    if (launch.is_counted)
        return launch.end[launch.jobs - 1];
#pragma unroll
    for (uint32_t i = 0; i < LF_LINEAR_JOBS_A_THREAD; i++) {
        const uint32_t *group = heads.group[i];
        uint32_t n = i >= heads.jobs ? 0 : group ? group[1] - group[0] : heads.rows[i];
        tiles[i] = lf_tiles_of(launch, n, heads.out[i], outs);
        sum += tiles[i];
    }
    uint32_t before = lf_block_sum_before(sum, &all);
#pragma unroll
    for (uint32_t i = 0; i < LF_LINEAR_JOBS_A_THREAD; i++) {
        before += tiles[i];
        if (i < heads.jobs)
            end[heads.first + i] = before;
    }
    __syncthreads();
    return all;
}

__device__ static inline uint32_t lf_end_of(const struct lf_linear_launch &launch,
                                            const uint32_t end[LF_LINEAR_JOBS], uint32_t j) {
    if (launch.is_counted)
        return launch.end[j];
    return end[j];
}

// Tiles of one job go row by row first: neighbours share its weights.
__device__ static inline struct lf_linear_place
lf_find_tile(const struct lf_linear_launch &launch, const uint32_t end[LF_LINEAR_JOBS],
             uint32_t tile, uint32_t rows, uint32_t outs) {
    uint32_t low = 0, high = launch.jobs - 1;
    while (low < high) {
        uint32_t middle = (low + high) / 2;
        if (lf_end_of(launch, end, middle) > tile)
            high = middle;
        else
            low = middle + 1;
    }
    struct lf_linear_place place = {lf_work_of_group(lf_launch_work(launch, low)), 0, 0};
    uint32_t own = tile - (low ? lf_end_of(launch, end, low - 1) : 0);
    uint32_t row_tiles = (place.w.rows + rows - 1) / rows;
    place.row = own % row_tiles * rows;
    place.out = own / row_tiles * outs;
    return place;
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
