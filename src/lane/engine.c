#include "lane/engine.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "base/sha256.h"
#include "lane/stream.h"

enum { QUEUE_MAX = 128 };

static void finish(struct lf_engine *e, struct lf_stream *s) {
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
    pthread_mutex_lock(&e->lock);
    e->status.prompt_tokens += stats->prompt_tokens;
    e->status.completion_tokens += stats->completion_tokens;
    if (s->why == LF_DONE_FAILED)
        e->status.failed++;
    else if (s->why == LF_DONE_CANCELLED)
        e->status.cancelled++;
    else
        e->status.finished++;
    pthread_mutex_unlock(&e->lock);
    s->sink.finished(s->ctx, s->id, s->why, stats, s->message);
    lf_ids_free(&s->reply);
    free(s);
}

static void unlink_waiting(struct lf_engine *e, struct lf_stream *before, struct lf_stream *s) {
    if (before)
        before->next = s->next;
    else
        e->waiting = s->next;
    if (e->waiting_last == s)
        e->waiting_last = before;
    e->status.waiting--;
}

// Takes every waiting stream that is to end out of the list; they come back linked by next.
static struct lf_stream *take_ended(struct lf_engine *e, double now) {
    struct lf_stream *ended = NULL, *before = NULL, *next;
    for (struct lf_stream *s = e->waiting; s; s = next) {
        next = s->next;
        double timeout = e->options.queue_timeout_s;
        bool late = timeout > 0 && now - s->submitted > timeout;
        if (!s->cancelled && !late && !e->closing) {
            before = s;
            continue;
        }
        s->why = s->cancelled ? LF_DONE_CANCELLED : late ? LF_DONE_TIMEOUT : LF_DONE_CLOSED;
        unlink_waiting(e, before, s);
        s->next = ended;
        ended = s;
    }
    return ended;
}

// Marks live streams that were cancelled or outlived the drain; fills free slots from the queue.
static void admit(struct lf_engine *e, double now) {
    for (uint32_t i = 0; i < e->info->slots; i++) {
        struct lf_stream *s = e->slot[i];
        if (s && !s->done && (s->cancelled || (e->closing && now >= e->close_at))) {
            s->done = true;
            s->why = s->cancelled ? LF_DONE_CANCELLED : LF_DONE_CLOSED;
        }
        if (s || !e->waiting)
            continue;
        s = e->waiting;
        unlink_waiting(e, NULL, s);
        s->slot = i;
        s->started = now;
        s->stats.queue_seconds = now - s->submitted;
        e->slot[i] = s;
        e->status.running++;
    }
}

static bool any_live(const struct lf_engine *e) {
    for (uint32_t i = 0; i < e->info->slots; i++)
        if (e->slot[i])
            return true;
    return false;
}

static void wait_for_work(struct lf_engine *e) {
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += 100 * 1000 * 1000;
    if (until.tv_nsec >= 1000 * 1000 * 1000) {
        until.tv_sec++;
        until.tv_nsec -= 1000 * 1000 * 1000;
    }
    pthread_cond_timedwait(&e->wake, &e->lock, &until);
}

static void release_done(struct lf_engine *e) {
    struct lf_error err = LF_ERROR_INIT;
    for (uint32_t i = 0; i < e->info->slots; i++) {
        struct lf_stream *s = e->slot[i];
        if (!s || !s->done)
            continue;
        // A refusal is impossible here: the slot exists. Its state starts over.
        LF_ASSERT(e->target->ops->reset(e->target, i, &err) == LF_OK);
        pthread_mutex_lock(&e->lock);
        e->slot[i] = NULL;
        e->status.running--;
        pthread_mutex_unlock(&e->lock);
        finish(e, s);
    }
}

static void rounds(struct lf_engine *e) {
    for (uint32_t i = 0; i < e->info->slots; i++) {
        struct lf_stream *s = e->slot[i];
        if (s && !s->done && lf_stream_reading(s)) {
            lf_round_prefill(e, s);
            break;
        }
    }
    lf_round_decode(e);
}

static void *run(void *arg) {
    struct lf_engine *e = arg;
    for (;;) {
        pthread_mutex_lock(&e->lock);
        double now = lf_seconds();
        struct lf_stream *ended = take_ended(e, now);
        admit(e, now);
        bool live = any_live(e);
        bool over = e->closing && !live && !e->waiting && !ended;
        if (!live && !ended && !over)
            wait_for_work(e);
        pthread_mutex_unlock(&e->lock);
        while (ended) {
            struct lf_stream *next = ended->next;
            finish(e, ended);
            ended = next;
        }
        if (over)
            return NULL;
        release_done(e);
        rounds(e);
        release_done(e);
    }
}

