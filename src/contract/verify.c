#include "contract/verify.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include "contract/verify_stage.h"
#include "model/draft.h"

enum { ROWS = LF_VERIFY_ROWS, ROWS_MAX = LF_DRAFTS_MAX };

struct verify {
    struct lf_v41 *m;
    const struct lf_verify_options *o;
    struct lf_verify_result *r;
    struct lf_stages stages;
    bool wanted[LF_LAYERS_MAX];
    uint64_t pos0;     // of the four rows
    uint16_t *after;   // [layers][ROWS] streams after each wanted layer of the four rows
    uint16_t *before;  // [ROWS_MAX] streams before a layer that is run twice
    uint16_t *twice;   // [ROWS_MAX] streams after it
    size_t row_bytes;  // of the streams of a row
    uint64_t differing; // of the layer at hand
    uint32_t n_stages, n_over;
};

uint32_t lf_verify_prompt_rows(const struct lf_topology *t) {
    uint32_t ratio = 0;
    for (uint32_t i = 0; i < t->layers; i++)
        ratio = t->ratio[i] > ratio ? t->ratio[i] : ratio;
    uint32_t scoring = ratio * (t->index_topk + 2), rows = t->window + 2;
    return (scoring > rows ? scoring : rows) + ROWS;
}

static enum lf_status choose(struct verify *v, struct lf_error *err) {
    bool seen[LF_KINDS] = {false};
    uint32_t layers = v->m->t->layers;
    for (uint32_t i = 0; i < v->o->n_layers; i++) {
        if (v->o->layer[i] >= layers)
            return lf_fail(err, LF_E_USAGE, "layer %u: the model has layers 0 to %u",
                           v->o->layer[i], layers - 1);
        v->wanted[v->o->layer[i]] = true;
    }
    for (uint32_t i = 0; i < layers && !v->o->n_layers; i++) {
        uint32_t kind = lf_topology_kind(v->m->t, i);
        v->wanted[i] = !seen[kind];
        seen[kind] = true;
    }
    return LF_OK;
}

static void note_unregistered(struct verify *v, const char *kernel) {
    char *list = v->r->unregistered;
    size_t len = strlen(list), room = sizeof v->r->unregistered - len;
    char word[48];
    snprintf(word, sizeof word, "%s ", kernel);
    for (const char *at = list; *at; at += strcspn(at, " ") + 1)
        if (!strncmp(at, word, strlen(word)))
            return;
    snprintf(list + len, room, "%s", word);
}

static void report_stage(struct verify *v, const struct lf_stage *s, uint32_t rows) {
    const struct lf_outcome *o = &s->outcome;
    if (!s->judged) {
        note_unregistered(v, s->kernel);
        fprintf(v->o->out, "  %-44s %u  no record\n", s->name, rows);
        v->r->missing++;
        return;
    }
    v->n_stages++;
    v->n_over += o->failed != 0;
    if (o->worst > v->r->worst)
        v->r->worst = o->worst;
    // Copies, codes and selections have no limit but equality.
    fprintf(v->o->out, "  %-44s %u  %.4g %.4g %.4f%s\n", s->name, rows, o->worst_error,
            o->worst_limit, o->worst, o->failed ? "  OVER" : "");
    if (o->failed)
        fprintf(v->o->out, "    %s\n", o->text);
}

static uint32_t calls(const struct verify *v, const char *kernel) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < v->stages.n; i++)
        n += !strcmp(v->stages.stage[i].kernel, kernel);
    return n;
}

struct expected {
    const char *kernel;
    uint32_t calls;
};

// A call that is not seen is missing.
static void expect(struct verify *v, const struct expected *expected, size_t n) {
    for (size_t i = 0; i < n; i++) {
        uint32_t seen = calls(v, expected[i].kernel);
        if (seen >= expected[i].calls)
            continue;
        fprintf(v->o->out, "  %s: %u of %u calls seen\n", expected[i].kernel, seen,
                expected[i].calls);
        v->r->missing += expected[i].calls - seen;
    }
}
#define EXPECT(v, ...)                                                                             \
    expect(v, (const struct expected[]){__VA_ARGS__},                                              \
           sizeof((const struct expected[]){__VA_ARGS__}) / sizeof(struct expected))

// The calls that a layer of this kind makes, a draft block too.
static void expect_layer(struct verify *v, const struct lf_layer *l) {
    uint32_t source = l->kv_source, pooled = l->kv_source && l->ratio == 2, engram = !!l->engram;
    uint32_t index = l->index_source, codes = engram && lf_matrix_quantizes_input(&l->engram->wkv);
    EXPECT(v, {"hc_mix", 2}, {"hc_collapse", 1}, {"hc_expand", 2}, {"attention", 1},
           {"router", 1}, {"swiglu", 1}, {"expert_group", 1},
           {"rms_norm", 1 + source}, {"rope", 2 + index}, {"cache_pack", 1 + 2 * source},
           {"act_quant", 1 + index + codes}, {"linear", 7 + 2 * source + 2 * index + engram},
           {"compress_pool", pooled}, {"index_score", index}, {"index_select", index},
           {"engram_gather", engram}, {"engram_gate", engram});
}

