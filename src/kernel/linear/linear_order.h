// x in word order, a vector of bf16 words at a time: element e of VEC_LANES words in part[e].
#pragma once
#include "kernel/linear/linear_vec.h"
#include "kernel/linear/linear_words.h"

// The two bf16 of each word.
INLINE vec_f32 first_of_pair(vec_u32 words) {
    return (vec_f32)(words << 16);
}

INLINE vec_f32 second_of_pair(vec_u32 words) {
    return (vec_f32)(words & 0xFFFF0000u);
}

INLINE void split_pairs(vec_u32 words, vec_f32 *even, vec_f32 *odd) {
    *even = first_of_pair(words);
    *odd = second_of_pair(words);
}

// Words 0, 2, 4 ... of a and b, and the others.
INLINE void split_words(vec_u32 a, vec_u32 b, vec_u32 *even, vec_u32 *odd) {
    *even = __builtin_shufflevector(a, b, VEC_EVENS);
    *odd = __builtin_shufflevector(a, b, VEC_ODDS);
}

// VEC_LANES words of x, elements of a word side by side in memory.
INLINE void order_part(const int elements, const uint16_t *x, vec_f32 part[8]) {
    vec_half_u16 half;
    vec_u32 a[4], b[4];
    if (elements == 1) {
        memcpy(&half, x, sizeof half);
        part[0] = (vec_f32)(__builtin_convertvector(half, vec_u32) << 16);
        return;
    }
    for (int i = 0; i < elements / 2; i++)
        a[i] = load_words(x + 2 * i * VEC_LANES);
    if (elements == 4)
        split_words(a[0], a[1], &b[0], &b[1]);
    if (elements == 8) {
        vec_u32 even[2], odd[2];
        split_words(a[0], a[1], &even[0], &odd[0]);
        split_words(a[2], a[3], &even[1], &odd[1]);
        split_words(even[0], even[1], &b[0], &b[2]);
        split_words(odd[0], odd[1], &b[1], &b[3]);
    }
    for (int i = 0; i < elements / 2; i++)
        split_pairs(elements == 2 ? a[0] : b[i], &part[2 * i], &part[2 * i + 1]);
}

// Floats from one element, part or step of 16 words to the next; rows are VEC_LANES apart.
struct places {
    size_t element, part, step;
};

// Rows put in order together, so that what is stored lies side by side.
enum { X_ROWS = 6 };
struct x_rows {
    uint32_t rows;
    const uint16_t *x[X_ROWS], *soon[X_ROWS]; // soon: what comes next, fetched meanwhile
};

INLINE void order_step(const int elements, const uint16_t *const *x, uint32_t rows, uint32_t k,
                       float *dst, struct places to) {
    for (int p = 0; p < VEC_PARTS; p++)
        for (uint32_t r = 0; r < rows; r++) {
            vec_f32 part[8];
            order_part(elements, x[r] + k + p * VEC_LANES * elements, part);
            for (int e = 0; e < elements; e++)
                store_f32(dst + p * to.part + e * to.element + r * VEC_LANES, part[e]);
        }
}

INLINE void order_steps(const int elements, const struct x_rows *x, uint32_t n, float *dst,
                        struct places to) {
    uint32_t step = LANES * elements, k = 0;
#if LF_FAULT == 2 // the last element of x is not put in order
    n--;
#endif
    for (; k + step <= n; k += step, dst += to.step) {
        for (uint32_t r = 0; r < x->rows; r++)
            for (uint32_t line = 0; line < step; line += 32)
                __builtin_prefetch(x->soon[r] + k + line);
        order_step(elements, x->x, x->rows, k, dst, to);
    }
    if (k == n)
        return;
    uint16_t pad[X_ROWS][8 * LANES] = {{0}};
    const uint16_t *padded[X_ROWS];
    for (uint32_t r = 0; r < x->rows; r++) {
        memcpy(pad[r], x->x[r] + k, (n - k) * sizeof *pad[r]);
        padded[r] = pad[r];
    }
    order_step(elements, padded, x->rows, 0, dst, to);
}

// n elements of rows of x, padded with +0.
static void order_x(enum lf_weight_format format, const struct x_rows *x, uint32_t n, float *dst,
                    struct places to) {
    switch (word_elements(format)) {
    case 1:
        order_steps(1, x, n, dst, to);
        break;
    case 2:
        order_steps(2, x, n, dst, to);
        break;
    default:
        order_steps(4, x, n, dst, to);
    }
}
