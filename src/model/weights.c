#include "model/weights.h"

#include <stdio.h>

// What one layer's fetches share: the checkpoint and the layer's name prefix.
struct fetch {
    struct lf_checkpoint *checkpoint;
    const struct lf_topology *t;
    struct lf_arena *arena;
    const char *root; // layers or mtp
    uint32_t number;  // under that root
    char name[128];
};

static const char *tensor_name(struct fetch *f, const char *tail) {
    snprintf(f->name, sizeof f->name, "%s.%u.%s", f->root, f->number, tail);
    return f->name;
}

static enum lf_status get_f32(struct fetch *f, const float **out, const char *tail, uint64_t rows,
                              uint64_t cols, struct lf_error *err) {
    uint64_t shape[2] = {rows, cols};
    return lf_checkpoint_f32(f->checkpoint, out, tensor_name(f, tail), cols ? 2 : 1, shape, err);
}

static enum lf_status get_bf16(struct fetch *f, const uint16_t **out, const char *tail,
                               uint64_t rows, uint64_t cols, struct lf_error *err) {
    uint64_t shape[2] = {rows, cols};
    return lf_checkpoint_bf16(f->checkpoint, out, tensor_name(f, tail), cols ? 2 : 1, shape, err);
}

static enum lf_status get_matrix(struct fetch *f, struct lf_matrix *out, const char *tail,
                                 uint32_t rows, uint32_t cols, struct lf_error *err) {
    return lf_checkpoint_matrix(f->checkpoint, out, tensor_name(f, tail), rows, cols, err);
}

static enum lf_status fetch_hc(struct fetch *f, struct lf_hc_weights *hc, const char *which,
                               struct lf_error *err) {
    uint32_t s = f->t->streams, n = s * (2 + s);
    char tail[32];
    snprintf(tail, sizeof tail, "hc_%s_fn", which);
    LF_TRY(get_f32(f, &hc->fn, tail, n, (uint64_t)s * f->t->hidden, err));
    snprintf(tail, sizeof tail, "hc_%s_base", which);
    LF_TRY(get_f32(f, &hc->base, tail, n, 0, err));
    snprintf(tail, sizeof tail, "hc_%s_scale", which);
    return get_f32(f, &hc->scale, tail, 3, 0, err);
}

static enum lf_status fetch_output(struct fetch *f, struct lf_layer *l, struct lf_error *err) {
    const struct lf_topology *t = f->t;
    struct lf_matrix all;
    LF_TRY(get_matrix(f, &all, "attn.wo_a", t->o_groups * t->o_lora,
                      t->heads / t->o_groups * t->head_dim, err));
    l->wo_a = lf_arena_alloc(f->arena, t->o_groups, sizeof *l->wo_a);
    if (!l->wo_a)
        return lf_fail(err, LF_E_MEM, "out of memory for the weights table");
    for (uint32_t g = 0; g < t->o_groups; g++)
        l->wo_a[g] = lf_matrix_rows(&all, g * t->o_lora, t->o_lora);
    return get_matrix(f, &l->wo_b, "attn.wo_b", t->hidden, t->o_groups * t->o_lora, err);
}

static enum lf_status fetch_attention(struct fetch *f, struct lf_layer *l, struct lf_error *err) {
    const struct lf_topology *t = f->t;
    LF_TRY(get_bf16(f, &l->attn_norm, "attn_norm.weight", t->hidden, 0, err));
    LF_TRY(get_matrix(f, &l->wq_a, "attn.wq_a", t->q_lora, t->hidden, err));
    LF_TRY(get_bf16(f, &l->q_norm, "attn.q_norm.weight", t->q_lora, 0, err));
    LF_TRY(get_matrix(f, &l->wq_b, "attn.wq_b", t->heads * t->head_dim, t->q_lora, err));
    LF_TRY(get_matrix(f, &l->wkv, "attn.wkv", t->head_dim, t->hidden, err));
    LF_TRY(get_bf16(f, &l->kv_norm, "attn.kv_norm.weight", t->head_dim, 0, err));
    LF_TRY(get_f32(f, &l->attn_sink, "attn.attn_sink", t->heads, 0, err));
    return fetch_output(f, l, err);
}

