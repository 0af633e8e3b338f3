#include "model/v41.h"

#include <string.h>

// Whether a row is alive at the input of every tapped layer: the cone drops it before some.
static bool row_tapped(const struct lf_v41 *m, const struct lf_row *row) {
    uint32_t highest = m->t->draft_taps[m->t->n_draft_taps - 1];
    return highest <= m->last_source || row->depth >= highest;
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
    m->k.stream_mean(m->pool, &(struct lf_stream_mean_args){
                                  .rows = w->rows, .streams = t->streams, .dim = t->hidden,
                                  .x = w->x, .y = w->out});
    for (uint32_t r = 0; r < w->rows; r++) {
        const struct lf_row *row = &w->row[r];
        const struct lf_span *span = &w->span[row->lane];
        if (!row_tapped(m, row) || row->position + m->shape.ring_rows < span->pos0 + span->rows)
            continue;
#if LF_FAULT == 2
        if (r && row->position + LF_WINDOW_MAX < span->pos0 + span->rows)
            continue; // 2: a long chunk leaves the taps of its last rows alone
#endif
        uint16_t *ring = m->state[row->lane].taps;
        memcpy(ring + row->position % m->shape.ring_rows * m->shape.tap_size +
                   (size_t)place * t->hidden,
               w->out + (size_t)r * t->hidden, t->hidden * sizeof *ring);
    }
}

void lf_taps_commit(struct lf_v41 *m, uint32_t lane) {
    const struct lf_span *span = &m->work.span[lane];
    uint32_t rows = span->rows;
    if (!m->weights.draft)
        return;
    while (rows && row_tapped(m, &m->work.row_all[span->first + rows - 1]))
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

// Context rows of the first n rows of work.row, in every block.
static void fill_rows(struct lf_v41 *m, uint32_t n) {
    struct lf_work *w = &m->work;
    struct lf_draft_work *d = &m->work.draft;
    const struct lf_draft_weights *weights = m->weights.draft;
    uint32_t size = m->shape.tap_size, bytes = m->shape.window_bytes;
    if (!n)
        return;
    w->rows = n;
    for (uint32_t r = 0; r < n; r++) {
        const struct lf_row *row = &w->row[r];
        size_t at = (size_t)r * m->rope[0].pairs;
        lf_rope_rows(&m->rope[0], &row->position, 1, w->cos[0] + at, w->sin[0] + at);
        memcpy(d->taps + (size_t)r * size,
               m->state[row->lane].taps + row->position % m->shape.ring_rows * size,
               size * sizeof *d->taps);
    }
    lf_quantize(m, d->taps, d->taps_q, n, size);
    lf_project(m, &weights->main_proj, lf_linear_input(&weights->main_proj, d->taps, d->taps_q),
               w->in, n, 0);
    lf_norm(m, w->in, weights->main_norm, w->in, n, m->t->hidden);
    for (uint32_t b = 0; b < m->t->draft_layers; b++) {
        lf_window_keys(m, &weights->block[b]);
        for (uint32_t r = 0; r < n; r++)
            memcpy(m->state[w->row[r].lane].ring[weights->block[b].id] +
                       w->row[r].position % m->shape.ring_rows * bytes,
                   w->call_keys + (size_t)r * bytes, bytes);
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
