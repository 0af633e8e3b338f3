#include "model/v41.h"

void lf_engram(struct lf_v41 *m, const struct lf_layer *layer) {
    struct lf_work *w = &m->work;
    const struct lf_topology *t = m->t;
    const struct lf_engram_weights *e = layer->engram;
    uint32_t columns = (t->engram_ngram - 1) * t->engram_heads, width = columns * t->engram_dim;
    m->k.engram_gather(&m->device, &(struct lf_engram_gather_args){
                                    .rows = w->rows, .columns = columns, .dim = t->engram_dim,
                                    .number = w->seen.number[e->table],
                                    .value = w->seen.value[e->table],
                                    .scale = w->seen.scale[e->table], .y = w->engram_rows});
    if (lf_matrix_quantizes_input(&e->wkv))
        lf_quantize(m, w->engram_rows, w->engram_rows, w->rows, width);
    lf_project(m, &e->wkv, w->engram_rows, w->engram_kv, w->rows, 0);
    m->k.engram_gate(&m->device, &(struct lf_engram_gate_args){
                                  .rows = w->rows, .streams = t->streams, .dim = t->hidden,
                                  .x = w->x, .kv = w->engram_kv, .q_weight = e->q_weight,
                                  .k_weight = e->k_weight, .dot_scale = m->engram_scale,
                                  .eps = t->norm_eps});
}
