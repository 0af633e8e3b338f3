#include "trial.h"

#include <stdlib.h>
#include <string.h>
#include "text/chat.h"

static const char *text_of(struct lf_trial *t, const json_t *object, const char *key) {
    const char *text = json_string_value(json_object_get(object, key));
    char *copy = lf_arena_copy(&t->g->arena, text ? text : "", text ? strlen(text) : 0);
    if (!copy)
        lf_golden_die("out of memory for a message");
    return copy;
}

static struct lf_json_span span_of(struct lf_trial *t, const json_t *value) {
    char *text = json_dumps(value, JSON_ENCODE_ANY);
    char *copy = text ? lf_arena_copy(&t->g->arena, text, strlen(text)) : NULL;
    if (!copy)
        lf_golden_die("out of memory for JSON");
    struct lf_json_span span = {.text = copy, .len = strlen(copy)};
    free(text);
    return span;
}

static void *zeroed(struct lf_trial *t, size_t n, size_t bytes) {
    void *memory = lf_arena_alloc(&t->g->arena, n + 1, bytes);
    if (!memory)
        lf_golden_die("out of memory for a message");
    return memory;
}

static enum lf_role role_of(const char *name) {
    static const char *const names[] = {"system", "user", "assistant", "tool"};
    for (int i = 0; i < 4; i++)
        if (!strcmp(name, names[i]))
            return (enum lf_role)i;
    lf_golden_die("a message of role %s", name);
}

static struct lf_message message_of(struct lf_trial *t, const json_t *from) {
    struct lf_message m = {.role = role_of(text_of(t, from, "role")), .n_parts = 1, .task = ""};
    const json_t *calls = json_object_get(from, "tool_calls"), *call;
    size_t i;
    m.part = zeroed(t, 1, sizeof *m.part);
    m.part->text = text_of(t, from, "content");
    m.part->len = strlen(m.part->text);
    m.reasoning = text_of(t, from, "reasoning_content");
    m.reasoning_len = strlen(m.reasoning);
    m.call_id = text_of(t, from, "tool_call_id");
    m.n_calls = json_array_size(calls);
    m.call = zeroed(t, m.n_calls, sizeof *m.call);
    json_array_foreach(calls, i, call) {
        const json_t *function = json_object_get(call, "function");
        m.call[i] = (struct lf_tool_call){
            .id = text_of(t, call, "id"), .name = text_of(t, function, "name"), .space = "",
            .arguments = span_of(t, json_object_get(function, "arguments"))};
    }
    return m;
}

// The request of a chat prompt to ids.
static void encode_chat(struct lf_trial *t, struct lf_ids *ids) {
    struct lf_error err = LF_ERROR_INIT;
    struct lf_chat chat = LF_CHAT_DEFAULTS;
    struct lf_prompt prompt = {0};
    struct lf_controls controls;
    const json_t *messages = json_object_get(t->g->json, "messages"), *value;
    const json_t *tools = json_object_get(t->g->json, "tools");
    size_t i;
    chat.n_messages = json_array_size(messages);
    chat.message = zeroed(t, chat.n_messages, sizeof *chat.message);
    json_array_foreach(messages, i, value)
        chat.message[i] = message_of(t, value);
    chat.n_tools = json_array_size(tools);
    chat.tool = zeroed(t, chat.n_tools, sizeof *chat.tool);
    json_array_foreach(tools, i, value)
        chat.tool[i] = span_of(t, value);
    chat.thinking = json_is_true(json_object_get(t->g->json, "thinking"));
    if (lf_controls_find(&controls, t->demo->tokenizer, t->m->t->eos_id, t->m->t->image_id,
                         &err) != LF_OK ||
        lf_prompt_render(&prompt, &chat, &err) != LF_OK ||
        lf_prompt_encode(&prompt, t->demo->tokenizer, &controls, ids, &err) != LF_OK)
        lf_golden_die("%s: %s", t->g->name, err.text);
    lf_prompt_free(&prompt);
}

void lf_trial_prompt(struct lf_trial *t) {
    struct lf_error err = LF_ERROR_INIT;
    struct lf_ids ids = {0};
    size_t n;
    const uint32_t *want = lf_golden_ints(t->g, "prompt_ids", &n);
    const char *text = json_string_value(json_object_get(t->g->json, "text"));
    if (text) {
        lf_ids_add(&ids, t->m->t->bos_id);
        if (lf_tokenizer_encode(t->demo->tokenizer, text, strlen(text), false, &ids, &err) != LF_OK)
            lf_golden_die("%s: %s", t->g->name, err.text);
    } else
        encode_chat(t, &ids);
    bool equal = ids.len == n && n == t->g->rows && !memcmp(ids.id, want, n * sizeof *want);
    lf_report_check(t->report, equal, "%s request to prompt_ids: %zu ids, %zu wanted", t->g->name,
                    ids.len, n);
    lf_ids_free(&ids);
}
