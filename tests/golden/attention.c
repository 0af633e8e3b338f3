#include "trial.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "base/number.h"
#include "kernel/row.h"

struct sums {
    struct lf_tally qr, q, key, out;                       // each point by itself
    struct lf_tally compressed, index_key, query, weight;  // from every row's input
    struct lf_tally score, blocks, selected, o, whole;
};

// Values of a packed row (kernel/row.h) against stored ones; unequal ones may be one code apart.
static void tally_packed(struct lf_tally *t, const uint8_t *row, enum lf_cache_format format,
                         const uint16_t *want, uint32_t dim) {
    bool fp8 = format == LF_CACHE_QA8, e4m3_scale = format == LF_CACHE_QF4S;
    const uint8_t *scales = row + (fp8 ? dim : dim / 2);
    for (uint32_t i = 0; i < dim; i++) {
        uint8_t byte = scales[i / (e4m3_scale ? 16 : 32)];
        float scale = e4m3_scale ? lf_e4m3_to_f32(byte) : lf_ue8m0_to_f32(byte);
        float value = fp8 ? lf_e4m3_to_f32(row[i])
                          : lf_e2m1_to_f32(i % 2 ? row[i / 2] >> 4 : row[i / 2] & 15);
        float wanted = lf_bf16_to_f32(want[i]), most = fmaxf(fabsf(value), fabsf(wanted) / scale);
        float step = fp8 ? fmaxf(exp2f(floorf(log2f(most)) - 3.0f), 0x1p-9f)
                         : most <= 2.0f ? 0.5f : most <= 4.0f ? 1.0f : 2.0f;
        lf_tally_step(t, value * scale, wanted, (double)(step * scale));
    }
}

static const void *points_of(struct lf_trial *t, size_t each, const char *what, uint32_t layer) {
    return lf_golden_get(t->g, "BF16", t->g->points * each, "layers.%u.%s", layer, what);
}

// Layer by layer over the points alone: what reads no other row.
static void tally_maps(struct lf_trial *t, struct sums *sums, const struct lf_layer *layer) {
    struct lf_v41 *m = t->m;
    struct lf_work *w = &m->work;
    size_t d = m->t->hidden, points = t->g->points, head = m->t->head_dim;
    size_t heads = m->t->heads * head, lora = m->t->q_lora;
    uint32_t l = layer->id;
    lf_trial_points(t);
    memcpy(w->in, points_of(t, d, "attn_in", l), points * d * sizeof *w->in);
    lf_quantize(m, w->in, w->in_q, w->rows, m->t->hidden);
    lf_window_keys(m, layer, true);
    lf_attention_queries(m, layer);
    const uint16_t *qr = points_of(t, lora, "attn.qr", l), *q = points_of(t, heads, "attn.q", l);
    const uint16_t *key = points_of(t, head, "attn.window_key", l);
    const uint16_t *out = points_of(t, d, "attn_out", l);
    memcpy(w->o, points_of(t, heads, "attn.o", l), points * heads * sizeof *w->o);
    lf_attention_output(m, layer);
    for (size_t r = 0; r < points; r++) {
        lf_tally_bf16(&sums->qr, w->qr + r * lora, qr + r * lora, lora);
        for (size_t h = 0; h < heads; h += head)
            lf_tally_bf16(&sums->q, w->q + r * heads + h, q + r * heads + h, head);
        tally_packed(&sums->key, w->call_keys + r * m->shape.window_bytes, LF_CACHE_QA8,
                     key + r * head, (uint32_t)head);
        lf_tally_bf16(&sums->out, w->out + r * d, out + r * d, d);
    }
}

void lf_trial_maps(struct lf_trial *t) {
    struct sums sums = {
        .qr = {.stage = "attn_in to qr", .share = 0.999},
        .q = {.stage = "attn_in to q", .share = 0.999},
        .key = {.stage = "attn_in to window_key", .share = 0.999},
        .out = {.stage = "attn.o to attn_out", .share = 0.999},
    };
    for (uint32_t l = 0; l < t->m->t->layers; l++)
        tally_maps(t, &sums, &t->m->weights.layer[l]);
    lf_report_tally(t->report, t->g->name, &sums.qr);
    lf_report_tally(t->report, t->g->name, &sums.q);
    lf_report_tally(t->report, t->g->name, &sums.key);
    lf_report_tally(t->report, t->g->name, &sums.out);
}

