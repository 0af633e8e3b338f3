// A conversation and its encoding to segments and ids (prompts.md 2-10).
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/arena.h"
#include "base/buffer.h"
#include "base/error.h"
#include "lanefold.h"
#include "text/json_text.h"
#include "text/tokenizer.h"

enum lf_role { LF_ROLE_SYSTEM, LF_ROLE_USER, LF_ROLE_ASSISTANT, LF_ROLE_TOOL, LF_ROLE_REMINDER };

enum lf_part_kind { LF_PART_TEXT, LF_PART_IMAGE };

struct lf_part {
    enum lf_part_kind kind;
    const char *text; // LF_PART_TEXT: characters; LF_PART_IMAGE: the source (URL or data)
    size_t len;
};

struct lf_tool_call {
    const char *id;        // "" when absent
    const char *name;      // as the client declared it
    const char *space;     // namespace, "" when none
    struct lf_json_span arguments; // a JSON string or any other JSON value as received
};

struct lf_message {
    enum lf_role role;
    struct lf_part *part;
    size_t n_parts;
    const char *reasoning; // assistant; "" when absent
    size_t reasoning_len;
    struct lf_tool_call *call; // assistant
    size_t n_calls;
    const char *call_id; // tool; "" when absent
    struct lf_json_span *tool; // tools the message itself carries (test vectors)
    size_t n_tools;
    struct lf_json_span response_format; // schema this message carries
    const char *task;                    // "" when none
    bool prefix;                         // assistant: continue this message
};

struct lf_chat {
    struct lf_message *message;
    size_t n_messages;
    struct lf_json_span *tool; // as received: wrapper or bare function object
    size_t n_tools;            // 0 also when tool_choice is none
    struct lf_json_span response_schema; // json_schema's schema object, or absent
    bool thinking;
    int effort; // 1 .. 100
    bool drop_thinking;
    bool add_generation_prompt;
    bool continue_final;
};

#define LF_CHAT_DEFAULTS                                                                           \
    {.thinking = true, .effort = 75, .drop_thinking = true, .add_generation_prompt = true}

// The control tokens of prompts.md 1, resolved at load; a missing one stops the start.
enum lf_control {
    LF_CONTROL_BOS, LF_CONTROL_EOS, LF_CONTROL_SYSTEM, LF_CONTROL_USER, LF_CONTROL_ASSISTANT,
    LF_CONTROL_THINK, LF_CONTROL_THINK_END, LF_CONTROL_DSML, LF_CONTROL_REMINDER, LF_CONTROL_IMAGE,
    LF_CONTROL_ACTION, LF_CONTROL_QUERY, LF_CONTROL_AUTHORITY, LF_CONTROL_DOMAIN, LF_CONTROL_TITLE,
    LF_CONTROL_READ_URL, LF_CONTROLS
};

struct lf_controls {
    int64_t id[LF_CONTROLS]; // -1: the tokenizer lacks it (allowed for task tokens only)
};
// The ids are the configuration's (image_id UINT32_MAX: it has none); a difference is refused.
LF_CHECKED enum lf_status lf_controls_find(struct lf_controls *out,
                                           const struct lf_tokenizer *tokenizer, uint32_t eos_id,
                                           uint32_t image_id, struct lf_error *err);
const char *lf_control_text(enum lf_control control);

struct lf_segment {
    bool control;
    enum lf_control id; // control
    const char *text;   // text, joined with its neighbours
    size_t len;
};

struct lf_prompt {
    struct lf_segment *segment;
    size_t n_segments;
    const struct lf_part **image; // image parts in prompt order
    size_t n_images;
    bool tools;         // tools were rendered: the reply parser looks for calls
    bool in_reasoning;  // the reply starts inside reasoning
    struct lf_arena arena;
};

// Normalizes and renders; errors carry param (messages[i].role ...). The chat is not changed.
LF_CHECKED enum lf_status lf_prompt_render(struct lf_prompt *out, const struct lf_chat *chat,
                                           struct lf_error *err);
void lf_prompt_free(struct lf_prompt *prompt);
// Appends the prompt's ids: control segments by id, text with added-token matching off.
LF_CHECKED enum lf_status lf_prompt_encode(const struct lf_prompt *prompt,
                                           const struct lf_tokenizer *tokenizer,
                                           const struct lf_controls *controls, struct lf_ids *out,
                                           struct lf_error *err);
// Marks where the request's prompt parts: control ids come from the template, never from a message.
void lf_request_mark(struct lf_request *request, const struct lf_controls *controls);
// The display form: segments as one string.
void lf_prompt_print(struct lf_buffer *out, const struct lf_prompt *prompt);
// low, high, max, aliases and integers (prompts.md 3); *thinking_off for none, then *out stays.
LF_CHECKED enum lf_status lf_effort_parse(int *out, bool *thinking_off, const char *name,
                                          struct lf_error *err);
