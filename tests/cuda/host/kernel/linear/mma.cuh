// The tensor core's step played by the host (kernel/linear/mma_step.h), lane for lane.
#pragma once
#include <cuda_runtime.h>
#include "base/number.h"
#include "kernel/linear/stream.cuh"
#include "kernel/linear/mma_step.h"

// The 16 numbers of a row that four lanes hold in their words `low` and `high`.
static inline void host_gather(const struct host_words *lane, unsigned low, unsigned high,
                               uint16_t out[16]) {
    for (unsigned t = 0; t < 4; t++) {
        memcpy(out + 2 * t, &lane[t].word[low], 4);
        memcpy(out + 2 * t + 8, &lane[t].word[high], 4);
    }
}

static inline void lf_mma_bf16(float d[4], const uint32_t a[4], const uint32_t b[2]) {
    uint16_t low[16], high[16], column[16];
    unsigned own = host_lane();
    const struct host_words *lane = host_share({{a[0], a[1], a[2], a[3], b[0], b[1]}});
    host_gather(lane + own / 4 * 4, 0, 2, low);
    host_gather(lane + own / 4 * 4, 1, 3, high);
    for (unsigned j = 0; j < 2; j++) {
        host_gather(lane + (own % 4 * 2 + j) * 4, 4, 5, column);
        d[j] = lf_mma_step(low, column, d[j]);
        d[2 + j] = lf_mma_step(high, column, d[2 + j]);
    }
    host_unshare();
}

static inline uint32_t host_product(uint32_t a, uint32_t b) {
    return lf_bf16_from_f32(lf_bf16_to_f32((uint16_t)a) * lf_bf16_to_f32((uint16_t)b));
}

static inline uint32_t lf_mul_bf16x2(uint32_t a, uint32_t b) {
    return host_product(a, b) | host_product(a >> 16, b >> 16) << 16;
}

static inline uint32_t host_sum(uint32_t a, uint32_t b, uint32_t c) {
    return lf_bf16_from_f32(fmaf(lf_bf16_to_f32((uint16_t)a), lf_bf16_to_f32((uint16_t)b),
                                 lf_bf16_to_f32((uint16_t)c)));
}

// The float32 sum is exact where one of its terms is zero.
static inline uint32_t lf_fma_bf16x2(uint32_t a, uint32_t b, uint32_t c) {
    return host_sum(a, b, c) | host_sum(a >> 16, b >> 16, c >> 16) << 16;
}

static inline uint32_t lf_bf16_pair(float low, float high) {
    return lf_bf16_from_f32(low) | (uint32_t)lf_bf16_from_f32(high) << 16;
}

template <int first>
static inline uint32_t lf_signed_bytes(uint32_t word) {
    return (uint16_t)(int8_t)(word >> 8 * first) |
           (uint32_t)(uint16_t)(int8_t)(word >> (8 * first + 8)) << 16;
}

static inline uint32_t lf_turned(uint32_t word) {
    unsigned own = host_lane();
    const struct host_words *lane = host_share({{word}});
    uint32_t turned = 0;
    for (unsigned i = 0; i < 2; i++) {
        uint32_t pair = lane[(own % 4 * 2 + i) * 4 + own / 8].word[0];
        turned |= (pair >> own / 4 % 2 * 16 & 0xFFFF) << 16 * i;
    }
    host_unshare();
    return turned;
}

// Element k of the row that lane `row` of the warp names.
static inline uint16_t host_element(const struct host_words *lane, unsigned row, unsigned k) {
    const uint16_t *at;
    memcpy(&at, lane[row].word, sizeof at);
    return at[k];
}

// Two numbers of each of four matrices: side by side, or of a column one below the other.
static inline void host_load(uint32_t word[4], lf_shared_base at, bool is_column) {
    struct host_words own = {};
    memcpy(own.word, &at, sizeof at);
    unsigned l = host_lane(), first = l % 4 * 2, other = l / 4;
    const struct host_words *lane = host_share(own);
    for (unsigned i = 0; i < 4; i++)
        word[i] = is_column ? host_element(lane, 8 * i + first, other) |
                                  (uint32_t)host_element(lane, 8 * i + first + 1, other) << 16
                            : host_element(lane, 8 * i + other, first) |
                                  (uint32_t)host_element(lane, 8 * i + other, first + 1) << 16;
    host_unshare();
}

static inline void lf_load_matrices(uint32_t word[4], lf_shared_base base, uint32_t row) {
    host_load(word, base + row, false);
}

static inline void lf_load_columns(uint32_t word[4], lf_shared_base base, uint32_t row) {
    host_load(word, base + row, true);
}
