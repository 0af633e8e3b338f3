#include "lane/stream.h"

#include <stdio.h>
#include <time.h>
#include "base/sha256.h"

// Storage is taken this many tokens ahead where the client named no limit (L-42).
enum { RESERVE_ROWS = 2048 };

double lf_seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

bool lf_stream_reading(const struct lf_stream *s) {
    return s->length < s->request.prompt_len;
}

static void end_stream(struct lf_stream *s, enum lf_done why, const char *message) {
    s->done = true;
    s->why = why;
    snprintf(s->message, sizeof s->message, "%s", message);
}

static bool is_end(const struct lf_request *r, uint32_t id) {
    for (uint32_t i = 0; i < r->n_eos; i++)
        if (r->eos[i] == id)
            return true;
    return false;
}

// Commits one drawn token and tests the stop conditions in the order of L-5.
static void commit(struct lf_stream *s, uint32_t id) {
    if (id == LF_SAMPLE_NONE) {
        end_stream(s, LF_DONE_FAILED, "the model's logits are not finite");
        return;
    }
    s->last_token = lf_seconds();
    if (!s->reply.len)
        s->first_token = s->last_token;
    lf_ids_add(&s->reply, id);
    if (s->reply.failed) {
        end_stream(s, LF_DONE_FAILED, "out of memory for the reply");
        return;
    }
    s->pending = id;
    int stopped = s->request.stop ? s->request.stop(s->request.stop_ctx, id) : 0;
    if (s->sink.tokens)
        s->sink.tokens(s->ctx, s->id, &id, 1, s->request.want_logprobs ? &s->logprobs : NULL);
    if (is_end(&s->request, id))
        end_stream(s, LF_DONE_EOS, "");
    else if (stopped)
        end_stream(s, LF_DONE_STOP_STRING, "");
    else if (s->reply.len >= s->limit)
        end_stream(s, s->window_limit ? LF_DONE_WINDOW : LF_DONE_LENGTH, "");
}

static bool reserve(struct lf_engine *e, struct lf_stream *s, uint64_t positions) {
    struct lf_error err = LF_ERROR_INIT;
    if (positions <= s->reserved)
        return true;
    uint64_t most = (uint64_t)s->request.prompt_len + s->limit;
    uint64_t ahead = s->request.max_explicit ? most : positions + RESERVE_ROWS;
    if (ahead > most)
        ahead = most;
    if (ahead < positions)
        ahead = positions;
    if (e->target->ops->grow(e->target, s->slot, ahead, &err) != LF_OK) {
        end_stream(s, LF_DONE_FAILED, err.text);
        return false;
    }
    s->reserved = ahead;
    return true;
}

void lf_round_prefill(struct lf_engine *e, struct lf_stream *s) {
    struct lf_error err = LF_ERROR_INIT;
    uint64_t left = s->request.prompt_len - s->length;
    uint32_t rows = left < e->info->chunk_rows_max ? (uint32_t)left : e->info->chunk_rows_max;
    struct lf_chunk chunk = {.slot = s->slot, .rows = rows, .pos0 = s->length,
                             .tok = s->request.prompt + s->length, .plan = &s->end, .n_plan = 1};
    if (!s->length && s->sink.admitted)
        s->sink.admitted(s->ctx, s->id);
    if (!reserve(e, s, s->request.prompt_len))
        return;
    if (e->target->ops->prefill(e->target, &chunk, 1, &err) != LF_OK) {
        end_stream(s, LF_DONE_FAILED, err.text);
        return;
    }
    s->length += rows;
    if (lf_stream_reading(s))
        return;
    s->stats.prefill_seconds = lf_seconds() - s->started;
    if (s->sink.prefilled)
        s->sink.prefilled(s->ctx, s->id, 0);
    uint32_t drawn;
    struct lf_window window = {.slot = s->slot, .pos0 = s->length, .rule = &s->request.sampling,
                               .top_logprobs = s->request.top_logprobs,
                               .logprobs = s->request.want_logprobs ? &s->logprobs : NULL};
    if (e->target->ops->draw_last(e->target, &window, &drawn, &err) != LF_OK)
        end_stream(s, LF_DONE_FAILED, err.text);
    else
        commit(s, drawn);
}

// The streams of this round: decoding, storage at hand, at most a launch's rows.
static uint32_t gather(struct lf_engine *e, struct lf_stream **stream, struct lf_window *window) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < e->info->slots && n < e->info->launch_rows_max; i++) {
        struct lf_stream *s = e->slot[i];
        if (!s || s->done || lf_stream_reading(s) || !reserve(e, s, s->length + 1))
            continue;
        stream[n] = s;
        window[n++] = (struct lf_window){.slot = i, .rows = 1, .pos0 = s->length,
                                         .tok = &s->pending, .rule = &s->request.sampling,
                                         .top_logprobs = s->request.top_logprobs,
                                         .logprobs = s->request.want_logprobs ? &s->logprobs
                                                                              : NULL};
    }
    return n;
}

static void count_round(struct lf_stats *stats, uint32_t launch_rows) {
    stats->rounds++;
    stats->plain_rounds++;
    if (!stats->min_rows || launch_rows < stats->min_rows)
        stats->min_rows = launch_rows;
}

void lf_round_decode(struct lf_engine *e) {
    enum { STREAMS = 64 };
    struct lf_stream *stream[STREAMS];
    struct lf_window window[STREAMS];
    uint32_t drawn[STREAMS], kept[STREAMS];
    struct lf_error err = LF_ERROR_INIT;
    LF_ASSERT(e->info->launch_rows_max <= STREAMS);
    uint32_t n = gather(e, stream, window);
    if (!n)
        return;
    for (uint32_t i = 0; i < n; i++)
        kept[i] = 1;
    if (e->target->ops->verify(e->target, window, n, drawn, &err) != LF_OK ||
        e->target->ops->keep(e->target, window, kept, n, &err) != LF_OK) {
        for (uint32_t i = 0; i < n; i++)
            end_stream(stream[i], LF_DONE_FAILED, err.text);
        return;
    }
    for (uint32_t i = 0; i < n; i++) {
        stream[i]->length++;
        count_round(&stream[i]->stats, n);
        commit(stream[i], drawn[i]);
    }
}
