#include "trial.h"

#include <math.h>
#include <string.h>
#include "base/number.h"

// What the stages of a prompt's streams add up to, over all layers.
struct sums {
    struct lf_tally embedding, rows, gate, engram, tap, hc_attn, hc_ffn, attn_in, ffn_in, stream;
    struct lf_tally hidden, norm, logits;
};

static size_t stream_count(const struct lf_trial *t) {
    return (size_t)t->g->points * t->m->t->streams * t->m->t->hidden;
}

static const void *bf16(struct lf_trial *t, size_t count, const char *what, uint32_t layer) {
    return lf_golden_get(t->g, "BF16", count, "layers.%u.%s", layer, what);
}

static void tally_rows(struct lf_tally *tally, const uint16_t *got, const uint16_t *want,
                       size_t rows, size_t n) {
    for (size_t r = 0; r < rows; r++)
        lf_tally_bf16(tally, got + r * n, want + r * n, n);
}

// A sublayer's stored mix: pre, post and comb of every point into the work buffers.
static void set_mix(struct lf_trial *t, const float *mix, float *pre) {
    struct lf_work *w = &t->m->work;
    size_t s = t->m->t->streams, all = s * (2 + s);
    for (size_t r = 0; r < t->g->points; r++, mix += all) {
        memcpy(pre + r * s, mix, s * sizeof *pre);
        memcpy(w->post + r * s, mix + s, s * sizeof *mix);
        memcpy(w->comb + r * s * s, mix + 2 * s, s * s * sizeof *mix);
    }
}

static void tally_mix(struct lf_trial *t, struct lf_tally *tally, const float *want) {
    struct lf_work *w = &t->m->work;
    size_t s = t->m->t->streams, all = s * (2 + s);
    for (size_t r = 0; r < t->g->points; r++, want += all) {
        lf_tally_f32(tally, w->pre_next + r * s, want, s);
        lf_tally_f32(tally, w->post + r * s, want + s, s);
        lf_tally_f32(tally, w->comb + r * s * s, want + 2 * s, s * s);
    }
}

// The wanted row where a row of a table is it: memory apart has rows of the call, numbered anew.
static uint32_t engram_row(const struct lf_v41 *m, const struct lf_engram_weights *e, size_t i,
                           uint32_t want) {
    const struct lf_seen *seen = &m->work.seen;
    uint64_t number = seen->number[e->table][i];
    size_t dim = e->rows.dim;
    if (!m->shape.apart)
        return (uint32_t)number;
    return memcmp(seen->value[e->table] + number * dim, e->rows.value + want * dim, dim)
               ? UINT32_MAX
               : want;
}

// The gates of the stored streams; the streams are put back.
static void tally_gates(struct lf_trial *t, struct sums *sums, const struct lf_layer *layer) {
    struct lf_v41 *m = t->m;
    struct lf_work *w = &m->work;
    size_t n = stream_count(t), s = m->t->streams, points = t->g->points;
    uint16_t *before = lf_arena_alloc(&t->g->arena, n, sizeof *before);
    float *gate = lf_arena_alloc(&t->g->arena, points * s, sizeof *gate);
    if (!before || !gate)
        lf_golden_die("out of memory for gates");
    memcpy(before, w->x, n * sizeof *before);
    lf_engram(m, layer);
    struct lf_golden_tensor rows = lf_golden_find(t->g, "layers.%u.engram.rows", layer->id);
    const int32_t *row = rows.data;
    for (size_t i = 0; i < rows.count; i++) {
        uint32_t got = engram_row(m, layer->engram, i, (uint32_t)row[i]);
        lf_tally_ids(&sums->rows, &got, row + i, 1);
    }
    const uint16_t *want =
        lf_golden_get(t->g, "BF16", n, "layers.%u.engram_out", layer->id);
    tally_rows(&sums->engram, w->x, want, points * s, m->t->hidden);
    m->k.engram_gate(&m->device, &(struct lf_engram_gate_args){
                                  .rows = w->rows, .streams = m->t->streams, .dim = m->t->hidden,
                                  .x = before, .kv = w->engram_kv,
                                  .q_weight = layer->engram->q_weight,
                                  .k_weight = layer->engram->k_weight,
                                  .dot_scale = m->engram_scale, .eps = m->t->norm_eps,
                                  .gate = gate});
    lf_tally_f32(&sums->gate, gate,
                 lf_golden_get(t->g, "F32", points * s, "layers.%u.engram.gate", layer->id),
                 points * s);
    memcpy(w->x, want, n * sizeof *want);
}

