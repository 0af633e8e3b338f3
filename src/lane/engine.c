#include "lane/engine.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/clock.h"
#include "base/log.h"
#include "lane/resume.h"
#include "lane/session.h"
#include "lane/cost_file.h"

enum { QUEUE_MAX = 128, DEVICE_WAIT_S = 300 };
static const double dead_wait_s = 0.5;
static const double idle_s = 0.1; // until an idle engine looks at its queue again

static double monotonic(void *ctx) {
    (void)ctx;
    return lf_clock_s();
}

double lf_engine_now(const struct lf_engine *e) {
    return e->machine.now(e->machine.now_ctx);
}

void lf_engine_die(struct lf_engine *e, const char *message) {
    lf_log(LF_LOG_ERROR, "the engine is dead: %s", message);
    pthread_mutex_lock(&e->lock);
    if (!e->status.dead)
        snprintf(e->status.message, sizeof e->status.message, "%.250s", message);
    e->status.dead = true;
    pthread_mutex_unlock(&e->lock);
}

void lf_engine_launch_failed(struct lf_engine *e, struct lf_stream **stream, uint32_t n,
                             const struct lf_error *err) {
    lf_log(LF_LOG_ERROR, "a launch of %u requests failed: %s", n, err->text);
    for (uint32_t i = 0; i < n; i++)
        lf_stream_end(stream[i], LF_DONE_FAILED, err->text);
    if (err->status == LF_E_DEVICE && ++e->device_failures > 1)
        lf_engine_die(e, err->text);
}

static bool any_live(const struct lf_engine *e) {
    for (uint32_t i = 0; i < e->info->slots; i++)
        if (e->slot[i])
            return true;
    return false;
}

// Every live stream waits for storage: the newest starts over later, one alone fails (L-43).
static void break_stall(struct lf_engine *e) {
    struct lf_stream *newest = NULL;
    uint32_t live = 0;
    for (uint32_t i = 0; i < e->info->slots; i++) {
        struct lf_stream *s = e->slot[i];
        if (!s || s->done)
            continue;
        live++;
        if (!newest || s->order > newest->order)
            newest = s;
    }
    if (live > 1) {
        lf_slots_yield(e, newest);
    } else if (live) {
        char text[512];
        snprintf(text, sizeof text,
                 "no memory for position %llu of the reply (--parallel %u, --context %llu): %.300s",
                 (unsigned long long)newest->length, e->info->slots,
                 (unsigned long long)e->info->context, newest->message);
        lf_stream_end(newest, LF_DONE_FAILED, text);
    }
}

// The lock is held.
static void wait_for_work(struct lf_engine *e) {
    lf_clock_wait(&e->wake, &e->lock, lf_clock_s() + idle_s);
}

// Nothing could run: what the disk thread holds is waited for, else somebody gives way.
static void wait_or_break(struct lf_engine *e, uint64_t arrivals) {
    if (!lf_resume_busy(e)) {
        break_stall(e);
        return;
    }
    pthread_mutex_lock(&e->lock);
    if (e->arrivals == arrivals && !e->closing && !lf_cache_disk_ready(e->cache))
        wait_for_work(e);
    pthread_mutex_unlock(&e->lock);
}

static void measure(struct lf_engine *e) {
    const struct lf_engine_options *o = &e->options;
    if (o->drafts != LF_DRAFTS_OFF && !o->draft_depth)
        lf_cost_start(&e->cost, e->target, o->cost_folder, e->machine.now, e->machine.now_ctx);
}

// A cancel ends its request within one chunk or one round, not after both (L-38).
static void take_cancels(struct lf_engine *e) {
    pthread_mutex_lock(&e->lock);
    lf_slots_end(e, lf_engine_now(e));
    pthread_mutex_unlock(&e->lock);
    lf_slots_release(e);
}

