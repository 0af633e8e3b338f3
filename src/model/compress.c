#include "model/v41.h"

static uint32_t source_of(const struct lf_v41 *m, const struct lf_layer *layer) {
    for (uint32_t s = 0; s < m->t->n_kv_sources; s++)
        if (m->t->kv_sources[s] == layer->id)
            return s;
    LF_ASSERT(!"a kv source is in the list of kv sources");
    return 0;
}

// Ratio 1: the latent of every row is a plain projection (model.md 8.4).
static void latent_plain(struct lf_v41 *m, const struct lf_layer *layer) {
    struct lf_work *w = &m->work;
    lf_project(m, &layer->comp_wkv, lf_linear_input(&layer->comp_wkv, w->in, w->in_q), w->latent,
               w->rows, 0);
}

// Ratio 2: v and g in float32, pooled where a pair is complete; open rows wait in the ring.
static void latent_pooled(struct lf_v41 *m, const struct lf_layer *layer, uint32_t source) {
    struct lf_work *w = &m->work;
    const struct lf_entries *e = &w->entries[1];
    uint32_t dim = m->t->head_dim;
    struct lf_linear_job job[2] = {
        {.w = &layer->comp_wkv, .rows = w->rows, .x = w->in, .x_stride = m->t->hidden, .y = w->raw,
         .y_stride = 2 * (size_t)dim, .y_f32 = 1},
        {.w = &layer->comp_wgate, .rows = w->rows, .x = w->in, .x_stride = m->t->hidden,
         .y = w->raw + dim, .y_stride = 2 * (size_t)dim, .y_f32 = 1},
    };
    m->k.linear(&m->device, &(struct lf_linear_args){.n_jobs = 2, .job = job});
    m->k.compress_pool(&m->device, &(struct lf_compress_pool_args){
                                       .entries = e->n, .dim = dim,
                                       .first = w->seen.pair[source][0],
                                       .second = w->seen.pair[source][1], .y = w->latent});
    uint32_t bytes = 2 * dim * (uint32_t)sizeof(float), kept = m->shape.open_rows;
    m->k.ring_store(&m->device, &(struct lf_ring_store_args){
                                 .rows = w->rows, .row = w->seen.row, .span = w->seen.span,
                                 .kept = kept, .x = w->raw, .row_bytes = bytes,
                                 .ring = lf_lane_open(m, source),
                                 .ring_rows = kept, .ring_pitch = bytes});
}

// Entries, normed where norm is given, rotated and packed.
static void pack(struct lf_v41 *m, const struct lf_entries *e, struct lf_cache_pack_args args) {
    args.rows = e->n, args.eps = m->t->norm_eps;
    args.rope_dim = m->t->rope_dim, args.cos = e->cos, args.sin = e->sin;
    m->k.cache_pack(&m->device, &args);
}

void lf_compress(struct lf_v41 *m, const struct lf_layer *layer) {
    struct lf_work *w = &m->work;
    const struct lf_topology *t = m->t;
    const struct lf_entries *e = &w->entries[layer->ratio - 1];
    uint32_t source = source_of(m, layer);
    // Sources are at or below S, where no row has been dropped: row r is call place r.
    LF_ASSERT(w->rows == w->rows_all);
    if (layer->ratio == 1)
        latent_plain(m, layer);
    else
        latent_pooled(m, layer, source);
    if (!e->n)
        return;
    // The index key comes from the latent before its rotation (model.md 8.6). Queries come later.
    uint16_t *quantized = lf_matrix_quantizes_input(&layer->index_wk) ? w->qr_q : NULL;
    lf_norm(m, w->latent, layer->comp_norm, w->latent, quantized, e->n, t->head_dim);
    lf_project(m, &layer->index_wk, quantized ? quantized : w->latent, w->latent_key, e->n, 0);
    pack(m, e, (struct lf_cache_pack_args){.format = LF_CACHE_QF4E, .dim = t->index_dim,
                                           .x = w->latent_key, .norm = layer->index_k_norm,
                                           .dst = w->seen.index_dst[source]});
    pack(m, e, (struct lf_cache_pack_args){.format = LF_CACHE_QF4S, .dim = t->head_dim,
                                           .x = w->latent, .dst = w->seen.entry_dst[source]});
}