static void tally_tap(struct lf_trial *t, struct sums *sums, uint32_t layer) {
    struct lf_v41 *m = t->m;
    size_t n = (size_t)t->g->points * m->t->hidden;
    struct lf_golden_tensor tap = lf_golden_find(t->g, "tap.%u", layer);
    if (!tap.data)
        return;
    if (tap.count != n)
        lf_golden_die("tap.%u: %zu elements", layer, tap.count);
    m->k.stream_mean(&m->device, &(struct lf_stream_mean_args){
                                  .rows = t->g->points, .streams = m->t->streams,
                                  .dim = m->t->hidden, .x = m->work.x, .y = m->work.out});
    tally_rows(&sums->tap, m->work.out, tap.data, t->g->points, m->t->hidden);
}

// The streams a layer starts from: the stored ones after the layer before, or the embedding.
static void set_streams(struct lf_trial *t, uint32_t layer) {
    struct lf_v41 *m = t->m;
    size_t s = m->t->streams, points = t->g->points;
    if (layer == 0) {
        lf_stream_start(m);
        return;
    }
    memcpy(m->work.x, bf16(t, stream_count(t), "stream", layer - 1),
           stream_count(t) * sizeof *m->work.x);
    set_mix(t, lf_golden_get(t->g, "F32", points * s * (2 + s), "layers.%u.hc_ffn", layer - 1),
            m->work.pre);
}

// A row of streams after both sublayers: a rounding between them, which no tensor stores, may flip.
static void tally_streams(struct lf_trial *t, struct lf_tally *tally, const uint16_t *between,
                          const uint16_t *want) {
    size_t s = t->m->t->streams, d = t->m->t->hidden;
    const uint16_t *got = t->m->work.x;
    for (size_t at = 0; at < stream_count(t); at++) {
        size_t row = at / (s * d) * s * d;
        float a = lf_bf16_to_f32(got[at]), b = lf_bf16_to_f32(want[at]), most = 0.0f;
        for (size_t i = 0; i < s; i++)
            most = fmaxf(most, fabsf(lf_bf16_to_f32(between[row + i * d + at % d])));
        lf_tally_step(tally, a, b,
                      lf_spacing_bf16((double)fmaxf(fabsf(a), fabsf(b))) +
                          lf_spacing_bf16((double)most));
    }
}

static void tally_layer(struct lf_trial *t, struct sums *sums, const struct lf_layer *layer) {
    struct lf_v41 *m = t->m;
    struct lf_work *w = &m->work;
    size_t s = m->t->streams, d = m->t->hidden, points = t->g->points, mix = points * s * (2 + s);
    uint32_t l = layer->id;
    uint16_t *between = lf_arena_alloc(&t->g->arena, stream_count(t), sizeof *between);
    if (!between)
        lf_golden_die("out of memory for streams");
    lf_trial_points(t);
    set_streams(t, l);
    if (layer->engram)
        tally_gates(t, sums, layer);
    tally_tap(t, sums, l);
    const float *hc_attn = lf_golden_get(t->g, "F32", mix, "layers.%u.hc_attn", l);
    const float *hc_ffn = lf_golden_get(t->g, "F32", mix, "layers.%u.hc_ffn", l);
    lf_stream_mix(m, &layer->hc_attn);
    tally_mix(t, &sums->hc_attn, hc_attn);
    lf_stream_collapse(m, layer->attn_norm);
    tally_rows(&sums->attn_in, w->in, bf16(t, points * d, "attn_in", l), points, d);
    memcpy(w->out, bf16(t, points * d, "attn_out", l), points * d * sizeof *w->out);
    set_mix(t, hc_attn, w->pre_next);
    lf_stream_expand(m, NULL);
    memcpy(between, w->x, stream_count(t) * sizeof *between);
    lf_stream_mix(m, &layer->hc_ffn);
    tally_mix(t, &sums->hc_ffn, hc_ffn);
    lf_stream_collapse(m, layer->ffn_norm);
    tally_rows(&sums->ffn_in, w->in, bf16(t, points * d, "ffn_in", l), points, d);
    memcpy(w->out, bf16(t, points * d, "ffn_out", l), points * d * sizeof *w->out);
    set_mix(t, hc_ffn, w->pre_next);
    lf_stream_expand(m, NULL);
    tally_streams(t, &sums->stream, between, bf16(t, stream_count(t), "stream", l));
}

