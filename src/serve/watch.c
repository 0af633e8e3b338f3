// The watcher: hang-ups, silence and deadlines of requests whose sockets are suspended.
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>
#include "base/log.h"
#include "serve/generate.h"
#include "serve/state.h"

enum { TICK_MS = 100 };

void lf_watch_poke(struct lf_server *server) {
    uint64_t one = 1;
    ssize_t written;
    do
        written = write(server->poke_fd, &one, sizeof one);
    while (written < 0 && errno == EINTR);
}

bool lf_watch_add(struct lf_server *server, struct lf_exchange *x) {
    pthread_mutex_lock(&server->live_lock);
    bool open = !atomic_load(&server->draining);
    if (open) {
        x->live = true;
        x->next = server->live;
        server->live = x;
    }
    pthread_mutex_unlock(&server->live_lock);
    if (open)
        lf_watch_poke(server);
    return open;
}

void lf_watch_close(struct lf_server *server) {
    pthread_mutex_lock(&server->live_lock);
    atomic_store(&server->draining, true);
    pthread_mutex_unlock(&server->live_lock);
}

void lf_watch_cancel_all(struct lf_server *server, bool drop) {
    pthread_mutex_lock(&server->live_lock);
    for (struct lf_exchange *x = server->live; x; x = x->next) {
        pthread_mutex_lock(&x->lock);
        x->drained = true;
        x->gone = x->gone || drop;
        if (drop && x->connection)
            shutdown(x->fd, SHUT_RDWR);
        pthread_mutex_unlock(&x->lock);
    }
    pthread_mutex_unlock(&server->live_lock);
    lf_watch_poke(server);
}

bool lf_watch_wait_empty(struct lf_server *server, double seconds) {
    double until_s = lf_clock_s() + seconds;
    bool late = false;
    pthread_mutex_lock(&server->live_lock);
    while (server->live && !late)
        late = !lf_clock_wait(&server->live_empty, &server->live_lock, until_s);
    bool empty = !server->live;
    pthread_mutex_unlock(&server->live_lock);
    return empty;
}

// Sets what is due for x; true once, when the engine must be told to end its request.
static bool look(struct lf_server *server, struct lf_exchange *x, double now) {
    const struct lf_server_options *options = &server->options;
    pthread_mutex_lock(&x->lock);
    struct lf_generation *g = x->generation;
    if (x->in_engine && x->deadline_s > 0 && now >= x->deadline_s)
        x->timed_out = true;
    bool waits = x->in_engine && !x->in_work && g;
    if (waits && lf_generation_unread_bytes(g) > options->stream_bytes_max && x->streaming &&
        now - x->wrote_s > options->slow_reader_s)
        x->stalled = x->gone = true;
    bool silent = options->keep_alive_s > 0 && now - x->wrote_s >= options->keep_alive_s;
    if (waits && silent && lf_generation_keeps_alive(g) && !x->keep_alive_due) {
        x->keep_alive_due = true;
        lf_exchange_wake(x);
    }
    bool end = !x->cancelled && (x->gone || x->drained || x->timed_out);
    end = end && (x->in_engine || x->suspended);
    x->cancelled = x->cancelled || (end && x->in_engine);
    if (end)
        lf_exchange_wake(x);
    end = end && x->in_engine;
    pthread_mutex_unlock(&x->lock);
    return end;
}

static bool is_over(struct lf_exchange *x) {
    pthread_mutex_lock(&x->lock);
    bool over = x->http_done && !x->in_work && !x->in_engine;
    pthread_mutex_unlock(&x->lock);
    return over;
}

// Takes the exchanges nobody uses any more off the list; the caller holds live_lock.
static struct lf_exchange *reap(struct lf_server *server) {
    struct lf_exchange *over = NULL;
    for (struct lf_exchange **at = &server->live; *at;) {
        struct lf_exchange *x = *at;
        if (!is_over(x)) {
            at = &x->next;
            continue;
        }
        *at = x->next;
        x->next = over;
        over = x;
        double took_s = x->generation ? lf_generation_seconds(x->generation) : 0;
        if (took_s > 0)
            server->mean_request_s += 0.2 * (took_s - server->mean_request_s);
    }
    if (!server->live)
        pthread_cond_broadcast(&server->live_empty);
    return over;
}

