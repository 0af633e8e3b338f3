#include "model/v41.h"

// The least depth of a row that is alive at the input of every tapped layer.
static uint32_t tap_depth(const struct lf_v41 *m) {
    uint32_t highest = m->t->draft_taps[m->t->n_draft_taps - 1];
    return highest <= m->last_source ? 0 : highest;
}

void lf_taps_store(struct lf_v41 *m, const struct lf_layer *layer) {
    struct lf_work *w = &m->work;
    const struct lf_topology *t = m->t;
    uint32_t place = 0;
    while (place < t->n_draft_taps && t->draft_taps[place] != layer->id)
        place++;
    if (!m->weights.draft || place == t->n_draft_taps)
        return;
#if LF_FAULT == 1
    place = t->n_draft_taps - 1 - place; // 1: taps joined from the last layer down
#endif
    // The sublayer's output is free until the attention of this layer.
    m->k.stream_mean(&m->device, &(struct lf_stream_mean_args){
                                  .rows = w->rows, .streams = t->streams, .dim = t->hidden,
                                  .x = w->x, .y = w->out});
    uint32_t kept = m->shape.ring_rows;
#if LF_FAULT == 2
    kept = LF_WINDOW_MAX; // 2: a long chunk stores the taps of its last rows alone
#endif
    m->k.ring_store(&m->device, &(struct lf_ring_store_args){
                                 .rows = w->rows, .row = w->seen.row, .depth_min = tap_depth(m),
                                 .span = w->seen.span, .kept = kept, .x = w->out,
                                 .row_bytes = t->hidden * (uint32_t)sizeof *w->out,
                                 .ring = lf_lane_taps(m, place),
                                 .ring_rows = m->shape.ring_rows,
                                 .ring_pitch = m->shape.tap_size * sizeof *w->out});
}

void lf_taps_commit(struct lf_v41 *m, uint32_t lane) {
    const struct lf_span *span = &m->work.span[lane];
    uint32_t rows = span->rows;
    if (!m->weights.draft)
        return;
    while (rows && m->work.row_all[span->first + rows - 1].depth >= tap_depth(m))
        rows--;
    if (rows)
        m->state[lane].taps_from = span->pos0 + rows;
}

// The first position whose context row is missing and can still be read.
static uint64_t first_missing(const struct lf_v41 *m, const struct lf_state *s) {
    uint64_t first = s->length > m->t->window ? s->length - m->t->window : 0;
    first = first > s->taps_from ? first : s->taps_from;
    return first > s->draft_end ? first : s->draft_end;
}

uint64_t lf_draft_from(const struct lf_v41 *m, uint32_t lane) {
    const struct lf_state *s = &m->state[lane];
    uint64_t first = first_missing(m, s);
    return first > s->draft_end ? first : s->draft_from;
}

// The stored taps of the first n rows of work.row, which stand lane by lane, a job a lane.
static void read_taps(struct lf_v41 *m, uint32_t n) {
    struct lf_work *w = &m->work;
    size_t bytes = m->shape.tap_size * sizeof *w->draft.taps;
    struct lf_row_gather_job job[LF_DRAFT_ASKS_MAX];
    struct lf_table index = lf_tables_take(&w->tables, n * sizeof(uint32_t));
    uint32_t jobs = 0;
    for (uint32_t r = 0; r < n; r++) {
        ((uint32_t *)index.host)[r] = (uint32_t)(w->row[r].position % m->shape.ring_rows);
        if (r == 0 || w->row[r].lane != w->row[r - 1].lane) {
            LF_ASSERT(jobs < LF_DRAFT_ASKS_MAX);
            job[jobs++] = (struct lf_row_gather_job){
                .index = (uint32_t *)index.seen + r, .x = m->state[w->row[r].lane].taps,
                .x_pitch = bytes, .y = w->draft.taps + (size_t)r * m->shape.tap_size,
                .y_pitch = bytes, .row_bytes = bytes};
        }
        job[jobs - 1].rows++;
    }
    lf_tables_send(&w->tables);
    m->k.row_gather(&m->device, &(struct lf_row_gather_args){jobs, job});
}

// Context rows of the first n rows of work.row, in every block.
static void fill_rows(struct lf_v41 *m, uint32_t n) {
    struct lf_work *w = &m->work;
    struct lf_draft_work *d = &m->work.draft;
    const struct lf_draft_weights *weights = m->weights.draft;
    uint32_t size = m->shape.tap_size, bytes = m->shape.window_bytes;
    if (!n)
        return;
    w->rows = n;
    lf_tables_begin(&w->tables);
    lf_tables_rows(m, n);
    lf_tables_rope(m, 0, n);
    read_taps(m, n);
    lf_quantize(m, d->taps, d->taps_q, n, size);
    lf_project(m, &weights->main_proj, lf_linear_input(&weights->main_proj, d->taps, d->taps_q),
               w->in, n, 0);
    lf_norm(m, w->in, weights->main_norm, w->in, w->in_q, n, m->t->hidden);
    for (uint32_t b = 0; b < m->t->draft_layers; b++) {
        lf_window_keys(m, &weights->block[b], false);
        m->k.ring_store(&m->device, &(struct lf_ring_store_args){
                                     .rows = n, .row = w->seen.row, .x = w->call_keys,
                                     .row_bytes = bytes,
                                     .ring = lf_lane_rings(m, weights->block[b].id),
                                     .ring_rows = m->shape.ring_rows, .ring_pitch = bytes});
    }
}

void lf_draft_fill(struct lf_v41 *m, const uint32_t *lane, uint32_t n) {
    struct lf_work *w = &m->work;
    uint32_t rows = 0;
    if (!m->weights.draft)
        return;
    for (uint32_t i = 0; i < n; i++) {
        struct lf_state *s = &m->state[lane[i]];
        for (uint64_t p = first_missing(m, s); p < s->length; p++) {
            if (rows == m->work.draft.rows_max) {
                fill_rows(m, rows);
                rows = 0;
            }
            w->row[rows] = (struct lf_row){.lane = lane[i], .position = p, .index = rows};
            rows++;
        }
    }
    fill_rows(m, rows);
    for (uint32_t i = 0; i < n; i++) {
        struct lf_state *s = &m->state[lane[i]];
        s->draft_from = lf_draft_from(m, lane[i]);
        s->draft_end = s->length > s->draft_end ? s->length : s->draft_end;
    }
}
