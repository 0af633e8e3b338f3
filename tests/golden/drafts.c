#include "trial.h"

#include <math.h>
#include <string.h>
#include "base/number.h"
#include "kernel/cache_row.h"

static size_t context_rows(const struct lf_trial *t) {
    return t->g->rows < t->m->t->window ? t->g->rows : t->m->t->window;
}

static const uint16_t *context_tail(struct lf_trial *t, uint32_t block) {
    return lf_golden_get(t->g, "BF16", context_rows(t) * t->m->t->head_dim,
                         "draft.mtp.%u.context_tail", block);
}

static uint8_t *ring_row(struct lf_trial *t, uint32_t block, uint64_t position) {
    struct lf_v41 *m = t->m;
    return m->state[0].ring[m->t->layers + block] +
           position % m->shape.ring_rows * m->shape.window_bytes;
}

// A stored row's codes: it holds QA8 values already.
static void pack(struct lf_trial *t, const uint16_t *row, uint8_t *to) {
    uint16_t *x = lf_arena_alloc(&t->g->arena, t->m->t->head_dim, sizeof *x);
    if (!x)
        lf_golden_die("out of memory for a row");
    memcpy(x, row, t->m->t->head_dim * sizeof *x);
    t->m->k.cache_pack(&t->m->device, &(struct lf_cache_pack_args){
                                       .format = LF_CACHE_QA8, .rows = 1,
                                       .dim = t->m->t->head_dim, .x = x, .dst = &to});
}

// Values, not codes: a group whose greatest rounds to 224 may be written with either exponent.
static void tally_tail(struct lf_trial *t, struct lf_tally *tally, uint32_t block) {
    size_t dim = t->m->t->head_dim;
    uint64_t first = t->g->rows - context_rows(t);
    float *got = lf_arena_alloc(&t->g->arena, dim, sizeof *got);
    if (!got)
        lf_golden_die("out of memory for a row");
    for (size_t point = 0; point < t->g->points; point++) {
        uint64_t position = (uint64_t)t->g->positions[point];
        if (position < first)
            continue;
        const uint16_t *want = context_tail(t, block) + (position - first) * dim;
        lf_qa8_widen(got, ring_row(t, block, position), (uint32_t)dim);
        for (size_t i = 0; i < dim; i++) {
            float value = lf_bf16_to_f32(want[i]);
            lf_tally_step(tally, got[i], value, fabs((double)value) / 8.0);
        }
    }
}

// Stored taps of the points inside the window give the stored context rows (model.md 11.3).
static void check_context(struct lf_trial *t) {
    struct lf_v41 *m = t->m;
    struct lf_state *s = &m->state[0];
    size_t d = m->t->hidden;
    uint64_t first = t->g->rows - context_rows(t);
    uint32_t lane = 0;
    struct lf_tally rows = {.stage = "taps to context_tail", .share = 0.999};
    lf_state_reset(s, &m->shape);
    s->length = t->g->rows;
    memset(s->taps, 0, sizeof *s->taps * m->shape.ring_rows * m->shape.tap_size);
    for (size_t i = 0; i < (size_t)t->g->points * m->t->n_draft_taps; i++) {
        size_t point = i / m->t->n_draft_taps, place = i % m->t->n_draft_taps;
        const uint16_t *tap = lf_golden_get(t->g, "BF16", t->g->points * d, "tap.%u",
                                            m->t->draft_taps[place]);
        uint64_t position = (uint64_t)t->g->positions[point];
        if (position >= first)
            memcpy(s->taps + position % m->shape.ring_rows * m->shape.tap_size + place * d,
                   tap + point * d, d * sizeof *tap);
    }
    lf_draft_fill(m, &lane, 1);
    for (uint32_t b = 0; b < m->t->draft_layers; b++)
        tally_tail(t, &rows, b);
    lf_report_tally(t->report, t->g->name, &rows);
}

static void check_near(struct lf_trial *t, const char *what, const uint16_t *got,
                       const uint16_t *want, size_t n) {
    double away = lf_distance_bf16(got, want, n);
    lf_report_check(t->report, away <= 1e-4, "%s %s: relative L2 distance %.2e, at most 1e-4",
                    t->g->name, what, away);
}

static json_t *round_at(struct lf_trial *t, size_t i) {
    return json_array_get(json_object_get(t->g->json, "rounds"), i);
}

static double item(const json_t *round, const char *list, size_t i) {
    return json_number_value(json_array_get(json_object_get(round, list), i));
}

