#include "lane/stream.h"

#include <stdio.h>
#include <string.h>

static bool served_before(const struct lf_stream *a, const struct lf_stream *b) {
    return a->served != b->served ? a->served < b->served : a->order < b->order;
}

// Storage for the widest window of the next round, or a pause until there is some (L-43, L-44).
static bool has_room(struct lf_engine *e, struct lf_stream *s) {
    struct lf_error err = LF_ERROR_INIT;
    uint64_t most = (uint64_t)s->request.prompt_len + s->limit;
    uint64_t wanted = s->length + e->info->window_max;
    enum lf_status status = lf_stream_reserve(e, s, wanted < most ? wanted : most, &err);
    if (status != LF_OK && status != LF_E_MEM) {
        lf_engine_launch_failed(e, &s, 1, &err);
        return false;
    }
    if (status == LF_E_MEM && !s->paused) {
        pthread_mutex_lock(&e->lock);
        e->status.paused++;
        pthread_mutex_unlock(&e->lock);
        snprintf(s->message, sizeof s->message, "%.300s", err.text);
    }
    s->paused = status == LF_E_MEM;
    return !s->paused;
}

// The streams of this round, served longest ago first (L-2). The oldest ask for storage first.
static uint32_t gather(struct lf_engine *e) {
    struct lf_round *r = e->round;
    uint32_t n = 0, most = e->info->launch_rows_max;
    for (uint32_t i = 0; i < e->info->slots; i++) {
        struct lf_stream *s = e->slot[i];
        if (!s || s->done || lf_stream_reading(s))
            continue;
        uint32_t at = n++;
        for (; at && s->order < e->sorted[at - 1]->order; at--)
            e->sorted[at] = e->sorted[at - 1];
        e->sorted[at] = s;
    }
    uint32_t ready = 0;
    for (uint32_t i = 0; i < n; i++) {
        struct lf_stream *s = e->sorted[i];
        if (!has_room(e, s))
            continue;
        uint32_t at = ready++;
        for (; at && served_before(s, e->sorted[at - 1]); at--)
            e->sorted[at] = e->sorted[at - 1];
        e->sorted[at] = s;
    }
    most = most < LF_ROUND_ROWS ? most : LF_ROUND_ROWS;
    r->n = ready < most ? ready : most;
    for (uint32_t i = 0; i < r->n; i++) {
        struct lf_stream *s = r->stream[i] = e->sorted[i];
        r->window[i] = (struct lf_window){.slot = s->slot, .pos0 = s->length,
                                          .rule = &s->request.sampling};
    }
    return r->n;
}

static void fill_windows(struct lf_round *r) {
    r->rows = 0;
    for (uint32_t i = 0; i < r->n; i++) {
        const struct lf_request *q = &r->stream[i]->request;
        struct lf_window *w = &r->window[i];
        w->tok = r->tok + r->rows;
        w->rows = 1 + r->depth[i];
        w->top_logprobs = q->top_logprobs;
        w->logprobs = q->want_logprobs ? r->logprobs + r->rows : NULL;
        r->tok[r->rows] = r->stream[i]->pending;
        memcpy(r->tok + r->rows + 1, r->chain[i].tok, sizeof *r->tok * r->depth[i]);
        r->rows += w->rows;
    }
}

static void accept(struct lf_round *r) {
    uint32_t at = 0;
    for (uint32_t i = 0; i < r->n; i++) {
        uint32_t drafts = r->depth[i], *drawn = r->drawn + at;
        const uint32_t *draft = r->tok + at + 1;
        uint32_t n = lf_accept_window(r->stream[i], draft, drafts, drawn, r->window[i].logprobs,
                                      &r->fresh[i]);
        r->accepted[i] = lf_accept_count(draft, drafts, drawn);
        // A stream that failed at its first row keeps that row: a keep is never empty (L-20).
        r->kept[i] = n ? n : 1;
        at += 1 + drafts;
    }
}

static void count_round(const struct lf_round *r, uint32_t i) {
    struct lf_stats *stats = &r->stream[i]->stats;
    stats->rounds++;
    stats->plain_rounds += r->window[i].rows == 1;
    stats->drafted += r->depth[i];
    stats->accepted += r->accepted[i] < r->kept[i] ? r->accepted[i] : r->kept[i];
    if (!stats->min_rows || r->rows < stats->min_rows)
        stats->min_rows = r->rows;
}

static void deliver(struct lf_engine *e, struct lf_round *r) {
    e->rounds++;
    for (uint32_t i = 0; i < r->n; i++) {
        struct lf_stream *s = r->stream[i];
        const struct lf_window *w = &r->window[i];
        s->length += r->kept[i];
        s->served = e->rounds;
        count_round(r, i);
        lf_accept_deliver(e, s, r->fresh[i],
                          w->logprobs ? w->logprobs + r->kept[i] - r->fresh[i] : NULL);
    }
}

static enum lf_status launch(struct lf_engine *e, struct lf_round *r, struct lf_error *err) {
    double start = lf_engine_now(e);
    LF_TRY(lf_drafts_choose(e, r, err));
    fill_windows(r);
    double begun = lf_engine_now(e);
    LF_TRY(e->target->ops->verify(e->target, r->window, r->n, r->drawn, err));
    accept(r);
    LF_TRY(e->target->ops->keep(e->target, r->window, r->kept, r->n, err));
    double kept = lf_engine_now(e);
    e->device_failures = 0;
    deliver(e, r);
    double seconds = lf_engine_now(e) - start;
    lf_drafts_learn(e, r, kept - begun, seconds);
    lf_share_round(&e->share, seconds);
    return LF_OK;
}

bool lf_decode_round(struct lf_engine *e) {
    struct lf_error err = LF_ERROR_INIT;
    if (!gather(e))
        return false;
    if (launch(e, e->round, &err) != LF_OK)
        lf_engine_launch_failed(e, e->round->stream, e->round->n, &err);
    return true;
}
