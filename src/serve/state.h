// What the files of serve/ share of a running server.
#pragma once
#include <microhttpd.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include "base/clock.h"
#include "serve/auth.h"
#include "serve/exchange.h"
#include "serve/server.h"

enum { LF_WORKERS = 2 };

struct lf_server {
    struct lf_server_options options;
    struct lf_engine *engine;
    const struct lf_tokenizer *tokenizer;
    const struct lf_controls *controls;
    struct lf_keys keys;
    char url[320];
    bool loopback;
    int64_t started_s; // wall clock: the models' created
    struct MHD_Daemon *daemon;

    _Atomic uint64_t next_id;
    _Atomic bool draining;
    _Atomic uint32_t connections;

    // The live list: exchanges handed to a worker, until all their users are done.
    pthread_mutex_t live_lock;
    pthread_cond_t live_empty;
    struct lf_exchange *live;
    double mean_request_s; // of finished requests, for Retry-After
    int poke_fd;           // wakes the watcher
    bool watch_stop;
    pthread_t watcher;
    bool watching;

    pthread_mutex_t work_lock;
    pthread_cond_t work_ready;
    struct lf_exchange *work_first, *work_last;
    bool work_stop;
    pthread_t worker[LF_WORKERS];
    unsigned n_workers;
};

// watch.c: disconnects, keep-alives, deadlines, slow readers, freeing.
LF_CHECKED enum lf_status lf_watch_start(struct lf_server *server, struct lf_error *err);
void lf_watch_stop(struct lf_server *server);
// False when the server stops: x is then not live.
bool lf_watch_add(struct lf_server *server, struct lf_exchange *x);
void lf_watch_poke(struct lf_server *server);
// From here on adding fails.
void lf_watch_close(struct lf_server *server);
// Cancels every live request; they end as shut down. drop: without an answer.
void lf_watch_cancel_all(struct lf_server *server, bool drop);
// Waits until no request is live; false when seconds passed first.
bool lf_watch_wait_empty(struct lf_server *server, double seconds);

// work.c: threads that parse, render and submit, so that the HTTP thread never waits for a prompt.
LF_CHECKED enum lf_status lf_work_start(struct lf_server *server, struct lf_error *err);
void lf_work_stop(struct lf_server *server);
void lf_work_add(struct lf_server *server, struct lf_exchange *x);