static void report(struct verify *v, uint32_t rows) {
    for (uint32_t i = 0; i < v->stages.n; i++)
        report_stage(v, &v->stages.stage[i], rows);
}

static uint64_t words_differ(const void *a, const void *b, size_t bytes) {
    uint64_t n = 0;
    for (size_t i = 0; i < bytes; i += 2)
        n += memcmp((const char *)a + i, (const char *)b + i, 2) != 0;
    return n;
}

// A layer of the rows of a pass: lf_forward_layer, lf_draft_block.
typedef void run_fn(struct lf_v41 *m, const struct lf_layer *layer);

// The layer again, from the same streams, with weights that were copied to other addresses.
static enum lf_status run_copied(struct verify *v, run_fn *run, const struct lf_layer *layer,
                                 const float *pre, struct lf_error *err) {
    struct lf_work *w = &v->m->work;
    struct lf_layer copied;
    struct lf_arena arena = {0};
    size_t bytes = w->rows * v->row_bytes, pre_bytes = sizeof *pre * w->rows * v->m->t->streams;
    float handed[ROWS_MAX * LF_STREAMS_MAX];
    if (lf_layer_copy(&copied, layer, v->m->t, &arena, err) == LF_OK) {
        memcpy(handed, w->pre, pre_bytes);
        memcpy(w->x, v->before, bytes);
        memcpy(w->pre, pre, pre_bytes);
        run(v->m, &copied);
        v->differing += words_differ(w->x, v->twice, bytes) +
                        words_differ(w->pre, handed, pre_bytes);
    }
    lf_arena_free(&arena);
    return err->status;
}

static void add_up(struct verify *v) {
    v->r->stages += v->n_stages;
    v->r->over += v->n_over;
    v->r->differing += v->differing;
    v->n_stages = v->n_over = 0;
    v->differing = 0;
}

// Every call judged, then the layer once more with copied weights.
static enum lf_status run_layer(struct verify *v, run_fn *run, const struct lf_layer *layer,
                                const char *name, struct lf_error *err) {
    struct lf_v41 *m = v->m;
    struct lf_work *w = &m->work;
    size_t bytes = w->rows * v->row_bytes;
    float pre[ROWS_MAX * LF_STREAMS_MAX];
    LF_ASSERT(w->rows <= ROWS_MAX);
    memcpy(v->before, w->x, bytes);
    memcpy(pre, w->pre, sizeof *pre * w->rows * m->t->streams);
    lf_stages_begin(&v->stages, m);
    run(m, layer);
    lf_stages_end(&v->stages);
    memcpy(v->twice, w->x, bytes);
    expect_layer(v, layer);
    report(v, w->rows);
    LF_TRY(run_copied(v, run, layer, pre, err));
    fprintf(v->o->out, "%s: %u stages, %u over; mapped == copied: %" PRIu64 " differing\n", name,
            v->n_stages, v->n_over, v->differing);
    add_up(v);
    return LF_OK;
}

static void begin_rows(struct verify *v, uint64_t pos0, uint32_t rows) {
    lf_batch_begin(v->m);
    lf_batch_add(v->m, 0, pos0, v->o->ids + pos0, rows, NULL, 0);
    lf_batch_end(v->m);
}

static void end_group(struct verify *v, const char *what, uint32_t rows) {
    lf_stages_end(&v->stages);
    report(v, rows);
    fprintf(v->o->out, "%s: %u stages, %u over\n", what, v->n_stages, v->n_over);
    add_up(v);
}

static const char *layer_name(const struct verify *v, uint32_t id, char name[32]) {
    snprintf(name, 32, "layer %u", v->o->name ? v->o->name[id] : id);
    return name;
}

static enum lf_status run_four(struct verify *v, struct lf_error *err) {
    struct lf_v41 *m = v->m;
    char name[32];
    begin_rows(v, v->pos0, ROWS);
    lf_stages_begin(&v->stages, m);
    lf_stream_start(m);
    end_group(v, "start", ROWS);
    for (uint32_t l = 0; l < m->t->layers; l++) {
        if (!v->wanted[l]) {
            lf_forward_layer(m, &m->weights.layer[l]);
            continue;
        }
        LF_TRY(run_layer(v, lf_forward_layer, &m->weights.layer[l], layer_name(v, l, name), err));
        memcpy(v->after + l * ROWS * v->row_bytes / 2, v->twice, ROWS * v->row_bytes);
        v->r->layers++;
    }
    if (v->wanted[m->t->layers - 1]) {
        lf_stages_begin(&v->stages, m);
        lf_head(m);
        end_group(v, "head", ROWS);
    }
    return LF_OK;
}