// Blocks over the stored context: streams and experts after each, hidden, logits, the chain.
static void check_pass(struct lf_trial *t, const struct lf_draft_ask *ask) {
    struct lf_v41 *m = t->m;
    size_t block = m->t->draft_block, d = m->t->hidden, vocab = m->t->vocab;
    size_t top = m->t->draft_experts_top, streams = block * m->t->streams * d, equal = 0;
    struct lf_tally ids = {.stage = "context_tail to draft router_ids", .share = 1.0};
    struct lf_tally logits = {.stage = "context_tail to draft.logits", .share = 1.0,
                              .slack = 1e-5};
    struct lf_tally confidence = {.stage = "context_tail to confidence", .share = 1.0,
                                  .slack = 1e-3};
    struct lf_draft out;
    lf_draft_start(m, ask, 1);
    for (uint32_t b = 0; b < m->t->draft_layers; b++) {
        lf_draft_block(m, &m->weights.draft->block[b]);
        lf_tally_ids(&ids, m->work.route_id,
                     lf_golden_get(t->g, "I32", block * top, "draft.mtp.%u.router_ids", b),
                     block * top);
        check_near(t, "context_tail to streams after a draft block", m->work.x,
                   lf_golden_get(t->g, "BF16", streams, "draft.mtp.%u.stream", b), streams);
    }
    lf_report_tally(t->report, t->g->name, &ids);
    lf_draft_head(m);
    check_near(t, "context_tail to draft.hidden", m->work.draft.hidden,
               lf_golden_get(t->g, "BF16", block * d, "draft.hidden"), block * d);
    lf_draft_choose(m, ask, 1, &out);
    const float *want = lf_golden_get(t->g, "F32", block * vocab, "draft.logits");
    for (size_t j = 0; j < block; j++) {
        float stored = (float)item(round_at(t, 0), "confidence", j);
        lf_tally_f32(&logits, m->work.logits + j * vocab, want + j * vocab, vocab);
        lf_tally_f32(&confidence, &out.confidence[j], &stored, 1);
        equal += j < out.n && out.tok[j] == (uint32_t)item(round_at(t, 0), "drafts", j);
    }
    lf_report_tally(t->report, t->g->name, &logits);
    lf_report_tally(t->report, t->g->name, &confidence);
    lf_report_check(t->report, equal == block, "%s context_tail to drafts: %zu of %zu equal",
                    t->g->name, equal, block);
}

void lf_trial_drafts(struct lf_trial *t) {
    struct lf_v41 *m = t->m;
    size_t n, rows = context_rows(t);
    struct lf_sampling greedy = {0};
    struct lf_draft_ask ask = {.pending = lf_golden_ints(t->g, "greedy", &n)[0], .rule = &greedy};
    check_context(t);
    for (uint32_t b = 0; b < m->t->draft_layers; b++)
        for (size_t r = 0; r < rows; r++)
            pack(t, context_tail(t, b) + r * m->t->head_dim,
                 ring_row(t, b, t->g->rows - rows + r));
    check_pass(t, &ask);
    lf_state_reset(&m->state[0], &m->shape);
}

// Whole pass: the taps that wait at the prompt's end, where goldens show their rows.
static void check_taps(struct lf_trial *t) {
    struct lf_v41 *m = t->m;
    const struct lf_state *s = &m->state[0];
    size_t d = m->t->hidden, seen = 0;
    double worst = 0.0;
    for (size_t point = 0; point < t->g->points; point++) {
        uint64_t position = (uint64_t)t->g->positions[point];
        if (position < s->taps_from || position + m->t->window < t->g->rows)
            continue;
        for (uint32_t place = 0; place < m->t->n_draft_taps; place++, seen++) {
            const uint16_t *tap = lf_golden_get(t->g, "BF16", t->g->points * d, "tap.%u",
                                                m->t->draft_taps[place]);
            const uint16_t *got = s->taps + position % m->shape.ring_rows * m->shape.tap_size;
            worst = fmax(worst, lf_distance_bf16(got + place * d, tap + point * d, d));
        }
    }
    lf_report_check(t->report, seen && worst <= 0.15,
                    "%s %zu taps at the prompt's end: relative L2 distance at most %.2e, 0.15 "
                    "allowed",
                    t->g->name, seen, worst);
}

