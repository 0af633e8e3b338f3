// The HTTP server over one engine: options, start and stop (api.md).
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/error.h"
#include "lanefold.h"
#include "text/chat.h"
#include "text/tokenizer.h"

enum lf_reasoning_field { LF_REASONING_CONTENT, LF_REASONING_PLAIN, LF_REASONING_BOTH };

// Everything must outlive the server. Zero is the default of each number that names one.
struct lf_server_options {
    const char *host; // NULL: 127.0.0.1
    uint16_t port;    // 0: a free one
    const char *name; // the served model id
    const char *const *alias;
    size_t n_aliases;

    struct lf_sampling sampling; // defaults of requests, resolved by the caller (engine.md S-15)
    uint64_t seed_salt;
    bool thinking;       // default of chat requests
    bool loop_guard;     // reasoning that runs in a circle is closed (engine.md L-6)
    int effort;          // 0: 75
    uint32_t max_tokens; // 0: 65536 with thinking, 8192 without

    const char *const *api_key; // keys given directly
    size_t n_api_keys;
    const char *api_key_file; // NULL: none
    const char *const *cors;  // allowed origins, "*" for all; none: CORS is off
    size_t n_cors;
    const char *const *allowed_host;
    size_t n_allowed_hosts;

    size_t body_bytes_max;     // 0: 48 MiB
    uint32_t connections_max;  // 0: 512
    double keep_alive_s;       // silence before a comment; 0: 5, below 0: off
    double slow_reader_s;      // 0: 120
    size_t stream_bytes_max;   // unread events of a stream that make its reader slow; 0: 1 MiB
    double request_timeout_s;  // 0: none
    bool strict_model, strict_tools, early_headers, clamp_reply, allow_half_close;

    enum lf_reasoning_field reasoning_field;
    bool no_extras;         // leave the lanefold block out
    const char *extras_key; // NULL: lanefold
    const char *backend, *commit; // NULL: empty
};

struct lf_server;
// Binds, starts answering and returns; the engine stays the caller's.
LF_CHECKED enum lf_status lf_server_open(struct lf_server **out,
                                         const struct lf_server_options *options,
                                         struct lf_engine *engine,
                                         const struct lf_tokenizer *tokenizer,
                                         const struct lf_controls *controls, struct lf_error *err);
// http://host:port, valid until stop.
const char *lf_server_url(const struct lf_server *server);
// Gives running requests drain_s seconds, below 0: the engine is dead; frees all, or false (F-4).
bool lf_server_stop(struct lf_server *server, double drain_s); // NULL is allowed
