#include "bench/made_up_state.h"

#include <stdlib.h>

// Rows at once; those of a page.
enum { ROWS = LF_PAGE_ROWS };

struct maker {
    struct lf_v41 *m;
    uint64_t word;  // the generator's state
    uint16_t *x;    // [ROWS][head_dim]
    uint8_t *dst[ROWS];
};

// Both signs, magnitudes from 0.5 to 2.
static void make_rows(struct maker *maker, size_t values) {
    for (size_t i = 0; i < values; i++) {
        maker->word = maker->word * 6364136223846793005u + 1442695040888963407u;
        maker->x[i] = (uint16_t)((maker->word >> 40 & 0x80FF) | 0x3F00);
    }
}

static void pack(struct maker *maker, enum lf_cache_format format, uint32_t rows, uint32_t dim) {
    make_rows(maker, (size_t)rows * dim);
    maker->m->k.cache_pack(&maker->m->device,
                           &(struct lf_cache_pack_args){.format = format, .rows = rows, .dim = dim,
                                                        .x = maker->x, .dst = maker->dst});
}

static void fill_pages(struct maker *maker, const struct lf_paged *paged, uint64_t entries,
                       enum lf_cache_format format, uint32_t dim, uint32_t row_bytes) {
    for (uint64_t first = 0; first < entries; first += ROWS) {
        uint32_t n = entries - first < ROWS ? (uint32_t)(entries - first) : ROWS;
        for (uint32_t i = 0; i < n; i++)
            maker->dst[i] = lf_paged_row(paged, first + i, row_bytes);
        pack(maker, format, n, dim);
    }
}

static void fill_ring(struct maker *maker, uint8_t *ring) {
    const struct lf_state_shape *shape = &maker->m->shape;
    for (uint32_t first = 0; first < shape->ring_rows; first += ROWS) {
        uint32_t n = shape->ring_rows - first < ROWS ? shape->ring_rows - first : ROWS;
        for (uint32_t i = 0; i < n; i++)
            maker->dst[i] = ring + (size_t)(first + i) * shape->window_bytes;
        pack(maker, LF_CACHE_QA8, n, shape->t->head_dim);
    }
}

enum lf_status lf_state_make_up(struct lf_v41 *m, uint64_t positions, uint64_t seed,
                                struct lf_error *err) {
    const struct lf_topology *t = m->t;
    const struct lf_state *state = &m->state[0];
    uint32_t widest = t->head_dim > t->index_dim ? t->head_dim : t->index_dim;
    struct maker maker = {.m = m, .word = seed};
    LF_TRY(m->target.ops->grow(&m->target, 0, positions, err));
    maker.x = malloc((size_t)ROWS * widest * sizeof *maker.x);
    if (!maker.x)
        return lf_fail(err, LF_E_MEM, "out of memory for made-up cache rows");
    for (uint32_t l = 0; l < m->shape.rings; l++)
        fill_ring(&maker, state->ring[l]);
    for (uint32_t s = 0; s < t->n_kv_sources; s++) {
        uint64_t entries = positions / t->ratio[t->kv_sources[s]];
        fill_pages(&maker, &state->entry[s], entries, LF_CACHE_QF4S, t->head_dim,
                   m->shape.entry_bytes);
        fill_pages(&maker, &state->key[s], entries, LF_CACHE_QF4E, t->index_dim,
                   m->shape.key_bytes);
    }
    free(maker.x);
    return LF_OK;
}
