#include "bench/made_up_state.h"

#include <string.h>
#include "model/page.h"

// Rows at once; those of a page.
enum { ROWS = LF_PAGE_ROWS };

struct maker {
    struct lf_v41 *m;
    uint64_t word;           // the generator's state
    struct lf_tables tables; // of one launch: its rows and where they go
    uint8_t *dst[ROWS];
};

// Both signs, magnitudes from 0.5 to 2.
static void make_rows(struct maker *maker, uint16_t *x, size_t values) {
    for (size_t i = 0; i < values; i++) {
        maker->word = maker->word * 6364136223846793005u + 1442695040888963407u;
        x[i] = (uint16_t)((maker->word >> 40 & 0x80FF) | 0x3F00);
    }
}

static void pack(struct maker *maker, enum lf_cache_format format, uint32_t rows, uint32_t dim) {
    lf_tables_begin(&maker->tables);
    struct lf_table x = lf_tables_take(&maker->tables, (size_t)rows * dim * sizeof(uint16_t));
    struct lf_table dst = lf_tables_take(&maker->tables, rows * sizeof *maker->dst);
    make_rows(maker, x.host, (size_t)rows * dim);
    memcpy(dst.host, maker->dst, rows * sizeof *maker->dst);
    lf_tables_send(&maker->tables);
    maker->m->k.cache_pack(&maker->m->device,
                           &(struct lf_cache_pack_args){.format = format, .rows = rows, .dim = dim,
                                                        .x = x.seen, .dst = dst.seen});
}

static void fill_pages(struct maker *maker, struct lf_page *const *page, uint64_t entries,
                       enum lf_cache_format format, uint32_t dim, uint32_t row_bytes) {
    for (uint64_t first = 0; first < entries; first += ROWS) {
        uint32_t n = entries - first < ROWS ? (uint32_t)(entries - first) : ROWS;
        for (uint32_t i = 0; i < n; i++)
            maker->dst[i] = page[first / ROWS]->rows + (size_t)i * row_bytes;
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
    size_t bytes = (size_t)ROWS * (widest * sizeof(uint16_t) + sizeof *maker.dst) +
                   2 * LF_ARENA_ALIGN;
    LF_TRY(m->target.ops->grow(&m->target, 0, positions, err));
    if (!lf_tables_open(&maker.tables, m->device.memory, bytes)) {
        lf_tables_close(&maker.tables);
        return lf_fail(err, LF_E_MEM, "out of memory for made-up cache rows");
    }
    for (uint32_t l = 0; l < m->shape.rings; l++)
        fill_ring(&maker, state->ring[l]);
    for (uint32_t s = 0; s < t->n_kv_sources; s++) {
        uint64_t entries = positions / t->ratio[t->kv_sources[s]];
        fill_pages(&maker, lf_state_pages_of(state, 0, s), entries, LF_CACHE_QF4S, t->head_dim,
                   m->shape.entry_bytes);
        fill_pages(&maker, lf_state_pages_of(state, 1, s), entries, LF_CACHE_QF4E, t->index_dim,
                   m->shape.key_bytes);
    }
    enum lf_status status = lf_mem_wait(m->device.memory, err);
    lf_tables_close(&maker.tables);
    return status;
}

static void copy_pages(struct lf_v41 *m, uint32_t slot, int which, uint32_t source,
                       uint64_t entries) {
    struct lf_page *const *from = lf_state_pages_of(&m->state[0], which, source);
    struct lf_page *const *to = lf_state_pages_of(&m->state[slot], which, source);
    size_t bytes = (size_t)ROWS * (which ? m->shape.key_bytes : m->shape.entry_bytes);
    for (uint64_t i = 0; i < (entries + ROWS - 1) / ROWS; i++)
        lf_mem_copy(m->device.memory, to[i]->rows, from[i]->rows, bytes);
}

enum lf_status lf_state_copy_made_up(struct lf_v41 *m, uint32_t slot, uint64_t positions,
                                     struct lf_error *err) {
    const struct lf_topology *t = m->t;
    size_t ring_bytes = (size_t)m->shape.ring_rows * m->shape.window_bytes;
    LF_TRY(m->target.ops->grow(&m->target, slot, positions, err));
    for (uint32_t l = 0; l < m->shape.rings; l++)
        lf_mem_copy(m->device.memory, m->state[slot].ring[l], m->state[0].ring[l], ring_bytes);
    for (uint32_t s = 0; s < t->n_kv_sources; s++)
        for (int which = 0; which < 2; which++)
            copy_pages(m, slot, which, s, positions / t->ratio[t->kv_sources[s]]);
    return lf_mem_wait(m->device.memory, err);
}
