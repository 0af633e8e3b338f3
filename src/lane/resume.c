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

// A server that ends spends at most this on writing states.
enum { FLUSH_S = 10 };
static const uint64_t floor_bytes = 4ull << 30;

// On the disk thread.
static void disk_done(void *ctx) {
    struct lf_engine *e = ctx;
    pthread_mutex_lock(&e->lock);
    pthread_cond_signal(&e->wake);
    pthread_mutex_unlock(&e->lock);
}

enum lf_status lf_resume_open(struct lf_engine *e, struct lf_error *err) {
    const struct lf_engine_options *o = &e->options;
    LF_ASSERT(o->prompt_cache_bytes != LF_PROMPT_CACHE_AUTO);
    if (!o->prompt_cache_bytes)
        return o->spill_dir ? lf_fail(err, LF_E_VALUE, "a spill folder, but no prompt cache: "
                                                       "nothing would be written to %s",
                                      o->spill_dir)
                            : LF_OK;
    LF_TRY(lf_cache_open(&e->cache, e->target, o->prompt_cache_bytes, err));
    struct lf_cache_disk disk = {
        .spill = {.dir = o->spill_dir, .fingerprint = e->target->fingerprint,
                  .cap_bytes = o->spill_bytes, .done = disk_done, .ctx = e,
                  .floor_bytes = o->spill_floor_bytes ? o->spill_floor_bytes : floor_bytes},
        .rows_min = o->spill_rows, .keep_shared = o->keep_shared, .wait_s = o->device_wait_s};
    if (o->spill_dir)
        LF_TRY(lf_cache_spill(e->cache, &disk, err));
    show_stats(e);
    return LF_OK;
}

double lf_resume_flush_s(const struct lf_engine *e) {
    // A dead engine's process ends within two seconds (F-3).
    if (!e->options.spill_dir || e->status.dead)
        return 0;
    return e->options.device_wait_s < FLUSH_S ? e->options.device_wait_s : FLUSH_S;
}

void lf_resume_flush(struct lf_engine *e) {
    lf_cache_flush(e->cache, lf_resume_flush_s(e));
    lf_cache_settle(e->cache);
}

bool lf_resume_waits(struct lf_engine *e, struct lf_stream *s) {
    struct lf_cache *cache = cache_of(e, s);
    struct lf_rowkeys keys = {.n = s->request.prompt_len, .token = s->request.prompt};
    // Nobody behind it is held up for what it waits for.
    return cache && s->passed < LF_PASSED_MAX &&
           lf_cache_waits(cache, &keys, &s->wait, e->share.row_s);
}

void lf_resume_disk(struct lf_engine *e) {
    if (lf_cache_disk(e->cache))
        show_stats(e);
}

bool lf_resume_busy(const struct lf_engine *e) {
    return lf_cache_busy(e->cache);
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
