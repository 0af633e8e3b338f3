// POST /v1/chat/completions (api.md 6): its fields, and the wording of its replies.
#include <stdio.h>
#include <string.h>
#include "serve/generate.h"
#include "serve/router.h"
#include "serve/state.h"
#include "text/chat_json.h"

static void print_reasoning(struct lf_generation *g, const char *text, size_t len,
                            struct lf_buffer *out) {
    enum lf_reasoning_field field = g->x->server->options.reasoning_field;
    if (field != LF_REASONING_PLAIN) {
        lf_buffer_add_text(out, "\"reasoning_content\":");
        lf_json_print_string(out, text, len);
    }
    if (field == LF_REASONING_BOTH)
        lf_buffer_add_text(out, ",");
    if (field != LF_REASONING_CONTENT) {
        lf_buffer_add_text(out, "\"reasoning\":");
        lf_json_print_string(out, text, len);
    }
}

// Whether list has space::name, or name alone where there is no space.
static bool listed(const struct lf_names *list, const char *space, const char *name,
                   size_t name_len) {
    size_t space_len = strlen(space), before = space_len ? space_len + 2 : 0;
    for (size_t i = 0; i < list->n; i++) {
        const char *whole = list->name[i];
        if (strlen(whole) == before + name_len && !memcmp(whole, space, space_len) &&
            !memcmp(whole + before, name, name_len))
            return true;
    }
    return false;
}

// "id":..., to the call's text: a function's arguments or a custom tool's input.
static void print_call_head(struct lf_generation *g, const char *space, const char *name,
                            size_t name_len, bool custom, struct lf_buffer *out) {
    char id[40];
    const char *kind = custom ? "custom" : "function";
    lf_id_make(id, sizeof id, "call_");
    lf_buffer_printf(out, "\"id\":\"%s\",\"type\":\"%s\",", id, kind);
    if (*space) {
        lf_buffer_add_text(out, "\"namespace\":");
        lf_json_print_string(out, space, strlen(space));
        lf_buffer_add_text(out, ",");
    }
    lf_buffer_printf(out, "\"%s\":{\"name\":\"", kind);
    // The name stands as the client declared it: some declare namespace::name (prompts.md 7).
    if (*space && listed(&g->qualified, space, name, name_len)) {
        lf_json_print_escaped(out, space, strlen(space));
        lf_buffer_add_text(out, "::");
    }
    lf_json_print_escaped(out, name, name_len);
    lf_buffer_printf(out, "\",\"%s\":", custom ? "input" : "arguments");
}

static const char *text_of(const struct lf_buffer *buffer) {
    return buffer->data ? buffer->data : "";
}

// The text of a custom call: its one parameter; a damaged call gives what was generated.
static void print_input(const struct lf_buffer *arguments, struct lf_buffer *out) {
    struct lf_error err = LF_ERROR_INIT;
    struct lf_json_span whole, input = {0};
    if (lf_json_check(&whole, text_of(arguments), arguments->len, 8, &err) == LF_OK)
        input = lf_json_member(whole, "input");
    if (lf_json_type(input) == LF_JSON_STRING)
        lf_buffer_add(out, input.text, input.len);
    else
        lf_json_print_string(out, text_of(arguments), arguments->len);
}

static void print_call(struct lf_generation *g, const struct lf_folded_call *call,
                       struct lf_buffer *out) {
    const char *space = text_of(&call->space), *name = text_of(&call->name);
    bool custom = listed(&g->custom, space, name, call->name.len);
    print_call_head(g, space, name, call->name.len, custom, out);
    if (custom)
        print_input(&call->arguments, out);
    else
        lf_json_print_string(out, text_of(&call->arguments), call->arguments.len);
    lf_buffer_add_text(out, "}}");
}

static void print_message(struct lf_generation *g, const struct lf_folded *folded,
                          struct lf_buffer *out) {
    bool none = !folded->content.len && (folded->n_calls || g->heard.in_reasoning);
    lf_buffer_add_text(out, "\"message\":{\"role\":\"assistant\",\"content\":");
    if (none)
        lf_buffer_add_text(out, "null");
    else
        lf_json_print_string(out, text_of(&folded->content), folded->content.len);
    if (folded->reasoning.len && g->include_reasoning) {
        lf_buffer_add_text(out, ",");
        print_reasoning(g, folded->reasoning.data, folded->reasoning.len, out);
    }
    lf_buffer_add_text(out, ",\"refusal\":null");
    for (size_t i = 0; i < folded->n_calls; i++) {
        lf_buffer_add_text(out, i ? ",{" : ",\"tool_calls\":[{");
        print_call(g, &folded->call[i], out);
    }
    lf_buffer_add_text(out, folded->n_calls ? "]}" : "}");
}

