#include "model/draft.h"

#include "model/graphs.h"
#include "model/target_ops.h"
#include "model/v41.h"

// The ids that the first draft of each stream follows.
static void put_pending(struct lf_v41 *m, const struct lf_draft_ask *ask, uint32_t n) {
    struct lf_table id = lf_tables_take(&m->work.tables, n * sizeof(uint32_t));
    for (uint32_t i = 0; i < n; i++)
        ((uint32_t *)id.host)[i] = ask[i].pending;
    m->work.draft.pending = id.seen;
}

void lf_draft_start(struct lf_v41 *m, const struct lf_draft_ask *ask, uint32_t n) {
    struct lf_work *w = &m->work;
    uint32_t block = m->t->draft_block;
    LF_ASSERT(n <= m->work.draft.asks_max);
    lf_batch_begin(m);
    for (uint32_t i = 0; i < n; i++) {
        uint64_t pos0 = m->state[ask[i].slot].length;
        w->span[ask[i].slot] = (struct lf_span){.first = i * block, .rows = block, .pos0 = pos0};
        for (uint32_t j = 0; j < block; j++, w->rows++) {
            w->row[w->rows] = (struct lf_row){
                .lane = ask[i].slot, .token = j ? m->t->draft_noise_id : ask[i].pending,
                .position = pos0 + j, .index = w->rows, .depth = m->t->layers};
#if LF_FAULT == 2
            w->row[w->rows].position = pos0; // 2: noise rows at the pending token's position
#endif
        }
    }
    lf_tables_rows(m, w->rows);
    lf_tables_rope(m, 0, w->rows);
    put_pending(m, ask, n);
    lf_tables_send(&w->tables);
    lf_stream_start(m);
}

void lf_draft_block(struct lf_v41 *m, const struct lf_layer *block) {
    lf_stream_collapse(m, block->attn_norm);
    lf_window_keys(m, block, true);
    lf_stream_mix(m, &block->hc_attn);
    lf_attention_queries(m, block);
    lf_attention_read(m, block);
    lf_attention_output(m, block);
    lf_graphs_join_all(m);
    lf_stream_expand(m, block->ffn_norm);
    lf_forward_experts(m, block, NULL);
}

// Elements of a row that the confidence head reads.
static size_t judged_width(const struct lf_v41 *m) {
    return m->t->hidden + (size_t)m->t->draft_markov_rank;
}

void lf_draft_head(struct lf_v41 *m) {
    struct lf_work *w = &m->work;
    const struct lf_topology *t = m->t;
    struct lf_draft_work *d = &m->work.draft;
    size_t bytes = t->hidden * sizeof *d->hidden;
    m->k.hc_collapse(&m->device, &(struct lf_hc_collapse_args){
                                  .rows = w->rows, .streams = t->streams, .dim = t->hidden,
                                  .x = w->x, .pre = w->pre, .y = d->hidden});
    struct lf_row_gather_job job = {.rows = w->rows, .x = d->hidden, .x_pitch = bytes,
                                    .y = d->judged, .y_pitch = judged_width(m) * sizeof *d->judged,
                                    .row_bytes = bytes};
    m->k.row_gather(&m->device, &(struct lf_row_gather_args){1, &job});
    lf_norm(m, d->hidden, m->weights.draft->norm, w->in, NULL, w->rows, t->hidden);
    lf_project(m, &m->weights.head, w->in, w->logits, w->rows, 1);
}

// The logits of draft j of every stream, biased by the token before it.
static void bias_logits(struct lf_v41 *m, uint32_t n, uint32_t j) {
    const struct lf_topology *t = m->t;
    struct lf_draft_work *d = &m->work.draft;
    const uint32_t *before = j ? m->work.drawn + (size_t)(j - 1) * n : d->pending;
#if LF_FAULT == 1
    before = d->pending; // 1: every draft biased by the pending token
#endif
    uint16_t *embed = d->judged + j * judged_width(m) + t->hidden;
    size_t stride = t->draft_block * judged_width(m);
    // A stream that drew nothing ended: whatever follows is not looked at.
    m->k.embed(&m->device, &(struct lf_embed_args){.rows = n, .streams = 1, .id = before,
                                                   .id_none = t->draft_noise_id,
                                                   .table = &m->weights.draft->markov_embed,
                                                   .streams_out = embed, .out_stride = stride});
    struct lf_linear_job job = {.w = &m->weights.draft->markov_head, .rows = n, .x = embed,
                                .x_stride = stride, .y = d->bias, .y_stride = t->vocab,
                                .y_f32 = 1};
    m->k.linear(&m->device, &(struct lf_linear_args){.n_jobs = 1, .job = &job});
    m->k.draft_join(&m->device, &(struct lf_draft_join_args){
                                 .rows = n, .vocab = t->vocab, .bias = d->bias,
                                 .logits = m->work.logits + (size_t)j * t->vocab,
                                 .logits_stride = (size_t)t->draft_block * t->vocab});
}

// The target's own race at the same position (D-3).
static void draw(struct lf_v41 *m, const struct lf_draft_ask *ask, uint32_t n, uint32_t j) {
    const struct lf_topology *t = m->t;
    struct lf_sample_row row[LF_DRAFT_ASKS_MAX];
    for (uint32_t i = 0; i < n; i++)
        row[i] = (struct lf_sample_row){.rule = ask[i].rule,
                                        .position = m->state[ask[i].slot].length + 1 + j};
    m->k.sample(&m->device, &(struct lf_sample_args){
                             .rows = n, .vocab = t->vocab,
                             .logits = m->work.logits + (size_t)j * t->vocab,
                             .logits_stride = (size_t)t->draft_block * t->vocab, .row = row,
                             .drawn = m->work.drawn + (size_t)j * n});
}

