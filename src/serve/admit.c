#include "serve/admit.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include "serve/router.h"
#include "serve/state.h"

enum { HEAD_BYTES_MAX = 64 * 1024 };

static const char *header(struct MHD_Connection *connection, const char *name) {
    return MHD_lookup_connection_value(connection, MHD_HEADER_KIND, name);
}

static bool printable(const char *text) {
    size_t len = strlen(text);
    for (size_t i = 0; i < len; i++)
        if (text[i] < 0x20 || text[i] > 0x7e)
            return false;
    return len >= 1 && len <= LF_REQUEST_ID_MAX;
}

static bool key_given(struct lf_server *server, struct MHD_Connection *connection) {
    static const char *const names[] = {"Authorization", "x-api-key", "api-key"};
    bool found = false;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *text = header(connection, names[i]);
        if (!text)
            continue;
        if (i == 0 && strncasecmp(text, "Bearer ", 7))
            continue;
        text += i == 0 ? 7 : 0;
        while (*text == ' ')
            text++;
        found = lf_keys_match(&server->keys, text, strlen(text)) || found;
    }
    return found;
}

static bool authorized(struct lf_exchange *x, struct MHD_Connection *connection) {
    struct lf_server *server = x->server;
    if (!server->keys.wanted || (x->route && x->route->open))
        return true;
    lf_keys_refresh(&server->keys, lf_clock_s());
    return key_given(server, connection);
}

static void add_cors(struct lf_exchange *x, struct MHD_Connection *connection, bool preflight) {
    const struct lf_server_options *options = &x->server->options;
    const char *origin = header(connection, "Origin"), *allowed = NULL;
    for (size_t i = 0; i < options->n_cors; i++)
        if (!strcmp(options->cors[i], "*") || (origin && !strcmp(options->cors[i], origin)))
            allowed = origin ? lf_arena_copy(&x->arena, origin, strlen(origin)) : "*";
    if (options->n_cors)
        lf_exchange_header(x, "Vary", "Origin");
    if (!allowed)
        return;
    lf_exchange_header(x, "Access-Control-Allow-Origin", allowed);
    lf_exchange_header(x, "Access-Control-Expose-Headers", "x-request-id");
    if (!preflight)
        return;
    const char *asked = header(connection, "Access-Control-Request-Headers");
    const char *names = asked ? lf_arena_copy(&x->arena, asked, strlen(asked)) : NULL;
    lf_exchange_header(x, "Access-Control-Allow-Methods", "GET, POST, DELETE, OPTIONS");
    lf_exchange_header(x, "Access-Control-Max-Age", "600");
    if (names)
        lf_exchange_header(x, "Access-Control-Allow-Headers", names);
}

// The body's stated length; SIZE_MAX when it cannot be one, 0 when none is stated.
static size_t stated_length(struct MHD_Connection *connection) {
    const char *text = header(connection, "Content-Length");
    if (!text)
        return 0;
    errno = 0;
    char *end;
    unsigned long long length = strtoull(text, &end, 10);
    return errno || *end || length > SIZE_MAX ? SIZE_MAX : (size_t)length;
}

static void check_route(struct lf_exchange *x, const struct lf_route_match *match,
                        const char *method) {
    char text[256];
    if (match->unsupported) {
        lf_exchange_refuse(x, LF_REFUSAL_UNSUPPORTED_ENDPOINT, "",
                           "this server only generates text: no embeddings, audio, images or "
                           "moderation");
    } else if (!match->allow) {
        snprintf(text, sizeof text, "there is no route %.160s here", x->path);
        lf_exchange_refuse(x, LF_REFUSAL_UNKNOWN_URL, "", text);
    } else if (!match->route) {
        snprintf(text, sizeof text, "%.20s is not allowed here; allowed: %s", method, match->allow);
        lf_exchange_header(x, "Allow", match->allow);
        lf_exchange_refuse(x, LF_REFUSAL_METHOD_NOT_ALLOWED, "", text);
    }
}

