#include "lane/resume.h"
#include "lane/room.h"

static uint64_t rows_left(const struct lf_stream *s) {
    return s->request.prompt_len - s->length;
}

// The order of L-28; with no share for replies prompts fill in the order of arrival (L-27).
static bool goes_before(const struct lf_engine *e, const struct lf_stream *a,
                        const struct lf_stream *b) {
    bool a_due = a->passed >= LF_PASSED_MAX, b_due = b->passed >= LF_PASSED_MAX;
    if (e->options.decode_share <= 0)
        return a->order < b->order;
    if (a_due != b_due)
        return a_due;
    if (a_due)
        return a->order < b->order;
    if (a->request.background != b->request.background)
        return b->request.background;
    if (rows_left(a) != rows_left(b))
        return rows_left(a) < rows_left(b);
    return a->order < b->order;
}

// The reading streams in order; replies: whether others are decoding.
static uint32_t gather(struct lf_engine *e, bool *replies) {
    uint32_t n = 0;
    *replies = false;
    for (uint32_t i = 0; i < e->info->slots; i++) {
        struct lf_stream *s = e->slot[i];
        if (!s || s->done)
            continue;
        if (!lf_stream_reading(s)) {
            *replies |= !s->paused;
            continue;
        }
        uint32_t at = n++;
        for (; at && goes_before(e, s, e->sorted[at - 1]); at--)
            e->sorted[at] = e->sorted[at - 1];
        e->sorted[at] = s;
    }
    return n;
}

// Puts the streams of one launch first: the first that may go, then whole prompts that fit beside.
static uint32_t choose(struct lf_engine *e, uint32_t n, bool replies) {
    uint32_t most = n ? lf_room_chunk_rows(e) : 0, chosen = 0;
    uint32_t room = lf_share_rows(&e->share, most, replies);
    for (uint32_t i = 0; i < n && room && chosen < e->info->launch_rows_max; i++) {
        struct lf_stream *s = e->sorted[i];
        uint64_t left = rows_left(s);
        if (chosen ? left > room : !lf_share_allows(&e->share, left, replies))
            continue;
        uint32_t rows = lf_resume_rows(s, left < room ? left : room);
        e->chunk[chosen] = (struct lf_chunk){.slot = s->slot, .rows = rows, .pos0 = s->length,
                                             .tok = s->request.prompt + s->length,
                                             .plan = s->pass.plan,
                                             .n_plan = s->pass.n_plan};
        room -= rows;
        for (uint32_t j = i; j > chosen; j--)
            e->sorted[j] = e->sorted[j - 1];
        e->sorted[chosen++] = s;
    }
    return chosen;
}

// The prompt is read: draws the first token and delivers it.
static void begin_reply(struct lf_engine *e, struct lf_stream *s) {
    struct lf_error err = LF_ERROR_INIT;
    struct lf_logprob_row row;
    struct lf_window window = {.slot = s->slot, .pos0 = s->length, .rule = &s->request.sampling,
                               .top_logprobs = s->request.top_logprobs,
                               .logprobs = s->request.want_logprobs ? &row : NULL};
    uint32_t drawn, fresh;
    if (!s->told_prefilled) {
        s->told_prefilled = true;
        s->stats.prefill_seconds = lf_engine_now(e) - s->started;
        if (s->sink.prefilled)
            s->sink.prefilled(s->ctx, s->id, s->stats.cached_tokens);
    }
    if (e->target->ops->draw_last(e->target, &window, &drawn, &err) != LF_OK) {
        lf_engine_launch_failed(e, &s, 1, &err);
        return;
    }
    lf_accept_window(s, NULL, 0, &drawn, window.logprobs, &fresh);
    lf_accept_deliver(e, s, fresh, window.logprobs);
}

// Streams whose whole prompt was saved: their first tokens come from stored logits (C-13).
static bool begin_resumed(struct lf_engine *e) {
    bool any = false;
    for (uint32_t i = 0; i < e->info->slots; i++) {
        struct lf_stream *s = e->slot[i];
        if (!s || s->done || lf_stream_reading(s) || s->produced)
            continue;
        begin_reply(e, s);
        any = true;
    }
    return any;
}

bool lf_prompt_round(struct lf_engine *e) {
    struct lf_error err = LF_ERROR_INIT;
    bool replies, begun = begin_resumed(e);
    uint32_t n = gather(e, &replies), chosen = choose(e, n, replies), rows = 0;
    if (!chosen)
        return begun;
    double start = lf_engine_now(e);
    if (e->target->ops->prefill(e->target, e->chunk, chosen, &err) != LF_OK) {
        lf_engine_launch_failed(e, e->sorted, chosen, &err);
        return true;
    }
    e->device_failures = 0;
    for (uint32_t i = 0; i < chosen; i++) {
        rows += e->chunk[i].rows;
        e->sorted[i]->length += e->chunk[i].rows;
        e->sorted[i]->passed = 0;
        lf_resume_mark(e, e->sorted[i]);
    }
    lf_share_chunk(&e->share, rows, lf_engine_now(e) - start, replies);
    for (uint32_t i = chosen; i < n; i++)
        e->sorted[i]->passed++;
    for (uint32_t i = 0; i < chosen; i++)
        if (!lf_stream_reading(e->sorted[i]))
            begin_reply(e, e->sorted[i]);
    return true;
}
