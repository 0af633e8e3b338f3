// The targets of serve_flags.def: what `serve` takes, and `plan` with it.
#pragma once
#include "cli/engine_flags.h"

struct serve_flags {
    struct lf_engine_flags engine;
    double limit_gib, reserve_gib, cache_gib; // cache_gib below 0: not given
    const char *host, *name, *log, *api_key_file, *effort, *reasoning_field, *extras_key, *drafts;
    const char *spill_dir;
    double spill_gib, spill_floor_gib;
    uint64_t spill_rows;
    bool keep_shared;
    struct lf_flag_list alias, api_key, cors, allowed_host;
    uint64_t parallel, chunk_rows, draft_depth, long_prompts, max_gap_ms;
    double decode_share;
    uint64_t port, queue, max_tokens, top_k, seed_salt, body_bytes, connections;
    double queue_timeout_s, temperature, top_p, min_p, drain_s, slow_reader_s, request_timeout_s;
    double keepalive_s;
    bool no_drafts, thinking, strict_tools, strict_model, early_headers, clamp_reply, no_extras;
    bool half_close, loop_guard, help;
};

#define SERVE_FLAGS_INIT                                                                           \
    {.engine = LF_ENGINE_FLAGS_INIT, .cache_gib = -1, .parallel = 4, .port = 8080, .queue = 128,   \
     .spill_floor_gib = 4, .spill_rows = 1024,                                                     \
     .queue_timeout_s = 240, .drain_s = 20, .slow_reader_s = 120, .keepalive_s = 5,                \
     .decode_share = 0.25, .long_prompts = 1, .max_gap_ms = 1000, .thinking = true,                \
     .log = "text", .drafts = "auto", .reasoning_field = "reasoning_content"}

// The options of the engine that these flags ask for.
struct lf_engine_options lf_serve_engine_options(const struct serve_flags *flags);
