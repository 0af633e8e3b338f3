#include "model/target_ops.h"

#include <math.h>
#include <string.h>
#include "model/saved.h"
#include "model/v41.h"

static struct lf_v41 *model_of(struct lf_target *t) {
    return (struct lf_v41 *)t;
}

static const struct lf_target_info *info(struct lf_target *t) {
    return &model_of(t)->info;
}

static enum lf_status check_slot(const struct lf_v41 *m, uint32_t slot, struct lf_error *err) {
    if (slot >= m->info.slots)
        return lf_fail(err, LF_E_SLOT, "slot %u: there are %u", slot, m->info.slots);
    return LF_OK;
}

// What prefill and verify ask of their rows alike: a slot, its length, room and known ids.
static enum lf_status check_rows(const struct lf_v41 *m, uint32_t slot, uint64_t pos0,
                                 const uint32_t *tok, uint32_t rows, uint32_t rows_max,
                                 struct lf_error *err) {
    LF_TRY(check_slot(m, slot, err));
    const struct lf_state *s = &m->state[slot];
    if (rows == 0 || rows > rows_max)
        return lf_fail(err, LF_E_ROWS, "%u rows for slot %u: expected 1 to %u", rows, slot,
                       rows_max);
    if (pos0 != s->length)
        return lf_fail(err, LF_E_POS, "slot %u: rows start at %llu, its length is %llu", slot,
                       (unsigned long long)pos0, (unsigned long long)s->length);
    if (rows > m->info.context - pos0)
        return lf_fail(err, LF_E_POS, "slot %u: %u rows from %llu pass the context of %llu", slot,
                       rows, (unsigned long long)pos0, (unsigned long long)m->info.context);
    if (pos0 + rows > s->grown)
        return lf_fail(err, LF_E_MEM, "slot %u: storage for %llu positions, %llu wanted", slot,
                       (unsigned long long)s->grown, (unsigned long long)(pos0 + rows));
    if (s->pending_rows)
        return lf_fail(err, LF_E_KEEP, "slot %u: the last verify still waits for its keep", slot);
    for (uint32_t i = 0; i < rows; i++)
        if (tok[i] >= m->info.vocab)
            return lf_fail(err, LF_E_TOKEN, "token %u: the vocabulary has %u", tok[i],
                           m->info.vocab);
    return LF_OK;
}

static bool same_plan(const struct lf_state *s, const struct lf_bound *plan, uint32_t n) {
    if (n != s->n_plan)
        return false;
    for (uint32_t i = 0; i < n; i++)
        if (plan[i].at != s->plan[i].at || plan[i].logits != s->plan[i].logits)
            return false;
    return true;
}

static enum lf_status check_plan(const struct lf_v41 *m, const struct lf_chunk *c,
                                 struct lf_error *err) {
    const struct lf_state *s = &m->state[c->slot];
    if (c->n_plan == 0 || c->n_plan > LF_PLAN_MAX)
        return lf_fail(err, LF_E_PLAN, "slot %u: %u boundaries, expected 1 to %d", c->slot,
                       c->n_plan, LF_PLAN_MAX);
    for (uint32_t i = 1; i < c->n_plan; i++)
        if (c->plan[i].at <= c->plan[i - 1].at)
            return lf_fail(err, LF_E_PLAN, "slot %u: boundaries do not ascend", c->slot);
    if (c->plan[c->n_plan - 1].at < c->pos0 + c->rows)
        return lf_fail(err, LF_E_PLAN, "slot %u: rows past the pass's last boundary", c->slot);
    if (!s->complete && !same_plan(s, c->plan, c->n_plan))
        return lf_fail(err, LF_E_PLAN, "slot %u: another plan in the middle of a pass", c->slot);
    return LF_OK;
}

static void commit_prefill(struct lf_v41 *m, const struct lf_chunk *c) {
    struct lf_state *s = &m->state[c->slot];
    s->length = c->pos0 + c->rows;
    s->complete = s->logits_ready = false;
    s->n_plan = c->n_plan;
    memcpy(s->plan, c->plan, sizeof *c->plan * c->n_plan);
    for (uint32_t i = 0; i < c->n_plan; i++)
        if (c->plan[i].at == s->length) {
            s->complete = true;
            s->logits_ready = c->plan[i].logits;
        }
    lf_taps_commit(m, c->slot);
    lf_model_tell_pages(m, c->slot);
}