static void run(struct lf_engine *e) {
    for (;;) {
        e->doing = "its queue";
        pthread_mutex_lock(&e->lock);
        double now = lf_engine_now(e);
        struct lf_stream *ended = lf_queue_take_ended(e, now);
        lf_slots_end(e, now);
        bool work = any_live(e) || e->waiting || ended, over = e->closing && !work;
        uint64_t arrivals = e->arrivals;
        if (!work && !over)
            wait_for_work(e);
        pthread_mutex_unlock(&e->lock);
        while (ended) {
            struct lf_stream *next = ended->next;
            lf_stream_finish(e, ended);
            ended = next;
        }
        if (over)
            return;
        e->doing = "the slots of requests";
        lf_slots_release(e);
        lf_resume_disk(e);
        lf_slots_admit(e);
        e->doing = "a prompt launch";
        bool read = lf_prompt_round(e);
        e->doing = "a decode launch";
        take_cancels(e);
        if (!lf_decode_round(e) && !read && work)
            wait_or_break(e, arrivals);
        lf_slots_release(e);
    }
}

static void *engine_main(void *arg) {
    struct lf_engine *e = arg;
    run(e);
    e->doing = "the disk thread of the prompt cache";
    lf_resume_flush(e);
    pthread_mutex_lock(&e->lock);
    e->over = true;
    pthread_cond_signal(&e->gone);
    pthread_mutex_unlock(&e->lock);
    return NULL;
}

static void free_engine(struct lf_engine *e) {
    free(e->slot);
    free(e->sorted);
    free(e->chunk);
    free(e->round);
    free(e);
}

static enum lf_status check_options(const struct lf_target *target,
                                    const struct lf_engine_options *o, struct lf_error *err) {
    if (!(o->decode_share >= 0 && o->decode_share < 1))
        return lf_fail(err, LF_E_VALUE, "a decode share of %g: expected 0 to below 1",
                       o->decode_share);
    if (o->drafts == LF_DRAFTS_ON && !target->drafter)
        return lf_fail(err, LF_E_UNSUPPORTED, "drafts are on, but this model has no drafter");
    return LF_OK;
}

enum lf_status lf_engine_start(struct lf_engine **out, struct lf_target *target,
                              const struct lf_engine_options *options,
                              const struct lf_machine *machine, struct lf_error *err) {
    *out = NULL;
    LF_TRY(check_options(target, options, err));
    struct lf_engine *e = calloc(1, sizeof *e);
    if (!e)
        return lf_fail(err, LF_E_MEM, "out of memory for the engine");
    e->target = target;
    e->info = target->ops->info(target);
    e->options = *options;
    if (machine)
        e->machine = *machine;
    if (!e->machine.now)
        e->machine.now = monotonic;
    e->about = (struct lf_engine_info){.name = "", .folder = "", .device = "", .fingerprint = "",
                                       .context = e->info->context, .vocab = e->info->vocab,
                                       .parallel = e->info->slots,
                                       .drafts = options->drafts != LF_DRAFTS_OFF};
    if (!options->long_prompts)
        e->options.long_prompts = 1;
    if (!(options->device_wait_s > 0))
        e->options.device_wait_s = DEVICE_WAIT_S;
    e->share = (struct lf_share){.share = options->decode_share, .gap = options->max_gap_ms * 1e-3};
    e->status.queue_max = options->queue_max ? options->queue_max : QUEUE_MAX;
    e->slot = calloc(e->info->slots, sizeof *e->slot);
    e->sorted = calloc(e->info->slots, sizeof *e->sorted);
    e->chunk = calloc(e->info->slots, sizeof *e->chunk);
    e->round = calloc(1, sizeof *e->round);
    pthread_mutex_init(&e->lock, NULL);
    pthread_cond_init(&e->wake, NULL);
    pthread_cond_init(&e->gone, NULL);
    int failed = ENOMEM;
    bool cached = lf_resume_open(e, err) == LF_OK;
    if (e->slot && e->sorted && e->chunk && e->round && cached) {
        // Before the first request can come: none waits for it, and no queue fills.
        measure(e);
        failed = pthread_create(&e->thread, NULL, engine_main, e);
    }
    if (failed) {
        lf_cache_close(e->cache);
        free_engine(e);
        return lf_fail(err, LF_E_MEM, "cannot start the engine thread: %s", strerror(failed));
    }
    *out = e;
    return LF_OK;
}

