// Packed entries as tensor cores multiply them, and where that could round the contract's order.
#pragma once
#include "kernel/index_score/index_score.h"
#include "kernel/linear/mma.cuh"
#include "kernel/linear/stream.cuh"
#include "kernel/packed_row.cuh"
#include "kernel/settle.h"

// Heads of a row that are multiplied together.
enum { HEADS = 32, DIM_MAX = 128 };

// Four lanes share an entry or a head, each a GROUP of elements, two pairs j, j+4 of eight a step.
enum { GROUP = 32, WORDS = GROUP / 8, STEPS = GROUP / 4 };

// Exponents that meet no end of float32; the most that spans of query and key may add up to.
enum { EXPONENT_MIN = 77, EXPONENT_MAX = 177, SPAN_NEVER = 255, SPAN_MAX = 12 };

// Of one lane: its group of an entry.
struct codes {
    uint32_t word[WORDS], exponent; // of the scale; SPAN_NEVER is NaN
};

// What is known of a row. span: the most that one of its heads' queries has.
struct scored {
    uint32_t row, span;
    struct lf_items items;
};

__device__ static struct scored open_row(const struct lf_index_score_args &a, uint32_t row) {
    struct scored r = {row, 0, lf_items_of(&a.candidates, row, a.visible[row])};
    LF_CONTROL(10, r.items.n -= r.items.n > 0;) // 10: the newest entry is not scored
    LF_CONTROL(13, r.items.blocks = NULL;) // 13: a row's blocks ignored
    return r;
}

__device__ static uint8_t *const *pages_of(const struct lf_index_score_args &a, uint32_t row) {
    uint32_t lane = a.row[row].lane;
    LF_CONTROL(8, lane = 0;) // 8: the first lane's keys for every row
    return a.keys[lane].page;
}

__device__ static const uint8_t *key_of(uint8_t *const *page, uint32_t entry, uint32_t dim) {
    LF_CONTROL(4, entry -= entry % LF_PAGE_ROWS == LF_PAGE_ROWS - 1;)
    return page[entry / LF_PAGE_ROWS] + entry % LF_PAGE_ROWS * lf_qf4e_row_bytes(dim);
}

// Zeros of exponent 127 where there is no key, and past its elements.
__device__ static void fetch_codes(const uint8_t *key, uint32_t dim, struct codes *codes) {
    uint32_t group = threadIdx.x % 4;
    const uint8_t *at = key + group * (GROUP / 2);
    bool is_there = key && group * GROUP < dim;
    codes->exponent = is_there ? key[dim / 2 + group] : 127;
    if (is_there && (uintptr_t)at % 4) {
#pragma unroll 1
        for (uint32_t i = 0; i < WORDS; i++) {
            uint32_t word = lf_load_word(at + 4 * i);
#pragma unroll
            for (uint32_t j = 0; j < WORDS; j++)
                codes->word[j] = i == j ? word : codes->word[j];
        }
        return;
    }
#pragma unroll
    for (uint32_t i = 0; i < WORDS; i++)
        codes->word[i] = is_there ? ((const uint32_t *)at)[i] : 0;
}

// What four lanes hold together: powers of two between the lowest place and the greatest number.
__device__ static uint32_t span_of(int32_t *low, int32_t *high) {
    for (int other = 2; other; other /= 2) {
        int32_t theirs = __shfl_xor_sync(LF_ALL_LANES, *low, other);
        *low = theirs < *low ? theirs : *low;
        theirs = __shfl_xor_sync(LF_ALL_LANES, *high, other);
        *high = theirs > *high ? theirs : *high;
    }
    bool is_inside = *low >= EXPONENT_MIN && *high <= EXPONENT_MAX;
    return *high < *low ? 0 : is_inside ? (uint32_t)(*high - *low) : (uint32_t)SPAN_NEVER;
}

// The greatest exponent of an entry's groups that are not all zeros; returns their span.
__device__ static uint32_t find_top(const struct codes &codes, uint32_t *top) {
    uint32_t any = 0;
#pragma unroll
    for (uint32_t i = 0; i < WORDS; i++)
        any |= codes.word[i];
    bool is_zero = !(any & 0x77777777u) && codes.exponent != SPAN_NEVER;
    int32_t low = is_zero ? (int32_t)SPAN_NEVER : (int32_t)codes.exponent;
    int32_t high = is_zero ? 0 : (int32_t)codes.exponent;
    uint32_t span = span_of(&low, &high);
    *top = high >= low ? (uint32_t)high : 127;
    return span;
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

// The lowest place and the exponent of two numbers of a query; zeros have none.
__device__ static void widen_range(uint32_t pair, int32_t *low, int32_t *high) {
#pragma unroll
    for (uint32_t i = 0; i < 2; i++) {
        uint32_t x = pair >> 16 * i & 0x7FFF;
        int32_t exponent = (int32_t)(x >> 7), lowest = exponent - 8 + __ffs((int)(x | 0x80));
        *low = x && lowest < *low ? lowest : *low;
        *high = x && exponent > *high ? exponent : *high;
    }
}

__device__ static void widen_eight(uint4 eight, int32_t *low, int32_t *high) {
    widen_range(eight.x, low, high), widen_range(eight.y, low, high);
    widen_range(eight.z, low, high), widen_range(eight.w, low, high);
}

// Eight neighbouring numbers of a query.
__device__ static uint4 load_eight(const uint16_t *q) {
    if ((uintptr_t)q % 16 == 0)
        return *(const uint4 *)q;
    return {q[0] | (uint32_t)q[1] << 16, q[2] | (uint32_t)q[3] << 16,
            q[4] | (uint32_t)q[5] << 16, q[6] | (uint32_t)q[7] << 16};
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

__device__ static float weight_of(const struct lf_index_score_args &a, uint32_t row,
                                  uint32_t head) {
    uint32_t of = head;
    float scale = a.weight_scale;
    LF_CONTROL(2, of = (of + 1) % a.heads;) // 2: each head with the weight of the next
    LF_CONTROL(3, scale = 1.0f;) // 3: the weights' scale left out
    LF_CONTROL(5, scale = of + 1 == a.heads ? 0.0f : scale;) // 5: the last head left out
    if (head >= a.heads)
        return 0.0f;
    return lf_bf16_to_f32(a.head_weight[(size_t)row * a.heads + of]) * scale;
}

// An entry whose sums may round: a lane for itself, in the contract's order.
__device__ static float score_slowly(const struct lf_index_score_args &a, uint32_t row,
                                     const uint8_t *key) {
    float total = 0;
#pragma unroll 1
    for (uint32_t h = 0; h < a.heads; h++) {
        const uint16_t *q = a.q + ((size_t)row * a.heads + h) * a.dim;
        float partial[16] = {};
#pragma unroll 1
        for (uint32_t d = 0; d < a.dim; d += 16)
#pragma unroll
            for (uint32_t i = 0; i < 16; i++)
                partial[i] = fmaf(lf_bf16_to_f32(q[d + i]), lf_qf4e_at(key, a.dim, d + i),
                                  partial[i]);
        total = fmaf(weight_of(a, row, h), relu(lf_own_tree16(partial)), total);
    }
    return total;
}

__device__ static void store_score(const struct lf_index_score_args &a, const struct scored &r,
                                   uint32_t item, float total) {
    LF_CONTROL(7, if (item < a.score_stride) a.score[r.row * a.score_stride + item] = 1;)
    if (item < r.items.n)
        a.score[r.row * a.score_stride + item] = lf_f32_settle(total);
}
