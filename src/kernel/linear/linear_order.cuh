// Rows of a map of many rows put in the order in which its tiles read them, ahead of the map.
#pragma once
#include "kernel/linear/linear_wide.cuh"

enum { ORDER_THREADS = 256, ORDER_ROWS = 128, ORDER_ELEMENTS = 32 }; // of a thread at once

// to: tile by tile the stages of K, each as a slot has it.
struct order_work {
    const uint16_t *x;
    const uint32_t *x_index;
    size_t x_stride;
    uint32_t in, rows;
    uint8_t *to;
};

template <enum lf_weight_format format>
using order_shape = wide_shape<format, ORDER_ROWS, 2, 1>;

// Bytes of the rows of a tile.
template <enum lf_weight_format format>
static size_t order_bytes(uint32_t in) {
    typedef order_shape<format> shape;
    return (size_t)((in + shape::k - 1) / shape::k) * shape::rows_bytes;
}

// An eight of each of four chunks: four halves of steps, each of a word of every chunk.
template <enum lf_weight_format format>
__device__ static void order_eights(const uint16_t *row, uint32_t k, uint32_t in, uint8_t *to) {
    typedef order_shape<format> shape;
    uint32_t word[4][4];
#pragma unroll
    for (uint32_t chunk = 0; chunk < 4; chunk++)
        lf_load_eight(row, k + chunk * shape::elements, in, true, word[chunk]);
#pragma unroll
    for (uint32_t half = 0; half < 4; half++)
        *(uint4 *)(to + half * shape::half_bytes) = {word[0][half], word[1][half], word[2][half],
                                                     word[3][half]};
}

// A block of threads a stage of a tile. Rows past the last are the last once more.
template <enum lf_weight_format format>
__global__ static void linear_order(struct order_work w) {
    lf_take_turn();
    typedef order_shape<format> shape;
    const uint32_t eights = shape::elements / 8, tile = blockIdx.y;
    uint32_t row = threadIdx.x % ORDER_ROWS, r = tile * ORDER_ROWS + row;
    r = r < w.rows ? r : w.rows - 1;
    const uint16_t *x = w.x + (w.x_index ? w.x_index[r] : r) * w.x_stride;
    uint8_t *to = w.to + ((size_t)tile * gridDim.x + blockIdx.x) * shape::rows_bytes + row * 16;
#pragma unroll
    for (uint32_t i = 0; i < shape::k / ORDER_ELEMENTS * ORDER_ROWS / ORDER_THREADS; i++) {
        uint32_t unit = i * (ORDER_THREADS / ORDER_ROWS) + threadIdx.x / ORDER_ROWS;
        uint32_t k = blockIdx.x * shape::k + unit / eights * shape::slab + unit % eights * 8;
        order_eights<format>(x, k, w.in, to + unit * 4 * shape::half_bytes);
    }
}
