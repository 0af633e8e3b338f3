// The HTTP thread's half of a generation: events to a whole reply or to stream chunks (api.md 6).
#include <stdio.h>
#include <string.h>
#include "serve/generate.h"
#include "serve/sse.h"
#include "serve/state.h"

static void swap(struct lf_buffer *a, struct lf_buffer *b) {
    struct lf_buffer was = *a;
    *a = *b;
    *b = was;
}

// Moves what the engine said since the last call to this thread.
static bool take(struct lf_generation *g, bool *alive) {
    struct lf_exchange *x = g->x;
    lf_buffer_clear(&g->taken);
    lf_buffer_clear(&g->entries);
    g->entry_at = 0;
    pthread_mutex_lock(&x->lock);
    struct lf_heard *heard = &g->heard;
    bool done = heard->done;
    if (g->params.stream || done) {
        swap(&g->taken, &heard->pieces);
        swap(&g->entries, &heard->entries);
    }
    *alive = x->keep_alive_due;
    x->keep_alive_due = false;
    g->completion_now = heard->completion_tokens;
    g->reasoning_now = heard->reasoning_tokens;
    g->cached_now = heard->cached_tokens;
    pthread_mutex_unlock(&x->lock);
    return done;
}

// Why a finished reply is none; false: it is one.
static bool failure(const struct lf_generation *g, enum lf_refusal *refusal, const char **text) {
    const struct lf_exchange *x = g->x;
    struct lf_engine_status status;
    *text = g->heard.message;
    switch (g->heard.why) {
    case LF_DONE_TIMEOUT:
        *refusal = LF_REFUSAL_QUEUE_TIMEOUT;
        *text = "the request waited too long in the queue";
        return true;
    case LF_DONE_CLOSED:
        *refusal = LF_REFUSAL_SHUTTING_DOWN;
        *text = "the server is shutting down";
        return true;
    case LF_DONE_CANCELLED:
        *refusal = x->timed_out ? LF_REFUSAL_REQUEST_TIMEOUT
                   : x->drained ? LF_REFUSAL_SHUTTING_DOWN
                                : LF_REFUSAL_INTERNAL_ERROR;
        *text = x->timed_out ? "the request's time is over"
                : x->drained ? "the server is shutting down"
                             : "the request was cancelled";
        return true;
    case LF_DONE_MEMORY:
        *refusal = LF_REFUSAL_MEMORY_FULL;
        return true;
    case LF_DONE_FAILED:
        lf_engine_status_read(x->server->engine, &status);
        *refusal = status.dead ? LF_REFUSAL_ENGINE_FAILED : LF_REFUSAL_GENERATION_FAILED;
        return true;
    default:
        *refusal = LF_REFUSAL_MEMORY_FULL;
        *text = "no memory for the reply";
        return g->taken.failed || g->entries.failed || g->ids.failed;
    }
}

static void print_head(struct lf_generation *g, const char *object, struct lf_buffer *out) {
    const struct lf_server_options *options = &g->x->server->options;
    const char *fingerprint = lf_engine_info(g->x->server->engine)->fingerprint;
    lf_buffer_printf(out, "{\"id\":\"%s\",\"object\":\"%s\",\"created\":%lld,\"model\":",
                     g->reply_id, object, (long long)g->created_s);
    lf_json_print_string(out, options->name, strlen(options->name));
    lf_buffer_add_text(out, ",\"system_fingerprint\":");
    lf_json_print_string(out, fingerprint, strlen(fingerprint));
}

// Words the next tokens' log-probabilities into g->logprobs; nothing where they are not wanted.
static void word_logprobs(struct lf_generation *g, size_t n_reasoning, size_t n_content) {
    const struct lf_entry *entry = (const struct lf_entry *)(const void *)g->entries.data;
    size_t n = n_reasoning + n_content, have = g->entries.len / sizeof *entry;
    lf_buffer_clear(&g->logprobs);
    g->logprobs.failed = n > have - g->entry_at && g->params.logprobs;
    if (!g->params.logprobs || g->logprobs.failed)
        return;
    g->voice->logprobs(g, n ? entry + g->entry_at : NULL, n_reasoning, n_content, &g->logprobs);
    g->entry_at += n;
}

// ,"logprobs":...,"finish_reason":...}]
static void end_choice(const struct lf_generation *g, const char *finish, struct lf_buffer *out) {
    lf_buffer_add_text(out, ",\"logprobs\":");
    lf_buffer_add_text(out, g->logprobs.len ? g->logprobs.data : "null");
    lf_buffer_add_text(out, ",\"finish_reason\":");
    lf_buffer_printf(out, finish ? "\"%s\"}]" : "%s}]", finish ? finish : "null");
}

