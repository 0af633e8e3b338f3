#include "lane/spill.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/clock.h"

struct lf_spill {
    struct lf_spill_dir dir;
    struct lf_target *target;
    pthread_t thread;
    pthread_mutex_t lock; // of what follows
    pthread_cond_t wake, done_one;
    struct lf_spill_job *waiting, *done;
    uint32_t jobs;         // waiting or under way
    uint64_t read_bytes;   // of the reads among them
    double byte_s;         // seconds a byte read, 0: unknown
    bool closing;
};

static void learn(struct lf_spill *s, uint64_t bytes, double seconds) {
    double byte_s = seconds / (double)bytes;
    s->byte_s = s->byte_s > 0 ? s->byte_s + (byte_s - s->byte_s) / 4 : byte_s;
}

static void do_job(struct lf_spill *s, struct lf_spill_job *job) {
    struct lf_error err = LF_ERROR_INIT;
    double start = lf_clock_s();
    if (job->read)
        job->status = lf_spill_dir_read(&s->dir, s->target, &job->head, &job->parts, &err);
    else
        job->status = lf_spill_dir_write(&s->dir, s->target, &job->head, &job->parts, &err);
    uint64_t bytes = lf_spill_file_bytes(&job->head);
    pthread_mutex_lock(&s->lock);
    if (job->read)
        s->read_bytes -= bytes;
    if (job->read && job->status == LF_OK)
        learn(s, bytes, lf_clock_s() - start);
    s->jobs--;
    job->next = s->done;
    s->done = job;
    pthread_cond_broadcast(&s->done_one);
    pthread_mutex_unlock(&s->lock);
    if (s->dir.options.done)
        s->dir.options.done(s->dir.options.ctx);
}

static void *run(void *arg) {
    struct lf_spill *s = arg;
    for (;;) {
        pthread_mutex_lock(&s->lock);
        while (!s->waiting && !s->closing)
            pthread_cond_wait(&s->wake, &s->lock);
        struct lf_spill_job *job = s->waiting;
        if (job)
            s->waiting = job->next;
        pthread_mutex_unlock(&s->lock);
        if (!job)
            return NULL;
        do_job(s, job);
    }
}

enum lf_status lf_spill_open(struct lf_spill **out, struct lf_target *target,
                             const struct lf_spill_options *options, struct lf_error *err) {
    struct lf_spill *s = calloc(1, sizeof *s);
    *out = NULL;
    if (!s)
        return lf_fail(err, LF_E_MEM, "out of memory for the disk thread");
    s->target = target;
    if (lf_spill_dir_open(&s->dir, options, err) != LF_OK) {
        free(s);
        return err->status;
    }
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->wake, NULL);
    pthread_cond_init(&s->done_one, NULL);
    int failed = pthread_create(&s->thread, NULL, run, s);
    if (failed) {
        lf_spill_dir_close(&s->dir);
        free(s);
        return lf_fail(err, LF_E_MEM, "cannot start the disk thread: %s", strerror(failed));
    }
    *out = s;
    return LF_OK;
}

void lf_spill_close(struct lf_spill *s) {
    if (!s)
        return;
    pthread_mutex_lock(&s->lock);
    LF_ASSERT(!s->jobs && !s->done);
    s->closing = true;
    pthread_cond_signal(&s->wake);
    pthread_mutex_unlock(&s->lock);
    pthread_join(s->thread, NULL);
    lf_spill_dir_close(&s->dir);
    pthread_mutex_destroy(&s->lock);
    pthread_cond_destroy(&s->wake);
    pthread_cond_destroy(&s->done_one);
    free(s);
}

// Reads go first: requests wait for them.
static void add(struct lf_spill *s, struct lf_spill_job *job) {
    struct lf_spill_job **link = &s->waiting;
    while (*link && ((*link)->read || !job->read))
        link = &(*link)->next;
    job->next = *link;
    *link = job;
    s->jobs++;
    if (job->read)
        s->read_bytes += lf_spill_file_bytes(&job->head);
}

bool lf_spill_submit(struct lf_spill *s, struct lf_spill_job *job) {
    snprintf(job->head.fingerprint, sizeof job->head.fingerprint, "%s", s->dir.options.fingerprint);
    pthread_mutex_lock(&s->lock);
    bool taken = s->jobs < LF_SPILL_JOBS;
    if (taken)
        add(s, job);
    pthread_cond_signal(&s->wake);
    pthread_mutex_unlock(&s->lock);
    return taken;
}

struct lf_spill_job *lf_spill_take(struct lf_spill *s) {
    pthread_mutex_lock(&s->lock);
    struct lf_spill_job *job = s->done;
    if (job)
        s->done = job->next;
    pthread_mutex_unlock(&s->lock);
    return job;
}

bool lf_spill_ready(struct lf_spill *s) {
    pthread_mutex_lock(&s->lock);
    bool ready = s->done != NULL;
    pthread_mutex_unlock(&s->lock);
    return ready;
}

struct lf_spill_dir *lf_spill_folder(struct lf_spill *s) {
    return &s->dir;
}

double lf_spill_read_seconds(struct lf_spill *s, uint64_t bytes) {
    pthread_mutex_lock(&s->lock);
    double seconds = s->byte_s * (double)(bytes + s->read_bytes);
    pthread_mutex_unlock(&s->lock);
    return seconds;
}

bool lf_spill_wait(struct lf_spill *s, double seconds) {
    double until_s = lf_clock_s() + seconds;
    bool late = false;
    pthread_mutex_lock(&s->lock);
    while (!s->done && !late)
        late = !lf_clock_wait(&s->done_one, &s->lock, until_s);
    bool ready = s->done != NULL;
    pthread_mutex_unlock(&s->lock);
    return ready;
}
