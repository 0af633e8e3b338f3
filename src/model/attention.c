#include "model/graphs.h"
#include "model/v41.h"

static struct lf_linear_job latent_job(struct lf_v41 *m, const struct lf_layer *layer) {
    struct lf_work *w = &m->work;
    return lf_project_job(&layer->wq_a, lf_linear_input(&layer->wq_a, w->in, w->in_q), w->qr,
                          w->rows, 0);
}

void lf_window_keys(struct lf_v41 *m, const struct lf_layer *layer, bool with_latent) {
    struct lf_work *w = &m->work;
    const struct lf_topology *t = m->t;
    int table = layer->ratio > 0;
    w->job[0] = lf_project_job(&layer->wkv, lf_linear_input(&layer->wkv, w->in, w->in_q), w->k,
                               w->rows, 0);
    if (with_latent)
        w->job[1] = latent_job(m, layer);
    m->k.linear(&m->device, &(struct lf_linear_args){.n_jobs = with_latent ? 2 : 1,
                                                     .job = w->job});
    lf_graphs_aside(m, LF_BRANCH_KEYS); // nobody reads a key before attention
    m->k.cache_pack(&m->device, &(struct lf_cache_pack_args){
                                 .format = LF_CACHE_QA8, .rows = w->rows, .dim = t->head_dim,
                                 .x = w->k, .dst = w->seen.key_dst, .norm = layer->kv_norm,
                                 .eps = t->norm_eps, .rope_dim = t->rope_dim,
                                 .cos = w->seen.cos[table], .sin = w->seen.sin[table]});
    lf_graphs_back(m);
}

// The call's newest keys go to the rings after attention, so that long chunks read their own (8.3).
void lf_ring_fill(struct lf_v41 *m, const struct lf_layer *layer) {
    struct lf_work *w = &m->work;
    uint32_t bytes = m->shape.window_bytes, kept = m->shape.ring_rows;
#if LF_FAULT == 1
    kept = m->t->window - 2; // 1: a long chunk leaves fewer keys than a window reads
#endif
    lf_graphs_aside(m, LF_BRANCH_KEYS);
    m->k.ring_store(&m->device, &(struct lf_ring_store_args){
                                 .rows = w->rows_all, .row = w->seen.row_all,
                                 .depth_min = layer->id < m->last_source ? 0 : layer->id,
                                 .span = w->seen.span, .kept = kept, .x = w->call_keys,
                                 .row_bytes = bytes, .ring = lf_lane_rings(m, layer->id),
                                 .ring_rows = m->shape.ring_rows, .ring_pitch = bytes});
    lf_graphs_back(m);
}

void lf_attention_latent(struct lf_v41 *m, const struct lf_layer *layer) {
    struct lf_linear_job job = latent_job(m, layer);
    if (m->work.rows)
        m->k.linear(&m->device, &(struct lf_linear_args){.n_jobs = 1, .job = &job});
}

void lf_attention_queries(struct lf_v41 *m, const struct lf_layer *layer) {
    struct lf_work *w = &m->work;
    const struct lf_topology *t = m->t;
    uint32_t width = t->heads * t->head_dim;
    int table = layer->ratio > 0;
    lf_norm(m, w->qr, layer->q_norm, w->qr, w->qr_q, w->rows, t->q_lora);
    lf_project(m, &layer->wq_b, lf_linear_input(&layer->wq_b, w->qr, w->qr_q), w->q, w->rows, 0);
    m->k.rope(&m->device, &(struct lf_rope_args){.rows = w->rows, .heads = t->heads,
                                                 .head_dim = t->head_dim, .rope_dim = t->rope_dim,
                                                 .x = w->q, .x_stride = width,
                                                 .cos = w->seen.cos[table],
                                                 .sin = w->seen.sin[table]});
}

// Inverse rotation, then the grouped down and the joint up projection (model.md 8.9).
void lf_attention_output(struct lf_v41 *m, const struct lf_layer *layer) {
    struct lf_work *w = &m->work;
    const struct lf_topology *t = m->t;
    uint32_t width = t->heads * t->head_dim, u = t->o_groups * t->o_lora;
    int table = layer->ratio > 0;
    m->k.rope(&m->device, &(struct lf_rope_args){.rows = w->rows, .heads = t->heads,
                                                 .head_dim = t->head_dim, .rope_dim = t->rope_dim,
                                                 .x = w->o, .x_stride = width,
                                                 .cos = w->seen.cos[table],
                                                 .sin = w->seen.sin[table],
                                                 .inverse = 1});
    // wo_a reads plain bf16 whatever its format: the release widens it at load (model.md 2).
    for (uint32_t g = 0; g < t->o_groups; g++)
        w->job[g] = (struct lf_linear_job){
            .w = &layer->wo_a[g], .rows = w->rows, .x = w->o + (size_t)g * (width / t->o_groups),
            .x_stride = width, .y = w->u + (size_t)g * t->o_lora, .y_stride = u};
    m->k.linear(&m->device, &(struct lf_linear_args){.n_jobs = t->o_groups, .job = w->job});
    lf_quantize(m, w->u, w->u_q, w->rows, u);
    lf_project(m, &layer->wo_b, lf_linear_input(&layer->wo_b, w->u, w->u_q), w->out, w->rows, 0);
}

void lf_attention_read(struct lf_v41 *m, const struct lf_layer *layer) {
    struct lf_work *w = &m->work;
    const struct lf_topology *t = m->t;
    lf_graphs_join(m, LF_BRANCH_KEYS);
    m->k.attention(&m->device, &(struct lf_attention_args){
                                .rows = w->rows, .heads = t->heads, .head_dim = t->head_dim,
                                .row = w->seen.row, .q = w->q, .scale = m->attention_scale,
                                .sink = layer->attn_sink, .window = t->window,
                                .whole_span = layer->id >= t->layers,
                                .span = w->seen.span, .call_keys = w->call_keys,
                                .ring = lf_lane_rings(m, layer->id),
                                .ring_rows = m->shape.ring_rows,
                                .entries = layer->ratio ? lf_lane_entries(m, layer) : NULL,
                                .selected = w->selected, .n_selected = w->n_selected,
                                .topk = t->index_topk, .o = w->o});
}

void lf_attention_run(struct lf_v41 *m, const struct lf_layer *layer) {
    if (m->work.rows) {
        lf_attention_queries(m, layer);
        if (layer->index_source)
            lf_indexer(m, layer);
        lf_attention_read(m, layer);
    }
    lf_ring_fill(m, layer);
    if (m->work.rows)
        lf_attention_output(m, layer);
}