static enum lf_status fetch_sources(struct fetch *f, struct lf_layer *l, struct lf_error *err) {
    const struct lf_topology *t = f->t;
    l->kv_source = l->ratio && t->kv_source[l->id] == (int)l->id;
    l->index_source = l->ratio && t->index_source[l->id] == (int)l->id;
    if (l->kv_source) {
        LF_TRY(get_matrix(f, &l->comp_wkv, "attn.compressor.wkv", t->head_dim, t->hidden, err));
        if (l->ratio > 1)
            LF_TRY(get_matrix(f, &l->comp_wgate, "attn.compressor.wgate", t->head_dim, t->hidden,
                              err));
        LF_TRY(get_bf16(f, &l->comp_norm, "attn.compressor.norm.weight", t->head_dim, 0, err));
        LF_TRY(get_matrix(f, &l->index_wk, "attn.indexer.wk", t->index_dim, t->head_dim, err));
        LF_TRY(get_bf16(f, &l->index_k_norm, "attn.indexer.k_norm.weight", t->index_dim, 0, err));
    }
    if (l->index_source) {
        LF_TRY(get_matrix(f, &l->index_wq_b, "attn.indexer.wq_b", t->index_heads * t->index_dim,
                          t->q_lora, err));
        LF_TRY(get_matrix(f, &l->index_proj, "attn.indexer.weights_proj", t->index_heads, t->hidden,
                          err));
    }
    return LF_OK;
}

static enum lf_status fetch_expert(struct fetch *f, struct lf_expert *e, const char *prefix,
                                   uint32_t dim, struct lf_error *err) {
    char tail[64];
    snprintf(tail, sizeof tail, "%s.w1", prefix);
    LF_TRY(get_matrix(f, &e->w1, tail, dim, f->t->hidden, err));
    snprintf(tail, sizeof tail, "%s.w3", prefix);
    LF_TRY(get_matrix(f, &e->w3, tail, dim, f->t->hidden, err));
    snprintf(tail, sizeof tail, "%s.w2", prefix);
    return get_matrix(f, &e->w2, tail, f->t->hidden, dim, err);
}

static enum lf_status fetch_experts(struct fetch *f, struct lf_layer *l, struct lf_error *err) {
    const struct lf_topology *t = f->t;
    LF_TRY(get_bf16(f, &l->ffn_norm, "ffn_norm.weight", t->hidden, 0, err));
    LF_TRY(get_matrix(f, &l->gate, "ffn.gate", l->experts, t->hidden, err));
    LF_TRY(get_f32(f, &l->gate_bias, "ffn.gate.bias", l->experts, 0, err));
    l->expert = lf_arena_alloc(f->arena, l->experts, sizeof *l->expert);
    if (!l->expert)
        return lf_fail(err, LF_E_MEM, "out of memory for %u experts", l->experts);
    for (uint32_t e = 0; e < l->experts; e++) {
        char prefix[32];
        snprintf(prefix, sizeof prefix, "ffn.experts.%u", e);
        LF_TRY(fetch_expert(f, &l->expert[e], prefix, t->expert_dim, err));
    }
    return fetch_expert(f, &l->shared, "ffn.shared_experts", t->expert_dim * t->shared_experts,
                        err);
}

static enum lf_status fetch_engram(struct fetch *f, struct lf_layer *l, struct lf_error *err) {
    const struct lf_topology *t = f->t;
    for (uint32_t i = 0; i < t->n_engram; i++) {
        if (t->engram_layers[i] != l->id)
            continue;
        struct lf_engram_weights *e = lf_arena_alloc(f->arena, 1, sizeof *e);
        if (!e)
            return lf_fail(err, LF_E_MEM, "out of memory for the weights table");
        uint32_t columns = (t->engram_ngram - 1) * t->engram_heads;
        e->table = i;
        LF_TRY(lf_checkpoint_engram(f->checkpoint, &e->rows, l->id, err));
        LF_TRY(get_matrix(f, &e->wkv, "engram.wkv", (t->streams + 1) * t->hidden,
                          columns * t->engram_dim, err));
        LF_TRY(get_bf16(f, &e->q_weight, "engram.q_weight", t->streams, t->hidden, err));
        LF_TRY(get_bf16(f, &e->k_weight, "engram.k_weight", t->streams, t->hidden, err));
        l->engram = e;
    }
    return LF_OK;
}