enum lf_status lf_engine_open(struct lf_engine **out, struct lf_target *target,
                              const struct lf_engine_options *options, struct lf_error *err) {
    struct lf_engine *e = calloc(1, sizeof *e);
    *out = NULL;
    if (!e)
        return lf_fail(err, LF_E_MEM, "out of memory for the engine");
    e->target = target;
    e->info = target->ops->info(target);
    e->options = *options;
    e->status.queue_max = options->queue_max ? options->queue_max : QUEUE_MAX;
    e->slot = calloc(e->info->slots, sizeof *e->slot);
    pthread_mutex_init(&e->lock, NULL);
    pthread_cond_init(&e->wake, NULL);
    int failed = e->slot ? pthread_create(&e->thread, NULL, run, e) : ENOMEM;
    if (failed) {
        free(e->slot);
        free(e);
        return lf_fail(err, LF_E_MEM, "cannot start the engine thread: %s", strerror(failed));
    }
    *out = e;
    return LF_OK;
}

void lf_engine_close(struct lf_engine *e, double drain_seconds) {
    if (!e)
        return;
    pthread_mutex_lock(&e->lock);
    e->closing = e->status.draining = true;
    e->close_at = lf_seconds() + drain_seconds;
    pthread_cond_signal(&e->wake);
    pthread_mutex_unlock(&e->lock);
    pthread_join(e->thread, NULL);
    e->target->ops->close(e->target);
    pthread_mutex_destroy(&e->lock);
    pthread_cond_destroy(&e->wake);
    free(e->slot);
    free(e);
}

static enum lf_status check(const struct lf_engine *e, const struct lf_request *r,
                            struct lf_error *err) {
    uint64_t context = e->info->context, prompt = r->prompt_len;
    uint64_t reply = r->max_explicit ? r->max_tokens : 1;
    if (!prompt)
        return lf_fail(err, LF_E_VALUE, "the prompt is empty: expected at least one token");
    if (!r->max_tokens)
        return lf_fail(err, LF_E_VALUE, "the reply limit is 0: expected at least 1");
    for (uint64_t i = 0; i < prompt; i++)
        if (r->prompt[i] >= e->info->vocab)
            return lf_fail(err, LF_E_TOKEN, "token id %u at prompt index %llu: expected below %u",
                           r->prompt[i], (unsigned long long)i, e->info->vocab);
    if (prompt >= context || prompt + reply > context)
        return lf_fail(err, LF_E_CONTEXT,
                       "This model's maximum context length is %llu tokens, but the request needs "
                       "%llu tokens (%llu in the prompt, %llu for the reply). Shorten the prompt "
                       "or lower the reply limit.",
                       (unsigned long long)context, (unsigned long long)(prompt + reply),
                       (unsigned long long)prompt, (unsigned long long)reply);
    return LF_OK;
}

// Foreground goes before background, each in arrival order (L-34).
static void enqueue(struct lf_engine *e, struct lf_stream *s) {
    struct lf_stream *before = e->waiting_last;
    if (!s->request.background && before && before->request.background) {
        before = NULL;
        for (struct lf_stream *w = e->waiting; w && !w->request.background; w = w->next)
            before = w;
    }
    s->next = before ? before->next : e->waiting;
    if (before)
        before->next = s;
    else
        e->waiting = s;
    if (!s->next)
        e->waiting_last = s;
    e->status.waiting++;
}

enum lf_status lf_engine_submit(struct lf_engine *e, uint64_t id, const struct lf_request *request,
                                const struct lf_sink *sink, void *ctx, struct lf_error *err) {
    LF_TRY(check(e, request, err));
    struct lf_stream *s = calloc(1, sizeof *s);
    if (!s)
        return lf_fail(err, LF_E_MEM, "out of memory for the request");
    uint64_t room = e->info->context - request->prompt_len;
    s->id = id;
    s->request = *request;
    s->sink = *sink;
    s->ctx = ctx;
    s->window_limit = request->max_tokens > room;
    s->limit = s->window_limit ? (uint32_t)room : request->max_tokens;
    s->end = (struct lf_bound){.at = request->prompt_len, .logits = true};
    s->submitted = lf_seconds();
    pthread_mutex_lock(&e->lock);
    if (e->closing)
        lf_fail(err, LF_E_CLOSED, "the server is shutting down");
    else if (e->status.waiting >= e->status.queue_max)
        lf_fail(err, LF_E_QUEUE_FULL, "the queue is full: %u requests wait", e->status.waiting);
    else
        enqueue(e, s);
    pthread_cond_signal(&e->wake);
    pthread_mutex_unlock(&e->lock);
    if (err->status != LF_OK)
        free(s);
    return err->status;
}

void lf_engine_cancel(struct lf_engine *e, uint64_t id) {
    pthread_mutex_lock(&e->lock);
    for (struct lf_stream *s = e->waiting; s; s = s->next)
        if (s->id == id)
            s->cancelled = true;
    for (uint32_t i = 0; i < e->info->slots; i++)
        if (e->slot[i] && e->slot[i]->id == id)
            e->slot[i]->cancelled = true;
    pthread_cond_signal(&e->wake);
    pthread_mutex_unlock(&e->lock);
}

void lf_engine_status_read(struct lf_engine *e, struct lf_engine_status *out) {
    pthread_mutex_lock(&e->lock);
    *out = e->status;
    pthread_mutex_unlock(&e->lock);
}

const struct lf_target_info *lf_engine_info(const struct lf_engine *e) {
    return e->info;
}