// Copies the logits of each lane's newest wanted row to its slot; work.logits follows row order.
static void keep_last_logits(struct lf_v41 *m) {
    struct lf_work *w = &m->work;
    uint32_t at = 0;
    for (uint32_t r = 0; r < w->rows; r++) {
        if (!(w->row[r].wants & LF_WANT_LOGITS))
            continue;
        lf_mem_copy(m->device.memory, m->state[w->row[r].lane].last,
                    w->logits + (size_t)at++ * m->info.vocab, sizeof *w->logits * m->info.vocab);
    }
}

static enum lf_status prefill(struct lf_target *target, const struct lf_chunk *chunk, uint32_t n,
                              struct lf_error *err) {
    struct lf_v41 *m = model_of(target);
    uint64_t rows = 0, wanted = 0;
    for (uint32_t i = 0; i < n; i++) {
        const struct lf_chunk *c = &chunk[i];
        LF_TRY(check_rows(m, c->slot, c->pos0, c->tok, c->rows, m->info.chunk_rows_max, err));
        LF_TRY(check_plan(m, c, err));
        for (uint32_t j = 0; j < i; j++)
            if (chunk[j].slot == c->slot)
                return lf_fail(err, LF_E_SLOT, "slot %u is named twice in one call", c->slot);
        for (uint32_t b = 0; b < c->n_plan; b++)
            wanted += c->plan[b].logits && c->plan[b].at > c->pos0 &&
                      c->plan[b].at <= c->pos0 + c->rows;
        rows += c->rows;
    }
    if (n == 0 || rows > m->work.rows_max)
        return lf_fail(err, LF_E_ROWS, "%llu rows in one call: expected 1 to %u",
                       (unsigned long long)rows, m->work.rows_max);
    if (wanted > m->work.logits_rows_max)
        return lf_fail(err, LF_E_ROWS, "logits of %llu rows in one call: at most %u",
                       (unsigned long long)wanted, m->work.logits_rows_max);
    lf_batch_begin(m);
    for (uint32_t i = 0; i < n; i++)
        lf_batch_add(m, chunk[i].slot, chunk[i].pos0, chunk[i].tok, chunk[i].rows, chunk[i].plan,
                     chunk[i].n_plan);
    lf_batch_end(m);
    lf_forward(m);
    keep_last_logits(m);
    LF_TRY(lf_mem_wait(m->device.memory, err));
    for (uint32_t i = 0; i < n; i++)
        commit_prefill(m, &chunk[i]);
    return LF_OK;
}

// The masks of a window's rows as kernels see them.
static const uint32_t *masks(struct lf_v41 *m, const struct lf_window *w, size_t words) {
    if (!w->mask || !m->shape.apart)
        return w->mask;
    struct lf_table table = lf_tables_take(&m->work.tables, words * sizeof *w->mask);
    memcpy(table.host, w->mask, words * sizeof *w->mask);
    lf_tables_send(&m->work.tables);
    return table.seen;
}

// What the rows of a window draw by, the first at a position.
static void list_draws(struct lf_v41 *m, const struct lf_window *w, uint32_t rows,
                       uint64_t position, struct lf_sample_row *row) {
    size_t mask_words = (m->info.vocab + 31) / 32;
    const uint32_t *mask = masks(m, w, rows * mask_words);
    for (uint32_t i = 0; i < rows; i++)
        row[i] = (struct lf_sample_row){.rule = w->rule, .position = position + i,
                                        .mask = mask ? mask + i * mask_words : NULL};
}

// From the first rows of logits to those of work.drawn.
static void sample(struct lf_v41 *m, const struct lf_sample_row *row, uint32_t rows,
                   const float *logits) {
    m->k.sample(&m->device, &(struct lf_sample_args){.rows = rows, .vocab = m->info.vocab,
                                                     .logits = logits,
                                                     .logits_stride = m->info.vocab, .row = row,
                                                     .drawn = m->work.drawn});
}