// False when a device or a disk that does not answer keeps the thread (F-4).
static bool wait_ended(struct lf_engine *e, double drain_seconds) {
    double most = e->options.device_wait_s;
    pthread_mutex_lock(&e->lock);
    // The process of a dead engine must be gone in two seconds (F-3).
    if (e->status.dead && most > dead_wait_s)
        most = dead_wait_s;
    double until_s = lf_clock_s() + drain_seconds + lf_resume_flush_s(e) + most;
    bool late = false;
    while (!e->over && !late)
        late = !lf_clock_wait(&e->gone, &e->lock, until_s);
    bool over = e->over;
    pthread_mutex_unlock(&e->lock);
    if (!over)
        lf_log(LF_LOG_ERROR, "the engine thread did not end within %g s: it waits for %s", most,
               e->doing);
    return over;
}

bool lf_engine_close(struct lf_engine *e, double drain_seconds) {
    if (!e)
        return true;
    pthread_mutex_lock(&e->lock);
    e->closing = e->status.draining = true;
    e->close_at = lf_engine_now(e) + drain_seconds;
    pthread_cond_signal(&e->wake);
    pthread_mutex_unlock(&e->lock);
    if (!wait_ended(e, drain_seconds))
        return false;
    pthread_join(e->thread, NULL);
    lf_cache_close(e->cache);
    e->target->ops->close(e->target);
    if (e->session)
        lf_session_close(e->session);
    free(e->session);
    pthread_mutex_destroy(&e->lock);
    pthread_cond_destroy(&e->wake);
    pthread_cond_destroy(&e->gone);
    free_engine(e);
    return true;
}

// The one sentence for a request past the context (api.md 4).
static enum lf_status refuse_length(uint64_t context, uint64_t prompt, uint64_t reply,
                                    struct lf_error *err) {
    return lf_fail(err, LF_E_CONTEXT,
                   "This model's maximum context length is %llu tokens, but the request needs %llu "
                   "tokens (%llu in the prompt, %llu for the reply). Shorten the prompt or lower "
                   "the reply limit.",
                   (unsigned long long)context, (unsigned long long)(prompt + reply),
                   (unsigned long long)prompt, (unsigned long long)reply);
}

static enum lf_status check(const struct lf_engine *e, const struct lf_request *r,
                            struct lf_error *err) {
    uint64_t context = e->info->context, prompt = r->prompt_len;
    uint64_t reply = r->max_explicit ? r->max_tokens : 1;
    if (!prompt)
        return lf_fail(err, LF_E_VALUE, "the prompt is empty: expected at least one token");
    if (!r->max_tokens)
        return lf_fail(err, LF_E_VALUE, "the reply limit is 0: expected at least 1");
    if (r->top_logprobs > LF_LOGPROBS_MAX)
        return lf_fail(err, LF_E_VALUE, "%u alternatives a token: expected at most %d",
                       r->top_logprobs, LF_LOGPROBS_MAX);
    if (r->n_shared > LF_SHARED_MAX)
        return lf_fail(err, LF_E_VALUE, "%u shared blocks: expected at most %d", r->n_shared,
                       LF_SHARED_MAX);
    for (uint64_t i = 0; i < prompt; i++)
        if (r->prompt[i] >= e->info->vocab)
            return lf_fail(err, LF_E_TOKEN, "token id %u at prompt index %llu: expected below %u",
                           r->prompt[i], (unsigned long long)i, e->info->vocab);
    if (prompt >= context || prompt + reply > context)
        return refuse_length(context, prompt, reply, err);
    return LF_OK;
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
    s->vocab = e->info->vocab;
    s->window_limit = request->max_tokens > room;
    s->limit = s->window_limit ? (uint32_t)room : request->max_tokens;
    s->submitted = lf_engine_now(e);
    pthread_mutex_lock(&e->lock);
    s->order = e->arrivals++;
    if (e->closing)
        lf_fail(err, LF_E_CLOSED, "the server is shutting down");
    else if (e->status.dead)
        lf_fail(err, LF_E_DEVICE, "the engine failed: %s", e->status.message);
    else if (e->status.waiting >= e->status.queue_max)
        lf_fail(err, LF_E_QUEUE_FULL, "the queue is full: %u requests wait", e->status.waiting);
    else
        lf_queue_add(e, s, false);
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

const struct lf_engine_info *lf_engine_info(const struct lf_engine *e) {
    return &e->about;
}