static void tally_caches(struct lf_trial *t, struct sums *sums, const struct lf_layer *layer) {
    struct lf_v41 *m = t->m;
    uint32_t l = layer->id, source = 0, head = m->t->head_dim, dim = m->t->index_dim;
    struct lf_golden_tensor entries = lf_golden_find(t->g, "layers.%u.attn.entries", l);
    const int32_t *entry = entries.data;
    const uint16_t *row = lf_golden_get(t->g, "BF16", entries.count * head,
                                        "layers.%u.attn.compressed", l);
    const uint16_t *key = lf_golden_get(t->g, "BF16", entries.count * dim,
                                        "layers.%u.attn.index_key", l);
    while (m->t->kv_sources[source] != l)
        source++;
    for (size_t i = 0; i < entries.count; i++) {
        uint64_t j = (uint64_t)entry[i];
        tally_packed(&sums->compressed,
                     lf_paged_row(&m->state[0].entry[source], j, m->shape.entry_bytes),
                     LF_CACHE_QF4S, row + i * head, head);
        tally_packed(&sums->index_key,
                     lf_paged_row(&m->state[0].key[source], j, m->shape.key_bytes),
                     LF_CACHE_QF4E, key + i * dim, dim);
    }
}

// A list of the call against a stored one, which is padded with -1.
static void tally_list(struct lf_tally *tally, const uint32_t *got, uint32_t n,
                       const int32_t *want, size_t width) {
    for (size_t i = 0; i < width; i++) {
        uint32_t value = i < n ? got[i] : UINT32_MAX;
        int64_t wanted = want[i];
        bool equal = wanted < 0 ? i >= n : i < n && (int64_t)value == wanted;
        tally->n++;
        tally->equal += equal;
        if (!equal)
            tally->worst = HUGE_VAL;
    }
}

static void tally_scores(struct lf_trial *t, struct sums *sums, const struct lf_layer *layer,
                         size_t p) {
    struct lf_v41 *m = t->m;
    struct lf_work *w = &m->work;
    uint32_t l = layer->id;
    size_t r = (size_t)t->g->positions[p];
    size_t width = (size_t)m->t->index_heads * m->t->index_dim, heads = m->t->index_heads;
    struct lf_golden_tensor score = lf_golden_find(t->g, "layers.%u.attn.indexer.score", l);
    const uint16_t *query = points_of(t, width, "attn.indexer.query", l);
    const uint16_t *weight = points_of(t, heads, "attn.indexer.head_weight", l);
    for (size_t i = 0; i < width; i++)
        lf_tally_step(&sums->query, lf_bf16_to_f32(w->iq[r * width + i]),
                      lf_bf16_to_f32(query[p * width + i]), 0.0);
    for (size_t h = 0; h < heads; h++) // stored with the scale on, which is a power of two
        lf_tally_step(&sums->weight, lf_bf16_to_f32(w->iw[r * heads + h]) * m->index_scale,
                      lf_bf16_to_f32(weight[p * heads + h]), 0.0);
    struct lf_candidates candidates = {l > m->t->candidate_source ? w->blocks : NULL, w->n_blocks,
                                       m->t->candidate_block_size, m->t->candidate_blocks};
    struct lf_items items = lf_items_of(&candidates, (uint32_t)r,
                                        w->seen.visible[layer->ratio - 1][r]);
    const float *all = (const float *)score.data + p * score.shape[1];
    float *want = malloc((items.n + 1) * sizeof *want);
    if (!want)
        lf_golden_die("out of memory for %u scores", items.n);
    for (uint32_t i = 0; i < items.n; i++)
        want[i] = all[lf_item_entry(&items, i)];
    lf_tally_f32(&sums->score, w->score + r * lf_indexer_stride(m, layer), want, items.n);
    free(want);
}

