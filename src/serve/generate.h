// One reply being made: from a checked request through the engine to the bytes of its route.
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/buffer.h"
#include "lanefold.h"
#include "serve/exchange.h"
#include "serve/logprobs.h"
#include "serve/params.h"
#include "serve/pieces.h"
#include "serve/thinking.h"

struct lf_generation;

// How a route words its replies; called on the HTTP thread.
struct lf_voice {
    const char *id_prefix;      // "chatcmpl-"
    const char *object, *chunk; // "chat.completion", "chat.completion.chunk"
    const char *prompt_field;   // whose prompt does not fit: "messages"
    // Appends the choice's message of a whole reply.
    void (*message)(struct lf_generation *g, const struct lf_folded *folded, struct lf_buffer *out);
    // Appends the delta of one event; false: the event has none.
    bool (*delta)(struct lf_generation *g, const struct lf_reply_event *event,
                  struct lf_buffer *out);
    // Appends the log-probabilities of tokens of reasoning, then of content.
    void (*logprobs)(struct lf_generation *g, const struct lf_entry *entry, size_t n_reasoning,
                     size_t n_content, struct lf_buffer *out);
    const char *first; // the delta of the first chunk, NULL: none
    const char *last;  // the delta of the end chunk
    bool wraps;        // deltas go under "delta"; otherwise they stand in the choice itself
};

// What the engine has said so far; written by its thread, under the exchange's lock.
struct lf_heard {
    struct lf_buffer pieces, entries; // entries: of the pieces' tokens, where they are wanted
    bool admitted, done;
    bool in_reasoning; // at the end: never closed
    uint32_t completion_tokens, reasoning_tokens, cached_tokens, calls;
    enum lf_done why;
    struct lf_stats stats;
    char message[512];
};

struct lf_names {
    const char **name;
    size_t n;
};

struct lf_generation {
    struct lf_exchange *x;
    const struct lf_voice *voice;
    struct lf_params params;
    struct lf_ids prompt;
    bool thinking, tools, in_reasoning, parallel_calls, include_reasoning;
    bool plain;               // no reasoning or calls: text only
    struct lf_names qualified; // names the client declared as namespace::name
    struct lf_names custom;    // tools whose calls carry free text
    struct lf_names dropped;   // types of hosted tools left out of the prompt
    uint32_t limit; // of the reply
    bool limit_given; // the client named it and it may not be cut
    uint64_t seed;
    char reply_id[48];
    int64_t created_s;

    // The engine's thread.
    struct lf_reply *reply;
    struct lf_thinking think;
    struct lf_ids ids; // the HTTP thread reads them once done
    struct lf_buffer early; // pieces of ids whose rows have not come yet
    struct lf_entry_queue queue;

    struct lf_heard heard;

    // The HTTP thread.
    struct lf_buffer taken, entries, scratch, json, logprobs;
    size_t entry_at; // of the next piece's first token
    bool opened, begun;
    bool custom_open; // the call being streamed is a custom tool's
    struct lf_buffer custom_text;
    uint32_t completion_now, reasoning_now, cached_now;
};

// Reads and checks the body as one JSON object.
LF_CHECKED enum lf_status lf_body_read(struct lf_exchange *x, struct lf_fields *out,
                                       struct lf_json_span *body, struct lf_error *err);
// Made for x and freed with it.
LF_CHECKED enum lf_status lf_generation_new(struct lf_generation **out, struct lf_exchange *x,
                                            const struct lf_voice *voice, struct lf_error *err);
// Reads section 5's fields and checks the model's name.
LF_CHECKED enum lf_status lf_generation_params(struct lf_generation *g,
                                               const struct lf_fields *fields, bool completions,
                                               struct lf_error *err);
// Checks the context, opens the parser and submits; from here the engine may call back.
LF_CHECKED enum lf_status lf_generation_start(struct lf_generation *g, struct lf_error *err);
// HTTP thread: words what came since the last call into the exchange's reply or stream.
void lf_generation_pull(struct lf_generation *g);
void lf_generation_free(struct lf_generation *g); // NULL is allowed

// The watcher, under the exchange's lock.
size_t lf_generation_unread_bytes(const struct lf_generation *g);
bool lf_generation_keeps_alive(const struct lf_generation *g);
// Once it is over: seconds in the engine, and its part of the log line.
double lf_generation_seconds(const struct lf_generation *g);
void lf_generation_describe(const struct lf_generation *g, char *out, size_t room);

// usage.c
const char *lf_finish_reason(const struct lf_generation *g);
void lf_usage_print(const struct lf_generation *g, struct lf_buffer *out);
// ,"lanefold":{...} or nothing.
void lf_extras_print(const struct lf_generation *g, struct lf_buffer *out);
void lf_id_make(char *out, size_t room, const char *prefix); // prefix + 24 random hex digits