static bool print_call_delta(struct lf_generation *g, const struct lf_reply_event *event,
                             struct lf_buffer *out) {
    bool opens = event->kind == LF_REPLY_CALL_OPEN, closes = event->kind == LF_REPLY_CALL_CLOSE;
    if (opens) {
        g->custom_open = listed(&g->custom, event->space, event->text, event->len);
        lf_buffer_clear(&g->custom_text);
    }
    // A custom tool's input is unwrapped from its JSON, which must be whole first.
    if (!opens && g->custom_open && !closes)
        lf_buffer_add(&g->custom_text, event->text, event->len);
    if (!opens && (g->custom_open ? !closes : closes || !event->len))
        return false;
    lf_buffer_printf(out, "\"tool_calls\":[{\"index\":%u,", event->index);
    if (opens) {
        print_call_head(g, event->space, event->text, event->len, g->custom_open, out);
        lf_buffer_add_text(out, "\"\"}}]");
        return true;
    }
    lf_buffer_add_text(out, closes ? "\"custom\":{\"input\":" : "\"function\":{\"arguments\":");
    if (closes)
        print_input(&g->custom_text, out);
    else
        lf_json_print_string(out, event->text, event->len);
    lf_buffer_add_text(out, "}}]");
    return true;
}

static bool print_delta(struct lf_generation *g, const struct lf_reply_event *event,
                        struct lf_buffer *out) {
    switch (event->kind) {
    case LF_REPLY_REASONING:
        if (!event->len || !g->include_reasoning)
            return false;
        print_reasoning(g, event->text, event->len, out);
        return true;
    case LF_REPLY_CONTENT:
        lf_buffer_add_text(out, "\"content\":");
        lf_json_print_string(out, event->text, event->len);
        return event->len;
    default:
        return print_call_delta(g, event, out);
    }
}

static void print_logprobs(struct lf_generation *g, const struct lf_entry *entry,
                           size_t n_reasoning, size_t n_content, struct lf_buffer *out) {
    const struct lf_entry *content = n_content ? entry + n_reasoning : NULL;
    lf_entries_print_chat(g->x->server->tokenizer, entry, g->include_reasoning ? n_reasoning : 0,
                          content, n_content, out);
}

static const struct lf_voice chat_voice = {
    .id_prefix = "chatcmpl-",
    .object = "chat.completion",
    .chunk = "chat.completion.chunk",
    .prompt_field = "messages",
    .message = print_message,
    .delta = print_delta,
    .logprobs = print_logprobs,
    .first = "\"role\":\"assistant\",\"content\":\"\"",
    .last = "",
    .wraps = true,
};

static bool ends_in(const char *text, const char *tail) {
    size_t len = strlen(text), tail_len = strlen(tail);
    return len >= tail_len && !strcmp(text + len - tail_len, tail);
}

// A configured alias may choose the mode by its ending (prompts.md 3); -1: it says nothing.
static int alias_thinking(const struct lf_server_options *options, const char *model) {
    for (size_t i = 0; model && i < options->n_aliases; i++) {
        if (strcmp(model, options->alias[i]))
            continue;
        if (ends_in(model, "-chat") || ends_in(model, "-nothink"))
            return 0;
        if (ends_in(model, "-reasoner") || ends_in(model, "-think"))
            return 1;
    }
    return -1;
}

// A schema binds the reply only through a grammar, which this engine does not have (api.md 9).
static enum lf_status check_schema(const struct lf_fields *fields, struct lf_error *err) {
    struct lf_json_span format = lf_fields_get(fields, "response_format");
    struct lf_json_span schema = lf_json_member(lf_json_member(format, "json_schema"), "schema");
    bool wanted = lf_json_string_is(lf_json_member(format, "type"), "json_schema");
    if (wanted && lf_json_type(schema) == LF_JSON_OBJECT)
        return lf_fail_param(err, LF_E_FIELD, "response_format",
                             "response_format json_schema is not supported by this server");
    return LF_OK;
}

