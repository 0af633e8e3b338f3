// The incremental reply parser: ids to reasoning, content and tool calls (prompts.md 11-12).
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/error.h"
#include "text/chat.h"

enum lf_reply_event_kind {
    LF_REPLY_REASONING, // text
    LF_REPLY_CONTENT,   // text
    LF_REPLY_CALL_OPEN, // index, name, space
    LF_REPLY_ARGUMENTS, // index, text
    LF_REPLY_CALL_CLOSE, // index, complete
};

// A token with text in an event; it stands in the first event that holds any of its text.
struct lf_reply_token {
    uint32_t index; // of the ids pushed and skipped so far
    size_t at;      // where its first byte is in the event's text
};

struct lf_reply_event {
    enum lf_reply_event_kind kind;
    uint32_t index;
    const char *text; // text of the event, or the call's name
    size_t len;
    const char *space; // call-open: namespace, "" when none
    bool complete;     // call-close: false when the reply was cut inside the call
    const struct lf_reply_token *token; // reasoning and content: by ascending index
    size_t n_tokens;
};

// Called in generation order; must not call back into the parser.
typedef void lf_reply_sink(void *ctx, const struct lf_reply_event *event);

struct lf_reply_options {
    bool tools;         // the prompt rendered tools
    bool in_reasoning;  // the reply starts inside reasoning
    bool parallel_calls; // false: calls after the first are dropped
    bool stop_in_reasoning;
    bool include_stop; // a matched stop string stays in the text
    const char *const *stop; // stop strings, matched in content only
    size_t n_stops;
};

struct lf_reply;
LF_CHECKED enum lf_status lf_reply_open(struct lf_reply **out, const struct lf_tokenizer *tokenizer,
                                        const struct lf_controls *controls,
                                        const struct lf_reply_options *options, lf_reply_sink *sink,
                                        void *ctx, struct lf_error *err);
void lf_reply_close(struct lf_reply *reply); // NULL is allowed
// Feeds one id, end token included; gives the number of the stop string it completed, or -1.
int lf_reply_push(struct lf_reply *reply, uint32_t id);
// Counts an id that has no text.
void lf_reply_skip(struct lf_reply *reply);
// Flushes what was held back. length: the reply was cut by the limit.
void lf_reply_end(struct lf_reply *reply, bool length);
int lf_reply_stopped(const struct lf_reply *reply); // the stop string that ended it, or -1
bool lf_reply_failed(const struct lf_reply *reply); // memory ran out: the events are not whole
bool lf_reply_in_reasoning(const struct lf_reply *reply);
uint32_t lf_reply_calls(const struct lf_reply *reply);            // calls opened so far
uint32_t lf_reply_reasoning_tokens(const struct lf_reply *reply); // through the closing </think>
