#include "trial.h"

#include <math.h>
#include <string.h>
#include "base/number.h"

// The streams of the points after a layer, out of the call of every row.
static const uint16_t *point_streams(struct lf_trial *t) {
    size_t each = (size_t)t->m->t->streams * t->m->t->hidden;
    uint16_t *out = lf_arena_alloc(&t->g->arena, t->g->points * each, sizeof *out);
    if (!out)
        lf_golden_die("out of memory for streams");
    for (size_t p = 0; p < t->g->points; p++)
        memcpy(out + p * each, t->m->work.x + (size_t)t->g->positions[p] * each,
               each * sizeof *out);
    return out;
}

// Faults that touch layer 0 are above 3e-2 here, other orders of sums about 1e-4.
static void check_layer_0(struct lf_trial *t) {
    size_t n = (size_t)t->g->points * t->m->t->streams * t->m->t->hidden;
    double away = lf_distance_bf16(point_streams(t),
                                   lf_golden_get(t->g, "BF16", n, "layers.0.stream"), n);
    lf_report_check(t->report, away <= 1e-3,
                    "%s streams after layer 0: relative L2 distance %.2e, at most 1e-3",
                    t->g->name, away);
}

// Sum and sum of magnitudes of every row's streams: rows between the points are right as well.
static void check_all_rows(struct lf_trial *t, uint32_t layer, double most) {
    struct lf_v41 *m = t->m;
    size_t each = (size_t)m->t->streams * m->t->hidden, rows = t->g->rows;
    const float *sum = lf_golden_get(t->g, "F32", m->t->layers * rows, "stream_sum");
    const float *magnitude = lf_golden_get(t->g, "F32", m->t->layers * rows, "stream_abs");
    double mean = 0.0;
    for (size_t r = 0; r < rows; r++) {
        double s = 0.0, a = 0.0, scale = (double)magnitude[layer * rows + r];
        for (size_t i = 0; i < each; i++) {
            double x = (double)lf_bf16_to_f32(m->work.x[r * each + i]);
            s += x;
            a += fabs(x);
        }
        mean += fmax(fabs(s - (double)sum[layer * rows + r]), fabs(a - scale)) / scale;
    }
    mean /= (double)rows;
    lf_report_check(t->report, mean <= most,
                    "%s every row's stream sums after layer %u: mean difference %.2e of the "
                    "magnitude, at most %.0e",
                    t->g->name, layer, mean, most);
}

static void check_routes(struct lf_trial *t) {
    size_t n = (size_t)t->g->rows * t->m->t->experts_top;
    struct lf_tally ids = {.stage = "every row's experts of layer 0", .share = 1.0};
    const int32_t *want = lf_golden_get(t->g, "I32", n * t->m->t->layers, "router_ids_all");
    lf_tally_ids(&ids, t->m->work.route_id, want, n);
    lf_report_tally(t->report, t->g->name, &ids);
}

static size_t best_of(const float *x, size_t n) {
    size_t best = 0;
    for (size_t i = 1; i < n; i++)
        if (x[i] > x[best])
            best = i;
    return best;
}

// The best id at every point whose stored margin is above 1 (README: below, sums may choose).
static void check_best(struct lf_trial *t) {
    size_t vocab = t->m->t->vocab, n, wrong = 0, seen = 0;
    const uint32_t *best = lf_golden_ints(t->g, "argmax_all", &n);
    const json_t *margin = json_object_get(t->g->json, "margin_all");
    for (size_t p = 0; p < t->g->points; p++) {
        size_t r = (size_t)t->g->positions[p];
        if (!(json_number_value(json_array_get(margin, r)) > 1.0))
            continue;
        seen++;
        wrong += best_of(t->m->work.logits + p * vocab, vocab) != best[r];
    }
    lf_report_check(t->report, seen && !wrong,
                    "%s best ids at points of margin above 1: %zu of %zu differ", t->g->name,
                    wrong, seen);
}

struct lf_logit_gap lf_trial_whole(struct lf_trial *t) {
    struct lf_v41 *m = t->m;
    size_t n = (size_t)t->g->points * m->t->vocab;
    const float *f64 = lf_golden_get(t->g, "F32", n, "f64.logits");
    const float *reference = lf_golden_get(t->g, "F32", n, "logits");
    struct lf_logit_gap gap = {
        .stated = lf_golden_number(t->g, "mean_logit_difference_f64")};
    lf_trial_rows(t);
    lf_stream_start(m);
    for (uint32_t l = 0; l < m->t->layers; l++) {
        lf_forward_layer(m, &m->weights.layer[l]);
        if (l == 0) {
            check_layer_0(t);
            check_all_rows(t, l, 1e-4);
            check_routes(t);
        }
    }
    check_all_rows(t, m->t->layers - 1, 5e-2);
    lf_head(m);
    check_best(t);
    for (size_t i = 0; i < n; i++) {
        gap.ours += fabs((double)m->work.logits[i] - (double)f64[i]) / (double)n;
        gap.reference += fabs((double)reference[i] - (double)f64[i]) / (double)n;
    }
    return gap;
}

// How many greedy ids must agree: up to the end token, or while the stored margins stay above 1.
static size_t sure_steps(struct lf_trial *t) {
    size_t n, steps = 0;
    lf_golden_ints(t->g, "greedy", &n);
    const json_t *margin = json_object_get(t->g->json, "greedy_margin");
    double end = lf_golden_number(t->g, "greedy_end");
    if (json_object_get(t->g->json, "messages"))
        return end >= 0.0 ? (size_t)end + 1 : n;
    while (steps < n && json_number_value(json_array_get(margin, steps)) > 1.0)
        steps++;
    return steps;
}

void lf_trial_greedy(struct lf_trial *t, enum lf_isa isa) {
    struct lf_error err = LF_ERROR_INIT;
    struct lf_model_options options = {.isa = isa, .slots = 1, .context = 2048};
    lf_trial_column(&options);
    struct lf_target *target = lf_demo_target(t->demo, &options);
    struct lf_sampling greedy = {0};
    struct lf_window w = {.pos0 = t->g->rows, .rule = &greedy};
    uint32_t token, kept = 1;
    size_t n, steps = sure_steps(t), equal = 0;
    const uint32_t *want = lf_golden_ints(t->g, "greedy", &n);
    lf_trial_prefill(t, target);
    lf_trial_must(target->ops->draw_last(target, &w, &token, &err), &err);
    for (; equal < steps && token == want[equal]; equal++) {
        uint32_t pending = token;
        w.rows = 1;
        w.tok = &pending;
        lf_trial_must(target->ops->verify(target, &w, 1, &token, &err), &err);
        lf_trial_must(target->ops->keep(target, &w, &kept, 1, &err), &err);
        w.pos0++;
    }
    target->ops->close(target);
    lf_report_check(t->report, steps && equal == steps, "%s greedy ids: %zu of %zu equal",
                    t->g->name, equal, steps);
}
