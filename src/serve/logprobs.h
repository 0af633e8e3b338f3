// Log-probabilities of a reply: the engine's rows joined to shown text, and their JSON (api.md 8).
#pragma once
#include <stddef.h>
#include <stdint.h>
#include "base/buffer.h"
#include "lanefold.h"
#include "text/reply.h"
#include "text/tokenizer.h"

// One token with shown text.
struct lf_entry {
    uint32_t id;
    uint32_t offset; // characters of content before it; content only
    struct lf_logprob_row row;
};

// Tokens wait here for the events that hold their text, and events for their tokens' rows.
struct lf_entry_queue {
    struct lf_buffer row;      // entries of ids by index, from the first one not passed on
    uint32_t first, n_heard;   // index of that id; ids heard in all
    struct lf_buffer due;      // tokens of events, in order
    uint32_t characters;       // of content so far
};
void lf_entry_queue_free(struct lf_entry_queue *queue);
// rows NULL: their values are unknown.
void lf_entry_queue_hear(struct lf_entry_queue *queue, const uint32_t *id, uint32_t n,
                         const struct lf_logprob_row *rows);
void lf_entry_queue_event(struct lf_entry_queue *queue, const struct lf_reply_event *event);
// Appends an entry for every token of the events so far; all their ids were heard.
void lf_entry_queue_pass(struct lf_entry_queue *queue, struct lf_buffer *out);

// {"content":[...],"reasoning_content":[...],"refusal":null}
void lf_entries_print_chat(const struct lf_tokenizer *tokenizer, const struct lf_entry *reasoning,
                           size_t n_reasoning, const struct lf_entry *content, size_t n_content,
                           struct lf_buffer *out);
// {"tokens":[...],"token_logprobs":[...],"top_logprobs":[{...}],"text_offset":[...]}
void lf_entries_print_legacy(const struct lf_tokenizer *tokenizer, const struct lf_entry *entry,
                             size_t n, struct lf_buffer *out);