static void pull_whole(struct lf_generation *g) {
    struct lf_exchange *x = g->x;
    struct lf_folded folded = {0};
    struct lf_buffer *out = &x->out;
    lf_folded_add(&folded, &g->taken);
    print_head(g, g->voice->object, out);
    lf_buffer_add_text(out, ",\"choices\":[{\"index\":0,");
    g->voice->message(g, &folded, out);
    word_logprobs(g, folded.reasoning_tokens, folded.content_tokens);
    end_choice(g, lf_finish_reason(g), out);
    lf_buffer_add_text(out, ",\"usage\":");
    lf_usage_print(g, out);
    lf_extras_print(g, out);
    lf_buffer_add_text(out, "}");
    bool failed = folded.failed || out->failed || g->logprobs.failed;
    lf_folded_free(&folded);
    if (failed)
        lf_exchange_refuse(x, LF_REFUSAL_MEMORY_FULL, "", "no memory for the reply");
    else
        lf_exchange_answer(x, 200, "application/json");
}

// One chunk: delta is the inside of the choice; finish NULL until the end.
static void put_chunk(struct lf_generation *g, const char *delta, size_t len, const char *finish) {
    struct lf_buffer *json = &g->json;
    bool with_usage = g->params.include_usage, now = g->params.usage_always;
    lf_buffer_clear(json);
    print_head(g, g->voice->chunk, json);
    lf_buffer_add_text(json, ",\"choices\":[{\"index\":0,");
    lf_buffer_add_text(json, g->voice->wraps ? "\"delta\":{" : "");
    lf_buffer_add(json, delta, len);
    lf_buffer_add_text(json, g->voice->wraps ? "}" : "");
    end_choice(g, finish, json);
    if (now || (finish && !with_usage)) {
        lf_buffer_add_text(json, ",\"usage\":");
        lf_usage_print(g, json);
    } else if (with_usage) {
        lf_buffer_add_text(json, ",\"usage\":null");
    }
    if (finish && !with_usage)
        lf_extras_print(g, json);
    lf_buffer_add_text(json, "}");
    lf_sse_event(&g->x->out, json->data, json->len);
}

static void put_usage_chunk(struct lf_generation *g) {
    struct lf_buffer *json = &g->json;
    lf_buffer_clear(json);
    print_head(g, g->voice->chunk, json);
    lf_buffer_add_text(json, ",\"choices\":[],\"usage\":");
    lf_usage_print(g, json);
    lf_extras_print(g, json);
    lf_buffer_add_text(json, "}");
    lf_sse_event(&g->x->out, json->data, json->len);
}

static void put_pieces(struct lf_generation *g) {
    struct lf_reply_event event;
    struct lf_buffer delta = {0};
    for (size_t at = 0; lf_pieces_next_joined(&g->taken, &at, &g->scratch, &event);) {
        bool reasons = event.kind == LF_REPLY_REASONING, speaks = event.kind == LF_REPLY_CONTENT;
        lf_buffer_clear(&delta);
        if (reasons || speaks)
            word_logprobs(g, reasons ? event.n_tokens : 0, speaks ? event.n_tokens : 0);
        if (g->voice->delta(g, &event, &delta))
            put_chunk(g, delta.data, delta.len, NULL);
        g->x->out.failed = g->x->out.failed || delta.failed || g->scratch.failed ||
                           g->logprobs.failed || g->entries.failed;
        lf_buffer_clear(&g->logprobs);
    }
    lf_buffer_free(&delta);
}

static void put_error(struct lf_generation *g, enum lf_refusal refusal, const char *text) {
    lf_buffer_clear(&g->json);
    lf_refusal_print(&g->json, refusal, "", text);
    lf_sse_event(&g->x->out, g->json.data, g->json.len);
}

static void put_end(struct lf_generation *g) {
    put_chunk(g, g->voice->last, strlen(g->voice->last), lf_finish_reason(g));
    if (g->params.include_usage)
        put_usage_chunk(g);
}

static void pull_stream(struct lf_generation *g, bool done, bool alive) {
    struct lf_exchange *x = g->x;
    enum lf_refusal refusal;
    const char *text;
    bool failed = done && failure(g, &refusal, &text);
    if (failed && !g->opened) {
        lf_exchange_refuse(x, refusal, "", text);
        return;
    }
    g->opened = g->opened || done || alive || g->completion_now;
    if (!g->begun && (g->completion_now || (done && !failed))) {
        g->begun = true;
        if (g->voice->first)
            put_chunk(g, g->voice->first, strlen(g->voice->first), NULL);
    }
    put_pieces(g);
    if (failed)
        put_error(g, refusal, text);
    else if (done)
        put_end(g);
    if (done)
        lf_sse_done(&x->out);
    else if (alive && !x->out.len)
        lf_sse_keep_alive(&x->out);
    x->out.failed = x->out.failed || g->taken.failed || g->json.failed;
    pthread_mutex_lock(&x->lock);
    x->streaming = g->opened;
    x->ended = done;
    pthread_mutex_unlock(&x->lock);
}

void lf_generation_pull(struct lf_generation *g) {
    enum lf_refusal refusal;
    const char *text;
    bool alive, done = take(g, &alive);
    if (g->params.stream)
        pull_stream(g, done, alive);
    else if (done && failure(g, &refusal, &text))
        lf_exchange_refuse(g->x, refusal, "", text);
    else if (done)
        pull_whole(g);
}
