// The targets of serve_flags.def: what `serve` takes, and `plan` with it.
#pragma once
#include "cli/memory.h"
#include "cli/session.h"

struct serve_flags {
    struct lf_session_flags session;
    struct lf_memory_flags memory;
    const char *host, *name, *log, *api_key_file, *effort, *reasoning_field, *extras_key, *drafts;
    struct lf_flag_list alias, api_key, cors, allowed_host;
    uint64_t draft_depth, long_prompts, max_gap_ms;
    double decode_share;
    uint64_t port, queue, max_tokens, top_k, seed_salt, body_bytes, connections;
    double queue_timeout_s, temperature, top_p, min_p, drain_s, slow_reader_s, request_timeout_s;
    double keepalive_s;
    bool thinking, strict_tools, strict_model, early_headers, clamp_reply, no_extras;
    bool half_close, help;
};

#define SERVE_FLAGS_INIT                                                                           \
    {.session = {.isa = "auto", .device = "auto", .parallel = 4}, .memory = {.cache_gib = -1},     \
     .port = 8080, .queue = 128,                                                                   \
     .queue_timeout_s = 240, .drain_s = 20, .slow_reader_s = 120, .keepalive_s = 5,                \
     .decode_share = 0.25, .long_prompts = 1, .max_gap_ms = 1000, .thinking = true,                \
     .log = "text", .drafts = "auto", .reasoning_field = "reasoning_content"}
