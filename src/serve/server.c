#include "serve/server.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>
#include "base/log.h"
#include "serve/state.h"

// Above the head limit of api.md 1, so that a head over it still gets our answer.
enum { CONNECTION_BYTES = 192 * 1024, HEAD_TIMEOUT_S = 10, SPARE_CONNECTIONS = 32 };
// What a slow reader leaves unread should wait here, where it is counted, not in the kernel.
enum { SEND_BUFFER_BYTES = 128 * 1024 };

static void fill_defaults(struct lf_server_options *o) {
    o->host = o->host ? o->host : "127.0.0.1";
    o->effort = o->effort ? o->effort : 75;
    o->body_bytes_max = o->body_bytes_max ? o->body_bytes_max : (size_t)48 << 20;
    o->connections_max = o->connections_max ? o->connections_max : 512;
    o->keep_alive_s = o->keep_alive_s != 0 ? o->keep_alive_s : 5;
    o->slow_reader_s = o->slow_reader_s > 0 ? o->slow_reader_s : 120;
    o->stream_bytes_max = o->stream_bytes_max ? o->stream_bytes_max : (size_t)1 << 20;
    o->extras_key = o->extras_key ? o->extras_key : "lanefold";
    o->backend = o->backend ? o->backend : "";
    o->commit = o->commit ? o->commit : "";
}

static bool is_loopback(const struct sockaddr *address) {
    if (address->sa_family == AF_INET)
        return ntohl(((const struct sockaddr_in *)(const void *)address)->sin_addr.s_addr) >> 24 ==
               127;
    return address->sa_family == AF_INET6 &&
           IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *)(const void *)address)->sin6_addr);
}

static void note_address(struct lf_server *server, int fd) {
    struct sockaddr_storage bound;
    socklen_t bound_len = sizeof bound;
    const struct sockaddr *address = (const struct sockaddr *)&bound;
    if (getsockname(fd, (struct sockaddr *)&bound, &bound_len))
        return;
    bool six = address->sa_family == AF_INET6;
    unsigned port = ntohs(six ? ((struct sockaddr_in6 *)&bound)->sin6_port
                              : ((struct sockaddr_in *)&bound)->sin_port);
    const char *host = server->options.host;
    bool bracket = strchr(host, ':');
    server->loopback = is_loopback(address);
    snprintf(server->url, sizeof server->url, "http://%s%.255s%s:%u", bracket ? "[" : "", host,
             bracket ? "]" : "", port);
}

static enum lf_status listen_at(struct lf_server *server, int *out, struct lf_error *err) {
    const struct lf_server_options *o = &server->options;
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE}, *list;
    char port[8];
    int one = 1, fd = -1;
    snprintf(port, sizeof port, "%u", (unsigned)o->port);
    int cause = getaddrinfo(o->host, port, &hints, &list);
    if (cause)
        return lf_fail(err, LF_E_IO, "--host %s: %s", o->host, gai_strerror(cause));
    for (struct addrinfo *at = list; at && fd < 0; at = at->ai_next) {
        fd = socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (fd < 0)
            continue;
        setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
        if (bind(fd, at->ai_addr, at->ai_addrlen) || listen(fd, 511)) {
            lf_fail_errno(err, LF_E_IO, "cannot listen on %s port %s", o->host, port);
            close(fd);
            fd = -1;
        }
    }
    freeaddrinfo(list);
    if (fd < 0)
        return lf_fail_errno(err, LF_E_IO, "cannot open a socket for %s", o->host);
    *err = (struct lf_error)LF_ERROR_INIT;
    note_address(server, fd);
    *out = fd;
    return LF_OK;
}

