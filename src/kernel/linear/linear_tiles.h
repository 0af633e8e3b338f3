// Many rows: panels of decoded weights by groups of rows whose x is in order.
#pragma once
#include "kernel/linear/linear_plain.h"
#include "kernel/linear/linear_tile.h"

enum {
    TASK_ROWS = TILE_ROWS == 4 ? 128 : 132, // rows between two decodings of the weights
    PANEL_OUTS = VEC_PARTS > 1 ? 24 : 48, // decoded together
    // Elements; what a tile reads of x and of one part stays in the first cache.
    TILE_BLOCK = VEC_PARTS > 1 ? 1280 : 640,
    PANEL_FLOATS = PANEL_OUTS * TILE_BLOCK,
    SUMS_FLOATS = TASK_ROWS * PANEL_OUTS * LANES,
};

// Rows r0 .. from element k0 on, and the rows `next` after them, the last repeated.
static struct x_rows rows_at(const struct lf_linear_job *job, uint32_t r0, uint32_t rows,
                             uint32_t next, uint32_t k0) {
    struct x_rows x = {.rows = rows};
    for (uint32_t r = 0; r < rows; r++) {
        x.x[r] = row_x(job, r0 + r) + k0;
        x.soon[r] = row_x(job, at_most(r0 + r + next, job->rows - 1)) + k0;
    }
    return x;
}

// The x of rows r0 .. in groups; each group takes its rows times the padded block.
static void make_x(const struct lf_linear_job *job, uint32_t r0, uint32_t rows, uint32_t group,
                   uint32_t k0, uint32_t n, float *dst) {
    enum lf_weight_format format = job->w->format;
    uint32_t vectors = word_vectors(format, n);
    for (uint32_t r = 0; r < rows; r += group) {
        struct x_rows x = rows_at(job, r0 + r, at_most(rows - r, group), 2 * TILE_ROWS, k0);
        struct places places = {.element = x.rows * VEC_LANES};
        places.part = places.element * vectors;
        places.step = places.element * word_elements(format);
#if LF_FAULT == 12 // odd rows read their first block of x again
        for (uint32_t i = 0; i < x.rows; i++)
            x.x[i] -= (r0 + r + i) % 2 ? k0 : 0;
#endif
        order_x(format, &x, n, dst + (size_t)r * vectors * LANES, places);
    }
}

// Elements of a block, about the same for all blocks.
static inline uint32_t tile_block(uint32_t in) {
    uint32_t blocks = (in + TILE_BLOCK - 1) / TILE_BLOCK;
    return ceil_to((in + blocks - 1) / blocks, LANES * 4);
}

// Some outputs by a task's rows; all tiles of a part come first: they use half of the bytes.
struct panel {
    const struct block *b; // outs: at most PANEL_OUTS
    const float *const *x; // of each group of rows
    float *w;              // [tile][part][vector][TILE_OUTS][VEC_LANES]
    float *acc;            // [part][group][tile][row][TILE_OUTS][VEC_LANES]
    uint32_t tiles;
};

// A tile's sums of a part.
static inline float *panel_sums(const struct panel *p, uint32_t part, uint32_t r, uint32_t tile) {
    size_t rows = (size_t)part * ceil_to(p->b->rows, TILE_ROWS) + r;
    return p->acc + (rows * p->tiles + tile * TILE_ROWS) * TILE_OUTS * VEC_LANES;
}

// Packed weights that are decoded next: they come to the second cache, some lines with each tile.
struct soon {
    const uint8_t *w; // of the first output that is left
    size_t row_bytes;
    uint32_t outs, lines, line, each; // lines of an output, the next of them, those with a tile
};

// What follows the block of k at k0, where a panel has so many tiles.
static struct soon soon_after(const struct block *b, uint32_t k0, uint32_t n, uint32_t tiles) {
    const struct lf_matrix *m = b->job->w;
    bool same = k0 + n < m->in;
    uint32_t o0 = same ? b->o0 : b->next, k = same ? k0 + n : 0;
    if ((!same && !b->next) || o0 >= m->out)
        return (struct soon){0};
    struct packed p = packed_at(m, o0, k, at_most(m->in - k, tile_block(m->in)));
    struct soon s = {.w = p.data, .row_bytes = lf_matrix_row_bytes(m)};
    s.outs = at_most(m->out - o0, b->outs);
    s.lines = (p.bytes + STEP_BYTES - 1) / STEP_BYTES;
    s.each = (s.outs * s.lines + tiles - 1) / tiles;
    return s;
}