// drawn and row where kernels work.
static void log_probabilities(struct lf_v41 *m, uint32_t rows, const float *logits,
                              const uint32_t *drawn, uint32_t top, struct lf_logprob_row *row) {
    m->k.logprobs(&m->device, &(struct lf_logprobs_args){.rows = rows, .vocab = m->info.vocab,
                                                         .logits = logits,
                                                         .logits_stride = m->info.vocab,
                                                         .drawn = drawn, .top = top, .row = row});
}

// What draw_last asks for has no row of its own and draws one.
static uint32_t drawn_rows(const struct lf_window *w) {
    return w->rows ? w->rows : 1;
}

// Of the windows that want them, whose rows stand one after the other in logits and work.drawn.
static void judge_windows(struct lf_v41 *m, const struct lf_window *w, uint32_t n,
                          const float *logits) {
    for (uint32_t i = 0, at = 0, rows; i < n; i++, at += rows) {
        rows = drawn_rows(&w[i]);
        if (w[i].logprobs)
            log_probabilities(m, rows, logits + (size_t)at * m->info.vocab, m->work.drawn + at,
                              w[i].top_logprobs, m->work.logprob + at);
    }
}

// What windows drew, from kernels to the caller: the first download is the one that waits.
static void read_windows(struct lf_v41 *m, const struct lf_window *w, uint32_t n,
                         uint32_t *drawn) {
    uint32_t all = 0;
    for (uint32_t i = 0; i < n; i++)
        all += drawn_rows(&w[i]);
    lf_mem_download(m->device.memory, drawn, m->work.drawn, all * sizeof *drawn);
    for (uint32_t i = 0, at = 0, rows; i < n; i++, at += rows) {
        rows = drawn_rows(&w[i]);
        if (w[i].logprobs)
            lf_mem_download(m->device.memory, w[i].logprobs, m->work.logprob + at,
                            rows * sizeof *w[i].logprobs);
    }
}

static enum lf_status check_top(const struct lf_window *w, struct lf_error *err) {
    if (w->logprobs && w->top_logprobs > LF_LOGPROBS_MAX)
        return lf_fail(err, LF_E_VALUE, "slot %u: %u alternatives a row, expected at most %d",
                       w->slot, w->top_logprobs, LF_LOGPROBS_MAX);
    return LF_OK;
}

static enum lf_status check_windows(const struct lf_v41 *m, const struct lf_window *w, uint32_t n,
                                    struct lf_error *err) {
    uint64_t rows = 0;
    for (uint32_t i = 0; i < n; i++) {
        LF_TRY(check_rows(m, w[i].slot, w[i].pos0, w[i].tok, w[i].rows, LF_WINDOW_MAX, err));
        LF_TRY(check_top(&w[i], err));
        if (!m->state[w[i].slot].complete)
            return lf_fail(err, LF_E_PLAN, "slot %u: position %llu was no boundary of its pass",
                           w[i].slot, (unsigned long long)w[i].pos0);
        for (uint32_t j = 0; j < i; j++)
            if (w[j].slot == w[i].slot)
                return lf_fail(err, LF_E_SLOT, "slot %u is named twice in one call", w[i].slot);
        rows += w[i].rows;
    }
    if (n == 0 || rows > m->info.launch_rows_max)
        return lf_fail(err, LF_E_ROWS, "%llu rows in one launch: expected 1 to %u",
                       (unsigned long long)rows, m->info.launch_rows_max);
    return LF_OK;
}

static enum lf_status verify(struct lf_target *target, const struct lf_window *w, uint32_t n,
                             uint32_t *drawn, struct lf_error *err) {
    struct lf_v41 *m = model_of(target);
    struct lf_sample_row row[LF_LAUNCH_ROWS];
    LF_TRY(check_windows(m, w, n, err));
    lf_batch_begin(m);
    for (uint32_t i = 0; i < n; i++)
        lf_batch_add(m, w[i].slot, w[i].pos0, w[i].tok, w[i].rows, NULL, 0);
    lf_batch_end(m);
    lf_forward_round(m);
    for (uint32_t i = 0, at = 0; i < n; at += w[i++].rows)
        list_draws(m, &w[i], w[i].rows, w[i].pos0 + 1, row + at);
    sample(m, row, m->work.rows, m->work.logits);
    judge_windows(m, w, n, m->work.logits);
    read_windows(m, w, n, drawn);
    LF_TRY(lf_mem_wait(m->device.memory, err));
    for (uint32_t i = 0; i < n; i++)
        m->state[w[i].slot].pending_rows = w[i].rows;
    return LF_OK;
}

