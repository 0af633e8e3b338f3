#include "cli/reply_print.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "base/clock.h"

// The state that the engine thread's events and the waiting caller share.
struct printing {
    struct lf_reply_text *out;
    const struct lf_session *session;
    struct lf_reply *parser; // NULL: raw
    struct lf_utf8_stream stream;
    bool quiet, dim;
    pthread_mutex_t lock;
    pthread_cond_t done;
    bool finished;
    char message[512];
};

static volatile sig_atomic_t interrupted;

static void on_interrupt(int number) {
    (void)number;
    interrupted = 1;
}

// Reasoning stands on lines of its own, dim where the output is a terminal.
static void show(struct printing *p, bool reasoning, const char *text, size_t len) {
    if (p->quiet)
        return;
    bool color = isatty(STDOUT_FILENO);
    if (reasoning != p->dim && color)
        fputs(reasoning ? "\033[2m" : "\033[0m", stdout);
    if (p->dim && !reasoning)
        putchar('\n');
    p->dim = reasoning;
    fwrite(text, 1, len, stdout);
    fflush(stdout);
}

static void on_event(void *ctx, const struct lf_reply_event *event) {
    struct printing *p = ctx;
    switch (event->kind) {
    case LF_REPLY_REASONING:
        lf_buffer_add(&p->out->reasoning, event->text, event->len);
        show(p, true, event->text, event->len);
        break;
    case LF_REPLY_CONTENT:
        lf_buffer_add(&p->out->content, event->text, event->len);
        show(p, false, event->text, event->len);
        break;
    case LF_REPLY_CALL_OPEN:
        lf_buffer_add(&p->out->calls, event->text, event->len);
        lf_buffer_add_text(&p->out->calls, " ");
        break;
    case LF_REPLY_ARGUMENTS:
        lf_buffer_add(&p->out->calls, event->text, event->len);
        break;
    case LF_REPLY_CALL_CLOSE:
        lf_buffer_add_text(&p->out->calls, "\n");
        break;
    }
}

static int on_token(void *ctx, uint32_t id) {
    struct printing *p = ctx;
    lf_ids_add(&p->out->ids, id);
    if (p->parser)
        return lf_reply_push(p->parser, id) >= 0;
    size_t len, before = p->out->content.len;
    const char *bytes = lf_tokenizer_bytes(p->session->tokenizer, id, &len);
    if (!lf_tokenizer_is_added(p->session->tokenizer, id))
        lf_utf8_stream_push(&p->stream, bytes, len, &p->out->content);
    if (p->out->content.len > before)
        show(p, false, p->out->content.data + before, p->out->content.len - before);
    return 0;
}

static void on_finished(void *ctx, uint64_t id, enum lf_done why, const struct lf_stats *stats,
                        const char *message) {
    struct printing *p = ctx;
    (void)id;
    pthread_mutex_lock(&p->lock);
    p->out->why = why;
    p->out->stats = *stats;
    snprintf(p->message, sizeof p->message, "%s", message);
    p->finished = true;
    pthread_cond_signal(&p->done);
    pthread_mutex_unlock(&p->lock);
}

static void wait_finished(struct printing *p, struct lf_engine *engine) {
    pthread_mutex_lock(&p->lock);
    while (!p->finished) {
        lf_clock_wait(&p->done, &p->lock, lf_clock_s() + 0.05); // then looks for Ctrl-C
        if (interrupted) {
            interrupted = 0;
            lf_engine_cancel(engine, 1);
        }
    }
    pthread_mutex_unlock(&p->lock);
}

static void flush_tail(struct printing *p) {
    if (p->parser) {
        lf_reply_end(p->parser, p->out->why == LF_DONE_LENGTH || p->out->why == LF_DONE_WINDOW);
        return;
    }
    size_t before = p->out->content.len;
    lf_utf8_stream_end(&p->stream, &p->out->content);
    if (p->out->content.len > before)
        show(p, false, p->out->content.data + before, p->out->content.len - before);
}

// The device is over only where the engine is (F-1, F-3).
static enum lf_status failure_of(struct lf_engine *engine) {
    struct lf_engine_status status;
    lf_engine_status_read(engine, &status);
    return status.dead ? LF_E_DEVICE : status.nonfinite ? LF_E_NONFINITE : LF_E_VALUE;
}

enum lf_status lf_reply_run(struct lf_reply_text *out, struct lf_engine *engine,
                            const struct lf_session *session, const struct lf_request *request,
                            const struct lf_reply_options *options, bool raw, bool quiet,
                            struct lf_error *err) {
    static const struct lf_sink sink = {.finished = on_finished};
    struct printing p = {.out = out, .session = session, .quiet = quiet,
                         .lock = PTHREAD_MUTEX_INITIALIZER, .done = PTHREAD_COND_INITIALIZER};
    struct lf_request submitted = *request;
    struct sigaction action = {.sa_handler = on_interrupt}, before;
    submitted.stop = on_token;
    submitted.stop_ctx = &p;
    if (!raw)
        LF_TRY(lf_reply_open(&p.parser, session->tokenizer, &session->controls, options, on_event,
                             &p, err));
    sigaction(SIGINT, &action, &before);
    if (lf_engine_submit(engine, 1, &submitted, &sink, &p, err) == LF_OK) {
        wait_finished(&p, engine);
        flush_tail(&p);
        if (p.dim && isatty(STDOUT_FILENO) && !quiet)
            fputs("\033[0m", stdout);
        if (!quiet && out->calls.len)
            printf("\n%s", out->calls.data);
        if (out->why == LF_DONE_MEMORY)
            lf_fail(err, LF_E_MEM, "%s", p.message);
        if (out->why == LF_DONE_FAILED)
            lf_fail(err, failure_of(engine), "the reply failed: %s", p.message);
    }
    sigaction(SIGINT, &before, NULL);
    lf_reply_close(p.parser);
    return err->status;
}

void lf_reply_text_free(struct lf_reply_text *text) {
    lf_buffer_free(&text->reasoning);
    lf_buffer_free(&text->content);
    lf_buffer_free(&text->calls);
    lf_ids_free(&text->ids);
}
