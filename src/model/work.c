#include "model/work.h"

#include <stdbool.h>
#include <string.h>
#include "base/process.h"
#include "kernel/linear/linear.h"
#include "kernel/logprobs/logprobs.h"

// Score memory: of a whole context for at least one row; for more than so many it gains nothing.
enum { SCORE_FLOATS = 16 * 1024 * 1024, SCORE_ROWS_MAX = 256 };
// Context rows of the drafter made at once.
enum { FILL_ROWS = 128 };

// Takes each buffer where kernels work or from the host's arena, or only counts: one list for all.
struct taker {
    struct lf_arena *arena; // NULL: count
    struct lf_mem *memory;
    enum lf_work_part part;
    uint64_t bytes[LF_WORK_PARTS];
    struct lf_work_buffer buffer[LF_WORK_BUFFERS];
    uint32_t n_buffers;
    bool failed;
};

static void *keep(struct taker *taker, size_t bytes, int of_host, void *at) {
    taker->bytes[of_host ? LF_WORK_HOST : taker->part] += bytes;
    taker->failed = taker->failed || !at;
    LF_ASSERT(taker->n_buffers < LF_WORK_BUFFERS);
    taker->buffer[taker->n_buffers++] = (struct lf_work_buffer){at, bytes, of_host};
    return at;
}

static void *take(struct taker *taker, size_t count, size_t bytes_each) {
    size_t bytes = lf_arena_rounded(count * bytes_each);
    return keep(taker, bytes, 0, taker->arena ? lf_mem_alloc(taker->memory, bytes) : NULL);
}

static void *take_host(struct taker *taker, size_t count, size_t bytes_each) {
    void *at = taker->arena ? lf_arena_alloc(taker->arena, count, bytes_each) : NULL;
    return keep(taker, lf_arena_rounded(count * bytes_each), 1, at);
}

#define TAKE(field, count) ((field) = take(taker, (count), sizeof *(field)))
#define TAKE_HOST(field, count) ((field) = take_host(taker, (count), sizeof *(field)))

// The most that the tables of a call take (batch.c, taps.c, draft.c put them there).
static size_t tables_bytes(const struct lf_state_shape *shape, size_t n, uint32_t slots,
                           uint32_t logits_rows) {
    const struct lf_topology *t = shape->t;
    size_t columns = (size_t)(t->engram_ngram - 1) * t->engram_heads, sources = t->n_kv_sources;
    uint32_t last = sources ? t->kv_sources[sources - 1] : 0;
    size_t drops = t->layers + 1 - last, pointer = sizeof(void *), word = sizeof(uint32_t);
    size_t row = 2 * sizeof(struct lf_row) + 4 * t->rope_dim * word + pointer + 4 * word;
    row += sources * 4 * pointer + t->n_engram * columns * sizeof(uint64_t) + drops * word;
    size_t tables = 32 + 4 * sources + 3 * t->n_engram + drops, masks = 0;
    // Where memory is apart the Engram rows of a call come along, as on disk, and its masks.
    if (shape->apart) {
        row += t->n_engram * columns * (t->engram_dim + t->engram_dim / 32);
        masks = logits_rows * (LF_ARENA_ALIGN + (t->vocab + 31) / 32 * word);
    }
    return n * row + masks + slots * sizeof(struct lf_span) + tables * LF_ARENA_ALIGN;
}

static void take_tables(struct lf_work *w, struct taker *taker, const struct lf_state_shape *shape,
                        size_t n, uint32_t slots) {
    const struct lf_topology *t = shape->t;
    size_t bytes = lf_arena_rounded(tables_bytes(shape, n, slots, w->logits_rows_max));
    taker->part = LF_WORK_ROTARY;
    if (taker->arena)
        taker->failed = !lf_tables_open(&w->tables, taker->memory, bytes) || taker->failed;
    keep(taker, bytes, 0, w->tables.seen);
    taker->part = LF_WORK_ROWS;
    for (int i = 0; i < 2; i++) {
        TAKE_HOST(w->entries[i].lane, n);
        TAKE_HOST(w->entries[i].number, n);
    }
    TAKE_HOST(w->row_all, n);
    TAKE_HOST(w->row, n);
    TAKE_HOST(w->span, slots);
    TAKE_HOST(w->job, 2 * (size_t)w->experts_max + 8 + t->o_groups);
    TAKE_HOST(w->job_room, 2 * (size_t)w->experts_max + 8 + t->o_groups);
}

