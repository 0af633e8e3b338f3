// The tables of a call: made by the host when its rows are known, sent to kernels in one block.
#include <string.h>
#include "model/engram_hash.h"
#include "model/page.h"
#include "model/v41.h"

static struct lf_table take(struct lf_v41 *m, size_t count, size_t bytes_each) {
    return lf_tables_take(&m->work.tables, count * bytes_each);
}

static void *put(struct lf_v41 *m, const void *data, size_t bytes) {
    struct lf_table table = take(m, 1, bytes);
    memcpy(table.host, data, bytes);
    return table.seen;
}

void lf_tables_rows(struct lf_v41 *m, uint32_t rows) {
    struct lf_work *w = &m->work;
    struct lf_table dst = take(m, rows, sizeof(uint8_t *));
    for (uint32_t r = 0; r < rows; r++)
        ((uint8_t **)dst.host)[r] =
            w->call_keys + (size_t)w->row[r].index * m->shape.window_bytes;
    w->seen.key_dst = dst.seen;
    w->seen.row = put(m, w->row, rows * sizeof *w->row);
    w->seen.span = put(m, w->span, m->info.slots * sizeof *w->span);
}

void lf_tables_rope(struct lf_v41 *m, int which, uint32_t rows) {
    struct lf_work *w = &m->work;
    size_t pairs = m->rope[which].pairs;
    struct lf_table c = take(m, rows * pairs, sizeof(float)), s = take(m, rows * pairs,
                                                                       sizeof(float));
    for (uint32_t r = 0; r < rows; r++)
        lf_rope_rows(&m->rope[which], &w->row[r].position, 1, (float *)c.host + r * pairs,
                     (float *)s.host + r * pairs);
    w->seen.cos[which] = c.seen;
    w->seen.sin[which] = s.seen;
}

static void put_entries(struct lf_v41 *m, uint32_t ratio) {
    struct lf_entries *e = &m->work.entries[ratio - 1];
    size_t pairs = m->rope[1].pairs;
    struct lf_table c = take(m, e->n * pairs, sizeof(float)), s = take(m, e->n * pairs,
                                                                       sizeof(float));
    for (uint32_t i = 0; i < e->n; i++) {
        uint64_t position = e->number[i] * ratio;
        lf_rope_rows(&m->rope[1], &position, 1, (float *)c.host + i * pairs,
                     (float *)s.host + i * pairs);
    }
    e->cos = c.seen;
    e->sin = s.seen;
}

// Where the entries of a source go: their pages' rows, entries or index keys.
static void *put_targets(struct lf_v41 *m, uint32_t source, bool keys) {
    const struct lf_entries *e = &m->work.entries[m->t->ratio[m->t->kv_sources[source]] - 1];
    struct lf_table table = take(m, e->n, sizeof(uint8_t *));
    uint64_t row_bytes = keys ? m->shape.key_bytes : m->shape.entry_bytes;
    for (uint32_t i = 0; i < e->n; i++) {
        const struct lf_state *s = &m->state[e->lane[i]];
        struct lf_page *const *page = (keys ? s->key_page : s->entry_page)[source];
        ((uint8_t **)table.host)[i] = page[e->number[i] / LF_PAGE_ROWS]->rows +
                                      e->number[i] % LF_PAGE_ROWS * row_bytes;
    }
    return table.seen;
}

// The raw v and g of a position: from this call, or from the ring of the rows before it.
static const float *raw_row(const struct lf_v41 *m, uint32_t source, uint32_t lane,
                            uint64_t position) {
    const struct lf_span *span = &m->work.span[lane];
    size_t width = 2 * (size_t)m->t->head_dim;
    if (position >= span->pos0)
        return m->work.raw + (span->first + (position - span->pos0)) * width;
    return m->state[lane].open[source] + position % m->shape.open_rows * width;
}

static void *put_raw(struct lf_v41 *m, uint32_t source, uint64_t half) {
    const struct lf_entries *e = &m->work.entries[1];
    struct lf_table table = take(m, e->n, sizeof(const float *));
    for (uint32_t i = 0; i < e->n; i++)
        ((const float **)table.host)[i] = raw_row(m, source, e->lane[i], 2 * e->number[i] + half);
    return table.seen;
}

static void put_source(struct lf_v41 *m, uint32_t source) {
    struct lf_seen *seen = &m->work.seen;
    seen->entry_dst[source] = put_targets(m, source, false);
    seen->index_dst[source] = put_targets(m, source, true);
    for (uint64_t half = 0; m->t->ratio[m->t->kv_sources[source]] == 2 && half < 2; half++)
        seen->pair[source][half] = put_raw(m, source, half);
}

static void put_visible(struct lf_v41 *m, uint32_t ratio) {
    struct lf_work *w = &m->work;
    struct lf_table table = take(m, w->rows, sizeof(uint32_t));
    for (uint32_t r = 0; r < w->rows; r++)
        ((uint32_t *)table.host)[r] = (uint32_t)((w->row[r].position + 1) / ratio);
    w->seen.visible[ratio - 1] = table.seen;
}