static enum lf_status keep(struct lf_target *target, const struct lf_window *w,
                           const uint32_t *kept, uint32_t n, struct lf_error *err) {
    struct lf_v41 *m = model_of(target);
    for (uint32_t i = 0; i < n; i++) {
        LF_TRY(check_slot(m, w[i].slot, err));
        const struct lf_state *s = &m->state[w[i].slot];
        if (!s->pending_rows || w[i].pos0 != s->length || w[i].rows != s->pending_rows)
            return lf_fail(err, LF_E_KEEP, "slot %u: the window is not its last verify",
                           w[i].slot);
        if (kept[i] == 0 || kept[i] > w[i].rows)
            return lf_fail(err, LF_E_KEEP, "slot %u: a keep of %u rows of %u", w[i].slot, kept[i],
                           w[i].rows);
        for (uint32_t j = 0; j < i; j++)
            if (w[j].slot == w[i].slot)
                return lf_fail(err, LF_E_SLOT, "slot %u is named twice in one call", w[i].slot);
    }
    for (uint32_t i = 0; i < n; i++) {
        struct lf_state *s = &m->state[w[i].slot];
        s->length += kept[i];
        s->pending_rows = 0;
        s->logits_ready = false;
        lf_model_tell_pages(m, w[i].slot);
    }
    return LF_OK;
}

static enum lf_status draw_last(struct lf_target *target, const struct lf_window *w,
                                uint32_t *drawn, struct lf_error *err) {
    struct lf_v41 *m = model_of(target);
    struct lf_sample_row row;
    LF_TRY(check_slot(m, w->slot, err));
    const struct lf_state *s = &m->state[w->slot];
    if (w->rows != 0 || w->pos0 != s->length)
        return lf_fail(err, LF_E_POS, "slot %u: a draw at %llu with %u rows, its length is %llu",
                       w->slot, (unsigned long long)w->pos0, w->rows,
                       (unsigned long long)s->length);
    if (!s->complete || !s->logits_ready || s->pending_rows)
        return lf_fail(err, LF_E_PLAN, "slot %u: no logits were asked for at position %llu",
                       w->slot, (unsigned long long)w->pos0);
    LF_TRY(check_top(w, err));
    lf_tables_begin(&m->work.tables);
    list_draws(m, w, 1, w->pos0, &row);
    sample(m, &row, 1, s->last);
    judge_windows(m, w, 1, s->last);
    read_windows(m, w, 1, drawn);
    return lf_mem_wait(m->device.memory, err);
}

static enum lf_status grow(struct lf_target *target, uint32_t slot, uint64_t positions,
                           struct lf_error *err) {
    struct lf_v41 *m = model_of(target);
    LF_TRY(check_slot(m, slot, err));
    if (positions <= m->state[slot].grown)
        return LF_OK;
    enum lf_status status = lf_state_grow(&m->state[slot], &m->shape, positions, err);
    lf_model_tell_pages(m, slot);
    return status;
}

static enum lf_status reset(struct lf_target *target, uint32_t slot, struct lf_error *err) {
    struct lf_v41 *m = model_of(target);
    LF_TRY(check_slot(m, slot, err));
    lf_state_reset(&m->state[slot], &m->shape);
    lf_model_tell_pages(m, slot);
    // A device that is lost shows here at the latest (F-3).
    return lf_mem_wait(m->device.memory, err);
}

static uint64_t grow_bytes(struct lf_target *target, uint64_t positions) {
    return lf_state_kv_bytes(&model_of(target)->shape, positions);
}

static uint32_t work_rows(uint32_t rows) {
    return rows > LF_LAUNCH_ROWS ? rows : LF_LAUNCH_ROWS;
}

static uint64_t chunk_bytes(struct lf_target *target, uint32_t rows) {
    const struct lf_v41 *m = model_of(target);
    uint64_t part[LF_WORK_PARTS], bytes = 0;
    // A device's workspace stays whole: no chunk is worth less than another.
    if (m->shape.apart)
        rows = m->info.chunk_rows_max;
    lf_work_bytes(part, &m->shape, m->info.slots, work_rows(rows), LF_LAUNCH_ROWS);
    for (int i = 0; i < LF_WORK_PARTS; i++)
        bytes += part[i];
    return bytes;
}

