// The request fields common to the generation routes (api.md 5).
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/arena.h"
#include "base/error.h"
#include "lanefold.h"
#include "serve/fields.h"

struct lf_params {
    const char *model; // NULL: none given
    uint32_t max_tokens; // 0: none given
    struct lf_sampling sampling; // seed: only when seed_given
    bool seed_given;
    const char **stop;
    size_t n_stops;
    bool stop_in_reasoning, include_stop;
    uint32_t *stop_id;
    uint32_t n_stop_ids;
    bool ignore_eos;
    bool stream, include_usage, usage_always;
    bool draft, background, cache_prompt;
    bool return_ids, return_prompt_ids;
    uint32_t thinking_budget; // 0: none
    bool logprobs;
    uint32_t top_logprobs; // alternatives a token
    double timeout_s;       // 0: none
    const char *request_id; // NULL: none given
};

// What the operator set and the model has.
struct lf_params_limits {
    struct lf_sampling sampling; // defaults of absent fields (engine.md S-15)
    uint32_t n_max;              // most choices a request may ask for
    uint32_t vocab;
    bool completions; // /v1/completions: logprobs is a number, echo exists
};

// Strings and arrays of out live in the arena.
LF_CHECKED enum lf_status lf_params_read(struct lf_params *out, struct lf_arena *arena,
                                         const struct lf_fields *fields,
                                         const struct lf_params_limits *limits,
                                         struct lf_error *err);
