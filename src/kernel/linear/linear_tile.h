// Tiles in plain C: decoded weights of a block times rows of x, added to their 16 partials.
#pragma once
#include <math.h>
#include "kernel/linear/linear.h"
#include "kernel/linear/linear_words.h"

enum { TILE_ROWS = 4, TILE_OUTS = 3, OUTS_MAX = 24, ROWS_BLOCK = LF_LINEAR_ROWS_BLOCK };

// outs is padded to a multiple of TILE_OUTS by repeating the last output.
struct tile {
    const float *w; // [outs][K_BLOCK] in word order
    const float *x; // [rows][K_BLOCK] in word order
    float *acc;     // [rows][outs][LANES]
    uint32_t rows, outs, vectors;
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

// The rows of one tile whose MXFP4 block may not be folded; w NULL: decode again.
static inline void tile_words(const struct tile *t, const struct lf_matrix *m, uint32_t o0,
                              uint32_t k0, bool decoded) {
    float again[K_BLOCK], scale[K_BLOCK / 8];
    for (uint32_t o = 0; o < t->outs; o++) {
        uint32_t out = o0 + o < m->out ? o0 + o : m->out - 1;
        const float *w = t->w + o * K_BLOCK;
        if (!decoded) {
            decode_block(m, out, k0, again);
            w = again;
        }
        struct packed p = packed_block(m, out, k0);
        word_scales(&p, t->vectors / 8, scale);
        for (uint32_t r = 0; r < t->rows; r++)
            add_words(w, scale, t->x + r * K_BLOCK, t->vectors, t->acc + (r * t->outs + o) * LANES);
    }
}