struct watched {
    struct pollfd *fd;
    uint64_t *id;
    size_t n, cap;
};

static bool watched_add(struct watched *w, int fd, short events, uint64_t id) {
    if (w->n == w->cap) {
        size_t cap = w->cap ? w->cap * 2 : 64;
        struct pollfd *fds = realloc(w->fd, cap * sizeof *fds);
        w->fd = fds ? fds : w->fd;
        uint64_t *ids = fds ? realloc(w->id, cap * sizeof *ids) : NULL;
        w->id = ids ? ids : w->id;
        if (!ids)
            return false;
        w->cap = cap;
    }
    w->fd[w->n] = (struct pollfd){.fd = fd, .events = events};
    w->id[w->n++] = id;
    return true;
}

// One pass over the live list; returns whether any is left.
static bool pass(struct lf_server *server, struct watched *w) {
    double now = lf_clock_s();
    short events = server->options.allow_half_close ? 0 : POLLRDHUP;
    w->n = 0;
    watched_add(w, server->poke_fd, POLLIN, 0);
    pthread_mutex_lock(&server->live_lock);
    struct lf_exchange *over = reap(server);
    for (struct lf_exchange *x = server->live; x; x = x->next) {
        if (look(server, x, now))
            lf_engine_cancel(server->engine, x->id);
        pthread_mutex_lock(&x->lock);
        if (x->connection && !x->gone && !x->handed &&
            !watched_add(w, x->fd, events, x->id))
            lf_log(LF_LOG_WARN, "no memory to watch the connection of %s", x->request_id);
        pthread_mutex_unlock(&x->lock);
    }
    bool any = server->live;
    pthread_mutex_unlock(&server->live_lock);
    while (over) {
        struct lf_exchange *next = over->next;
        lf_exchange_free(over);
        over = next;
    }
    return any;
}

// The socket of request id hung up: a queued one leaves at once, a running one at its next step.
static void hang_up(struct lf_server *server, uint64_t id) {
    pthread_mutex_lock(&server->live_lock);
    for (struct lf_exchange *x = server->live; x; x = x->next) {
        if (x->id != id)
            continue;
        pthread_mutex_lock(&x->lock);
        x->gone = x->gone || !x->handed;
        pthread_mutex_unlock(&x->lock);
    }
    pthread_mutex_unlock(&server->live_lock);
}

static void *watch_main(void *closure) {
    struct lf_server *server = closure;
    struct watched w = {0};
    for (;;) {
        bool any = pass(server, &w);
        pthread_mutex_lock(&server->live_lock);
        bool stop = server->watch_stop && !server->live;
        pthread_mutex_unlock(&server->live_lock);
        if (stop)
            break;
        int ready = poll(w.fd, w.n, any ? TICK_MS : -1);
        uint64_t pokes;
        if (ready > 0 && w.fd[0].revents && read(server->poke_fd, &pokes, sizeof pokes) < 0)
            lf_log(LF_LOG_WARN, "the watcher's wake-up cannot be read");
        for (size_t i = 1; ready > 0 && i < w.n; i++)
            if (w.fd[i].revents)
                hang_up(server, w.id[i]);
    }
    free(w.fd);
    free(w.id);
    return NULL;
}

enum lf_status lf_watch_start(struct lf_server *server, struct lf_error *err) {
    pthread_mutex_init(&server->live_lock, NULL);
    pthread_cond_init(&server->live_empty, NULL);
    server->poke_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (server->poke_fd < 0)
        return lf_fail_errno(err, LF_E_IO, "cannot make the watcher's wake-up");
    int cause = pthread_create(&server->watcher, NULL, watch_main, server);
    if (cause)
        return lf_fail(err, LF_E_IO, "cannot start the watcher thread: %s", strerror(cause));
    server->watching = true;
    return LF_OK;
}

void lf_watch_stop(struct lf_server *server) {
    pthread_mutex_lock(&server->live_lock);
    server->watch_stop = true;
    pthread_mutex_unlock(&server->live_lock);
    if (server->poke_fd >= 0)
        lf_watch_poke(server);
    if (server->watching)
        pthread_join(server->watcher, NULL);
    if (server->poke_fd >= 0)
        close(server->poke_fd);
    pthread_cond_destroy(&server->live_empty);
    pthread_mutex_destroy(&server->live_lock);
}
