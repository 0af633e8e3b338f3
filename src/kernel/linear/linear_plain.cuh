// Weights that bf16 does not hold: F16 and F32 in the CPU's order of sums, on the plain cores.
#pragma once
#include "kernel/linear/linear_chunk.cuh"
#include "kernel/settle.h"

enum { PLAIN_OUTS = 16, PLAIN_THREADS = 16 * PLAIN_OUTS, PLAIN_GROUP_ROWS = 64 };
enum { PLAIN_AHEAD = 16 }; // elements of a lane on the way at once

struct plain {
    struct lf_linear_work work;
    uint32_t word_elements; // 2: F16, 1: F32
};

__device__ static inline float f16_value(uint16_t x) {
    uint32_t sign = (uint32_t)(x & 0x8000) << 16, exponent = x >> 10 & 31, mantissa = x & 1023;
    if (exponent == 31)
        return lf_f32_from_bits(sign | 0x7F800000u | mantissa << 13);
    float value = exponent ? lf_f32_from_bits((exponent + 112) << 23 | mantissa << 13)
                           : (float)mantissa * 0x1p-24f;
    return sign ? -value : value;
}

__device__ static inline float plain_weight(const struct lf_linear_work &w, size_t at,
                                            bool is_f32) {
    return is_f32 ? ((const float *)w.data)[at] : f16_value(((const uint16_t *)w.data)[at]);
}

// So many elements of a lane are on the way at once, and added one after the other.
__device__ static inline float plain_words(const struct lf_linear_work &w, const uint16_t *x,
                                           size_t first, uint32_t word, uint32_t e, float sum) {
    float weight[PLAIN_AHEAD], value[PLAIN_AHEAD];
#pragma unroll
    for (uint32_t i = 0; i < PLAIN_AHEAD; i++) {
        uint32_t k = (word + i / e * 16) * e + i % e;
        weight[i] = plain_weight(w, first + k, e == 1);
        value[i] = lf_bf16_to_f32(x[k]);
    }
#pragma unroll
    for (uint32_t i = 0; i < PLAIN_AHEAD; i++)
        sum = fmaf(weight[i], value[i], sum);
    return sum;
}

// 16 lanes an output: lane i takes words i, i+16 ... of the weight row, padded with zeros.
__device__ static inline float plain_partial(const struct lf_linear_work &w, const uint16_t *x,
                                             size_t first, uint32_t e) {
    uint32_t lane = threadIdx.x % 16, words = (w.in + e - 1) / e, word = lane;
    float sum = 0;
    for (; (word - lane + 16 * (PLAIN_AHEAD / e)) * e <= w.in; word += 16 * (PLAIN_AHEAD / e))
        sum = plain_words(w, x, first, word, e, sum);
    for (; word - lane < words; word += 16)
        for (uint32_t k = word * e; k < (word + 1) * e; k++) {
            bool is_there = k < w.in;
            float weight = is_there ? plain_weight(w, first + k, e == 1) : 0;
            sum = fmaf(weight, is_there ? lf_bf16_to_f32(x[k]) : 0, sum);
        }
    return sum;
}

// Blocks share out the rows, because the host may not know how many there are.
__global__ static void linear_plain_outputs(struct plain p) {
    lf_wait_for_launches();
    lf_let_next_begin(); // groups are old for all launches that follow the next
    const uint32_t *group = p.work.group, of_group = group ? group[0] : 0;
    const struct lf_linear_work w =
        lf_work_of_rows(p.work, of_group, group ? group[1] - of_group : p.work.rows);
    uint32_t o = blockIdx.y * PLAIN_OUTS + threadIdx.x / 16;
    size_t first = (size_t)(o < w.out ? o : w.out - 1) * w.in;
    for (uint32_t r = blockIdx.x; r < w.rows; r += gridDim.x) {
        const uint16_t *x = w.x + (size_t)(w.x_index ? w.x_index[r] : r) * w.x_stride;
        float partial = plain_partial(w, x, first, p.word_elements), sum = lf_lanes_tree16(partial);
        LF_CONTROL(7, if (w.rows > 8) sum = lf_fault_tree16(partial);)
        if (threadIdx.x % 16 == 0)
            lf_store_sum(w, r, o, sum);
    }
}

static inline void launch_plain(struct lf_device *device, const struct lf_linear_work &work,
                                enum lf_weight_format format) {
    struct plain p = {work, format == LF_WEIGHT_F16 ? 2u : 1u};
    bool shared_out = work.group && work.rows > PLAIN_GROUP_ROWS;
    dim3 grid(shared_out ? PLAIN_GROUP_ROWS : work.rows, lf_blocks(work.out, PLAIN_OUTS));
    lf_cuda_launch(device, "linear", linear_plain_outputs, grid, PLAIN_THREADS, p);
}
