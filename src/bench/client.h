// One request over libcurl, alone or on a thread of its own.
#pragma once
#include <pthread.h>
#include <stdatomic.h>
#include "bench/ask.h"
#include "bench/options.h"
#include "bench/answer.h"

// Threads wait here until all are ready.
struct lf_gate {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    size_t ready;
    bool open;
};

struct lf_client {
    const struct lf_bench_server *server;
    struct lf_bench_ask ask;
    struct lf_answer reply;
    atomic_size_t pieces;   // seen so far
    atomic_bool sent, done; // sent: the request is on its way
    double delay_s;
    struct lf_gate *gate; // NULL: starts at once
    pthread_t thread;
    bool started;
};

LF_CHECKED enum lf_status lf_client_setup(struct lf_error *err);
// Fills base from BASE: an http or https address, with or without /v1.
LF_CHECKED enum lf_status lf_client_base(struct lf_bench_server *server, const char *base,
                                         struct lf_error *err);
// One request; the reply holds whatever went wrong and is freed by the caller.
void lf_client_run(const struct lf_bench_server *server, const struct lf_bench_ask *ask,
                   struct lf_answer *reply);
// The same on a thread; wait ends it.
void lf_client_start(struct lf_client *client);
void lf_client_wait(struct lf_client *client);
// Starts all at one gate, client i delayed by i * stagger_ms, and waits for all.
void lf_client_gang(struct lf_client *client, size_t n, double stagger_ms);
// GET of path into body; status gets the HTTP status, 0 when nothing answered.
void lf_client_get(const struct lf_bench_server *server, const char *path,
                   struct lf_buffer *body, long *status);
