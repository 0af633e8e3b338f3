#include "serve/exchange.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include "base/log.h"
#include "serve/admit.h"
#include "serve/generate.h"
#include "serve/router.h"
#include "serve/state.h"

enum { STREAM_BLOCK_BYTES = 32 * 1024, BODY_TIMEOUT_S = 60, IDLE_TIMEOUT_S = 75 };

void lf_exchange_header(struct lf_exchange *x, const char *name, const char *value) {
    LF_ASSERT(x->n_headers < LF_HEADERS_MAX);
    x->header[x->n_headers++] = (struct lf_header){name, value};
}

void lf_exchange_answer(struct lf_exchange *x, int status, const char *content_type) {
    pthread_mutex_lock(&x->lock);
    x->status = x->out.failed ? 500 : status;
    x->content_type = content_type;
    x->replied = true;
    pthread_mutex_unlock(&x->lock);
}

// Whole seconds after which the line should have moved.
static const char *retry_after(struct lf_exchange *x) {
    struct lf_engine_status status;
    struct lf_server *server = x->server;
    lf_engine_status_read(server->engine, &status);
    pthread_mutex_lock(&server->live_lock);
    double each_s = server->mean_request_s;
    pthread_mutex_unlock(&server->live_lock);
    double slots = lf_engine_info(server->engine)->parallel;
    double wait_s = each_s * (status.waiting + 1.0) / (slots > 0 ? slots : 1);
    char *text = lf_arena_alloc(&x->arena, 16, 1);
    if (!text)
        return "1";
    snprintf(text, 16, "%d", wait_s < 1 ? 1 : wait_s > 120 ? 120 : (int)wait_s + 1);
    return text;
}

void lf_exchange_refuse(struct lf_exchange *x, enum lf_refusal refusal, const char *param,
                        const char *message) {
    const struct lf_refusal_row *row = lf_refusal_row(refusal);
    lf_buffer_clear(&x->out);
    lf_refusal_print(&x->out, refusal, param, message);
    if (!row->retry)
        lf_exchange_header(x, "x-should-retry", "false");
    if (row->status == 503)
        lf_exchange_header(x, "Retry-After", retry_after(x));
    if (row->status == 401)
        lf_exchange_header(x, "WWW-Authenticate", "Bearer");
    lf_exchange_answer(x, row->status, "application/json");
}

void lf_exchange_fail(struct lf_exchange *x, const struct lf_error *err) {
    char text[600];
    bool place = err->status == LF_E_JSON && err->byte >= 0 && !strstr(err->text, "byte ");
    if (place)
        snprintf(text, sizeof text, "%s (byte %lld)", err->text, (long long)err->byte);
    else
        snprintf(text, sizeof text, "%s", err->text);
    lf_exchange_refuse(x, lf_refusal_of(err->status), err->param, text);
}

void lf_exchange_wake(struct lf_exchange *x) {
    x->woken = true;
    if (x->suspended && x->connection) {
        x->suspended = false;
        MHD_resume_connection(x->connection);
    }
}

static void add_headers(struct lf_exchange *x, struct MHD_Response *response) {
    MHD_add_response_header(response, "x-request-id", x->request_id);
    MHD_add_response_header(response, "lanefold-version", LF_VERSION);
    if (x->content_type)
        MHD_add_response_header(response, "Content-Type", x->content_type);
    for (size_t i = 0; i < x->n_headers; i++)
        MHD_add_response_header(response, x->header[i].name, x->header[i].value);
}

static enum MHD_Result send_response(struct lf_exchange *x, struct MHD_Connection *connection,
                                     struct MHD_Response *response, int status) {
    if (!response)
        return MHD_NO;
    add_headers(x, response);
    enum MHD_Result result = MHD_queue_response(connection, (unsigned)status, response);
    MHD_destroy_response(response);
    return result;
}

static enum MHD_Result send_whole(struct lf_exchange *x, struct MHD_Connection *connection) {
    struct lf_buffer out = x->out;
    x->out = (struct lf_buffer){0};
    pthread_mutex_lock(&x->lock);
    x->handed = true;
    pthread_mutex_unlock(&x->lock);
    if (out.failed || !out.len) {
        lf_buffer_free(&out);
        return send_response(x, connection,
                             MHD_create_response_from_buffer(0, "", MHD_RESPMEM_PERSISTENT),
                             x->status);
    }
    struct MHD_Response *response =
        MHD_create_response_from_buffer(out.len, out.data, MHD_RESPMEM_MUST_FREE);
    if (!response)
        lf_buffer_free(&out);
    return send_response(x, connection, response, x->status);
}