// A stream without a candidate ends there.
static void read_drafts(struct lf_v41 *m, uint32_t n, struct lf_draft *out) {
    uint32_t block = m->t->draft_block, drawn[LF_DRAFT_ASKS_MAX * LF_DRAFTS_MAX];
    float confidence[LF_DRAFT_ASKS_MAX * LF_DRAFTS_MAX];
    struct lf_mem *memory = m->device.memory;
    lf_mem_download(memory, drawn, m->work.drawn, (size_t)n * block * sizeof *drawn);
    lf_mem_download(memory, confidence, m->work.draft.confidence,
                    (size_t)n * block * sizeof *confidence);
    for (uint32_t i = 0; i < n; i++)
        for (out[i].n = 0; out[i].n < block; out[i].n++) {
            uint32_t id = drawn[out[i].n * n + i];
            if (id == LF_SAMPLE_NONE)
                break;
            out[i].tok[out[i].n] = id;
            out[i].confidence[out[i].n] = confidence[i * block + out[i].n];
        }
}

void lf_draft_choose(struct lf_v41 *m, const struct lf_draft_ask *ask, uint32_t n,
                     struct lf_draft *out) {
    struct lf_draft_work *d = &m->work.draft;
    uint32_t block = m->t->draft_block;
    for (uint32_t j = 0; j < block; j++) {
        bias_logits(m, n, j);
        draw(m, ask, n, j);
    }
    lf_project(m, &m->weights.draft->confidence, d->judged, d->confidence, n * block, 1);
    read_drafts(m, n, out);
}

static enum lf_status check_slot(const struct lf_v41 *m, uint32_t slot, struct lf_error *err) {
    if (slot >= m->info.slots)
        return lf_fail(err, LF_E_SLOT, "slot %u: there are %u", slot, m->info.slots);
    if (m->state[slot].pending_rows)
        return lf_fail(err, LF_E_KEEP, "slot %u: the last verify still waits for its keep", slot);
    return LF_OK;
}

static enum lf_status named_twice(uint32_t slot, struct lf_error *err) {
    return lf_fail(err, LF_E_SLOT, "slot %u is named twice in one call", slot);
}

static enum lf_status ingest(struct lf_target *target, const uint32_t *slot, uint32_t n,
                             struct lf_error *err) {
    struct lf_v41 *m = (struct lf_v41 *)target;
    for (uint32_t i = 0; i < n; i++) {
        LF_TRY(check_slot(m, slot[i], err));
        for (uint32_t j = 0; j < i; j++)
            if (slot[j] == slot[i])
                return named_twice(slot[i], err);
    }
    lf_draft_fill(m, slot, n);
    return LF_OK;
}

// A pass reads the W rows before the pending token: all must have been run with taps.
static enum lf_status check_ask(const struct lf_v41 *m, const struct lf_draft_ask *ask,
                                struct lf_error *err) {
    LF_TRY(check_slot(m, ask->slot, err));
    const struct lf_state *s = &m->state[ask->slot];
    uint64_t first = s->length > m->t->window ? s->length - m->t->window : 0;
    if (ask->pending >= m->info.vocab)
        return lf_fail(err, LF_E_TOKEN, "token %u: the vocabulary has %u", ask->pending,
                       m->info.vocab);
    if (s->length == 0)
        return lf_fail(err, LF_E_POS, "slot %u: nothing to draft from, it has no rows",
                       ask->slot);
    if (!s->complete || lf_draft_from(m, ask->slot) > first)
        return lf_fail(err, LF_E_PLAN, "slot %u: no token was to be drawn at position %llu",
                       ask->slot, (unsigned long long)s->length);
    return LF_OK;
}

static void draft_pass(struct lf_v41 *m) {
    for (uint32_t b = 0; b < m->t->draft_layers; b++)
        lf_draft_block(m, &m->weights.draft->block[b]);
    lf_draft_head(m);
}

static enum lf_status propose(struct lf_target *target, const struct lf_draft_ask *ask, uint32_t n,
                              struct lf_draft *out, struct lf_error *err) {
    struct lf_v41 *m = (struct lf_v41 *)target;
    uint32_t slot[LF_DRAFT_ASKS_MAX], most = m->work.draft.asks_max;
    for (uint32_t i = 0; i < n; i++) {
        LF_TRY(check_ask(m, &ask[i], err));
        for (uint32_t j = 0; j < i; j++)
            if (ask[j].slot == ask[i].slot)
                return named_twice(ask[i].slot, err);
    }
    for (uint32_t at = 0, now; at < n; at += now) {
        now = n - at < most ? n - at : most;
        for (uint32_t i = 0; i < now; i++)
            slot[i] = ask[at + i].slot;
        lf_draft_fill(m, slot, now);
        lf_draft_start(m, ask + at, now);
        lf_graphs_run(m, LF_RUN_DRAFTS, draft_pass);
        lf_draft_choose(m, ask + at, now, out + at);
    }
    return lf_mem_wait(m->device.memory, err);
}

const struct lf_drafter_ops lf_model_drafter_ops = {.ingest = ingest, .propose = propose};
