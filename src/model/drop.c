#include "model/v41.h"

enum { BUFFERS = 16 + LF_LIST_MAX };

struct drop {
    const uint32_t *kept;
    uint32_t rows, n;
    struct lf_row_gather_job job[BUFFERS];
};

static void add(struct drop *drop, void *base, size_t row_bytes) {
    LF_ASSERT(drop->n < BUFFERS);
    drop->job[drop->n++] = (struct lf_row_gather_job){
        .rows = drop->rows, .index = drop->kept, .x = base, .x_pitch = row_bytes, .y = base,
        .y_pitch = row_bytes, .row_bytes = row_bytes};
}

// In one launch: every buffer closes up over the rows that go.
static void close_up(struct lf_v41 *m, struct drop *drop) {
    struct lf_work *w = &m->work;
    const struct lf_topology *t = m->t;
    size_t columns = (size_t)(t->engram_ngram - 1) * t->engram_heads;
    add(drop, w->x, sizeof *w->x * t->streams * t->hidden);
    add(drop, w->pre, sizeof *w->pre * t->streams);
    add(drop, w->in, sizeof *w->in * t->hidden);
    add(drop, w->in_q, sizeof *w->in_q * t->hidden);
    add(drop, w->selected, sizeof *w->selected * t->index_topk);
    add(drop, w->n_selected, sizeof *w->n_selected);
    add(drop, w->blocks, sizeof *w->blocks * t->candidate_blocks);
    add(drop, w->n_blocks, sizeof *w->n_blocks);
    for (int i = 0; i < 2; i++) {
        add(drop, w->seen.cos[i], sizeof *w->seen.cos[i] * (t->rope_dim / 2));
        add(drop, w->seen.sin[i], sizeof *w->seen.sin[i] * (t->rope_dim / 2));
        add(drop, w->seen.visible[i], sizeof *w->seen.visible[i]);
    }
    add(drop, w->seen.row, sizeof *w->seen.row);
    add(drop, w->seen.key_dst, sizeof *w->seen.key_dst);
    for (uint32_t e = 0; e < t->n_engram; e++)
        if (t->engram_layers[e] > m->last_source)
            add(drop, w->seen.number[e], sizeof *w->seen.number[e] * columns);
    m->k.row_gather(&m->device, &(struct lf_row_gather_args){drop->n, drop->job});
}

// NULL where all rows stay.
static const struct lf_drop *find(const struct lf_v41 *m, uint32_t depth_min) {
    const struct lf_work *w = &m->work;
    for (const struct lf_drop *drop = w->drop; drop < w->drop + w->n_drops; drop++)
        if (drop->depth_min == depth_min)
            return w->rows > drop->rows ? drop : NULL;
    return NULL;
}

bool lf_rows_drops(const struct lf_v41 *m, uint32_t depth_min) {
    return find(m, depth_min) != NULL;
}

void lf_rows_drop(struct lf_v41 *m, uint32_t depth_min) {
    struct lf_work *w = &m->work;
    const struct lf_drop *found = find(m, depth_min);
    uint32_t rows = 0;
    if (!found)
        return;
    struct drop drop = {.kept = found->kept, .rows = found->rows};
    for (uint32_t r = 0; r < w->rows; r++)
        if (w->row[r].depth >= depth_min)
            w->row[rows++] = w->row[r];
    LF_ASSERT(rows == drop.rows);
    w->rows = rows;
    close_up(m, &drop);
}