// A draft pass after the prompt, in the steps of propose: context rows, blocks, head, drafts.
static enum lf_status run_drafter(struct verify *v, struct lf_error *err) {
    static const struct lf_sampling rule = {.temperature = 1, .top_p = 0.95, .seed = 1};
    struct lf_v41 *m = v->m;
    uint32_t slot = 0, blocks = m->t->draft_layers, block = m->t->draft_block;
    struct lf_draft_ask ask = {.pending = v->o->ids[v->pos0], .rule = &rule};
    struct lf_draft draft;
    lf_stages_begin(&v->stages, m);
    lf_draft_fill(m, &slot, 1);
    EXPECT(v, {"linear", 1 + blocks}, {"rms_norm", 1}, {"cache_pack", blocks},
           {"ring_store", blocks}, {"row_gather", 1});
    end_group(v, "draft context", m->work.rows);
    lf_stages_begin(&v->stages, m);
    lf_draft_start(m, &ask, 1);
    end_group(v, "draft start", block);
    for (uint32_t b = 0; b < blocks; b++) {
        char name[32];
        snprintf(name, sizeof name, "draft block %u", b);
        LF_TRY(run_layer(v, lf_draft_block, &m->weights.draft->block[b], name, err));
        v->r->draft_blocks++;
    }
    lf_stages_begin(&v->stages, m);
    lf_draft_head(m);
    lf_draft_choose(m, &ask, 1, &draft);
    EXPECT(v, {"hc_collapse", 1}, {"rms_norm", 1}, {"linear", 2 + block}, {"embed", block},
           {"draft_join", block}, {"sample", block}, {"row_gather", 1});
    end_group(v, "drafts", block);
    return LF_OK;
}

// A row by itself: its stages where judged is set, and its streams against those among four.
static void run_one(struct verify *v, uint32_t row, bool judged) {
    struct lf_v41 *m = v->m;
    size_t row_words = v->row_bytes / 2;
    begin_rows(v, v->pos0 + row, 1);
    lf_stream_start(m);
    for (uint32_t l = 0; l < m->t->layers; l++) {
        bool records = judged && v->wanted[l];
        if (records)
            lf_stages_begin(&v->stages, m);
        lf_forward_layer(m, &m->weights.layer[l]);
        if (records) {
            char name[32], what[48];
            snprintf(what, sizeof what, "%s alone", layer_name(v, l, name));
            end_group(v, what, 1);
        }
        if (v->wanted[l])
            v->differing += words_differ(m->work.x, v->after + (l * ROWS + row) * row_words,
                                         v->row_bytes);
    }
}

static enum lf_status run_prompt(struct verify *v, struct lf_error *err) {
    struct lf_target *target = &v->m->target;
    struct lf_bound end = {.at = v->pos0};
    for (uint64_t at = 0, n; at < v->pos0; at += n) {
        n = target->ops->info(target)->chunk_rows_max;
        n = n > v->pos0 - at ? v->pos0 - at : n;
        struct lf_chunk chunk = {.rows = (uint32_t)n, .pos0 = at, .tok = v->o->ids + at,
                                 .plan = &end, .n_plan = 1};
        LF_TRY(target->ops->prefill(target, &chunk, 1, err));
    }
    return LF_OK;
}

static enum lf_status run_all(struct verify *v, struct lf_error *err) {
    LF_TRY(choose(v, err));
    LF_TRY(run_prompt(v, err));
    if (v->m->weights.draft)
        LF_TRY(run_drafter(v, err));
    LF_TRY(run_four(v, err));
    for (uint32_t row = 0; row < ROWS; row++)
        run_one(v, row, row == 1);
    fprintf(v->o->out, "one row == each of four: %" PRIu64 " differing\n", v->differing);
    add_up(v);
    return LF_OK;
}

enum lf_status lf_verify_run(struct lf_target *target, const struct lf_verify_options *options,
                             struct lf_verify_result *result, struct lf_error *err) {
    struct verify *v = calloc(1, sizeof *v);
    *result = (struct lf_verify_result){0};
    LF_ASSERT(v && options->n_ids > ROWS);
    v->m = (struct lf_v41 *)target;
    v->o = options;
    v->r = result;
    v->pos0 = options->n_ids - ROWS;
    v->row_bytes = sizeof(uint16_t) * v->m->t->streams * v->m->t->hidden;
    v->before = malloc(ROWS_MAX * v->row_bytes);
    v->twice = malloc(ROWS_MAX * v->row_bytes);
    v->after = malloc(v->m->t->layers * ROWS * v->row_bytes);
    if (!v->before || !v->twice || !v->after)
        lf_fail(err, LF_E_MEM, "out of memory for the streams of %u layers", v->m->t->layers);
    else
        run_all(v, err);
    free(v->before);
    free(v->twice);
    free(v->after);
    free(v);
    return err->status;
}
