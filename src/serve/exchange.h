// One HTTP request and its reply; the only floor between the handlers and libmicrohttpd.
#pragma once
#include <microhttpd.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/arena.h"
#include "base/buffer.h"
#include "base/error.h"
#include "serve/errors.h"

struct lf_generation;
struct lf_route;
struct lf_server;

enum { LF_HEADERS_MAX = 12, LF_REQUEST_ID_MAX = 128 };

struct lf_header {
    const char *name, *value;
};

struct lf_exchange {
    struct lf_server *server;
    uint64_t id;
    char request_id[LF_REQUEST_ID_MAX + 1];
    const struct lf_route *route; // NULL: no such route
    const char *method, *path;    // path: copy without /v1 and trailing slash
    const char *tail;             // what follows the route's prefix: a model id
    bool wants_html, anthropic;   // Accept names HTML; anthropic-version was sent
    struct lf_arena arena;
    struct lf_buffer body;
    size_t discarded_bytes; // of a body that will be refused
    double accepted_s;
    bool dispatched; // its handler was chosen
    bool live;       // on the watcher's list, which then frees it

    // The reply: written by one thread at a time, read by the HTTP thread once replied is set.
    int status;
    const char *content_type;
    struct lf_header header[LF_HEADERS_MAX];
    size_t n_headers;
    struct lf_buffer out; // whole body, or what is left to send of a stream
    size_t out_sent;

    // Below: under lock.
    pthread_mutex_t lock;
    struct MHD_Connection *connection; // NULL once the daemon let go of it
    int fd;
    bool replied;   // a whole reply is ready
    bool streaming; // the stream's headers may go out
    bool ended;     // the stream holds all its bytes
    bool suspended, woken;
    bool gone;       // the client went away
    bool handed;     // the daemon has the reply's last byte: a hang-up is no disconnect any more
    bool timed_out;  // the request's deadline passed
    bool drained;    // cancelled by the server's stop
    bool stalled;    // cancelled because its reader was too slow
    bool in_work;    // a worker has it or will have it
    bool in_engine;  // the engine has it: finished will come
    bool cancelled;  // the engine was told to end it
    bool http_done;  // the daemon is through with it
    bool keep_alive_due;
    double wrote_s;    // when bytes were last handed to the daemon
    double deadline_s; // 0: none

    struct lf_generation *generation;     // NULL: not a generation route
    struct lf_exchange *next, *work_next; // the live list, the work queue
};

// Sets a whole reply from x->out; the caller's thread owns x.
void lf_exchange_answer(struct lf_exchange *x, int status, const char *content_type);
void lf_exchange_refuse(struct lf_exchange *x, enum lf_refusal refusal, const char *param,
                        const char *message);
void lf_exchange_fail(struct lf_exchange *x, const struct lf_error *err);
// name and value must live as long as x.
void lf_exchange_header(struct lf_exchange *x, const char *name, const char *value);

// Under x->lock: lets the HTTP thread look at x again. Any thread.
void lf_exchange_wake(struct lf_exchange *x);

// The daemon's callbacks; closure: the server.
enum MHD_Result lf_exchange_handle(void *closure, struct MHD_Connection *connection,
                                   const char *url, const char *method, const char *version,
                                   const char *data, size_t *data_bytes, void **state);
void lf_exchange_completed(void *closure, struct MHD_Connection *connection, void **state,
                           enum MHD_RequestTerminationCode why);
void lf_exchange_free(struct lf_exchange *x);