// Under x->lock: waits for the next wake, unless one came meanwhile.
static bool suspend(struct lf_exchange *x) {
    if (x->woken || x->gone)
        return false;
    x->suspended = true;
    MHD_suspend_connection(x->connection);
    return true;
}

static ssize_t stream_read(void *closure, uint64_t position, char *data, size_t room) {
    struct lf_exchange *x = closure;
    (void)position;
    for (;;) {
        pthread_mutex_lock(&x->lock);
        x->woken = false;
        bool gone = x->gone;
        pthread_mutex_unlock(&x->lock);
        if (gone)
            return MHD_CONTENT_READER_END_WITH_ERROR;
        if (x->out_sent == x->out.len && !x->ended) {
            lf_buffer_clear(&x->out);
            x->out_sent = 0;
            lf_generation_pull(x->generation);
        }
        if (x->out.failed)
            return MHD_CONTENT_READER_END_WITH_ERROR;
        size_t left = x->out.len - x->out_sent, n = left < room ? left : room;
        pthread_mutex_lock(&x->lock);
        if (n) {
            memcpy(data, x->out.data + x->out_sent, n);
            x->out_sent += n;
            x->wrote_s = lf_clock_s();
            x->handed = x->ended && x->out_sent == x->out.len;
        }
        bool ended = x->ended, waits = !n && !ended && suspend(x);
        pthread_mutex_unlock(&x->lock);
        if (n)
            return (ssize_t)n;
        if (ended)
            return MHD_CONTENT_READER_END_OF_STREAM;
        if (waits)
            return 0;
    }
}

static enum MHD_Result send_stream(struct lf_exchange *x, struct MHD_Connection *connection) {
    x->status = 200;
    x->content_type = "text/event-stream; charset=utf-8";
    lf_exchange_header(x, "Cache-Control", "no-cache");
    lf_exchange_header(x, "X-Accel-Buffering", "no");
    MHD_set_connection_option(connection, MHD_CONNECTION_OPTION_TIMEOUT,
                              (unsigned)x->server->options.slow_reader_s + 1);
    return send_response(x, connection,
                         MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, STREAM_BLOCK_BYTES,
                                                           stream_read, x, NULL),
                         200);
}

// Sends what is ready, or waits for a worker or the engine.
static enum MHD_Result advance(struct lf_exchange *x, struct MHD_Connection *connection) {
    for (;;) {
        pthread_mutex_lock(&x->lock);
        x->woken = false;
        bool pull = !x->in_work && !x->replied && x->generation;
        pthread_mutex_unlock(&x->lock);
        if (pull)
            lf_generation_pull(x->generation);
        pthread_mutex_lock(&x->lock);
        bool gone = x->gone, replied = x->replied && !x->in_work, streaming = x->streaming;
        bool waits = !gone && !replied && !streaming && suspend(x);
        pthread_mutex_unlock(&x->lock);
        if (gone)
            return MHD_NO;
        if (replied)
            return send_whole(x, connection);
        if (streaming)
            return send_stream(x, connection);
        if (waits)
            return MHD_YES;
    }
}

static void dispatch(struct lf_exchange *x) {
    struct lf_error err = LF_ERROR_INIT;
    if (!x->route->work) {
        if (x->route->handle(x, &err))
            lf_exchange_fail(x, &err);
    } else if (!lf_watch_add(x->server, x)) {
        lf_exchange_refuse(x, LF_REFUSAL_SHUTTING_DOWN, "", "the server is shutting down");
    } else {
        lf_work_add(x->server, x);
    }
}

