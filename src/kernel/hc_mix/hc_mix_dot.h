// The products of hc_mix: 16 partials a row and output, in tiles that keep them in registers.
#pragma once
#include <stddef.h>
#include <stdint.h>
#include "base/number.h"
#include "kernel/lanes8.h"

// A block of rows and outputs over one stretch of elements; row strides are n elements.
struct hc_tile {
    const uint16_t *x; // bf16, of the first row
    const char *fn;    // float32 of any alignment, of the first output
    size_t n;
    float *partial; // [rows][outs][16]
    uint32_t rows, outs;
    size_t length; // elements of the stretch
};

static inline const uint16_t *hc_x(const struct hc_tile *t, uint32_t row) {
    return t->x + row * t->n;
}

static inline const char *hc_fn(const struct hc_tile *t, uint32_t out) {
    return t->fn + out * t->n * sizeof(float);
}

static inline float *hc_partial(const struct hc_tile *t, uint32_t row, uint32_t out) {
    return t->partial + ((size_t)row * t->outs + out) * 16;
}

// Rows row .. row+3, outputs out .. out+2, half of the partials at a time; length whole sixteens.
static inline void hc_tile_4x3(const struct hc_tile *t, uint32_t row, uint32_t out, size_t length) {
    for (uint32_t half = 0; half < 16; half += 8) {
        const char *f0 = hc_fn(t, out), *f1 = hc_fn(t, out + 1), *f2 = hc_fn(t, out + 2);
#define ROW_OPEN(r)                                                                                \
    const uint16_t *x##r = hc_x(t, row + r);                                                       \
    lf_lanes8 a##r##0, a##r##1, a##r##2;                                                           \
    lf_lanes8_load(&a##r##0, hc_partial(t, row + r, out) + half);                                  \
    lf_lanes8_load(&a##r##1, hc_partial(t, row + r, out + 1) + half);                              \
    lf_lanes8_load(&a##r##2, hc_partial(t, row + r, out + 2) + half);
        ROW_OPEN(0)
        ROW_OPEN(1)
        ROW_OPEN(2)
        ROW_OPEN(3)
#undef ROW_OPEN
        for (size_t k = half; k < length; k += 16) {
            lf_lanes8 w0, w1, w2, v;
            lf_lanes8_load(&w0, f0 + 4 * k);
            lf_lanes8_load(&w1, f1 + 4 * k);
            lf_lanes8_load(&w2, f2 + 4 * k);
#define ROW_STEP(r)                                                                                \
    lf_lanes8_load_bf16(&v, x##r + k);                                                             \
    lf_lanes8_fma(&a##r##0, &w0, &v);                                                              \
    lf_lanes8_fma(&a##r##1, &w1, &v);                                                              \
    lf_lanes8_fma(&a##r##2, &w2, &v);
            ROW_STEP(0)
            ROW_STEP(1)
            ROW_STEP(2)
            ROW_STEP(3)
#undef ROW_STEP
        }
#define ROW_CLOSE(r)                                                                               \
    memcpy(hc_partial(t, row + r, out) + half, &a##r##0, sizeof a##r##0);                          \
    memcpy(hc_partial(t, row + r, out + 1) + half, &a##r##1, sizeof a##r##1);                      \
    memcpy(hc_partial(t, row + r, out + 2) + half, &a##r##2, sizeof a##r##2);
        ROW_CLOSE(0)
        ROW_CLOSE(1)
        ROW_CLOSE(2)
        ROW_CLOSE(3)
#undef ROW_CLOSE
    }
}

// One row, outputs out .. out+2, all partials at once.
static inline void hc_tile_1x3(const struct hc_tile *t, uint32_t row, uint32_t out, size_t length) {
    const uint16_t *x = hc_x(t, row);
    lf_lanes8 low, high, w;
#define OUT_OPEN(o)                                                                                \
    const char *f##o = hc_fn(t, out + o);                                                          \
    lf_lanes8 a##o, b##o;                                                                          \
    lf_lanes8_load(&a##o, hc_partial(t, row, out + o));                                            \
    lf_lanes8_load(&b##o, hc_partial(t, row, out + o) + 8);
    OUT_OPEN(0)
    OUT_OPEN(1)
    OUT_OPEN(2)
#undef OUT_OPEN
    for (size_t k = 0; k < length; k += 16) {
        lf_lanes8_load_bf16(&low, x + k);
        lf_lanes8_load_bf16(&high, x + k + 8);
#define OUT_STEP(o)                                                                                \
    lf_lanes8_load(&w, f##o + 4 * k);                                                              \
    lf_lanes8_fma(&a##o, &w, &low);                                                                \
    lf_lanes8_load(&w, f##o + 4 * k + 32);                                                         \
    lf_lanes8_fma(&b##o, &w, &high);
        OUT_STEP(0)
        OUT_STEP(1)
        OUT_STEP(2)
#undef OUT_STEP
    }
#define OUT_CLOSE(o)                                                                               \
    memcpy(hc_partial(t, row, out + o), &a##o, sizeof a##o);                                       \
    memcpy(hc_partial(t, row, out + o) + 8, &b##o, sizeof b##o);
    OUT_CLOSE(0)
    OUT_CLOSE(1)
    OUT_CLOSE(2)
#undef OUT_CLOSE
}

// One row and output from element `from` on: what fits no tile, and the last odd elements.
static inline void hc_tile_1x1(const struct hc_tile *t, uint32_t row, uint32_t out, size_t from) {
    const uint16_t *x = hc_x(t, row);
    const char *fn = hc_fn(t, out);
    float *partial = hc_partial(t, row, out);
    for (size_t k = from; k < t->length; k++) {
        float w;
        memcpy(&w, fn + 4 * k, sizeof w);
        partial[k % 16] = fmaf(w, lf_bf16_to_f32(x[k]), partial[k % 16]);
    }
}

// All rows and outputs of the tile; it starts at a multiple of 16 elements of the sum.
static inline void hc_dot_block(const struct hc_tile *t) {
    size_t whole = t->length & ~(size_t)15;
    uint32_t tiled = t->outs - t->outs % 3;
    for (uint32_t out = 0; out < tiled; out += 3) {
        uint32_t row = 0;
        for (; row + 4 <= t->rows; row += 4)
            hc_tile_4x3(t, row, out, whole);
        for (; row < t->rows; row++)
            hc_tile_1x3(t, row, out, whole);
    }
    for (uint32_t row = 0; row < t->rows; row++)
        for (uint32_t out = 0; out < t->outs; out++)
            hc_tile_1x1(t, row, out, out < tiled ? whole : 0);
}
