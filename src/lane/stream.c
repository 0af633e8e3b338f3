#include "lane/resume.h"
#include "lane/room.h"

#include <stdio.h>
#include <stdlib.h>
#include "base/sha256.h"

// Storage is taken this many tokens ahead where the client named no limit (L-42).
enum { RESERVE_ROWS = 2048 };

bool lf_stream_reading(const struct lf_stream *s) {
    return s->length < s->request.prompt_len;
}

void lf_stream_end(struct lf_stream *s, enum lf_done why, const char *message) {
    if (s->done)
        return;
    s->done = true;
    s->why = why;
    snprintf(s->message, sizeof s->message, "%s", message);
}

void lf_stream_count(struct lf_engine *e, const struct lf_stream *s) {
    struct lf_engine_status *all = &e->status;
    all->prompt_tokens += s->request.prompt_len;
    all->completion_tokens += s->reply.len;
    all->rounds += s->stats.rounds;
    all->plain_rounds += s->stats.plain_rounds;
    all->drafted += s->stats.drafted;
    all->accepted += s->stats.accepted;
    all->nonfinite += s->nonfinite;
    if (s->why == LF_DONE_FAILED || s->why == LF_DONE_MEMORY)
        all->failed++;
    else if (s->why == LF_DONE_CANCELLED)
        all->cancelled++;
    else
        all->finished++;
}

void lf_stream_finish(struct lf_engine *e, struct lf_stream *s) {
    struct lf_stats *stats = &s->stats;
    stats->prompt_tokens = s->request.prompt_len;
    stats->completion_tokens = (uint32_t)s->reply.len;
    stats->seed = s->request.sampling.seed;
    if (s->reply.len) {
        stats->time_to_first_token = s->first_token - s->submitted;
        stats->decode_seconds = s->last_token - s->first_token;
        if (stats->decode_seconds > 0)
            stats->tokens_per_second = (double)(s->reply.len - 1) / stats->decode_seconds;
    }
    lf_sha256_ids(s->reply.id, s->reply.len, stats->token_sha256);
    if (s->company)
        e->ended[s->request.sampling.temperature > 0][s->company] = s->loss;
    s->sink.finished(s->ctx, s->id, s->why, stats, s->message);
    lf_ids_free(&s->reply);
    lf_copy_free(&s->copy);
    free(s);
}

enum lf_status lf_stream_reserve(struct lf_engine *e, struct lf_stream *s, uint64_t positions,
                                 struct lf_error *err) {
    if (positions <= s->reserved)
        return LF_OK;
    uint64_t most = (uint64_t)s->request.prompt_len + s->limit;
    uint64_t ahead = s->request.max_explicit ? most : positions + RESERVE_ROWS;
    if (ahead > most)
        ahead = most;
    if (ahead < positions)
        ahead = positions;
    while (lf_room_check(e, s, ahead, err) != LF_OK ||
           e->target->ops->grow(e->target, s->slot, ahead, err) != LF_OK) {
        // Live streams come before what is saved, unless all of it would not be enough (C-11).
        if (err->status != LF_E_MEM || !lf_room_can_be_made(e, s, ahead) || !lf_resume_evict(e))
            return err->status;
        *err = (struct lf_error)LF_ERROR_INIT;
    }
    s->reserved = ahead;
    return LF_OK;
}
