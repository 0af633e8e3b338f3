#include "model/work.h"

#include <string.h>
#include "kernel/linear/linear.h"

// Score memory: as many rows at once as fit, at least one.
enum { SCORE_BYTES = 64 * 1024 * 1024 };

// Allocates one buffer; a failure is remembered.
#define TAKE(field, count)                                                                         \
    do {                                                                                           \
        (field) = lf_arena_alloc(arena, (count), sizeof *(field));                                 \
        ok = ok && (field);                                                                        \
    } while (0)

static bool take_streams(struct lf_work *w, struct lf_arena *arena, const struct lf_topology *t,
                         size_t n) {
    bool ok = true;
    size_t d = t->hidden, hc = t->streams, wide = t->head_dim > t->hidden ? t->head_dim : d;
    TAKE(w->x, n * hc * d);
    TAKE(w->pre, n * hc);
    TAKE(w->pre_next, n * hc);
    TAKE(w->post, n * hc);
    TAKE(w->comb, n * hc * hc);
    TAKE(w->in, n * d);
    TAKE(w->in_q, n * wide);
    TAKE(w->out, n * d);
    for (int i = 0; i < 2; i++) {
        TAKE(w->cos[i], n * t->rope_dim / 2);
        TAKE(w->sin[i], n * t->rope_dim / 2);
    }
    return ok;
}

static bool take_attention(struct lf_work *w, struct lf_arena *arena, const struct lf_topology *t,
                           const struct lf_state_shape *shape, size_t n) {
    bool ok = true;
    size_t heads = (size_t)t->heads * t->head_dim, groups = (size_t)t->o_groups * t->o_lora;
    TAKE(w->k, n * t->head_dim);
    TAKE(w->call_keys, n * shape->window_bytes);
    TAKE(w->qr, n * t->q_lora);
    TAKE(w->qr_q, n * t->q_lora);
    TAKE(w->q, n * heads);
    TAKE(w->o, n * heads);
    TAKE(w->u, n * groups);
    TAKE(w->u_q, n * groups);
    TAKE(w->dst, n);
    return ok;
}

static bool take_compressed(struct lf_work *w, struct lf_arena *arena, const struct lf_topology *t,
                            size_t n) {
    bool ok = true;
    for (int i = 0; i < 2; i++) {
        TAKE(w->entries[i].lane, n);
        TAKE(w->entries[i].number, n);
        TAKE(w->entries[i].cos, n * t->rope_dim / 2);
        TAKE(w->entries[i].sin, n * t->rope_dim / 2);
        TAKE(w->pair[i], n);
    }
    TAKE(w->latent, n * t->head_dim);
    TAKE(w->latent_key, n * t->index_dim);
    TAKE(w->raw, n * 2 * t->head_dim);
    TAKE(w->iq, n * t->index_heads * t->index_dim);
    TAKE(w->iw, n * t->index_heads);
    TAKE(w->visible, n);
    TAKE(w->selected, n * t->index_topk);
    TAKE(w->n_selected, n);
    TAKE(w->blocks, n * t->candidate_blocks);
    TAKE(w->n_blocks, n);
    TAKE(w->score, w->score_rows * w->score_stride);
    return ok;
}

static bool take_experts(struct lf_work *w, struct lf_arena *arena, const struct lf_topology *t,
                         size_t n) {
    bool ok = true;
    size_t pairs = w->pairs_max, shared = (size_t)t->expert_dim * t->shared_experts;
    TAKE(w->route_logits, n * t->experts);
    TAKE(w->route_id, pairs);
    TAKE(w->route_weight, pairs);
    TAKE(w->pair_row, pairs);
    TAKE(w->pair_of, pairs);
    TAKE(w->pair_weight, pairs);
    TAKE(w->expert_first, (size_t)t->experts + 1);
    TAKE(w->gate, pairs * t->expert_dim + n * shared);
    TAKE(w->up, pairs * t->expert_dim + n * shared);
    TAKE(w->down, pairs * t->hidden);
    TAKE(w->shared, n * t->hidden);
    TAKE(w->job, 2 * (size_t)t->experts + 8 + t->o_groups);
    return ok;
}

static bool take_rest(struct lf_work *w, struct lf_arena *arena, const struct lf_topology *t,
                      size_t n, uint32_t slots) {
    bool ok = true;
    size_t columns = (size_t)(t->engram_ngram - 1) * t->engram_heads;
    TAKE(w->row_all, n);
    TAKE(w->row, n);
    TAKE(w->span, slots);
    TAKE(w->engram_number, n * columns);
    TAKE(w->engram_rows, n * columns * t->engram_dim);
    TAKE(w->engram_kv, n * (t->streams + 1) * t->hidden);
    TAKE(w->wanted, n);
    TAKE(w->logits, (size_t)w->logits_rows_max * t->vocab);
    return ok;
}

enum lf_status lf_work_open(struct lf_work *w, struct lf_arena *arena,
                            const struct lf_state_shape *shape, uint32_t slots, uint32_t rows_max,
                            uint32_t logits_rows_max, struct lf_error *err) {
    const struct lf_topology *t = shape->t;
    *w = (struct lf_work){.rows_max = rows_max,
                          .pairs_max = rows_max * t->experts_top,
                          .logits_rows_max = logits_rows_max,
                          .score_stride = shape->context};
    size_t fit = SCORE_BYTES / sizeof(float) / w->score_stride;
    w->score_rows = (uint32_t)(fit < 1 ? 1 : fit > rows_max ? rows_max : fit);
    if (!take_streams(w, arena, t, rows_max) || !take_attention(w, arena, t, shape, rows_max) ||
        !take_compressed(w, arena, t, rows_max) || !take_experts(w, arena, t, rows_max) ||
        !take_rest(w, arena, t, rows_max, slots))
        return lf_fail(err, LF_E_MEM, "out of memory for the workspace of %u rows", rows_max);
    return LF_OK;
}

static void move(void *base, size_t bytes_each, uint32_t to, uint32_t from) {
    memcpy((char *)base + to * bytes_each, (const char *)base + from * bytes_each, bytes_each);
}

void lf_work_drop(struct lf_work *w, const struct lf_topology *t, uint32_t depth_min) {
    size_t pairs_bytes = t->rope_dim / 2 * sizeof(float);
    uint32_t kept = 0;
    for (uint32_t r = 0; r < w->rows; r++) {
        if (w->row[r].depth < depth_min)
            continue;
        if (kept != r) {
            move(w->row, sizeof *w->row, kept, r);
            move(w->x, sizeof *w->x * t->streams * t->hidden, kept, r);
            move(w->pre, sizeof *w->pre * t->streams, kept, r);
            move(w->in, sizeof *w->in * t->hidden, kept, r);
            move(w->in_q, sizeof *w->in_q * t->hidden, kept, r);
            move(w->selected, sizeof *w->selected * t->index_topk, kept, r);
            move(w->n_selected, sizeof *w->n_selected, kept, r);
            move(w->blocks, sizeof *w->blocks * t->candidate_blocks, kept, r);
            move(w->n_blocks, sizeof *w->n_blocks, kept, r);
            for (int i = 0; i < 2; i++) {
                move(w->cos[i], pairs_bytes, kept, r);
                move(w->sin[i], pairs_bytes, kept, r);
            }
        }
        kept++;
    }
    w->rows = kept;
}
