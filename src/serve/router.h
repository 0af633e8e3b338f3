// The table of routes (api.md 2): paths, methods and who handles them.
#pragma once
#include <stdbool.h>
#include "base/error.h"
#include "serve/exchange.h"

struct lf_route {
    const char *method; // GET also answers HEAD
    const char *path;   // without /v1 and trailing slash
    bool openai;        // also found under /v1
    bool prefix;        // a name follows the path
    bool open;          // needs no key
    bool work;          // runs on a worker and may generate; otherwise at once
    enum lf_status (*handle)(struct lf_exchange *x, struct lf_error *err);
};

struct lf_route_match {
    const struct lf_route *route; // NULL: none
    const char *tail;             // prefix routes: what follows, inside the given path
    const char *allow;            // the path exists, with these methods; NULL: it does not
    bool unsupported;             // a known API that this server does not offer
};

struct lf_route_match lf_route_find(const char *method, const char *path);

// The handlers, one file an API.
enum lf_status lf_chat_handle(struct lf_exchange *x, struct lf_error *err);
enum lf_status lf_completions_handle(struct lf_exchange *x, struct lf_error *err);
enum lf_status lf_models_list(struct lf_exchange *x, struct lf_error *err);
enum lf_status lf_models_one(struct lf_exchange *x, struct lf_error *err);
enum lf_status lf_health_handle(struct lf_exchange *x, struct lf_error *err);
enum lf_status lf_ready_handle(struct lf_exchange *x, struct lf_error *err);
enum lf_status lf_memory_handle(struct lf_exchange *x, struct lf_error *err);
enum lf_status lf_version_handle(struct lf_exchange *x, struct lf_error *err);
enum lf_status lf_page_handle(struct lf_exchange *x, struct lf_error *err);
