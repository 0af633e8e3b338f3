#include "model/v41.h"

#include "model/engram_hash.h"

// The table rows of every live row, from the token history at its position (model.md 6.3, L-16).
static void number_rows(struct lf_v41 *m, uint32_t table, uint32_t columns) {
    struct lf_work *w = &m->work;
    const struct lf_topology *t = m->t;
    uint32_t pad = m->map->class_of[t->engram_pad_id];
    for (uint32_t r = 0; r < w->rows; r++) {
        const struct lf_row *row = &w->row[r];
        const uint32_t *history = m->state[row->lane].history;
        uint32_t classes[LF_NGRAM_MAX];
        for (uint32_t s = 0; s < t->engram_ngram; s++)
            classes[s] = s <= row->position ? m->map->class_of[history[row->position - s]]
                                            : LF_CLASS_DEAD;
        lf_engram_rows(&m->engram_layout, table, classes, pad,
                       w->engram_number + (size_t)r * columns);
    }
}

void lf_engram(struct lf_v41 *m, const struct lf_layer *layer) {
    struct lf_work *w = &m->work;
    const struct lf_topology *t = m->t;
    const struct lf_engram_weights *e = layer->engram;
    uint32_t columns = (t->engram_ngram - 1) * t->engram_heads, width = columns * t->engram_dim;
    number_rows(m, e->table, columns);
    m->k.engram_gather(m->pool, &(struct lf_engram_gather_args){
                                    .rows = w->rows, .columns = columns, .dim = t->engram_dim,
                                    .number = w->engram_number, .value = e->rows.value,
                                    .scale = e->rows.scale, .y = w->engram_rows});
    if (lf_matrix_quantizes_input(&e->wkv))
        lf_quantize(m, w->engram_rows, w->engram_rows, w->rows, width);
    lf_project(m, &e->wkv, w->engram_rows, w->engram_kv, w->rows, 0);
    m->k.engram_gate(m->pool, &(struct lf_engram_gate_args){
                                  .rows = w->rows, .streams = t->streams, .dim = t->hidden,
                                  .x = w->x, .kv = w->engram_kv, .q_weight = e->q_weight,
                                  .k_weight = e->k_weight, .dot_scale = m->engram_scale,
                                  .eps = t->norm_eps});
}