static void chunk_trim(struct lf_target *target, uint32_t rows) {
    struct lf_v41 *m = model_of(target);
    lf_work_trim(&m->work, &m->shape, m->info.slots, work_rows(rows));
}

static enum lf_status digest(struct lf_target *target, uint32_t slot, uint8_t out[32],
                             struct lf_error *err) {
    struct lf_v41 *m = model_of(target);
    LF_TRY(check_slot(m, slot, err));
    if (!m->state[slot].complete)
        return lf_fail(err, LF_E_PLAN, "slot %u: its state is not complete here", slot);
    lf_draft_fill(m, &slot, 1);
    lf_state_digest(&m->state[slot], &m->shape, out);
    return lf_mem_wait(m->device.memory, err);
}

const struct lf_target_ops lf_model_target_ops = {
    .info = info, .prefill = prefill, .verify = verify, .keep = keep, .draw_last = draw_last,
    .grow = grow, .reset = reset, .grow_bytes = grow_bytes, .chunk_bytes = chunk_bytes,
    .chunk_trim = chunk_trim, .digest = digest, .save_bytes = lf_model_save_bytes,
    .save_need = lf_model_save_need, .saved_total = lf_model_saved_total, .save = lf_model_save,
    .restore = lf_model_restore, .drop = lf_model_drop, .file_bytes = lf_model_file_bytes,
    .write = lf_model_saved_write, .read = lf_model_saved_read, .adopt = lf_model_adopt,
    .close = lf_model_close,
};

const float *lf_model_logits(struct lf_target *target, uint32_t slot, uint32_t row) {
    struct lf_v41 *m = model_of(target);
    const struct lf_state *s = &m->state[slot];
    const float *at = s->last;
    LF_ASSERT(!s->pending_rows || row < s->pending_rows);
    if (s->pending_rows)
        at = m->work.logits + (size_t)(m->work.span[slot].first + row) * m->info.vocab;
    return lf_mem_read(m->device.memory, at, m->info.vocab * sizeof *at, m->logits_here);
}

enum lf_status lf_model_score(struct lf_target *target, const struct lf_chunk *chunk, float *out,
                              struct lf_error *err) {
    struct lf_v41 *m = model_of(target);
    LF_TRY(check_rows(m, chunk->slot, chunk->pos0, chunk->tok, chunk->rows,
                      m->work.logits_rows_max, err));
    if (!m->state[chunk->slot].complete)
        return lf_fail(err, LF_E_PLAN, "slot %u: its state is not complete here", chunk->slot);
    lf_batch_begin(m);
    lf_batch_add(m, chunk->slot, chunk->pos0, chunk->tok, chunk->rows, NULL, 0);
    lf_batch_end(m);
    lf_forward(m);
    keep_last_logits(m);
    lf_mem_download(m->device.memory, out, m->work.logits,
                    sizeof *out * chunk->rows * m->info.vocab);
    LF_TRY(lf_mem_wait(m->device.memory, err));
    m->state[chunk->slot].length += chunk->rows;
    m->state[chunk->slot].logits_ready = true;
    lf_model_tell_pages(m, chunk->slot);
    return LF_OK;
}

enum lf_status lf_model_logprobs(struct lf_target *target, const float *logits, uint32_t rows,
                                 const uint32_t *id, struct lf_logprob_row *out,
                                 struct lf_error *err) {
    struct lf_v41 *m = model_of(target);
    struct lf_mem *memory = m->device.memory;
    uint32_t most = m->work.logits_rows_max, vocab = m->info.vocab;
    for (uint32_t at = 0, n; at < rows; at += n) {
        const float *from = logits + (size_t)at * vocab;
        n = rows - at < most ? rows - at : most;
        lf_mem_upload(memory, m->work.drawn, id + at, n * sizeof *id);
        if (memory)
            lf_mem_upload(memory, m->work.logits, from, (size_t)n * vocab * sizeof *from);
        log_probabilities(m, n, memory ? m->work.logits : from, m->work.drawn, 0,
                          m->work.logprob);
        lf_mem_download(memory, out + at, m->work.logprob, n * sizeof *out);
    }
    return lf_mem_wait(memory, err);
}
