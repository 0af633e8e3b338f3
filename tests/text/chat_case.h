// Vector files and chats read through the house's own JSON, so that the wire text survives.
#pragma once
#include <stdlib.h>
#include "base/file.h"
#include "data.h"
#include "text/chat_json.h"

struct chat_file {
    struct lf_buffer text;
    struct lf_json_span json;
};

static inline struct chat_file chat_file_open(const char *name) {
    struct chat_file file = {0};
    struct lf_error err = LF_ERROR_INIT;
    char path[4096];
    path_under(path, "LF_SOURCE_ROOT", name);
    if (lf_file_read(&file.text, path, 64 << 20, &err) != LF_OK ||
        lf_json_check(&file.json, file.text.data, file.text.len, 128, &err) != LF_OK)
        fail_msg("%s: %s", path, err.text);
    return file;
}

// A chat read from a body's text, with the memory it lies in.
struct chat_case {
    struct lf_buffer body;
    struct lf_arena arena;
    struct lf_chat chat;
    struct lf_chat_extras extras;
};

static inline enum lf_status chat_case_read(struct chat_case *c,
                                            const struct lf_chat_defaults *defaults,
                                            struct lf_error *err) {
    struct lf_json_span body;
    LF_TRY(lf_json_check(&body, c->body.data, c->body.len, 128, err));
    return lf_chat_from_json(&c->chat, &c->extras, &c->arena, body, defaults, err);
}

static inline void chat_case_free(struct chat_case *c) {
    lf_buffer_free(&c->body);
    lf_arena_free(&c->arena);
}

static inline void add_member(struct lf_buffer *out, const char *name, struct lf_json_span value) {
    if (!value.text)
        return;
    lf_buffer_printf(out, "%s\"%s\":", out->len > 1 ? "," : "", name);
    lf_buffer_add(out, value.text, value.len);
}

// The body that asks for a vector case; its schema and its messages' own tools are added after.
static inline void chat_case_body(struct lf_buffer *out, struct lf_json_span one) {
    struct lf_json_span options = lf_json_member(one, "options");
    struct lf_json_span raw = lf_json_member(one, "tools_raw");
    lf_buffer_add_text(out, "{");
    add_member(out, "messages", lf_json_member(one, "messages"));
    if (raw.text) {
        lf_buffer_add_text(out, ",\"tools\":");
        assert_true(lf_json_string(out, raw));
    } else {
        add_member(out, "tools", lf_json_member(one, "tools"));
    }
    add_member(out, "thinking", lf_json_member(options, "thinking"));
    static const char *const same[] = {"reasoning_effort", "add_generation_prompt",
                                       "continue_final_message"};
    for (size_t i = 0; i < sizeof same / sizeof *same; i++)
        add_member(out, same[i], lf_json_member(options, same[i]));
    struct lf_json_span drop = lf_json_member(options, "drop_thinking");
    if (drop.text)
        lf_buffer_printf(out, ",\"chat_template_kwargs\":{\"drop_thinking\":%.*s}", (int)drop.len,
                         drop.text);
    lf_buffer_add_text(out, "}");
}

static inline void chat_case_own_tools(struct chat_case *c, struct lf_json_span messages) {
    struct lf_json_span key, message, tool;
    struct lf_json_walk walk = lf_json_walk_open(messages);
    for (size_t i = 0; lf_json_walk_next(&walk, &key, &message); i++) {
        struct lf_json_span tools = lf_json_member(message, "tools");
        struct lf_json_walk inner = lf_json_walk_open(tools);
        struct lf_message *own = &c->chat.message[i];
        own->tool = lf_arena_alloc(&c->arena, lf_json_count(tools), sizeof *own->tool);
        while (lf_json_walk_next(&inner, &key, &tool))
            own->tool[own->n_tools++] = tool;
    }
}

static inline struct chat_case chat_case_open(struct lf_json_span one) {
    struct chat_case c = {0};
    struct lf_error err = LF_ERROR_INIT;
    struct lf_chat_defaults defaults = LF_CHAT_SERVER_DEFAULTS;
    defaults.tasks = true;
    chat_case_body(&c.body, one);
    if (chat_case_read(&c, &defaults, &err) != LF_OK)
        fail_msg("%s: %s", c.body.data, err.text);
    chat_case_own_tools(&c, lf_json_member(one, "messages"));
    struct lf_json_span schema =
        lf_json_member(lf_json_member(one, "options"), "response_format");
    if (lf_json_type(schema) == LF_JSON_OBJECT)
        c.chat.response_schema = schema;
    return c;
}

static inline struct lf_prompt render(const struct lf_chat *chat) {
    struct lf_prompt prompt;
    struct lf_error err = LF_ERROR_INIT;
    if (lf_prompt_render(&prompt, chat, &err) != LF_OK)
        fail_msg("%s: %s", err.param, err.text);
    return prompt;
}

static inline struct lf_ids encode_prompt(const struct lf_prompt *prompt,
                                          const struct lf_tokenizer *t,
                                          const struct lf_controls *controls) {
    struct lf_ids ids = {0};
    struct lf_error err = LF_ERROR_INIT;
    if (lf_prompt_encode(prompt, t, controls, &ids, &err) != LF_OK)
        fail_msg("%s", err.text);
    return ids;
}