static void note_connection(void *closure, struct MHD_Connection *connection, void **context,
                            enum MHD_ConnectionNotificationCode code) {
    struct lf_server *server = closure;
    int one = 1, room = SEND_BUFFER_BYTES;
    (void)context;
    if (code == MHD_CONNECTION_NOTIFY_CLOSED) {
        atomic_fetch_sub(&server->connections, 1);
        return;
    }
    atomic_fetch_add(&server->connections, 1);
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    if (info) {
        setsockopt(info->connect_fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        setsockopt(info->connect_fd, SOL_SOCKET, SO_SNDBUF, &room, sizeof room);
    }
}

static void daemon_log(void *closure, const char *format, va_list args) LF_PRINTF(2, 0);
static void daemon_log(void *closure, const char *format, va_list args) {
    char text[256];
    (void)closure;
    vsnprintf(text, sizeof text, format, args);
    text[strcspn(text, "\r\n")] = 0;
    lf_log(LF_LOG_DEBUG, "http: %s", text);
}

static enum lf_status daemon_start(struct lf_server *server, struct lf_error *err) {
    int fd;
    LF_TRY(listen_at(server, &fd, err));
    unsigned flags = MHD_USE_EPOLL | MHD_USE_INTERNAL_POLLING_THREAD | MHD_ALLOW_SUSPEND_RESUME |
                     MHD_USE_ITC | MHD_USE_ERROR_LOG;
    server->daemon = MHD_start_daemon(
        flags, 0, NULL, NULL, lf_exchange_handle, server, MHD_OPTION_EXTERNAL_LOGGER, daemon_log,
        NULL, MHD_OPTION_LISTEN_SOCKET, fd, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
        (size_t)CONNECTION_BYTES, MHD_OPTION_CONNECTION_LIMIT,
        server->options.connections_max + SPARE_CONNECTIONS, MHD_OPTION_CONNECTION_TIMEOUT,
        (unsigned)HEAD_TIMEOUT_S, MHD_OPTION_NOTIFY_COMPLETED, lf_exchange_completed, server,
        MHD_OPTION_NOTIFY_CONNECTION, note_connection, server, MHD_OPTION_END);
    if (server->daemon)
        return LF_OK;
    close(fd);
    return lf_fail(err, LF_E_IO, "the HTTP daemon does not start on %s", server->url);
}

enum lf_status lf_server_open(struct lf_server **out, const struct lf_server_options *options,
                              struct lf_engine *engine, const struct lf_tokenizer *tokenizer,
                              const struct lf_controls *controls, struct lf_error *err) {
    struct lf_server *server = calloc(1, sizeof *server);
    if (!server)
        return lf_fail(err, LF_E_MEM, "no memory for the server");
    *out = NULL;
    server->options = *options;
    server->engine = engine;
    server->tokenizer = tokenizer;
    server->controls = controls;
    server->started_s = (int64_t)time(NULL);
    fill_defaults(&server->options);
    enum lf_status status = lf_keys_open(&server->keys, options->api_key, options->n_api_keys,
                                         options->api_key_file, err);
    enum lf_status watch = lf_watch_start(server, err), work = lf_work_start(server, err);
    if (status == LF_OK && watch == LF_OK && work == LF_OK && !daemon_start(server, err)) {
        if (!server->loopback && !server->keys.wanted)
            lf_log(LF_LOG_WARN, "%s is open to the network and asks for no API key", server->url);
        *out = server;
        return LF_OK;
    }
    lf_server_stop(server, 0);
    return err->status;
}

const char *lf_server_url(const struct lf_server *server) {
    return server->url;
}

// Waits for every live request, longer than any may take to end; the log names the wait (F-4).
static bool wait_all_ended(struct lf_server *server, double seconds) {
    if (lf_watch_wait_empty(server, seconds))
        return true;
    lf_log(LF_LOG_ERROR, "requests did not end within %g s of their cancel: the engine keeps them",
           seconds);
    return false;
}

bool lf_server_stop(struct lf_server *server, double drain_s) {
    static const double flush_s = 5, end_s = 300, dead_end_s = 0.4;
    bool dead = drain_s < 0;
    if (!server)
        return true;
    lf_watch_close(server);
    if (!lf_watch_wait_empty(server, drain_s > 0 ? drain_s : 0)) {
        lf_watch_cancel_all(server, false);
        if (dead || !lf_watch_wait_empty(server, flush_s))
            lf_watch_cancel_all(server, true);
    }
    if (!wait_all_ended(server, dead ? dead_end_s : end_s))
        return false;
    if (server->daemon)
        MHD_stop_daemon(server->daemon);
    lf_work_stop(server);
    lf_watch_stop(server);
    lf_keys_close(&server->keys);
    free(server);
    return true;
}