// Scores, blocks and lists of an index source; the stored lists then stand in for the call's own.
static void tally_selection(struct lf_trial *t, struct sums *sums, const struct lf_layer *layer) {
    struct lf_v41 *m = t->m;
    struct lf_work *w = &m->work;
    uint32_t topk = m->t->index_topk, blocks = m->t->candidate_blocks, l = layer->id;
    bool scored = t->g->rows / layer->ratio > topk;
    const int32_t *selected = lf_golden_get(t->g, "I32", (size_t)t->g->points * topk,
                                            "layers.%u.attn.selected", l);
    const int32_t *kept = lf_golden_get(t->g, "I32", (size_t)t->g->points * blocks,
                                        "candidate_blocks");
    for (size_t p = 0; p < t->g->points; p++) {
        size_t r = (size_t)t->g->positions[p];
        if (scored)
            tally_scores(t, sums, layer, p);
        if (scored && l == m->t->candidate_source)
            tally_list(&sums->blocks, w->blocks + r * blocks, w->n_blocks[r], kept + p * blocks,
                       blocks);
        tally_list(&sums->selected, w->selected + r * topk, w->n_selected[r],
                   selected + p * topk, topk);
        memcpy(w->selected + r * topk, selected + p * topk, topk * sizeof *selected);
    }
}

static void tally_attention(struct lf_trial *t, struct sums *sums, const struct lf_layer *layer) {
    struct lf_v41 *m = t->m;
    struct lf_work *w = &m->work;
    size_t d = m->t->hidden, head = m->t->head_dim, heads = m->t->heads * head;
    uint32_t l = layer->id;
    const uint16_t *o = points_of(t, heads, "attn.o", l), *out = points_of(t, d, "attn_out", l);
    lf_quantize(m, w->in, w->in_q, w->rows, m->t->hidden);
    if (layer->kv_source) {
        lf_compress(m, layer);
        tally_caches(t, sums, layer);
    }
    lf_window_keys(m, layer, true);
    lf_attention_queries(m, layer);
    if (layer->index_source) {
        lf_indexer(m, layer);
        tally_selection(t, sums, layer);
    }
    lf_attention_read(m, layer);
    for (size_t p = 0; p < t->g->points; p++)
        for (size_t h = 0; h < heads; h += head)
            lf_tally_bf16(&sums->o, w->o + (size_t)t->g->positions[p] * heads + h,
                          o + p * heads + h, head);
    lf_attention_output(m, layer);
    for (size_t p = 0; p < t->g->points; p++)
        lf_tally_bf16(&sums->whole, w->out + (size_t)t->g->positions[p] * d, out + p * d, d);
}

void lf_trial_attention(struct lf_trial *t) {
    struct sums sums = {
        .compressed = {.stage = "every attn_in to compressed", .share = 0.999},
        .index_key = {.stage = "every attn_in to index_key", .share = 0.999},
        .query = {.stage = "every attn_in to indexer.query", .share = 0.999},
        .weight = {.stage = "every attn_in to indexer.head_weight", .share = 0.999},
        .score = {.stage = "every attn_in to indexer.score", .share = 1.0, .slack = 1e-6},
        .blocks = {.stage = "every attn_in to candidate_blocks", .share = 1.0},
        .selected = {.stage = "every attn_in to selected", .share = 1.0},
        .o = {.stage = "every attn_in to attn.o", .share = 0.999},
        .whole = {.stage = "every attn_in to attn_out", .share = 0.999},
    };
    struct lf_work *w = &t->m->work, served = *w;
    // The workspace may hold scores of some rows; all of the call's are compared here.
    w->score_floats = t->g->rows * t->m->shape.context;
    w->score = calloc(w->score_floats, sizeof *w->score);
    if (!w->score)
        lf_golden_die("out of memory for the scores of %u rows", t->g->rows);
    bool any = false;
    for (uint32_t l = 0; l < t->m->t->layers; l++) {
        struct lf_golden_tensor in = lf_golden_find(t->g, "all.layers.%u.attn_in", l);
        if (!in.data)
            continue;
        if (!any)
            lf_trial_rows(t);
        any = true;
        memcpy(t->m->work.in, in.data, in.count * sizeof *t->m->work.in);
        tally_attention(t, &sums, &t->m->weights.layer[l]);
    }
    free(w->score);
    w->score = served.score;
    w->score_floats = served.score_floats;
    const struct lf_tally *all[] = {&sums.compressed, &sums.index_key, &sums.query,
                                    &sums.weight,     &sums.score,     &sums.blocks,
                                    &sums.selected,   &sums.o,         &sums.whole};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        lf_report_tally(t->report, t->g->name, all[i]);
}