// What the rounds add up to; a draft counts while all before it in its round are equal.
struct rounds {
    size_t sure, sure_equal;     // of stored margin above 4
    size_t likely, likely_equal; // above 1
    size_t counted, rounds, accepted_equal;
    double confidence;
};

static void add_round(struct rounds *sum, const json_t *round, const struct lf_draft *out) {
    for (uint32_t j = 0; j < out->n; j++) {
        bool equal = out->tok[j] == (uint32_t)item(round, "drafts", j);
        double margin = item(round, "draft_margin", j);
        sum->sure += margin > 4.0;
        sum->sure_equal += margin > 4.0 && equal;
        sum->likely += margin > 1.0;
        sum->likely_equal += margin > 1.0 && equal;
        sum->counted++;
        sum->confidence += fabs((double)out->confidence[j] - item(round, "confidence", j));
        if (!equal)
            break;
    }
}

static size_t integer(const json_t *round, const char *key) {
    return (size_t)json_integer_value(json_object_get(round, key));
}

// Chat prompts, up to the end token, where the drafts that decide have margins above 0.5.
static void add_accepted(struct lf_trial *t, struct rounds *sum, const json_t *round,
                         const struct lf_draft *out, size_t at) {
    size_t n, accepted = 0, want = integer(round, "accepted");
    const uint32_t *ids = lf_golden_ints(t->g, "greedy", &n);
    double end = lf_golden_number(t->g, "greedy_end");
    if (!json_object_get(t->g->json, "messages") || (double)(at + want) > end)
        return;
    for (size_t j = 0; j <= want && j < t->m->t->draft_block; j++)
        if (!(item(round, "draft_margin", j) > 0.5))
            return;
    while (accepted < out->n && at + 1 + accepted < n &&
           out->tok[accepted] == ids[at + 1 + accepted])
        accepted++;
    sum->rounds++;
    sum->accepted_equal += accepted == want;
}

static void judge_rounds(struct lf_trial *t, const struct rounds *sum) {
    lf_report_check(t->report, sum->sure && sum->sure_equal == sum->sure,
                    "%s drafts of stored margin above 4: %zu of %zu equal", t->g->name,
                    sum->sure_equal, sum->sure);
    lf_report_check(t->report,
                    (double)sum->likely_equal >= 0.95 * (double)sum->likely && sum->likely,
                    "%s drafts of stored margin above 1: %zu of %zu equal, at least 0.95",
                    t->g->name, sum->likely_equal, sum->likely);
    double mean = sum->confidence / (double)sum->counted;
    lf_report_check(t->report, mean <= 0.15,
                    "%s confidence: mean difference %.3f over %zu drafts, at most 0.15",
                    t->g->name, mean, sum->counted);
    if (sum->rounds)
        lf_report_check(t->report, sum->accepted_equal == sum->rounds,
                        "%s accepted counts up to the end token: %zu of %zu equal", t->g->name,
                        sum->accepted_equal, sum->rounds);
}

// The stored rounds: the golden's own rows are verified and kept, and drafts asked for between.
void lf_trial_rounds(struct lf_trial *t) {
    struct lf_error err = LF_ERROR_INIT;
    struct lf_target *target = &t->m->target;
    struct lf_sampling greedy = {0};
    struct rounds sum = {0};
    size_t n;
    const uint32_t *ids = lf_golden_ints(t->g, "greedy", &n);
    const json_t *round;
    lf_trial_prefill(t, target);
    check_taps(t);
    for (size_t i = 0; (round = round_at(t, i)) != NULL; i++) {
        size_t at = integer(round, "position") - t->g->rows;
        uint32_t slot = 0, kept = (uint32_t)integer(round, "accepted") + 1;
        uint32_t drawn[LF_WINDOW_MAX];
        struct lf_draft out;
        struct lf_draft_ask ask = {.pending = ids[at], .rule = &greedy};
        lf_trial_must(target->drafter->ingest(target, &slot, 1, &err), &err);
        lf_trial_must(target->drafter->propose(target, &ask, 1, &out, &err), &err);
        add_round(&sum, round, &out);
        add_accepted(t, &sum, round, &out, at);
        if (at + kept > n)
            break;
        struct lf_window w = {.rows = kept, .pos0 = t->g->rows + at, .tok = ids + at,
                              .rule = &greedy};
        lf_trial_must(target->ops->verify(target, &w, 1, drawn, &err), &err);
        lf_trial_must(target->ops->keep(target, &w, &kept, 1, &err), &err);
    }
    judge_rounds(t, &sum);
}
