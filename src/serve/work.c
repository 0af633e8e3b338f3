// The workers: parsing, rendering, tokenizing and submitting happen here, in arrival order.
#include <string.h>
#include "serve/generate.h"
#include "serve/router.h"
#include "serve/state.h"

static struct lf_exchange *take(struct lf_server *server) {
    pthread_mutex_lock(&server->work_lock);
    while (!server->work_first && !server->work_stop)
        pthread_cond_wait(&server->work_ready, &server->work_lock);
    struct lf_exchange *x = server->work_first;
    if (x) {
        server->work_first = x->work_next;
        if (!server->work_first)
            server->work_last = NULL;
    }
    pthread_mutex_unlock(&server->work_lock);
    return x;
}

static void work(struct lf_server *server, struct lf_exchange *x) {
    struct lf_error err = LF_ERROR_INIT;
    pthread_mutex_lock(&x->lock);
    bool skip = x->gone || x->drained;
    pthread_mutex_unlock(&x->lock);
    if (skip)
        lf_exchange_refuse(x, LF_REFUSAL_SHUTTING_DOWN, "", "the server is shutting down");
    else if (x->route->handle(x, &err))
        lf_exchange_fail(x, &err);
    lf_buffer_free(&x->body);
    pthread_mutex_lock(&x->lock);
    x->in_work = false;
    lf_exchange_wake(x);
    // From here the watcher may free x.
    pthread_mutex_unlock(&x->lock);
    lf_watch_poke(server);
}

static void *work_main(void *closure) {
    struct lf_server *server = closure;
    struct lf_exchange *x;
    while ((x = take(server)))
        work(server, x);
    return NULL;
}

enum lf_status lf_work_start(struct lf_server *server, struct lf_error *err) {
    pthread_mutex_init(&server->work_lock, NULL);
    pthread_cond_init(&server->work_ready, NULL);
    for (; server->n_workers < LF_WORKERS; server->n_workers++) {
        int cause = pthread_create(&server->worker[server->n_workers], NULL, work_main, server);
        if (cause)
            return lf_fail(err, LF_E_IO, "cannot start a request thread: %s", strerror(cause));
    }
    return LF_OK;
}

void lf_work_stop(struct lf_server *server) {
    pthread_mutex_lock(&server->work_lock);
    server->work_stop = true;
    pthread_cond_broadcast(&server->work_ready);
    pthread_mutex_unlock(&server->work_lock);
    for (unsigned i = 0; i < server->n_workers; i++)
        pthread_join(server->worker[i], NULL);
    pthread_cond_destroy(&server->work_ready);
    pthread_mutex_destroy(&server->work_lock);
}

void lf_work_add(struct lf_server *server, struct lf_exchange *x) {
    pthread_mutex_lock(&x->lock);
    x->in_work = true;
    pthread_mutex_unlock(&x->lock);
    pthread_mutex_lock(&server->work_lock);
    x->work_next = NULL;
    if (server->work_last)
        server->work_last->work_next = x;
    else
        server->work_first = x;
    server->work_last = x;
    pthread_cond_signal(&server->work_ready);
    pthread_mutex_unlock(&server->work_lock);
}