static void take_body(struct lf_exchange *x, const char *data, size_t bytes) {
    size_t limit = x->server->options.body_bytes_max;
    if (!x->replied && bytes > limit - x->body.len) {
        char text[96];
        snprintf(text, sizeof text, "the request body is over the limit of %zu bytes", limit);
        lf_exchange_refuse(x, LF_REFUSAL_REQUEST_TOO_LARGE, "", text);
    }
    if (x->replied) {
        x->discarded_bytes += bytes;
        lf_buffer_free(&x->body);
        return;
    }
    lf_buffer_add(&x->body, data, bytes);
    if (x->body.failed)
        lf_exchange_refuse(x, LF_REFUSAL_MEMORY_FULL, "", "no memory for the request body");
}

static void make_request_id(char out[LF_REQUEST_ID_MAX + 1]) {
    unsigned char random[12] = {0};
    if (getrandom(random, sizeof random, 0) != sizeof random)
        lf_log(LF_LOG_WARN, "getrandom gave too few bytes for a request id");
    int at = snprintf(out, LF_REQUEST_ID_MAX + 1, "req_");
    for (size_t i = 0; i < sizeof random; i++)
        at += snprintf(out + at, 3, "%02x", random[i]);
}

static struct lf_exchange *exchange_new(struct lf_server *server,
                                        struct MHD_Connection *connection) {
    struct lf_exchange *x = calloc(1, sizeof *x);
    if (!x)
        return NULL;
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    pthread_mutex_init(&x->lock, NULL);
    x->server = server;
    x->connection = connection;
    x->fd = info ? info->connect_fd : -1;
    x->id = atomic_fetch_add(&server->next_id, 1) + 1;
    x->accepted_s = x->wrote_s = lf_clock_s();
    make_request_id(x->request_id);
    return x;
}

enum MHD_Result lf_exchange_handle(void *closure, struct MHD_Connection *connection,
                                   const char *url, const char *method, const char *version,
                                   const char *data, size_t *data_bytes, void **state) {
    struct lf_exchange *x = *state;
    (void)version;
    if (!x) {
        x = *state = exchange_new(closure, connection);
        if (!x)
            return MHD_NO;
        MHD_set_connection_option(connection, MHD_CONNECTION_OPTION_TIMEOUT, BODY_TIMEOUT_S);
        bool now = lf_admit(x, connection, method, url);
        return now ? send_whole(x, connection) : MHD_YES;
    }
    if (*data_bytes) {
        take_body(x, data, *data_bytes);
        *data_bytes = 0;
        // A refused body is read on for a while so that the client sees the answer, not a reset.
        return x->discarded_bytes > 4 * x->server->options.body_bytes_max ? MHD_NO : MHD_YES;
    }
    if (!x->replied && !x->dispatched) {
        x->dispatched = true;
        dispatch(x);
    }
    return advance(x, connection);
}

static void log_line(const struct lf_exchange *x) {
    char counts[256] = "";
    bool quiet = x->route && !x->route->work && x->status < 400;
    if (x->generation)
        lf_generation_describe(x->generation, counts, sizeof counts);
    lf_log(quiet ? LF_LOG_DEBUG : LF_LOG_INFO, "%s %s %s %d%s total_s=%.3f", x->request_id,
           x->method ? x->method : "-", x->route ? x->route->path : "-",
           x->gone || x->stalled ? 499 : x->status, counts, lf_clock_s() - x->accepted_s);
}

void lf_exchange_free(struct lf_exchange *x) {
    log_line(x);
    lf_generation_free(x->generation);
    lf_buffer_free(&x->body);
    lf_buffer_free(&x->out);
    lf_arena_free(&x->arena);
    pthread_mutex_destroy(&x->lock);
    free(x);
}

void lf_exchange_completed(void *closure, struct MHD_Connection *connection, void **state,
                           enum MHD_RequestTerminationCode why) {
    struct lf_server *server = closure;
    struct lf_exchange *x = *state;
    *state = NULL;
    if (!x)
        return;
    MHD_set_connection_option(connection, MHD_CONNECTION_OPTION_TIMEOUT, IDLE_TIMEOUT_S);
    pthread_mutex_lock(&x->lock);
    x->connection = NULL;
    x->suspended = false;
    x->gone = x->gone || why != MHD_REQUEST_TERMINATED_COMPLETED_OK;
    bool live = x->live;
    // From here the watcher may free a live x.
    x->http_done = true;
    pthread_mutex_unlock(&x->lock);
    if (live)
        lf_watch_poke(server);
    else
        lf_exchange_free(x);
}
