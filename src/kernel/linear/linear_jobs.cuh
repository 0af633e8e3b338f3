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

// How many rows a job has, which the host does not know of a group.
__device__ static inline uint32_t lf_work_rows(const struct lf_linear_work &w) {
    return w.group ? w.group[1] - w.group[0] : w.rows;
}

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

// A launch takes the jobs of one format whose rows are its own: over rows_low, to rows_high.
enum { LF_LINEAR_JOBS = 1024, LF_LINEAR_OWN_JOBS = 32, LF_LINEAR_JOBS_A_THREAD = 4 };
struct lf_linear_launch {
    const struct lf_linear_work *table; // NULL: own
    uint32_t jobs, rows_low, rows_high;
    uint32_t parts;       // of the longest row
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
                                                       uint32_t n, uint32_t out, uint32_t rows,
                                                       uint32_t outs) {
    if (n <= launch.rows_low || n > launch.rows_high)
        return 0;
    return (n + rows - 1) / rows * ((out + outs - 1) / outs);
}

// end[j]: tiles of jobs 0 .. j. Returns all. A thread has up to four neighbours.
__device__ static inline uint32_t lf_count_tiles(const struct lf_linear_launch &launch,
                                                 uint32_t rows, uint32_t outs,
                                                 uint32_t end[LF_LINEAR_JOBS]) {
    uint32_t tiles[LF_LINEAR_JOBS_A_THREAD], sum = 0, all;
    uint32_t each = (launch.jobs + blockDim.x - 1) / blockDim.x, first = threadIdx.x * each;
    if (launch.is_counted)
        return launch.end[launch.jobs - 1];
#pragma unroll
    for (uint32_t i = 0; i < LF_LINEAR_JOBS_A_THREAD; i++) {
        tiles[i] = 0;
        if (i < each && first + i < launch.jobs) {
            const struct lf_linear_work &w = launch.table ? launch.table[first + i]
                                                          : launch.own[first + i];
            tiles[i] = lf_tiles_of(launch, lf_work_rows(w), w.out, rows, outs);
        }
        sum += tiles[i];
    }
    uint32_t before = lf_block_sum_before(sum, &all);
#pragma unroll
    for (uint32_t i = 0; i < LF_LINEAR_JOBS_A_THREAD; i++) {
        before += tiles[i];
        if (i < each && first + i < launch.jobs)
            end[first + i] = before;
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
