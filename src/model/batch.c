#include "model/v41.h"

#include <string.h>

// The layers at and above S that a row runs in full: the cone of model.md 12.3 for its boundaries.
static uint32_t row_depth(const struct lf_v41 *m, uint64_t position, const struct lf_bound *plan,
                          uint32_t n_plan, uint32_t *wants) {
    uint32_t n = m->t->layers, deepest = 0;
    uint64_t span = m->t->window - 1;
#if LF_FAULT == 1
    span--; // 1: a cone one row too narrow at each layer
#endif
    for (uint32_t b = 0; b < n_plan; b++) {
        if (plan[b].at <= position)
            continue;
        if (plan[b].logits && plan[b].at == position + 1)
            *wants |= LF_WANT_LOGITS;
        // Row p is full at L while at - p <= c + span * (n - 1 - L); depth counts such layers.
        uint64_t back = plan[b].at - position, c = plan[b].logits ? 1 : 0;
        uint64_t down = back <= c ? 0 : span ? (back - c + span - 1) / span : n;
        uint32_t depth = down >= n ? 0 : n - (uint32_t)down;
        if (depth > deepest)
            deepest = depth;
    }
    return deepest;
}

void lf_batch_begin(struct lf_v41 *m) {
    struct lf_work *w = &m->work;
    w->rows = w->rows_all = w->n_wanted = w->n_drops = 0;
    for (uint32_t i = 0; i < 2; i++) {
        w->entries[i].n = 0;
        w->entries[i].cos = w->entries[i].sin = NULL;
    }
    // What the call before sent is over; a run of launches is known by what this one sends.
    memset(&w->seen, 0, sizeof w->seen);
    lf_tables_begin(&w->tables);
    for (uint32_t s = 0; s < m->info.slots; s++)
        w->span[s] = (struct lf_span){0};
}

void lf_batch_add(struct lf_v41 *m, uint32_t lane, uint64_t pos0, const uint32_t *token,
                  uint32_t rows, const struct lf_bound *plan, uint32_t n_plan) {
    struct lf_work *w = &m->work;
    LF_ASSERT(w->rows_all + rows <= w->rows_max && !w->span[lane].rows);
    w->span[lane] = (struct lf_span){.first = w->rows_all, .rows = rows, .pos0 = pos0};
    for (uint32_t i = 0; i < rows; i++) {
        struct lf_row row = {.lane = lane, .token = token[i], .position = pos0 + i,
                             .index = w->rows_all, .depth = m->t->layers};
        if (!plan)
            row.wants = LF_WANT_LOGITS;
        else
            row.depth = row_depth(m, pos0 + i, plan, n_plan, &row.wants);
        if (m->no_cone)
            row.depth = m->t->layers;
        m->state[lane].history[pos0 + i] = token[i];
        w->row_all[w->rows_all++] = row;
    }
}

// Lists the entries of one ratio that the rows of a lane complete.
static void list_entries(struct lf_v41 *m, uint32_t lane, uint32_t ratio, struct lf_entries *e) {
    const struct lf_span *span = &m->work.span[lane];
    uint64_t first = span->pos0 / ratio, end = (span->pos0 + span->rows) / ratio;
    for (uint64_t j = first; j < end; j++) {
        e->lane[e->n] = lane;
        e->number[e->n++] = j;
    }
}

void lf_batch_end(struct lf_v41 *m) {
    struct lf_work *w = &m->work;
    w->rows = w->rows_all;
    memcpy(w->row, w->row_all, w->rows * sizeof *w->row);
    // In call order: at ratio 1 entry r is then row r, whatever the order of the lanes.
    for (uint32_t r = 0; m->t->n_kv_sources && r < w->rows; r++) {
        const struct lf_span *span = &w->span[w->row[r].lane];
        if (span->rows && r == span->first)
            for (uint32_t ratio = 1; ratio <= 2; ratio++)
                list_entries(m, w->row[r].lane, ratio, &w->entries[ratio - 1]);
    }
    lf_tables_make(m);
}
