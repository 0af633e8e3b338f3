// What the reply parser said, kept in order until the HTTP thread words it.
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include "base/arena.h"
#include "base/buffer.h"
#include "text/reply.h"

// Appends one event; texts are copied, of its tokens only their number.
void lf_pieces_add(struct lf_buffer *pieces, const struct lf_reply_event *event);
// Reads the event at *at and moves on; text and space point into pieces. False at the end.
bool lf_pieces_next(const struct lf_buffer *pieces, size_t *at, struct lf_reply_event *event);
// The same with texts of one kind that follow each other joined in scratch.
bool lf_pieces_next_joined(const struct lf_buffer *pieces, size_t *at, struct lf_buffer *scratch,
                           struct lf_reply_event *event);

// A reply as the fold of its events (prompts.md 12).
struct lf_folded_call {
    struct lf_buffer name, space, arguments;
};
struct lf_folded {
    struct lf_buffer reasoning, content;
    size_t reasoning_tokens, content_tokens; // with text in them
    struct lf_folded_call *call;
    size_t n_calls;
    bool failed; // memory ran out
};
void lf_folded_add(struct lf_folded *out, const struct lf_buffer *pieces);
void lf_folded_free(struct lf_folded *folded);
