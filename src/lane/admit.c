#include "lane/resume.h"

#include <stdio.h>

void lf_slots_end(struct lf_engine *e, double now) {
    for (uint32_t i = 0; i < e->info->slots; i++) {
        struct lf_stream *s = e->slot[i];
        if (s && s->cancelled)
            lf_stream_end(s, LF_DONE_CANCELLED, "");
        else if (s && e->status.dead)
            lf_stream_end(s, LF_DONE_FAILED, e->status.message);
        else if (s && e->closing && now >= e->close_at)
            lf_stream_end(s, LF_DONE_CLOSED, "");
    }
}

static void empty_slot(struct lf_engine *e, uint32_t slot) {
    struct lf_error err = LF_ERROR_INIT;
    if (!e->status.dead && e->target->ops->reset(e->target, slot, &err) != LF_OK)
        lf_engine_die(e, err.text);
}

// Leaves the lock held: the status is to say at once what becomes of the request.
static void leave_slot(struct lf_engine *e, struct lf_stream *s) {
    lf_resume_end(e, s);
    empty_slot(e, s->slot);
    pthread_mutex_lock(&e->lock);
    e->slot[s->slot] = NULL;
    e->status.running--;
}

void lf_slots_release(struct lf_engine *e) {
    for (uint32_t i = 0; i < e->info->slots; i++) {
        struct lf_stream *s = e->slot[i];
        if (!s || !s->done)
            continue;
        leave_slot(e, s);
        lf_stream_count(e, s);
        pthread_mutex_unlock(&e->lock);
        lf_stream_finish(e, s);
    }
}

void lf_slots_yield(struct lf_engine *e, struct lf_stream *s) {
    leave_slot(e, s);
    s->length = s->reserved = 0;
    s->produced = s->passed = 0;
    s->paused = false;
    e->status.yielded++;
    lf_queue_add(e, s, true);
    pthread_mutex_unlock(&e->lock);
}

static uint32_t free_slot(const struct lf_engine *e) {
    uint32_t i = 0;
    while (i < e->info->slots && e->slot[i])
        i++;
    return i;
}

static bool is_long(const struct lf_stream *s) {
    return s->request.prompt_len - s->length > LF_PROMPT_LONG;
}

static uint32_t long_reading(const struct lf_engine *e) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < e->info->slots; i++)
        n += e->slot[i] && lf_stream_reading(e->slot[i]) && is_long(e->slot[i]);
    return n;
}

static bool any_paused(const struct lf_engine *e) {
    for (uint32_t i = 0; i < e->info->slots; i++)
        if (e->slot[i] && e->slot[i]->paused)
            return true;
    return false;
}

// The first in line that may start: no long prompt too many, none whose storage was refused.
static struct lf_stream *candidate(struct lf_engine *e) {
    bool no_long = long_reading(e) >= e->options.long_prompts;
    struct lf_stream *s;
    pthread_mutex_lock(&e->lock);
    for (s = e->waiting; s; s = s->next) {
        if (s->tried != e->passes && !(no_long && is_long(s)))
            break;
        if (s->tried == e->passes && s->passed >= LF_PASSED_MAX) {
            s = NULL;
            break;
        }
    }
    pthread_mutex_unlock(&e->lock);
    return s;
}

// The one that makes room for a foreground stream (L-40); NULL: none does.
static struct lf_stream *newest_background(struct lf_engine *e) {
    struct lf_stream *newest = NULL;
    for (uint32_t i = 0; i < e->info->slots; i++) {
        struct lf_stream *s = e->slot[i];
        if (s && !s->done && s->request.background && (!newest || s->order > newest->order))
            newest = s;
    }
    return newest;
}

static void take_slot(struct lf_engine *e, struct lf_stream *s, uint32_t slot) {
    double now = lf_engine_now(e);
    pthread_mutex_lock(&e->lock);
    for (struct lf_stream *w = e->waiting; w != s; w = w->next)
        w->passed += w->tried == e->passes;
    lf_queue_remove(e, s);
    e->slot[slot] = s;
    e->status.running++;
    pthread_mutex_unlock(&e->lock);
    s->passed = 0;
    if (!s->told_admitted) {
        s->told_admitted = true;
        s->started = now;
        s->stats.queue_seconds = now - s->submitted;
        if (s->sink.admitted)
            s->sink.admitted(s->ctx, s->id);
    }
    lf_resume_begin(e, s);
}

static void refuse(struct lf_engine *e, struct lf_stream *s, const struct lf_error *err) {
    char text[512];
    snprintf(text, sizeof text,
             "no memory for the prompt's %u tokens (--parallel %u, --context %llu): %.300s",
             s->request.prompt_len, e->info->slots, (unsigned long long)e->info->context,
             err->text);
    bool fresh = err->status == LF_E_MEM && !s->told_admitted;
    lf_stream_end(s, fresh ? LF_DONE_MEMORY : LF_DONE_FAILED, text);
    pthread_mutex_lock(&e->lock);
    lf_queue_remove(e, s);
    lf_stream_count(e, s);
    pthread_mutex_unlock(&e->lock);
    lf_stream_finish(e, s);
}

static void try_slot(struct lf_engine *e, struct lf_stream *s, uint32_t slot) {
    struct lf_error err = LF_ERROR_INIT;
    s->slot = slot;
    if (lf_stream_reserve(e, s, s->request.prompt_len, &err) == LF_OK) {
        take_slot(e, s, slot);
        return;
    }
    empty_slot(e, slot);
    bool others = false;
    for (uint32_t i = 0; i < e->info->slots; i++)
        others |= e->slot[i] != NULL;
    s->tried = e->passes;
    // What the disk thread holds comes free.
    if ((!others && !lf_resume_busy(e)) || err.status != LF_E_MEM)
        refuse(e, s, &err);
}

void lf_slots_admit(struct lf_engine *e) {
    struct lf_stream *s;
    e->passes++;
    // Storage that comes free belongs to the streams that run already (L-43).
    while (!e->status.dead && !any_paused(e) && (s = candidate(e))) {
        bool full = free_slot(e) == e->info->slots;
        struct lf_stream *leaves = full && !s->request.background ? newest_background(e) : NULL;
        if (full && !leaves)
            return;
        if (lf_resume_waits(e, s)) {
            s->tried = e->passes;
            continue;
        }
        if (leaves)
            lf_slots_yield(e, leaves);
        try_slot(e, s, free_slot(e));
    }
}