// From the stored streams after the last layer to the logits, the map fed the stored norm.
static void tally_head(struct lf_trial *t, struct sums *sums) {
    struct lf_v41 *m = t->m;
    struct lf_work *w = &m->work;
    size_t d = m->t->hidden, points = t->g->points, vocab = m->t->vocab;
    const uint16_t *norm = lf_golden_get(t->g, "BF16", points * d, "final_norm");
    const float *logits = lf_golden_get(t->g, "F32", points * vocab, "logits");
    lf_trial_points(t);
    set_streams(t, m->t->layers);
    m->k.hc_collapse(&m->device, &(struct lf_hc_collapse_args){
                                  .rows = w->rows, .streams = m->t->streams, .dim = m->t->hidden,
                                  .x = w->x, .pre = w->pre, .y = w->out});
    tally_rows(&sums->hidden, w->out, lf_golden_get(t->g, "BF16", points * d, "final_hidden"),
               points, d);
    lf_head(m);
    tally_rows(&sums->norm, w->in, norm, points, d);
    lf_project(m, &m->weights.head, norm, w->logits, w->rows, 1);
    for (size_t r = 0; r < points; r++)
        lf_tally_f32(&sums->logits, w->logits + r * vocab, logits + r * vocab, vocab);
}

void lf_trial_streams(struct lf_trial *t) {
    struct sums sums = {
        .embedding = {.stage = "ids to embedding", .share = 1.0},
        .rows = {.stage = "ids to engram.rows", .share = 1.0},
        .gate = {.stage = "stream to engram.gate", .share = 1.0, .slack = 1e-6},
        .engram = {.stage = "stream to engram_out", .share = 0.999},
        .tap = {.stage = "stream to tap", .share = 1.0},
        .hc_attn = {.stage = "stream to hc_attn", .share = 1.0, .slack = 1e-5},
        .hc_ffn = {.stage = "stream and attn_out to hc_ffn", .share = 0.99, .slack = 1e-5,
                   .reach = 10.0},
        .attn_in = {.stage = "stream to attn_in", .share = 0.999},
        .ffn_in = {.stage = "stream and attn_out to ffn_in", .share = 0.999},
        .stream = {.stage = "stream, attn_out and ffn_out to stream", .share = 0.999},
        .hidden = {.stage = "stream to final_hidden", .share = 0.999},
        .norm = {.stage = "stream to final_norm", .share = 0.999},
        .logits = {.stage = "final_norm to logits", .share = 1.0, .slack = 1e-5},
    };
    size_t s = t->m->t->streams, d = t->m->t->hidden, points = t->g->points;
    const uint16_t *embedding = lf_golden_get(t->g, "BF16", points * d, "embedding");
    lf_trial_points(t);
    lf_stream_start(t->m);
    for (size_t r = 0; r < points * s; r++)
        lf_tally_bf16(&sums.embedding, t->m->work.x + r * d, embedding + r / s * d, d);
    for (uint32_t l = 0; l < t->m->t->layers; l++)
        tally_layer(t, &sums, &t->m->weights.layer[l]);
    tally_head(t, &sums);
    const struct lf_tally *all[] = {&sums.embedding, &sums.rows,   &sums.gate,    &sums.engram,
                                    &sums.tap,       &sums.hc_attn, &sums.attn_in, &sums.hc_ffn,
                                    &sums.ffn_in,    &sums.stream, &sums.hidden,  &sums.norm,
                                    &sums.logits};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        lf_report_tally(t->report, t->g->name, all[i]);
}
