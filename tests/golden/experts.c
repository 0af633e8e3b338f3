#include "trial.h"

#include <string.h>

// What the experts add up to, as a stream of its own that was 0, in work.out.
static void join_experts(struct lf_trial *t, const struct lf_layer *layer) {
    struct lf_v41 *m = t->m;
    struct lf_work *w = &m->work;
    for (uint32_t r = 0; r < w->rows; r++)
        w->post[r] = 1.0f, w->comb[r] = 0.0f;
    memset(w->out, 0, (size_t)w->rows * m->t->hidden * sizeof *w->out);
    m->k.hc_expand(&m->device, &(struct lf_hc_expand_args){
                                .rows = w->rows, .streams = 1, .dim = m->t->hidden, .x = w->out,
                                .post = w->post, .comb = w->comb, .pair = w->pair_of,
                                .top = layer->top, .expert = w->down, .shared = w->shared});
}

void lf_trial_experts(struct lf_trial *t) {
    struct lf_v41 *m = t->m;
    struct lf_work *w = &m->work;
    size_t points = t->g->points, hidden = m->t->hidden, top = m->t->experts_top;
    struct lf_tally ids = {.stage = "ffn_in to router_ids", .share = 1.0};
    struct lf_tally weights = {.stage = "ffn_in to router_weights", .share = 1.0, .slack = 1e-6};
    struct lf_tally out = {.stage = "ffn_in to ffn_out", .share = 0.999};
    for (uint32_t l = 0; l < m->t->layers; l++) {
        lf_trial_points(t);
        memcpy(w->in, lf_golden_get(t->g, "BF16", points * hidden, "layers.%u.ffn_in", l),
               points * hidden * sizeof *w->in);
        lf_quantize(m, w->in, w->in_q, w->rows, m->t->hidden);
        lf_moe_shared(m, &m->weights.layer[l]);
        lf_moe(m, &m->weights.layer[l]);
        join_experts(t, &m->weights.layer[l]);
        lf_tally_ids(&ids, w->route_id,
                     lf_golden_get(t->g, "I32", points * top, "layers.%u.ffn.router_ids", l),
                     points * top);
        lf_tally_f32(&weights, w->route_weight,
                     lf_golden_get(t->g, "F32", points * top, "layers.%u.ffn.router_weights", l),
                     points * top);
        const uint16_t *want =
            lf_golden_get(t->g, "BF16", points * hidden, "layers.%u.ffn_out", l);
        for (size_t r = 0; r < points; r++)
            lf_tally_bf16(&out, w->out + r * hidden, want + r * hidden, hidden);
    }
    lf_report_tally(t->report, t->g->name, &ids);
    lf_report_tally(t->report, t->g->name, &weights);
    lf_report_tally(t->report, t->g->name, &out);
}
