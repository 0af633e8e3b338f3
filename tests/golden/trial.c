#include "trial.h"


static void set_history(struct lf_trial *t) {
    for (uint32_t i = 0; i < t->g->rows; i++)
        t->m->state[0].history[i] = (uint32_t)t->g->ids[i];
}

void lf_trial_points(struct lf_trial *t) {
    struct lf_v41 *m = t->m;
    struct lf_work *w = &m->work;
    set_history(t);
    lf_batch_begin(m);
    for (uint32_t r = 0; r < t->g->points; r++) {
        uint32_t position = (uint32_t)t->g->positions[r];
        w->row_all[r] = (struct lf_row){.token = (uint32_t)t->g->ids[position],
                                        .position = position, .index = r,
                                        .depth = m->t->layers, .wants = LF_WANT_LOGITS};
    }
    w->rows_all = t->g->points;
    lf_batch_end(m);
}

void lf_trial_rows(struct lf_trial *t) {
    struct lf_v41 *m = t->m;
    struct lf_error err = LF_ERROR_INIT;
    const uint32_t *ids = (const uint32_t *)t->g->ids;
    if (lf_state_grow(&m->state[0], &m->shape, t->g->rows, &err) != LF_OK)
        lf_golden_die("%s", err.text);
    lf_batch_begin(m);
    lf_batch_add(m, 0, 0, ids, t->g->rows, NULL, 0);
    for (uint32_t r = 0; r < m->work.rows_all; r++)
        m->work.row_all[r].wants = 0;
    for (uint32_t p = 0; p < t->g->points; p++)
        m->work.row_all[t->g->positions[p]].wants = LF_WANT_LOGITS;
    lf_batch_end(m);
}

void lf_trial_must(enum lf_status status, const struct lf_error *err) {
    if (status != LF_OK)
        lf_golden_die("%s", err->text);
}

void lf_trial_prefill(struct lf_trial *t, struct lf_target *target) {
    struct lf_error err = LF_ERROR_INIT;
    struct lf_bound end = {.at = t->g->rows, .logits = true};
    uint32_t most = target->ops->info(target)->chunk_rows_max;
    lf_trial_must(target->ops->reset(target, 0, &err), &err);
    lf_trial_must(target->ops->grow(target, 0, t->g->rows + 80, &err), &err);
    for (uint32_t at = 0; at < t->g->rows; at += most) {
        uint32_t rows = t->g->rows - at < most ? t->g->rows - at : most;
        struct lf_chunk chunk = {.rows = rows, .pos0 = at, .plan = &end, .n_plan = 1,
                                 .tok = (const uint32_t *)t->g->ids + at};
        lf_trial_must(target->ops->prefill(target, &chunk, 1, &err), &err);
    }
}
