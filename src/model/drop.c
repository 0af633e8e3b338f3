#include "model/v41.h"

enum { BUFFERS = 12 };

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
    add(drop, w->x, sizeof *w->x * t->streams * t->hidden);
    add(drop, w->pre, sizeof *w->pre * t->streams);
    add(drop, w->in, sizeof *w->in * t->hidden);
    add(drop, w->in_q, sizeof *w->in_q * t->hidden);
    add(drop, w->selected, sizeof *w->selected * t->index_topk);
    add(drop, w->n_selected, sizeof *w->n_selected);
    add(drop, w->blocks, sizeof *w->blocks * t->candidate_blocks);
    add(drop, w->n_blocks, sizeof *w->n_blocks);
    for (int i = 0; i < 2; i++) {
        add(drop, w->cos[i], sizeof *w->cos[i] * (t->rope_dim / 2));
        add(drop, w->sin[i], sizeof *w->sin[i] * (t->rope_dim / 2));
    }
    m->k.row_gather(m->pool, &(struct lf_row_gather_args){drop->n, drop->job});
}

void lf_rows_drop(struct lf_v41 *m, uint32_t depth_min) {
    struct lf_work *w = &m->work;
    struct drop drop = {.kept = w->kept};
    for (uint32_t r = 0; r < w->rows; r++)
        if (w->row[r].depth >= depth_min) {
            w->kept[drop.rows] = r;
            w->row[drop.rows++] = w->row[r];
        }
    if (drop.rows < w->rows)
        close_up(m, &drop);
    w->rows = drop.rows;
}