static enum lf_status keep_list(struct lf_generation *g, struct lf_names *out,
                                const char *const *name, size_t n, struct lf_error *err) {
    struct lf_arena *arena = &g->x->arena;
    out->name = lf_arena_alloc(arena, n + 1, sizeof *out->name);
    for (size_t i = 0; out->name && i < n; i++) {
        out->name[i] = lf_arena_copy(arena, name[i], strlen(name[i]));
        if (!out->name[i])
            out->name = NULL;
    }
    out->n = n;
    return out->name ? LF_OK : lf_fail(err, LF_E_MEM, "no memory for %zu tools", n);
}

// Copies the names that replies need: the body they stand in is freed before the reply is worded.
static enum lf_status keep_names(struct lf_generation *g, const struct lf_chat *chat,
                                 const struct lf_chat_extras *extras, struct lf_error *err) {
    struct lf_arena *arena = &g->x->arena;
    LF_TRY(keep_list(g, &g->dropped, extras->dropped, extras->n_dropped, err));
    LF_TRY(keep_list(g, &g->custom, extras->custom, extras->n_customs, err));
    g->qualified.name = lf_arena_alloc(arena, chat->n_tools + 1, sizeof *g->qualified.name);
    if (!g->qualified.name)
        return lf_fail(err, LF_E_MEM, "no memory for %zu tools", chat->n_tools);
    for (size_t i = 0; i < chat->n_tools; i++) {
        struct lf_json_span function = lf_json_member(chat->tool[i], "function");
        struct lf_json_span holder = function.text ? function : chat->tool[i];
        struct lf_json_span name = lf_json_member(holder, "name");
        const char *text = "";
        size_t len;
        if (lf_json_type(name) == LF_JSON_STRING)
            LF_TRY(lf_json_text(name, "tools", arena, &text, &len, err));
        if (strstr(text, "::"))
            g->qualified.name[g->qualified.n++] = text;
    }
    return LF_OK;
}

// The first image part names itself: prompts.md 10 without a tower.
static enum lf_status refuse_images(const struct lf_chat *chat, struct lf_error *err) {
    for (size_t i = 0; i < chat->n_messages; i++)
        for (size_t j = 0; j < chat->message[i].n_parts; j++) {
            char place[64];
            if (chat->message[i].part[j].kind != LF_PART_IMAGE)
                continue;
            snprintf(place, sizeof place, "messages[%zu].content[%zu]", i, j);
            return lf_fail_param(err, LF_E_UNSUPPORTED, place, "this server runs without images");
        }
    return LF_OK;
}

static enum lf_status render(struct lf_generation *g, const struct lf_chat *chat,
                             struct lf_error *err) {
    struct lf_server *server = g->x->server;
    struct lf_prompt prompt = {0};
    enum lf_status status = lf_prompt_render(&prompt, chat, err);
    if (status == LF_OK)
        status = refuse_images(chat, err);
    if (status == LF_OK)
        status = lf_prompt_encode(&prompt, server->tokenizer, server->controls, &g->prompt, err);
    g->thinking = chat->thinking;
    g->tools = prompt.tools;
    g->in_reasoning = prompt.in_reasoning;
    lf_prompt_free(&prompt);
    return status;
}

enum lf_status lf_chat_handle(struct lf_exchange *x, struct lf_error *err) {
    const struct lf_server_options *options = &x->server->options;
    struct lf_generation *g;
    struct lf_fields fields;
    struct lf_json_span body;
    LF_TRY(lf_body_read(x, &fields, &body, err));
    LF_TRY(lf_generation_new(&g, x, &chat_voice, err));
    LF_TRY(lf_generation_params(g, &fields, false, err));
    LF_TRY(lf_field_bool(&fields, "include_reasoning", &g->include_reasoning, err));
    LF_TRY(check_schema(&fields, err));
    struct lf_chat chat = LF_CHAT_DEFAULTS;
    struct lf_chat_extras extras = {.parallel_calls = true};
    struct lf_chat_defaults defaults = {.thinking = options->thinking,
                                        .effort = options->effort,
                                        .alias_thinking = alias_thinking(options, g->params.model),
                                        .strict_tools = options->strict_tools};
    LF_TRY(lf_chat_from_json(&chat, &extras, &x->arena, body, &defaults, err));
    g->parallel_calls = extras.parallel_calls;
    LF_TRY(keep_names(g, &chat, &extras, err));
    LF_TRY(render(g, &chat, err));
    return lf_generation_start(g, err);
}
