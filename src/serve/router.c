#include "serve/router.h"

#include <string.h>

static const struct lf_route routes[] = {
    {"GET", "", false, false, true, false, lf_page_handle},
    {"POST", "/chat/completions", true, false, false, true, lf_chat_handle},
    {"POST", "/completions", true, false, false, true, lf_completions_handle},
    {"GET", "/models", true, false, false, false, lf_models_list},
    {"GET", "/models/", true, true, false, false, lf_models_one},
    {"GET", "/health", false, false, true, false, lf_health_handle},
    {"GET", "/ready", false, false, true, false, lf_ready_handle},
    {"GET", "/memory", false, false, false, false, lf_memory_handle},
    {"GET", "/version", false, false, false, false, lf_version_handle},
};

// APIs that clients probe and that only other servers offer.
static const char *const elsewhere[] = {"/embeddings", "/audio", "/images", "/moderations"};

static bool is_under(const char *path, size_t len, const char *top) {
    size_t top_len = strlen(top);
    return len >= top_len && !strncmp(path, top, top_len) &&
           (len == top_len || path[top_len] == '/');
}

static bool path_matches(const struct lf_route *route, const char *path, size_t len, bool v1) {
    size_t route_len = strlen(route->path);
    if (v1 && !route->openai)
        return false;
    if (route->prefix)
        return len > route_len && !strncmp(path, route->path, route_len);
    return len == route_len && !strncmp(path, route->path, len);
}

static bool method_matches(const struct lf_route *route, const char *method) {
    return !strcmp(route->method, method) ||
           (!strcmp(route->method, "GET") && !strcmp(method, "HEAD"));
}

struct lf_route_match lf_route_find(const char *method, const char *path) {
    struct lf_route_match match = {0};
    size_t len = strlen(path);
    while (len && path[len - 1] == '/')
        len--;
    bool v1 = is_under(path, len, "/v1") && len > 3;
    path += v1 ? 3 : 0;
    len -= v1 ? 3 : 0;
    for (size_t i = 0; i < sizeof routes / sizeof *routes; i++) {
        if (!path_matches(&routes[i], path, len, v1))
            continue;
        match.allow = !strcmp(routes[i].method, "GET") ? "GET, HEAD, OPTIONS" : "POST, OPTIONS";
        if (method_matches(&routes[i], method)) {
            match.route = &routes[i];
            match.tail = routes[i].prefix ? path + strlen(routes[i].path) : NULL;
        }
    }
    for (size_t i = 0; i < sizeof elsewhere / sizeof *elsewhere; i++)
        match.unsupported = match.unsupported || is_under(path, len, elsewhere[i]);
    return match;
}
