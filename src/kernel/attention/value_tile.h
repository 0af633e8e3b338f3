// The value sum of one block of keys: 16 partials by key index mod 16, each fused, and the tree.
#pragma once
#include <stddef.h>
#include <stdint.h>
#include "kernel/attention/key_block.h"
#include "kernel/sum16.h"

// Heads of a tile: a key's elements are loaded once for all of them.
enum { VALUE_HEADS = 3, VALUE_AHEAD = 8 };

// VALUE_WIDE elements of a column for VALUE_HEADS heads, which follow each other in all three.
struct value_tile {
    const float *p;      // [VALUE_HEADS][KEY_BLOCK] weights, bf16 values
    const float *k;      // those elements of the first key
    const float *factor; // [VALUE_HEADS]: exp(m - m')
    float *sum;          // head h's at h * KEY_COLUMN
    const float *next;   // of VALUE_AHEAD keys, fetched meanwhile
};

#if defined(__AVX2__) || defined(LF_NEON)
#include "kernel/linear/linear_vec.h"

// Named sums of three heads and two vectors: compilers keep arrays of them in memory.
#define VALUE_HEAD(act, s, h) act(s, h, 0) act(s, h, 1)
#define VALUE_EACH(act, s) VALUE_HEAD(act, s, 0) VALUE_HEAD(act, s, 1) VALUE_HEAD(act, s, 2)
#define VALUE_FIRST(s, h, v) vec_f32 s##h##v = w##h * k##v;
#define VALUE_ADD(s, h, v) vec_fma_to(&s##h##v, w##h, k##v);
#define VALUE_PAIR(s, h, v) s##h##v += t##h##v;
#define VALUE_JOIN(s, h, v) s##h##v += load_f32(level + (2 * h + v) * VEC_LANES);
#define VALUE_KEEP(s, h, v) store_f32(level + (2 * h + v) * VEC_LANES, s##h##v);
#define VALUE_LOAD(at)                                                                             \
    k0 = load_f32(k + (at) * KEY_COLUMN), k1 = load_f32(k + (at) * KEY_COLUMN + VEC_LANES);        \
    w0 = all_f32(p[at]), w1 = all_f32(p[KEY_BLOCK + (at)]), w2 = all_f32(p[2 * KEY_BLOCK + (at)]);
enum { VALUE_SUMS = 2 * VALUE_HEADS * VEC_LANES, VALUE_WIDE = 2 * VEC_LANES };

// Partials i and i + 8 join what the lower levels of the tree hold and stay at the level reached.
INLINE void value_partials(const float *p, const float *k, uint32_t steps, uint32_t joins,
                           float *level) {
    vec_f32 k0, k1, w0, w1, w2;
    VALUE_LOAD(0)
    VALUE_EACH(VALUE_FIRST, s)
    for (uint32_t step = 1; step < steps; step++) {
        VALUE_LOAD(16 * step)
        VALUE_EACH(VALUE_ADD, s)
    }
    VALUE_LOAD(8)
    VALUE_EACH(VALUE_FIRST, t)
    for (uint32_t step = 1; step < steps; step++) {
        VALUE_LOAD(8 + 16 * step)
        VALUE_EACH(VALUE_ADD, t)
    }
    VALUE_EACH(VALUE_PAIR, s)
    for (; joins; joins--, level += VALUE_SUMS) {
        VALUE_EACH(VALUE_JOIN, s)
    }
    VALUE_EACH(VALUE_KEEP, s)
}

// Neighbours of the tree follow each other: 0 and 4, then 2 and 6, and so on.
INLINE void value_vectors(const struct value_tile *t, uint32_t steps) {
    static const uint8_t order[8] = {0, 4, 2, 6, 1, 5, 3, 7};
    _Alignas(64) float level[4 * VALUE_SUMS];
    const float *total = level + 3 * VALUE_SUMS;
#pragma GCC unroll 2
    for (uint32_t n = 0; n < 8; n++) {
        __builtin_prefetch(t->next + n * KEY_COLUMN);
        value_partials(t->p + order[n], t->k + order[n] * KEY_COLUMN, steps,
                       (uint32_t)__builtin_ctz(n + 1), level);
    }
    for (uint32_t h = 0; h < VALUE_HEADS; h++)
        for (uint32_t v = 0; v < 2; v++, total += VEC_LANES) {
            float *sum = t->sum + h * KEY_COLUMN + v * VEC_LANES;
            store_f32(sum, vec_fma(load_f32(sum), all_f32(t->factor[h]), load_f32(total)));
        }
}

// Adds a block of 16 * steps keys; the full block is its own loop-free code.
static __attribute__((noinline)) void value_add(const struct value_tile *t, uint32_t steps) {
    if (steps == 4)
        value_vectors(t, 4);
    else
        value_vectors(t, steps);
}
#else
enum { VALUE_WIDE = KEY_COLUMN };

static inline void value_add(const struct value_tile *t, uint32_t steps) {
    for (uint32_t h = 0; h < VALUE_HEADS; h++)
        for (uint32_t d = 0; d < VALUE_WIDE; d++) {
            const float *p = t->p + h * KEY_BLOCK;
            float a[16], *sum = &t->sum[h * KEY_COLUMN + d];
            for (uint32_t i = 0; i < 16; i++) {
                a[i] = p[i] * t->k[i * KEY_COLUMN + d];
                for (uint32_t s = i + 16; s < 16 * steps; s += 16)
                    a[i] = fmaf(p[s], t->k[s * KEY_COLUMN + d], a[i]);
            }
            *sum = fmaf(*sum, t->factor[h], lf_tree16(a));
        }
}
#endif
