// Tiles: some rows by outputs of decoded weights, one part of the partials at a time.
#pragma once
#include "kernel/linear/linear.h"
#include "kernel/linear/linear_panel.h"

// One part; a tile's outputs past the matrix repeat the last one.
struct tile {
    const float *w; // [vector][TILE_OUTS][VEC_LANES] in word order
    const float *x; // [vector][rows][VEC_LANES] in word order
    float *acc;     // [rows][TILE_OUTS][VEC_LANES]
    uint32_t rows, vectors;
};

// Named sums: compilers keep arrays of them in memory.
#define TILE_OUT(row, act)                                                                         \
    if (rows > row) {                                                                              \
        act(row, 0) act(row, 1) act(row, 2)                                                        \
        if (TILE_OUTS > 3) {                                                                       \
            act(row, 3)                                                                            \
        }                                                                                          \
    }
#define TILE_EACH(act)                                                                             \
    TILE_OUT(0, act)                                                                               \
    TILE_OUT(1, act)                                                                               \
    TILE_OUT(2, act)                                                                               \
    TILE_OUT(3, act)                                                                               \
    TILE_OUT(4, act)                                                                               \
    TILE_OUT(5, act)
#define TILE_LOAD(r, o) a##r##o = load_f32(acc + ((r) * TILE_OUTS + (o)) * VEC_LANES);
#define TILE_STORE(r, o) store_f32(acc + ((r) * TILE_OUTS + (o)) * VEC_LANES, a##r##o);
#define TILE_ROW(r)                                                                                \
    if (rows > r) {                                                                                \
        vec_f32 xr = load_f32(x + (r) * VEC_LANES);                                                \
        vec_fma_to(&a##r##0, w0, xr);                                                              \
        vec_fma_to(&a##r##1, w1, xr);                                                              \
        vec_fma_to(&a##r##2, w2, xr);                                                              \
        if (TILE_OUTS > 3)                                                                         \
            vec_fma_to(&a##r##3, w3, xr);                                                          \
    }

// rows is a constant where this is inlined.
INLINE void tile_rows(const int rows, const struct tile *t) {
    const float *w = t->w, *x = t->x, *end = w + (size_t)t->vectors * PANEL_VECTOR;
    float *acc = t->acc;
    vec_f32 a00, a01, a02, a03, a10, a11, a12, a13, a20, a21, a22, a23;
    vec_f32 a30, a31, a32, a33, a40, a41, a42, a43, a50, a51, a52, a53;
    TILE_EACH(TILE_LOAD)
    do {
        vec_f32 w0 = load_f32(w), w1 = load_f32(w + VEC_LANES), w2 = load_f32(w + 2 * VEC_LANES);
        vec_f32 w3 = TILE_OUTS > 3 ? load_f32(w + 3 * VEC_LANES) : w2;
        TILE_ROW(0)
        TILE_ROW(1)
        TILE_ROW(2)
        TILE_ROW(3)
        TILE_ROW(4)
        TILE_ROW(5)
        w += PANEL_VECTOR, x += rows * VEC_LANES;
    } while (w < end);
    TILE_EACH(TILE_STORE)
}

// acc += the products of all rows and outputs; alone, so that all sums stay in registers.
static __attribute__((noinline)) void tile_products(const struct tile *t) {
    if (t->rows == TILE_ROWS)
        tile_rows(TILE_ROWS, t);
    else if (t->rows == 5)
        tile_rows(5, t);
    else if (t->rows == 4)
        tile_rows(4, t);
    else if (t->rows == 3)
        tile_rows(3, t);
    else if (t->rows == 2)
        tile_rows(2, t);
    else
        tile_rows(1, t);
}