static void check_body_head(struct lf_exchange *x, struct MHD_Connection *connection) {
    char text[128];
    const char *type = header(connection, "Content-Type");
    const char *encoding = header(connection, "Content-Encoding");
    size_t limit = x->server->options.body_bytes_max;
    if (stated_length(connection) > limit) {
        snprintf(text, sizeof text, "the request body is over the limit of %zu bytes", limit);
        lf_exchange_refuse(x, LF_REFUSAL_REQUEST_TOO_LARGE, "", text);
    } else if (encoding && strcasecmp(encoding, "identity")) {
        lf_exchange_refuse(x, LF_REFUSAL_UNSUPPORTED_MEDIA_TYPE, "",
                           "Content-Encoding must be identity or absent");
    } else if (type && !strcasestr(type, "json")) {
        lf_exchange_refuse(x, LF_REFUSAL_UNSUPPORTED_MEDIA_TYPE, "",
                           "Content-Type must be application/json or absent");
    }
}

static bool head_too_large(struct MHD_Connection *connection) {
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_REQUEST_HEADER_SIZE);
    return info && info->header_size > HEAD_BYTES_MAX;
}

static void check_head(struct lf_exchange *x, struct MHD_Connection *connection,
                       const struct lf_route_match *match, const char *method) {
    struct lf_server *server = x->server;
    const struct lf_server_options *options = &server->options;
    const char *host = header(connection, "Host");
    if (head_too_large(connection)) {
        lf_exchange_refuse(x, LF_REFUSAL_HEADERS_TOO_LARGE, "",
                           "the request line and headers are over 65536 bytes");
    } else if (server->loopback && host &&
               !lf_host_allowed(host, options->allowed_host, options->n_allowed_hosts)) {
        lf_exchange_refuse(x, LF_REFUSAL_HOST_NOT_ALLOWED, "",
                           "this Host is not served here; --allowed-host adds one");
    } else if (!strcmp(method, "OPTIONS")) {
        lf_exchange_answer(x, 204, NULL);
    } else if (atomic_load(&server->connections) > options->connections_max) {
        lf_exchange_header(x, "Connection", "close");
        lf_exchange_refuse(x, LF_REFUSAL_QUEUE_FULL, "", "too many connections");
    } else {
        check_route(x, match, method);
        if (!x->replied && !authorized(x, connection))
            lf_exchange_refuse(x, LF_REFUSAL_INVALID_API_KEY, "",
                               "a valid API key is needed: Authorization: Bearer KEY");
        if (!x->replied && !strcmp(method, "POST"))
            check_body_head(x, connection);
    }
}

bool lf_admit(struct lf_exchange *x, struct MHD_Connection *connection, const char *method,
              const char *url) {
    const char *id = header(connection, "x-request-id"), *accept = header(connection, "Accept");
    const char *expect = header(connection, "Expect");
    if (id && printable(id))
        snprintf(x->request_id, sizeof x->request_id, "%s", id);
    x->method = lf_arena_copy(&x->arena, method, strnlen(method, 16));
    char *path = lf_arena_copy(&x->arena, url, strlen(url));
    if (!path || !x->method) {
        lf_exchange_refuse(x, LF_REFUSAL_MEMORY_FULL, "", "no memory for the request's path");
        return false;
    }
    size_t len = strlen(path);
    while (len && path[len - 1] == '/')
        path[--len] = 0;
    x->path = path;
    x->anthropic = header(connection, "anthropic-version");
    x->wants_html = accept && strstr(accept, "text/html");
    struct lf_route_match match = lf_route_find(method, path);
    x->route = match.route;
    x->tail = match.tail;
    add_cors(x, connection, !strcmp(method, "OPTIONS"));
    check_head(x, connection, &match, method);
    bool flood = stated_length(connection) / 4 > x->server->options.body_bytes_max;
    return x->replied && (flood || (expect && !strcasecmp(expect, "100-continue")));
}
