#include "model/graphs.h"
#include "model/v41.h"

void lf_quantize(struct lf_v41 *m, const uint16_t *x, uint16_t *y, uint32_t rows, uint32_t dim) {
    m->k.act_quant(&m->device, &(struct lf_act_quant_args){.format = LF_ACT_QA8, .rows = rows,
                                                           .dim = dim, .x = x, .x_stride = dim,
                                                           .y = y, .y_stride = dim});
}

void lf_norm(struct lf_v41 *m, const uint16_t *x, const uint16_t *w, uint16_t *y,
             uint16_t *quantized, uint32_t rows, uint32_t dim) {
    m->k.rms_norm(&m->device, &(struct lf_rms_norm_args){.rows = rows, .dim = dim, .x = x,
                                                         .x_stride = dim, .w = w,
                                                         .eps = m->t->norm_eps, .y = y,
                                                         .y_stride = dim,
                                                         .quantized = quantized});
}

struct lf_linear_job lf_project_job(const struct lf_matrix *w, const uint16_t *x, void *y,
                                    uint32_t rows, int y_f32) {
    return (struct lf_linear_job){.w = w, .rows = rows, .x = x, .x_stride = w->in, .y = y,
                                  .y_stride = w->out, .y_f32 = y_f32};
}

void lf_project(struct lf_v41 *m, const struct lf_matrix *w, const uint16_t *x, void *y,
                uint32_t rows, int y_f32) {
    struct lf_linear_job job = lf_project_job(w, x, y, rows, y_f32);
    m->k.linear(&m->device, &(struct lf_linear_args){.n_jobs = 1, .job = &job});
}

void lf_stream_start(struct lf_v41 *m) {
    struct lf_work *w = &m->work;
    m->k.embed(&m->device, &(struct lf_embed_args){.rows = w->rows, .streams = m->t->streams,
                                                   .row = w->seen.row, .table = &m->weights.embed,
                                                   .streams_out = w->x, .pre = w->pre});
}

void lf_stream_mix(struct lf_v41 *m, const struct lf_hc_weights *hc) {
    struct lf_work *w = &m->work;
    const struct lf_topology *t = m->t;
    lf_graphs_aside(m, LF_BRANCH_MIX);
    m->k.hc_mix(&m->device, &(struct lf_hc_mix_args){
                             .rows = w->rows, .streams = t->streams, .dim = t->hidden, .x = w->x,
                             .fn = hc->fn, .base = hc->base, .scale = hc->scale,
                             .sinkhorn_iters = t->sinkhorn_iters, .hc_eps = t->hc_eps,
                             .norm_eps = t->norm_eps, .pre = w->pre_next, .post = w->post,
                             .comb = w->comb});
    lf_graphs_back(m);
}

// The norm of the collapsed streams, and its quantized values where they are given.
static void collapse(struct lf_v41 *m, const uint16_t *norm, uint16_t *quantized) {
    struct lf_work *w = &m->work;
    const float *pre = w->pre;
#if LF_FAULT == 1
    pre = w->pre_next; // 1: each sublayer uses its own pre
#endif
    m->k.hc_collapse(&m->device, &(struct lf_hc_collapse_args){
                                  .rows = w->rows, .streams = m->t->streams, .dim = m->t->hidden,
                                  .x = w->x, .pre = pre, .y = w->in, .norm = norm,
                                  .eps = m->t->norm_eps, .quantized = quantized});
}

void lf_stream_collapse(struct lf_v41 *m, const uint16_t *norm) {
    collapse(m, norm, m->work.in_q);
}

// A sublayer's output joins the streams, and its own pre goes to the next sublayer.
static void expand(struct lf_v41 *m, struct lf_hc_expand_args args, const uint16_t *next_norm) {
    struct lf_work *w = &m->work;
    args.rows = w->rows, args.streams = m->t->streams, args.dim = m->t->hidden;
    args.x = w->x, args.post = w->post, args.comb = w->comb;
    if (next_norm) {
        args.pre = w->pre_next, args.norm = next_norm, args.eps = m->t->norm_eps;
        args.y = w->in, args.quantized = w->in_q;
    }
    m->k.hc_expand(&m->device, &args);
    float *handed = w->pre;
    w->pre = w->pre_next;
    w->pre_next = handed;
}