static void take_streams(struct lf_work *w, struct taker *taker, const struct lf_topology *t,
                         size_t n) {
    size_t d = t->hidden, hc = t->streams;
    TAKE(w->x, n * hc * d);
    TAKE(w->pre, n * hc);
    TAKE(w->pre_next, n * hc);
    TAKE(w->post, n * hc);
    TAKE(w->comb, n * hc * hc);
    TAKE(w->in, n * d);
    TAKE(w->in_q, n * d);
    TAKE(w->out, n * d);
}

static void take_attention(struct lf_work *w, struct taker *taker, const struct lf_topology *t,
                           const struct lf_state_shape *shape, size_t n) {
    size_t heads = (size_t)t->heads * t->head_dim, groups = (size_t)t->o_groups * t->o_lora;
    size_t narrow = t->q_lora > t->head_dim ? t->q_lora : t->head_dim;
    TAKE(w->k, n * t->head_dim);
    TAKE(w->call_keys, n * shape->window_bytes);
    TAKE(w->qr, n * t->q_lora);
    TAKE(w->qr_q, n * narrow);
    TAKE(w->q, n * heads);
    TAKE(w->o, n * heads);
    TAKE(w->u, n * groups);
    TAKE(w->u_q, n * groups);
}

static void take_compressed(struct lf_work *w, struct taker *taker, const struct lf_topology *t,
                            size_t n) {
    TAKE(w->latent, n * t->head_dim);
    TAKE(w->latent_key, n * t->index_dim);
    TAKE(w->raw, n * 2 * t->head_dim);
    TAKE(w->iq, n * t->index_heads * t->index_dim);
    TAKE(w->iw, n * t->index_heads);
    TAKE(w->selected, n * t->index_topk);
    TAKE(w->n_selected, n);
    TAKE(w->blocks, n * t->candidate_blocks);
    TAKE(w->n_blocks, n);
    TAKE(w->score, w->score_floats);
}

static void take_experts(struct lf_work *w, struct taker *taker, const struct lf_topology *t,
                         size_t n) {
    size_t pairs = w->pairs_max, shared = (size_t)t->expert_dim * t->shared_experts;
    TAKE(w->route_logits, n * w->experts_max);
    TAKE(w->route_id, pairs);
    TAKE(w->route_weight, pairs);
    TAKE(w->pair_row, pairs);
    TAKE(w->pair_of, pairs);
    TAKE(w->pair_weight, pairs);
    TAKE(w->expert_first, (size_t)w->experts_max + 1);
    TAKE(w->gate, pairs * t->expert_dim + n * shared);
    TAKE(w->up, pairs * t->expert_dim + n * shared);
    TAKE(w->down, pairs * t->hidden);
    TAKE(w->shared, n * t->hidden);
}

static void take_rest(struct lf_work *w, struct taker *taker, const struct lf_topology *t,
                      size_t n) {
    size_t columns = (size_t)(t->engram_ngram - 1) * t->engram_heads;
    TAKE(w->engram_rows, n * columns * t->engram_dim);
    TAKE(w->engram_kv, n * (t->streams + 1) * t->hidden);
    taker->part = LF_WORK_LOGITS;
    TAKE(w->logits, (size_t)w->logits_rows_max * t->vocab);
    TAKE(w->drawn, w->logits_rows_max);
    TAKE(w->logprob, w->logits_rows_max);
    taker->part = LF_WORK_ROWS;
}

static void take_drafter(struct lf_work *w, struct taker *taker,
                         const struct lf_state_shape *shape) {
    const struct lf_topology *t = shape->t;
    struct lf_draft_work *d = &w->draft;
    uint32_t asks = w->logits_rows_max / t->draft_block;
    size_t rank = t->draft_markov_rank;
    d->rows_max = w->rows_max < FILL_ROWS ? w->rows_max : FILL_ROWS;
    d->asks_max = asks < LF_DRAFT_ASKS_MAX ? asks : LF_DRAFT_ASKS_MAX;
    LF_ASSERT(d->asks_max > 0 && w->rows_max >= w->logits_rows_max);
    size_t n = (size_t)d->asks_max * t->draft_block;
    TAKE(d->taps, (size_t)d->rows_max * shape->tap_size);
    TAKE(d->taps_q, (size_t)d->rows_max * shape->tap_size);
    TAKE(d->hidden, n * t->hidden);
    TAKE(d->judged, n * (t->hidden + rank));
    TAKE(d->confidence, n);
    taker->part = LF_WORK_LOGITS;
    TAKE(d->bias, (size_t)d->asks_max * t->vocab);
    taker->part = LF_WORK_ROWS;
}

