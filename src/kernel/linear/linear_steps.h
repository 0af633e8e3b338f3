// linear's sums on CUDA in the contract's order (LF_LINEAR_CUDA_CONTRACT), for who judges them.
#pragma once
#include "base/number.h"
#include "kernel/linear/linear.h"
#include "kernel/linear/mma_step.h"

// Element k of output o as bf16: what the device makes of it.
static inline uint16_t lf_linear_step_weight(const struct lf_matrix *m, size_t o, size_t k) {
    size_t at = o * m->in + k, blocks = m->in / 32;
    float value;
    if (m->format == LF_WEIGHT_BF16)
        return ((const uint16_t *)m->data)[at];
    if (m->format == LF_WEIGHT_FP8)
        value = lf_e4m3_to_f32(m->data[at]) * lf_ue8m0_to_f32(m->scale[o / 32 * blocks + k / 32]);
    else
        value = lf_e2m1_to_f32(m->data[at / 2] >> at % 2 * 4) *
                lf_ue8m0_to_f32(m->scale[o * blocks + k / 32]);
    return (uint16_t)(lf_f32_bits(value) >> 16);
}

// Elements of a chunk; a slab is four of them, and takes a quarter of a chunk's number in steps.
static inline uint32_t lf_linear_step_chunk(enum lf_weight_format format) {
    return format == LF_WEIGHT_BF16 ? 8 : format == LF_WEIGHT_FP8 ? 16 : 32;
}

// The 16 pairs of a step of the slab that begins at element `slab`; zeros past the row's end.
static inline void lf_linear_step_pairs(const struct lf_matrix *m, const uint16_t *w,
                                        const uint16_t *x, uint32_t slab, uint32_t step,
                                        uint16_t a[16], uint16_t b[16]) {
    static const uint8_t fours[2][4] = {{0, 1, 4, 5}, {2, 3, 6, 7}};
    uint32_t chunk = lf_linear_step_chunk(m->format);
    for (uint32_t i = 0; i < 16; i++) {
        uint32_t own = m->format == LF_WEIGHT_MXFP4 ? step / 2 * 8 + fours[step % 2][i % 4]
                                                    : 4 * step + i % 4;
        uint32_t k = slab + i / 4 * chunk + own;
        a[i] = k < m->in ? w[k] : 0;
        b[i] = k < m->in ? x[k] : 0;
    }
}

// The sum of one output: w is its row as bf16, x the input's.
static inline float lf_linear_steps(const struct lf_matrix *m, const uint16_t *w,
                                    const uint16_t *x) {
    uint32_t chunk = lf_linear_step_chunk(m->format);
    float total = 0;
    for (uint32_t part = 0; part < m->in; part += LF_LINEAR_PART) {
        float sum = 0;
        for (uint32_t slab = part; slab < part + LF_LINEAR_PART && slab < m->in; slab += 4 * chunk)
            for (uint32_t step = 0; step < chunk / 4; step++) {
                uint16_t a[16], b[16];
                lf_linear_step_pairs(m, w, x, slab, step, a, b);
                sum = lf_mma_step(a, b, sum);
            }
        total = part ? total + sum : sum;
    }
    return total;
}