void lf_stream_expand(struct lf_v41 *m, const uint16_t *next_norm) {
    expand(m, (struct lf_hc_expand_args){.b = m->work.out}, next_norm);
}

// is_collapsed: the layer before has left work.in and in_q.
static void attention_sublayer(struct lf_v41 *m, const struct lf_layer *layer, bool is_collapsed) {
#if LF_FAULT == 1
    lf_stream_mix(m, &layer->hc_attn);
#endif
    if (!is_collapsed)
        lf_stream_collapse(m, layer->attn_norm);
    if (layer->kv_source)
        lf_compress(m, layer);
    // At and above the last source only the cone of the boundaries runs (model.md 12.3).
    bool cone = layer->id >= m->last_source, drops;
    if (cone)
        lf_rows_drop(m, layer->id);
    drops = cone && lf_rows_drops(m, layer->id + 1);
    lf_window_keys(m, layer, !drops);
    if (drops) {
        lf_rows_drop(m, layer->id + 1);
        lf_attention_latent(m, layer);
    }
    lf_stream_mix(m, &layer->hc_attn);
    lf_attention_run(m, layer);
    lf_graphs_join_all(m);
    lf_stream_expand(m, layer->ffn_norm);
}

void lf_forward_experts(struct lf_v41 *m, const struct lf_layer *layer,
                        const uint16_t *next_norm) {
    struct lf_work *w = &m->work;
    lf_stream_mix(m, &layer->hc_ffn);
    lf_moe_shared(m, layer);
    lf_moe(m, layer);
    lf_graphs_join_all(m);
    expand(m, (struct lf_hc_expand_args){.pair = w->pair_of, .top = layer->top, .expert = w->down,
                                         .shared = w->shared}, next_norm);
}

void lf_head(struct lf_v41 *m) {
    struct lf_work *w = &m->work;
    const struct lf_topology *t = m->t;
    if (!w->n_wanted)
        return;
    LF_ASSERT(w->n_wanted <= w->logits_rows_max);
    collapse(m, m->weights.norm, NULL);
    struct lf_linear_job job = {.w = &m->weights.head, .rows = w->n_wanted, .x = w->in,
                                .x_stride = t->hidden, .x_index = w->seen.wanted, .y = w->logits,
                                .y_stride = t->vocab, .y_f32 = 1};
    m->k.linear(&m->device, &(struct lf_linear_args){.n_jobs = 1, .job = &job});
}

static void run_layer(struct lf_v41 *m, const struct lf_layer *layer, bool is_collapsed,
                      const uint16_t *next_norm) {
    if (layer->engram)
        lf_engram(m, layer);
    lf_taps_store(m, layer);
    attention_sublayer(m, layer, is_collapsed);
    lf_forward_experts(m, layer, next_norm);
}

void lf_forward_layer(struct lf_v41 *m, const struct lf_layer *layer) {
    run_layer(m, layer, false, NULL);
}

// The norm that comes first in the layer; NULL where it changes the streams before that.
static const uint16_t *first_norm(const struct lf_v41 *m, uint32_t layer) {
    const struct lf_layer *l = &m->weights.layer[layer];
    return layer < m->t->layers && !l->engram ? l->attn_norm : NULL;
}

void lf_forward(struct lf_v41 *m) {
    lf_stream_start(m);
    for (uint32_t l = 0; l < m->t->layers && m->work.rows; l++)
        run_layer(m, &m->weights.layer[l], l && first_norm(m, l), first_norm(m, l + 1));
    lf_head(m);
}

void lf_forward_round(struct lf_v41 *m) {
    lf_graphs_run(m, LF_RUN_ROUND, lf_forward);
}