static void take_all(struct lf_work *w, struct taker *taker, const struct lf_state_shape *shape,
                     uint32_t slots, uint32_t rows_max, uint32_t logits_rows_max) {
    const struct lf_topology *t = shape->t;
    bool drafts = shape->tap_size > 0;
    uint32_t experts = t->experts, top = t->experts_top;
    if (drafts && t->draft_experts > experts)
        experts = t->draft_experts;
    if (drafts && t->draft_experts_top > top)
        top = t->draft_experts_top;
    *w = (struct lf_work){.rows_max = rows_max,
                          .experts_max = experts,
                          .pairs_max = rows_max * top,
                          .logits_rows_max = logits_rows_max};
    size_t context = shape->context, most = SCORE_FLOATS < context ? context : SCORE_FLOATS;
    size_t rows = rows_max < SCORE_ROWS_MAX ? rows_max : SCORE_ROWS_MAX;
    // Not a whole number of rows: a longer context never takes less memory than a shorter one.
    w->score_floats = most / context > rows ? rows * context : most;
    take_streams(w, taker, t, rows_max);
    take_attention(w, taker, t, shape, rows_max);
    take_compressed(w, taker, t, rows_max);
    take_experts(w, taker, t, rows_max);
    take_rest(w, taker, t, rows_max);
    take_tables(w, taker, shape, rows_max, slots);
    if (drafts)
        take_drafter(w, taker, shape);
}

void lf_work_bytes(uint64_t bytes[LF_WORK_PARTS], const struct lf_state_shape *shape,
                   uint32_t slots, uint32_t rows_max, uint32_t logits_rows_max) {
    struct lf_work work;
    struct taker taker = {.part = LF_WORK_ROWS};
    take_all(&work, &taker, shape, slots, rows_max, logits_rows_max);
    memcpy(bytes, taker.bytes, sizeof taker.bytes);
}

enum lf_status lf_work_open(struct lf_work *w, struct lf_arena *arena,
                            const struct lf_state_shape *shape, uint32_t slots, uint32_t rows_max,
                            uint32_t logits_rows_max, struct lf_error *err) {
    struct taker taker = {.arena = arena, .memory = shape->memory, .part = LF_WORK_ROWS};
    take_all(w, &taker, shape, slots, rows_max, logits_rows_max);
    memcpy(w->buffer, taker.buffer, sizeof taker.buffer);
    w->n_buffers = taker.n_buffers;
    for (int part = 0; part < LF_WORK_PARTS; part++)
        w->bytes += taker.bytes[part];
    w->bytes_here = taker.bytes[LF_WORK_HOST];
    if (taker.failed)
        return lf_fail(err, LF_E_MEM, "out of memory for the workspace of %u rows", rows_max);
    return LF_OK;
}

void lf_work_close(struct lf_work *w, struct lf_mem *memory) {
    for (uint32_t i = 0; i < w->n_buffers; i++)
        if (!w->buffer[i].of_host && w->buffer[i].at != w->tables.seen)
            lf_mem_free(memory, w->buffer[i].at);
    lf_tables_close(&w->tables);
}

void lf_work_trim(const struct lf_work *w, const struct lf_state_shape *shape, uint32_t slots,
                  uint32_t rows) {
    struct lf_work less;
    struct taker taker = {.part = LF_WORK_ROWS};
    take_all(&less, &taker, shape, slots, rows, w->logits_rows_max);
    LF_ASSERT(rows <= w->rows_max && taker.n_buffers == w->n_buffers);
    // A device keeps what it has: nobody else waits for its memory.
    for (uint32_t i = 0; !shape->memory && i < w->n_buffers; i++) {
        size_t used = taker.buffer[i].bytes;
        if (used < w->buffer[i].bytes)
            lf_memory_give_back(w->buffer[i].at + used, w->buffer[i].bytes - used);
    }
}