// The rows that a call names come along, one for each number: of some, the disk is waited for.
struct gather {
    const struct lf_engram_table *from;
    const uint64_t *number;
    size_t columns;
    uint8_t *value, *scale;
};

static void gather_row(void *ctx, uint32_t row, uint32_t worker) {
    const struct gather *g = ctx;
    size_t dim = g->from->dim, groups = dim / 32;
    (void)worker;
    for (size_t i = row * g->columns; i < (row + 1) * g->columns; i++) {
        memcpy(g->value + i * dim, g->from->value + g->number[i] * dim, dim);
        memcpy(g->scale + i * groups, g->from->scale + g->number[i] * groups, groups);
    }
}

static void put_engram_rows(struct lf_v41 *m, uint32_t table, struct lf_table number,
                            size_t columns) {
    struct lf_seen *seen = &m->work.seen;
    const struct lf_engram_table *from =
        &m->weights.layer[m->t->engram_layers[table]].engram->rows;
    seen->number[table] = number.seen;
    seen->value[table] = from->value;
    seen->scale[table] = from->scale;
    if (!m->shape.apart)
        return;
    size_t n = m->work.rows * columns;
    struct lf_table value = take(m, n, from->dim), scale = take(m, n, from->dim / 32);
    struct gather gather = {.from = from, .number = number.host, .columns = columns,
                            .value = value.host, .scale = scale.host};
    lf_pool_run(m->device.pool, m->work.rows, gather_row, &gather);
    for (size_t i = 0; i < n; i++)
        ((uint64_t *)number.host)[i] = i;
    seen->value[table] = value.seen;
    seen->scale[table] = scale.seen;
}

// The rows of an Engram table, from the token history at each position (model.md 6.3, L-16).
static void put_numbers(struct lf_v41 *m, uint32_t table) {
    struct lf_work *w = &m->work;
    const struct lf_topology *t = m->t;
    uint32_t pad = m->map->class_of[t->engram_pad_id];
    size_t columns = (size_t)(t->engram_ngram - 1) * t->engram_heads;
    struct lf_table number = take(m, w->rows * columns, sizeof(uint64_t));
    for (uint32_t r = 0; r < w->rows; r++) {
        const struct lf_row *row = &w->row[r];
        const uint32_t *history = m->state[row->lane].history;
        uint32_t classes[LF_NGRAM_MAX];
        for (uint32_t s = 0; s < t->engram_ngram; s++)
            classes[s] = s <= row->position ? m->map->class_of[history[row->position - s]]
                                            : LF_CLASS_DEAD;
        lf_engram_rows(&m->engram_layout, table, classes, pad,
                       (uint64_t *)number.host + r * columns);
    }
    put_engram_rows(m, table, number, columns);
}

// The places that layers at and above S drop to (model.md 12.3), in their order.
static void put_drops(struct lf_v41 *m) {
    struct lf_work *w = &m->work;
    uint32_t rows = w->rows;
    for (uint32_t depth = m->last_source; depth <= m->t->layers; depth++) {
        uint32_t kept = 0, place = 0, n = 0;
        for (uint32_t r = 0; r < w->rows; r++)
            kept += w->row[r].depth >= depth;
        if (kept == rows)
            continue;
        struct lf_table table = take(m, kept, sizeof(uint32_t));
        uint32_t before = w->n_drops ? w->drop[w->n_drops - 1].depth_min : 0;
        for (uint32_t r = 0; r < w->rows; r++) {
            if (w->row[r].depth >= depth)
                ((uint32_t *)table.host)[n++] = place;
            place += w->row[r].depth >= before;
        }
        w->drop[w->n_drops++] = (struct lf_drop){depth, kept, table.seen};
        rows = kept;
    }
}

// Rows of logits stay to the end: their places are among those of the last drop.
static void put_wanted(struct lf_v41 *m) {
    struct lf_work *w = &m->work;
    uint32_t least = w->n_drops ? w->drop[w->n_drops - 1].depth_min : 0, place = 0;
    struct lf_table table = take(m, w->rows, sizeof(uint32_t));
    for (uint32_t r = 0; r < w->rows; r++) {
        bool live = w->row[r].depth >= least;
        if (live && w->row[r].wants & LF_WANT_LOGITS)
            ((uint32_t *)table.host)[w->n_wanted++] = place;
        place += live;
    }
    w->seen.wanted = table.seen;
}

void lf_tables_make(struct lf_v41 *m) {
    struct lf_work *w = &m->work;
    lf_tables_rows(m, w->rows);
    w->seen.row_all = put(m, w->row_all, w->rows_all * sizeof *w->row_all);
    for (int i = 0; i < 2; i++)
        lf_tables_rope(m, i, w->rows);
    for (uint32_t ratio = 1; ratio <= 2; ratio++) {
        put_entries(m, ratio);
        put_visible(m, ratio);
    }
    for (uint32_t s = 0; s < m->t->n_kv_sources; s++)
        put_source(m, s);
    for (uint32_t e = 0; e < m->t->n_engram; e++)
        put_numbers(m, e);
    put_drops(m);
    put_wanted(m);
    lf_tables_send(&w->tables);
}
