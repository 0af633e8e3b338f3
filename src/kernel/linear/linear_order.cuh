// Rows of tiles of many put in the order in which these read them, ahead of the map.
#pragma once
#include "kernel/linear/linear_bring.cuh"

enum { ORDER_THREADS = 128 };

// An eight of each of four chunks: four halves of steps, each of a word of every chunk.
template <enum lf_weight_format format>
__device__ static void order_eights(const uint16_t *row, uint32_t k, uint32_t in, uint8_t *to,
                                    uint32_t half_bytes) {
    uint32_t word[4][4];
#pragma unroll
    for (uint32_t chunk = 0; chunk < 4; chunk++)
        lf_load_eight(row, k + chunk * lf_chunk_elements(format), in, true, word[chunk]);
#pragma unroll
    for (uint32_t chunk = 0; chunk < 4; chunk++)
        lf_order_x<format>(word[chunk]);
#pragma unroll
    for (uint32_t half = 0; half < 4; half++)
        *(uint4 *)(to + half * half_bytes) = {word[0][half], word[1][half], word[2][half],
                                              word[3][half]};
}

// A block's stages of a tile from `row` on. Rows up to a whole eight are the last once more.
template <enum lf_weight_format format>
__device__ static void order_tile(const struct lf_linear_work &w, uint32_t row, uint32_t rows,
                                  uint8_t *to) {
    // Neighbouring threads read a line, and eight rows' store one.
    const uint32_t eights = lf_chunk_elements(format) / 8, units = wide_k(format) / 32;
    const uint32_t slab = 4 * lf_chunk_elements(format), half_bytes = rows * 16;
    for (uint32_t i = threadIdx.x; i < rows * units; i += ORDER_THREADS) {
        uint32_t unit = i % units, own = i / units, r = row + own;
        r = r < w.rows ? r : w.rows - 1;
        const uint16_t *x = w.x + (w.x_index ? w.x_index[r] : r) * w.x_stride;
        uint8_t *at = to + unit * 4 * half_bytes + own * 16;
        uint32_t first = unit / eights * slab + unit % eights * 8;
#pragma unroll 2
        for (uint32_t k = blockIdx.y * wide_k(format); k < w.in; k += gridDim.y * wide_k(format))
            order_eights<format>(x, k + first, w.in, at + (size_t)k * 2 * rows, half_bytes);
    }
}

// Blocks share out jobs, stages and tiles of rows.
template <enum lf_weight_format format>
__global__ static void __launch_bounds__(ORDER_THREADS)
linear_order(const __grid_constant__ struct lf_linear_launch launch) {
    lf_take_turn();
    struct lf_linear_work w = lf_launch_work(launch, blockIdx.x);
    const volatile uint32_t *group = w.group;
    uint32_t first = group ? group[0] : 0, n = group ? group[1] - first : w.rows;
    uint32_t tile = lf_tile_rows(format, launch.whole, launch.orders, n);
    if (w.shares || !lf_is_in_order(format, launch.orders, tile))
        return;
    struct lf_linear_rows own = lf_rows_of_window(launch, w.at + first, n, tile);
    uint8_t *to = launch.ordered +
                  (size_t)(w.at + first + own.first - launch.window_first) * launch.row_bytes;
    w = lf_work_of_rows(w, first + own.first, own.n);
    for (uint32_t row = blockIdx.z * tile; row < w.rows; row += gridDim.z * tile) {
        uint32_t rows = lf_eights(w.rows - row < tile ? w.rows - row : tile);
        order_tile<format>(w, row, rows, to + (size_t)row * launch.row_bytes);
    }
}
