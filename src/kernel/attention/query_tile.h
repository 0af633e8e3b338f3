// Dot products of a few queries with a block of keys, each as lf_dot16 (kernel/sum16.h).
#pragma once
#include <stddef.h>
#include <stdint.h>
#include "kernel/attention/key_block.h"
#include "kernel/sum16.h"

// Queries and keys of a tile.
enum { QUERY_ROWS = 3, QUERY_KEYS = 4 };

// Queries lie as keys do, a query every KEY_COLUMN floats.
struct query_tile {
    const float *q, *k;
    size_t q_step; // floats from a column to the next
    uint32_t dim;
    float *z;      // row i at i * KEY_BLOCK
};

#if defined(__AVX2__) || defined(LF_NEON)
#include "kernel/linear/linear_vec.h"

// Named sums: compilers keep arrays of them in memory.
#define QUERY_KEY(act, i) act(i, 0) act(i, 1) act(i, 2) act(i, 3)
#define QUERY_EACH(act) QUERY_KEY(act, 0) QUERY_KEY(act, 1) QUERY_KEY(act, 2)
#define QUERY_START(i, j) vec_f32 a##i##j = {0};
#define QUERY_STORE(i, j) store_f32(acc + (i * QUERY_KEYS + j) * 16, a##i##j);
#define QUERY_ADD(j)                                                                               \
    {                                                                                              \
        vec_f32 key = load_f32(k + at + j * KEY_COLUMN);                                           \
        vec_fma_to(&a0##j, q0, key);                                                               \
        vec_fma_to(&a1##j, q1, key);                                                               \
        vec_fma_to(&a2##j, q2, key);                                                               \
    }

// One part of the 16 partials; alone, so that all sums stay in registers.
static __attribute__((noinline)) void query_part(const struct query_tile *t, uint32_t part,
                                                 float *acc) {
    const float *q = t->q + part * VEC_LANES, *k = t->k + part * VEC_LANES;
    size_t q_step = t->q_step;
    QUERY_EACH(QUERY_START)
    for (uint32_t d = 0; d < t->dim; d += KEY_COLUMN, q += q_step, k += KEY_STEP)
        for (uint32_t at = 0; at < KEY_COLUMN; at += 16) {
            vec_f32 q0 = load_f32(q + at), q1 = load_f32(q + at + KEY_COLUMN);
            vec_f32 q2 = load_f32(q + at + 2 * KEY_COLUMN);
            QUERY_ADD(0)
            QUERY_ADD(1)
            QUERY_ADD(2)
            QUERY_ADD(3)
        }
    acc += part * VEC_LANES;
    QUERY_EACH(QUERY_STORE)
}

#ifdef __AVX2__
// The sums of partials i and i+4: a's in the lower half, b's in the upper.
INLINE __m256 query_halve(__m256 a, __m256 b) {
    return _mm256_add_ps(_mm256_permute2f128_ps(a, b, 0x20), _mm256_permute2f128_ps(a, b, 0x31));
}

// The trees of four keys, 16 partials each.
INLINE void query_finish(float *z, const float *acc) {
    __m256 s[QUERY_KEYS];
    for (int j = 0; j < QUERY_KEYS; j++)
        s[j] = _mm256_add_ps(_mm256_loadu_ps(acc + 16 * j), _mm256_loadu_ps(acc + 16 * j + 8));
    __m256 ac = query_halve(s[0], s[2]), bd = query_halve(s[1], s[3]);
    __m256 two = _mm256_add_ps(_mm256_shuffle_ps(ac, bd, 0x44), _mm256_shuffle_ps(ac, bd, 0xEE));
    __m128 ab = _mm256_castps256_ps128(two), cd = _mm256_extractf128_ps(two, 1);
    _mm_storeu_ps(z, _mm_add_ps(_mm_shuffle_ps(ab, cd, 0x88), _mm_shuffle_ps(ab, cd, 0xDD)));
}
#else
INLINE void query_finish(float *z, const float *acc) {
    lf_tree16_four(acc, z);
}
#endif

static inline void query_products(const struct query_tile *t) {
    float acc[QUERY_ROWS * QUERY_KEYS * 16];
    for (uint32_t part = 0; part < VEC_PARTS; part++)
        query_part(t, part, acc);
    for (uint32_t i = 0; i < QUERY_ROWS; i++)
        query_finish(t->z + i * KEY_BLOCK, acc + i * QUERY_KEYS * 16);
}
#else
static inline void query_products(const struct query_tile *t) {
    for (uint32_t i = 0; i < QUERY_ROWS; i++)
        for (uint32_t j = 0; j < QUERY_KEYS; j++) {
            float acc[16] = {0};
            const float *q = t->q + i * KEY_COLUMN, *k = t->k + j * KEY_COLUMN;
            for (uint32_t d = 0; d < t->dim; d += KEY_COLUMN, q += t->q_step, k += KEY_STEP)
                lf_dot16_add(acc, q, k, KEY_COLUMN);
            t->z[i * KEY_BLOCK + j] = lf_tree16(acc);
        }
}
#endif

// z[i][j] of all queries i and keys j; keys a multiple of 4, room for queries in threes.
static inline void query_block(float *z, const float *q, size_t q_step, uint32_t queries,
                               const float *k, uint32_t keys, uint32_t dim) {
    for (uint32_t near = 0; near < keys; near += KEY_NEAR) {
        uint32_t end = near + KEY_NEAR < keys ? near + KEY_NEAR : keys;
        for (uint32_t i = 0; i < queries; i += QUERY_ROWS)
            for (uint32_t j = near; j < end; j += QUERY_KEYS)
                query_products(&(struct query_tile){.q = q + i * KEY_COLUMN, .q_step = q_step,
                                                    .k = k + j * KEY_COLUMN, .dim = dim,
                                                    .z = z + i * KEY_BLOCK + j});
    }
}