static enum lf_status fetch_layer(struct fetch *f, struct lf_layer *l, struct lf_error *err) {
    l->ratio = f->t->ratio[l->id];
    LF_TRY(fetch_hc(f, &l->hc_attn, "attn", err));
    LF_TRY(fetch_hc(f, &l->hc_ffn, "ffn", err));
    LF_TRY(fetch_attention(f, l, err));
    LF_TRY(fetch_sources(f, l, err));
    LF_TRY(fetch_experts(f, l, err));
    return fetch_engram(f, l, err);
}

enum lf_status lf_weights_fetch(struct lf_weights *out, struct lf_arena *arena,
                                struct lf_checkpoint *checkpoint, struct lf_error *err) {
    const struct lf_topology *t = lf_checkpoint_topology(checkpoint);
    struct fetch f = {.checkpoint = checkpoint, .t = t, .arena = arena,
                      .root = "layers"};
    uint64_t shape[1] = {t->hidden};
    *out = (struct lf_weights){0};
    LF_TRY(lf_checkpoint_matrix(checkpoint, &out->embed, "embed", t->vocab, t->hidden, err));
    if (out->embed.format != LF_WEIGHT_BF16)
        return lf_fail(err, LF_E_UNSUPPORTED, "tensor embed.weight: expected BF16");
    LF_TRY(lf_checkpoint_matrix(checkpoint, &out->head, "head", t->vocab, t->hidden, err));
    LF_TRY(lf_checkpoint_bf16(checkpoint, &out->norm, "norm.weight", 1, shape, err));
    out->layer = lf_arena_alloc(arena, t->layers, sizeof *out->layer);
    if (!out->layer)
        return lf_fail(err, LF_E_MEM, "out of memory for %u layers", t->layers);
    for (f.number = 0; f.number < t->layers; f.number++) {
        struct lf_layer *l = &out->layer[f.number];
        *l = (struct lf_layer){.id = f.number, .experts = t->experts, .top = t->experts_top};
        LF_TRY(fetch_layer(&f, l, err));
    }
    return LF_OK;
}

// What only the first block and only the last one hold (model.md 1.1).
static enum lf_status fetch_ends(struct fetch *f, struct lf_draft_weights *d,
                                 struct lf_error *err) {
    const struct lf_topology *t = f->t;
    uint32_t taps = t->n_draft_taps * t->hidden, rank = t->draft_markov_rank;
    f->number = 0;
    LF_TRY(get_matrix(f, &d->main_proj, "main_proj", t->hidden, taps, err));
    LF_TRY(get_bf16(f, &d->main_norm, "main_norm.weight", t->hidden, 0, err));
    f->number = t->draft_layers - 1;
    LF_TRY(get_bf16(f, &d->norm, "norm.weight", t->hidden, 0, err));
    LF_TRY(get_matrix(f, &d->markov_embed, "markov_head.embed", t->vocab, rank, err));
    if (d->markov_embed.format != LF_WEIGHT_BF16)
        return lf_fail(err, LF_E_UNSUPPORTED, "tensor %s.weight: expected BF16", f->name);
    LF_TRY(get_matrix(f, &d->markov_head, "markov_head.head", t->vocab, rank, err));
    return get_matrix(f, &d->confidence, "confidence_head.proj", 1, t->hidden + rank, err);
}

enum lf_status lf_weights_fetch_draft(struct lf_weights *out, struct lf_arena *arena,
                                      struct lf_checkpoint *checkpoint, struct lf_error *err) {
    const struct lf_topology *t = lf_checkpoint_topology(checkpoint);
    struct fetch f = {.checkpoint = checkpoint, .t = t, .arena = arena, .root = "mtp"};
    struct lf_draft_weights *d = lf_arena_alloc(arena, 1, sizeof *d);
    if (d)
        d->block = lf_arena_alloc(arena, t->draft_layers, sizeof *d->block);
    if (!d || !d->block)
        return lf_fail(err, LF_E_MEM, "out of memory for %u draft blocks", t->draft_layers);
    for (f.number = 0; f.number < t->draft_layers; f.number++) {
        struct lf_layer *l = &d->block[f.number];
        *l = (struct lf_layer){.id = t->layers + f.number, .experts = t->draft_experts,
                               .top = t->draft_experts_top};
        LF_TRY(fetch_layer(&f, l, err));
    }
    LF_TRY(fetch_ends(&f, d, err));
    out->draft = d;
    return LF_OK;
}
