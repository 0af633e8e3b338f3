// Public prompts and the bodies of requests (bench.md section 1.1).
#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include "base/error.h"

struct lf_bench_prompt {
    const char *name;
    bool chat; // one user message with thinking off, else the text to /v1/completions
    const char *text;
};

enum { LF_BENCH_PROMPTS = 2, LF_BENCH_CHATS = 9 };
extern const struct lf_bench_prompt lf_bench_prompt[LF_BENCH_PROMPTS];
// Nine chats for the log-probabilities.
extern const struct lf_bench_prompt lf_bench_chat[LF_BENCH_CHATS];

struct lf_bench_ask {
    const char *model;
    const struct lf_bench_prompt *prompt; // one of these three
    json_t *ids;                          // borrowed: token ids to /v1/completions
    json_t *messages;                     // borrowed: a conversation
    uint64_t tokens, seed;
    double temperature;
    bool no_seed, no_filters, plain, no_cache, logprobs, whole; // whole: not streamed
};

const char *lf_ask_route(const struct lf_bench_ask *ask);
// The JSON body, freed by the caller; NULL when memory ran out.
char *lf_ask_body(const struct lf_bench_ask *ask);
// A conversation of one user message; NULL when memory ran out.
json_t *lf_ask_user(const char *text);
// Reads a JSON array of token ids; hex gets the file's SHA-256.
LF_CHECKED enum lf_status lf_ask_read_ids(json_t **ids, char hex[65], const char *path,
                                          struct lf_error *err);
