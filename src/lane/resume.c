#include "lane/resume.h"

#include <stdlib.h>
#include <string.h>

static void show_stats(struct lf_engine *e) {
    struct lf_cache_stats stats;
    lf_cache_stats_read(e->cache, &stats);
    pthread_mutex_lock(&e->lock);
    e->status.cache = stats;
    pthread_mutex_unlock(&e->lock);
}

static struct lf_cache *cache_of(struct lf_engine *e, const struct lf_stream *s) {
    return s->request.no_cache ? NULL : e->cache;
}

void lf_resume_begin(struct lf_engine *e, struct lf_stream *s) {
    const struct lf_request *r = &s->request;
    struct lf_error err = LF_ERROR_INIT;
    struct lf_cache_prompt prompt = {.keys = {.n = r->prompt_len, .token = r->prompt},
                                     .history_len = r->history_len, .rewind_len = r->rewind_len,
                                     .shared = r->shared, .n_shared = r->n_shared};
    lf_cache_begin(cache_of(e, s), &s->pass, s->slot, &prompt);
    s->length = s->pass.resumed;
    if (!s->told_prefilled)
        s->stats.cached_tokens = (uint32_t)s->pass.resumed;
    // A slot that was restored, or reset after a failure, has other storage than was reserved.
    if (e->target->ops->grow(e->target, s->slot, s->reserved, &err) != LF_OK)
        lf_stream_end(s, LF_DONE_FAILED, err.text);
    show_stats(e);
}

uint32_t lf_resume_rows(const struct lf_stream *s, uint64_t rows) {
    uint64_t most = lf_cache_next(&s->pass, s->length) - s->length;
    return (uint32_t)(rows < most ? rows : most);
}

void lf_resume_mark(struct lf_engine *e, struct lf_stream *s) {
    lf_cache_mark(cache_of(e, s), &s->pass, s->length);
    show_stats(e);
}

static bool reply_ended(const struct lf_stream *s) {
    return s->why == LF_DONE_EOS || s->why == LF_DONE_STOP_STRING || s->why == LF_DONE_LENGTH ||
           s->why == LF_DONE_WINDOW;
}

// The ids of the slot's rows, prompt and reply; NULL: nothing to save, or no memory.
static uint32_t *rows_of(const struct lf_stream *s) {
    uint64_t prompt = s->request.prompt_len;
    if (!s->done || !reply_ended(s) || s->length < prompt || s->length - prompt > s->reply.len)
        return NULL;
    uint32_t *ids = malloc(s->length * sizeof *ids);
    if (!ids)
        return NULL;
    memcpy(ids, s->request.prompt, prompt * sizeof *ids);
    memcpy(ids + prompt, s->reply.id, (s->length - prompt) * sizeof *ids);
    return ids;
}

void lf_resume_end(struct lf_engine *e, struct lf_stream *s) {
    struct lf_cache *cache = cache_of(e, s);
    uint32_t *ids = cache ? rows_of(s) : NULL;
    struct lf_rowkeys keys = {.n = s->length, .token = ids};
    lf_cache_end(cache, &s->pass, ids ? &keys : NULL);
    free(ids);
    show_stats(e);
}

bool lf_resume_evict(struct lf_engine *e) {
    bool gone = lf_cache_evict(e->cache);
    show_stats(e);
    return gone;
}