static inline void fetch_soon(struct soon *s) {
    for (uint32_t i = 0; i < s->each && s->outs; i++) {
        __builtin_prefetch(s->w + s->line * (size_t)STEP_BYTES, 0, 2);
        if (++s->line == s->lines)
            s->line = 0, s->outs--, s->w += s->row_bytes;
    }
}

static void panel_block(const struct panel *p, uint32_t k0, uint32_t n) {
    const struct block *b = p->b;
    uint32_t groups = (b->rows + TILE_ROWS - 1) / TILE_ROWS;
    struct soon soon = soon_after(b, k0, n, VEC_PARTS * groups * p->tiles);
    struct tile t = {.vectors = word_vectors(b->job->w->format, n)};
    size_t tile_floats = (size_t)TILE_OUTS * t.vectors * LANES;
    for (uint32_t i = 0; i < p->tiles; i++)
        decode_panel(b->job->w, b->o0 + i * TILE_OUTS, b->o0 + b->outs, k0, n,
                     p->w + i * tile_floats);
    for (uint32_t part = 0; part < VEC_PARTS; part++)
        for (uint32_t r = 0; r < b->rows; r += TILE_ROWS) {
            t.rows = at_most(b->rows - r, TILE_ROWS);
            t.x = p->x[r / TILE_ROWS] + (size_t)t.rows * (k0 + part * t.vectors * VEC_LANES);
            for (uint32_t i = 0; i < p->tiles; i++) {
                t.w = p->w + i * tile_floats + (size_t)part * t.vectors * PANEL_VECTOR;
                t.acc = panel_sums(p, part, r, i);
                fetch_soon(&soon);
                tile_products(&t);
            }
        }
}

// The totals of a tile from its sums in all parts.
static void store_tile(const struct panel *p, uint32_t r, uint32_t tile) {
    const struct block *b = p->b;
    uint32_t all = at_most(b->rows - r, TILE_ROWS) * TILE_OUTS;
    const float *part[4];
    for (uint32_t q = 0; q < 4; q++)
        part[q] = panel_sums(p, 4 * q / VEC_LANES, r, tile) + 4 * q % VEC_LANES;
    for (uint32_t i = 0; i < all; i += 4) {
        float sums[4];
        tree_sums(b->job, part, VEC_LANES, sums);
        for (uint32_t j = 0; j < 4; j++) {
            uint32_t row = (i + j) / TILE_OUTS, o = tile * TILE_OUTS + (i + j) % TILE_OUTS;
            if (o < b->outs && i + j < all)
                store_sum(b->job, b->r0 + r + row, b->o0 + o, sums[j]);
            part[j] += 4 * VEC_LANES;
        }
    }
}

// x: of each group of TILE_ROWS rows, in order.
static void run_tiles(const struct block *b, const float *const *x, float *w, float *acc) {
    uint32_t in = b->job->w->in, block = tile_block(in);
    for (uint32_t o = 0; o < b->outs; o += PANEL_OUTS) {
        struct block outs = *b;
        struct panel p = {.b = &outs, .x = x, .w = w, .acc = acc};
        outs.o0 += o;
        outs.outs = at_most(b->outs - o, PANEL_OUTS);
        p.tiles = (outs.outs + TILE_OUTS - 1) / TILE_OUTS;
        memset(acc, 0, sizeof(float) * ceil_to(b->rows, TILE_ROWS) * p.tiles * TILE_OUTS * LANES);
        for (uint32_t k0 = 0; k0 < in; k0 += block)
            panel_block(&p, k0, at_most(in - k0, block));
        for (uint32_t r = 0; r < b->rows; r += TILE_ROWS)
            for (uint32_t i = 0; i < p.tiles; i++)
                store_tile(&p, r, i);
    }
}
