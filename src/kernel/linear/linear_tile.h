// Tiles in plain C: decoded weights of a block times rows of x, added to their 16 partials.
#pragma once
#include <math.h>
#include "kernel/linear/linear.h"
#include "kernel/linear/linear_words.h"

enum {
    TILE_ROWS = 4,
    TILE_OUTS = 3,
    GROUP_ROWS = 8, // rows whose x is in word order at a time
    ROWS_BLOCK = LF_LINEAR_ROWS_BLOCK,
    OUTS_MANY = 24, // outputs of a task, more than GROUP_ROWS rows
    OUTS_FEW = 96,
    W_FLOATS = 96 * 1024,
    ACC_FLOATS = ROWS_BLOCK * OUTS_MANY * LANES,
    BLOCKS_KEPT = W_FLOATS / (TILE_OUTS * K_BLOCK),
};

struct scratch {
    float w[W_FLOATS]; // decoded weights: [block][outs][K_BLOCK], one block, or one tile
    float acc[ACC_FLOATS];
    float x[GROUP_ROWS * K_BLOCK];
};
_Static_assert(sizeof(struct scratch) <= LF_LINEAR_SCRATCH_BYTES, "scratch of linear");
_Static_assert(GROUP_ROWS * OUTS_FEW <= ROWS_BLOCK * OUTS_MANY, "partials of few rows");

// A tile's outputs past the matrix repeat the last one.
struct tile {
    const float *w; // [TILE_OUTS][K_BLOCK] in word order
    const float *x; // [rows][K_BLOCK] in word order
    float *acc;     // row r, output o at r * acc_row + o * LANES
    size_t acc_row;
    uint32_t rows, vectors;
};

static inline void add_products(const float *w, const float *x, uint32_t vectors, float *acc) {
    for (uint32_t v = 0; v < vectors; v++)
        for (uint32_t lane = 0; lane < LANES; lane++)
            acc[lane] = fmaf(w[v * LANES + lane], x[v * LANES + lane], acc[lane]);
}

// MXFP4 by the definition: unscaled values, the sum of a word, then the scale.
static inline void add_words(const float *w, const float *scale, const float *x, uint32_t vectors,
                             float *acc) {
    for (uint32_t v = 0; v < vectors; v += 8, w += 8 * LANES, x += 8 * LANES, scale += LANES)
        for (uint32_t lane = 0; lane < LANES; lane++) {
            const float *a = w + lane, *b = x + lane;
            float low = a[0] * b[0], high = a[4 * LANES] * b[4 * LANES];
            for (uint32_t e = 1; e < 4; e++) {
                low = fmaf(a[e * LANES], b[e * LANES], low);
                high = fmaf(a[(4 + e) * LANES], b[(4 + e) * LANES], high);
            }
            acc[lane] = fmaf(low + high, scale[lane], acc[lane]);
        }
}

static inline void decode_block(const struct lf_matrix *m, uint32_t o, uint32_t k0, float *dst) {
    struct packed p = packed_block(m, o, k0);
    uint32_t e = word_elements(m->format);
    uint32_t steps = word_vectors(m->format, block_elements(m->in, k0)) / e;
    for (uint32_t step = 0; step < steps; step++)
        decode_step(m->format, &p, step, dst + step * e * LANES);
}

// One output by the definition: what has no faster form comes here.
static inline void plain_output(const struct lf_matrix *m, uint32_t o, uint32_t k0, const float *x,
                                uint32_t rows, float *acc, size_t acc_row) {
    float w[K_BLOCK], scale[K_BLOCK / 8];
    uint32_t vectors = word_vectors(m->format, block_elements(m->in, k0));
    decode_block(m, o, k0, w);
    if (m->format == LF_WEIGHT_MXFP4) {
        struct packed p = packed_block(m, o, k0);
        word_scales(&p, vectors / 8, scale);
    }
    for (uint32_t r = 0; r < rows; r++, x += K_BLOCK, acc += acc_row)
        if (m->format == LF_WEIGHT_MXFP4)
            add_words(w, scale, x, vectors, acc);
        else
            add_products(w, x, vectors, acc);
}

// Some rows of a block of x for a few outputs, weights straight from the mapped file.
struct few {
    const struct lf_matrix *m;
    uint32_t o0, outs, k0, rows;
    uint32_t exponent; // the largest of any row's x, biased; 0: the rows must not be scaled
    const float *x;    // [rows][K_BLOCK] in word order
    float *folded;     // the same with scales in it, room for it
    float *acc;        // row r, output o at r * acc_row + o * LANES
    size_t acc_row;
};
