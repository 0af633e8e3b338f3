#include "text/chat_json_parts.h"

#include <string.h>
#include "text/prompt_parts.h"

// The characters of a string: in the body itself when nothing is escaped, else in the arena.
static enum lf_status read_text(struct lf_chat_reader *reader, struct lf_json_span value,
                                const char *place, const char **text, size_t *len) {
    if (lf_json_type(value) != LF_JSON_STRING)
        return lf_chat_wrong_type(reader->err, place, "a string", value);
    if (!memchr(value.text, '\\', value.len)) {
        *text = value.text + 1;
        *len = value.len - 2;
        return LF_OK;
    }
    struct lf_buffer plain = {0};
    lf_json_string(&plain, value);
    *text = plain.failed ? NULL : lf_arena_copy(reader->arena, plain.data, plain.len);
    *len = plain.len;
    lf_buffer_free(&plain);
    return *text ? LF_OK : lf_chat_no_memory(reader->err);
}

// An Anthropic source: a URL, or base64 data that is turned into a data URL.
static enum lf_status read_source(struct lf_chat_reader *reader, struct lf_json_span source,
                                  const char *place, struct lf_part *out) {
    static const char *const names[] = {"type", "url", "media_type", "data"};
    struct lf_json_span field[4];
    char param[LF_PLACE_MAX];
    if (lf_json_type(source) != LF_JSON_OBJECT)
        return lf_chat_wrong_type(reader->err, place, "an object", source);
    lf_json_members(source, names, 4, field);
    if (lf_json_string_is(field[0], "url")) {
        lf_place_set(param, "%s.url", place);
        if (!field[1].text)
            return lf_chat_missing(reader->err, param);
        return read_text(reader, field[1], param, &out->text, &out->len);
    }
    lf_place_set(param, "%s.type", place);
    if (!field[0].text)
        return lf_chat_missing(reader->err, param);
    if (!lf_json_string_is(field[0], "base64"))
        return lf_fail_param(reader->err, LF_E_VALUE, param, "%s must be base64 or url", param);
    lf_place_set(param, "%s.data", place);
    if (!field[3].text)
        return lf_chat_missing(reader->err, param);
    if (lf_json_type(field[3]) != LF_JSON_STRING)
        return lf_chat_wrong_type(reader->err, param, "a string", field[3]);
    struct lf_buffer url = {0};
    lf_buffer_add_text(&url, "data:");
    lf_json_string(&url, field[2]);
    lf_buffer_add_text(&url, ";base64,");
    lf_json_string(&url, field[3]);
    out->text = url.failed ? NULL : lf_arena_copy(reader->arena, url.data, url.len);
    out->len = url.len;
    lf_buffer_free(&url);
    return out->text ? LF_OK : lf_chat_no_memory(reader->err);
}

enum part_field { TYPE, TEXT, REFUSAL, IMAGE_URL, SOURCE, FILE_ID, PART_FIELDS };

static enum lf_status read_image(struct lf_chat_reader *reader, const struct lf_json_span *field,
                                 const char *place, struct lf_part *out) {
    char param[LF_PLACE_MAX];
    struct lf_json_span url = field[IMAGE_URL];
    out->kind = LF_PART_IMAGE;
    if (field[FILE_ID].text) {
        lf_place_set(param, "%s.file_id", place);
        return lf_fail_param(reader->err, LF_E_UNSUPPORTED, param,
                             "%s is not supported: there is no file store, send a data URL", param);
    }
    if (field[SOURCE].text && !url.text) {
        lf_place_set(param, "%s.source", place);
        return read_source(reader, field[SOURCE], param, out);
    }
    lf_place_set(param, "%s.image_url", place);
    if (!url.text)
        return lf_chat_missing(reader->err, param);
    if (lf_json_type(url) == LF_JSON_OBJECT) {
        lf_place_set(param, "%s.image_url.url", place);
        url = lf_json_member(url, "url");
        if (!url.text || lf_json_type(url) == LF_JSON_NULL)
            return lf_chat_missing(reader->err, param);
    }
    return read_text(reader, url, param, &out->text, &out->len);
}

static enum lf_status read_part(struct lf_chat_reader *reader, struct lf_json_span part,
                                const char *place, struct lf_part *out) {
    static const char *const names[PART_FIELDS] = {"type",      "text",   "refusal",
                                                   "image_url", "source", "file_id"};
    struct lf_json_span field[PART_FIELDS];
    char param[LF_PLACE_MAX];
    if (lf_json_type(part) != LF_JSON_OBJECT)
        return lf_chat_wrong_type(reader->err, place, "an object", part);
    lf_json_members(part, names, PART_FIELDS, field);
    lf_place_set(param, "%s.type", place);
    if (!field[TYPE].text)
        return lf_chat_missing(reader->err, param);
    if (lf_json_type(field[TYPE]) != LF_JSON_STRING)
        return lf_chat_wrong_type(reader->err, param, "a string", field[TYPE]);
    if (lf_json_string_is(field[TYPE], "image_url") ||
        lf_json_string_is(field[TYPE], "input_image") || lf_json_string_is(field[TYPE], "image"))
        return read_image(reader, field, place, out);
    bool refusal = lf_json_string_is(field[TYPE], "refusal") && field[REFUSAL].text;
    if (!lf_json_string_is(field[TYPE], "text") && !lf_json_string_is(field[TYPE], "refusal") &&
        !lf_json_string_is(field[TYPE], "input_text") &&
        !lf_json_string_is(field[TYPE], "output_text"))
        return lf_fail_param(reader->err, LF_E_VALUE, param,
                             "%s must be text, input_text, output_text, refusal, image_url, "
                             "input_image or image",
                             param);
    lf_place_set(param, "%s.%s", place, refusal ? "refusal" : "text");
    struct lf_json_span text = field[refusal ? REFUSAL : TEXT];
    return text.text ? read_text(reader, text, param, &out->text, &out->len)
                     : lf_chat_missing(reader->err, param);
}

static enum lf_status read_content(struct lf_chat_reader *reader, struct lf_json_span content,
                                   const char *place, struct lf_message *out) {
    enum lf_json_type type = lf_json_type(content);
    if (type != LF_JSON_ABSENT && type != LF_JSON_STRING && type != LF_JSON_ARRAY)
        return lf_chat_wrong_type(reader->err, place, "a string or an array of parts", content);
    out->n_parts = type == LF_JSON_ARRAY ? lf_json_count(content) : 1;
    out->part = lf_arena_alloc(reader->arena, out->n_parts, sizeof *out->part);
    if (!out->part)
        return lf_chat_no_memory(reader->err);
    if (type == LF_JSON_STRING)
        return read_text(reader, content, place, &out->part->text, &out->part->len);
    if (type == LF_JSON_ABSENT) {
        out->part->text = "";
        return LF_OK;
    }
    struct lf_json_span key, part;
    struct lf_json_walk walk = lf_json_walk_open(content);
    for (size_t i = 0; lf_json_walk_next(&walk, &key, &part); i++) {
        char item[LF_PLACE_MAX];
        lf_place_set(item, "%s[%zu]", place, i);
        LF_TRY(read_part(reader, part, item, &out->part[i]));
    }
    return LF_OK;
}

// Name, arguments and namespace of a call's function object.
static enum lf_status read_function(struct lf_chat_reader *reader, struct lf_json_span function,
                                    struct lf_json_span space, const char *place,
                                    struct lf_tool_call *out) {
    static const char *const names[] = {"name", "arguments", "namespace"};
    struct lf_json_span field[3], unused;
    char param[LF_PLACE_MAX];
    if (!function.text)
        return lf_chat_missing(reader->err, place);
    if (lf_json_type(function) != LF_JSON_OBJECT)
        return lf_chat_wrong_type(reader->err, place, "an object", function);
    lf_json_members(function, names, 3, field);
    lf_place_set(param, "%s.name", place);
    if (!field[0].text)
        return lf_chat_missing(reader->err, param);
    LF_TRY(lf_json_name(&out->name, reader->arena, field[0], param, reader->err));
    out->arguments = field[1];
    lf_place_set(param, "%s.namespace", place);
    return lf_tool_space(&out->space, &unused, reader->arena, space.text ? space : field[2], param,
                         reader->err);
}

// A call of a free-text tool is rendered with its one parameter, input (api.md 7).
static enum lf_status read_custom(struct lf_chat_reader *reader, struct lf_json_span custom,
                                  const char *place, struct lf_tool_call *out) {
    LF_TRY(read_function(reader, custom, (struct lf_json_span){0}, place, out));
    char param[LF_PLACE_MAX];
    lf_place_set(param, "%s.input", place);
    struct lf_json_span input = lf_json_member(custom, "input");
    if (!input.text || lf_json_type(input) == LF_JSON_NULL)
        return lf_chat_missing(reader->err, param);
    if (lf_json_type(input) != LF_JSON_STRING)
        return lf_chat_wrong_type(reader->err, param, "a string", input);
    struct lf_buffer text = {0};
    lf_buffer_add_text(&text, "{\"input\": ");
    lf_buffer_add(&text, input.text, input.len);
    lf_buffer_add_text(&text, "}");
    out->arguments.text = text.failed ? NULL : lf_arena_copy(reader->arena, text.data, text.len);
    out->arguments.len = text.len;
    lf_buffer_free(&text);
    return out->arguments.text ? LF_OK : lf_chat_no_memory(reader->err);
}

static enum lf_status read_call(struct lf_chat_reader *reader, struct lf_json_span call,
                                const char *place, struct lf_tool_call *out) {
    static const char *const names[] = {"id", "type", "function", "custom", "namespace"};
    struct lf_json_span field[5];
    char param[LF_PLACE_MAX];
    if (lf_json_type(call) != LF_JSON_OBJECT)
        return lf_chat_wrong_type(reader->err, place, "an object", call);
    lf_json_members(call, names, 5, field);
    out->id = "";
    lf_place_set(param, "%s.id", place);
    if (field[0].text)
        LF_TRY(lf_json_name(&out->id, reader->arena, field[0], param, reader->err));
    lf_place_set(param, "%s.type", place);
    if (field[1].text && lf_json_type(field[1]) != LF_JSON_STRING)
        return lf_chat_wrong_type(reader->err, param, "a string", field[1]);
    if (lf_json_string_is(field[1], "custom")) {
        lf_place_set(param, "%s.custom", place);
        return read_custom(reader, field[3], param, out);
    }
    if (field[1].text && !lf_json_string_is(field[1], "function"))
        return lf_fail_param(reader->err, LF_E_VALUE, param, "%s must be function or custom",
                             param);
    lf_place_set(param, "%s.function", place);
    return read_function(reader, field[2], field[4], param, out);
}

static enum lf_status read_calls(struct lf_chat_reader *reader, struct lf_json_span calls,
                                 const char *place, struct lf_message *out) {
    if (lf_json_type(calls) != LF_JSON_ARRAY)
        return lf_chat_wrong_type(reader->err, place, "an array", calls);
    out->n_calls = lf_json_count(calls);
    out->call = lf_arena_alloc(reader->arena, out->n_calls, sizeof *out->call);
    if (!out->call)
        return lf_chat_no_memory(reader->err);
    struct lf_json_span key, call;
    struct lf_json_walk walk = lf_json_walk_open(calls);
    for (size_t i = 0; lf_json_walk_next(&walk, &key, &call); i++) {
        char item[LF_PLACE_MAX];
        lf_place_set(item, "%s[%zu]", place, i);
        LF_TRY(read_call(reader, call, item, &out->call[i]));
    }
    return LF_OK;
}

enum message_field {
    ROLE, CONTENT, REASONING_CONTENT, REASONING, TOOL_CALLS, FUNCTION_CALL, TOOL_CALL_ID, PREFIX,
    TASK, MESSAGE_FIELDS
};

static enum lf_status read_assistant(struct lf_chat_reader *reader,
                                     const struct lf_json_span *field, const char *place,
                                     struct lf_message *out) {
    char param[LF_PLACE_MAX];
    struct lf_json_span reasoning = field[REASONING_CONTENT];
    if (lf_json_type(reasoning) != LF_JSON_STRING)
        reasoning = field[REASONING];
    if (lf_json_type(reasoning) == LF_JSON_STRING)
        LF_TRY(read_text(reader, reasoning, place, &out->reasoning, &out->reasoning_len));
    lf_place_set(param, "%s.tool_calls", place);
    if (field[TOOL_CALLS].text)
        LF_TRY(read_calls(reader, field[TOOL_CALLS], param, out));
    if (out->n_calls || !field[FUNCTION_CALL].text)
        return LF_OK;
    out->call = lf_arena_alloc(reader->arena, 1, sizeof *out->call);
    if (!out->call)
        return lf_chat_no_memory(reader->err);
    out->n_calls = 1;
    out->call->id = "";
    lf_place_set(param, "%s.function_call", place);
    return read_function(reader, field[FUNCTION_CALL], (struct lf_json_span){0}, param, out->call);
}

static enum lf_status read_role(struct lf_chat_reader *reader, struct lf_json_span role,
                                const char *place, struct lf_message *out) {
    static const struct {
        const char *name;
        enum lf_role role;
    } roles[] = {
        {"system", LF_ROLE_SYSTEM},       {"developer", LF_ROLE_SYSTEM},
        {"user", LF_ROLE_USER},           {"assistant", LF_ROLE_ASSISTANT},
        {"tool", LF_ROLE_TOOL},           {"function", LF_ROLE_TOOL},
        {"latest_reminder", LF_ROLE_REMINDER},
    };
    char param[LF_PLACE_MAX];
    lf_place_set(param, "%s.role", place);
    if (!role.text)
        return lf_chat_missing(reader->err, param);
    if (lf_json_type(role) != LF_JSON_STRING)
        return lf_chat_wrong_type(reader->err, param, "a string", role);
    for (size_t i = 0; i < sizeof roles / sizeof *roles; i++)
        if (lf_json_string_is(role, roles[i].name)) {
            out->role = roles[i].role;
            return LF_OK;
        }
    return lf_fail_param(reader->err, LF_E_VALUE, param,
                         "%s must be system, developer, user, assistant, tool, function or "
                         "latest_reminder",
                         param);
}

static enum lf_status read_task(struct lf_chat_reader *reader, struct lf_json_span task,
                                const char *place, struct lf_message *out) {
    static const char *const names[] = {"action", "query", "authority",
                                        "domain", "title", "read_url"};
    char param[LF_PLACE_MAX];
    lf_place_set(param, "%s.task", place);
    if (lf_json_type(task) != LF_JSON_STRING)
        return lf_chat_wrong_type(reader->err, param, "a string", task);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (lf_json_string_is(task, names[i])) {
            out->task = names[i];
            return LF_OK;
        }
    return lf_fail_param(reader->err, LF_E_VALUE, param,
                         "%s must be action, query, authority, domain, title or read_url", param);
}

static enum lf_status read_message(struct lf_chat_reader *reader, struct lf_json_span message,
                                   const char *place, struct lf_message *out) {
    static const char *const names[MESSAGE_FIELDS] = {
        "role",          "content",      "reasoning_content", "reasoning", "tool_calls",
        "function_call", "tool_call_id", "prefix",            "task"};
    struct lf_json_span field[MESSAGE_FIELDS];
    char param[LF_PLACE_MAX];
    *out = (struct lf_message){.reasoning = "", .call_id = "", .task = ""};
    if (lf_json_type(message) != LF_JSON_OBJECT)
        return lf_chat_wrong_type(reader->err, place, "an object", message);
    lf_json_members(message, names, MESSAGE_FIELDS, field);
    LF_TRY(read_role(reader, field[ROLE], place, out));
    lf_place_set(param, "%s.content", place);
    LF_TRY(read_content(reader, field[CONTENT], param, out));
    if (out->role == LF_ROLE_ASSISTANT)
        LF_TRY(read_assistant(reader, field, place, out));
    lf_place_set(param, "%s.tool_call_id", place);
    if (lf_json_string_is(field[ROLE], "tool") && field[TOOL_CALL_ID].text)
        LF_TRY(lf_json_name(&out->call_id, reader->arena, field[TOOL_CALL_ID], param,
                            reader->err));
    lf_place_set(param, "%s.prefix", place);
    LF_TRY(lf_chat_read_bool(&out->prefix, field[PREFIX], param, reader->err));
    bool may_have_task = out->role == LF_ROLE_USER || out->role == LF_ROLE_ASSISTANT;
    if (reader->defaults->tasks && may_have_task && field[TASK].text)
        LF_TRY(read_task(reader, field[TASK], place, out));
    return LF_OK;
}

enum lf_status lf_chat_read_messages(struct lf_chat_reader *reader, struct lf_json_span messages) {
    struct lf_chat *chat = reader->chat;
    if (!messages.text)
        return lf_chat_missing(reader->err, "messages");
    if (lf_json_type(messages) != LF_JSON_ARRAY)
        return lf_chat_wrong_type(reader->err, "messages", "an array", messages);
    chat->n_messages = lf_json_count(messages);
    if (!chat->n_messages)
        return lf_fail_param(reader->err, LF_E_VALUE, "messages",
                             "messages must hold at least one message");
    chat->message = lf_arena_alloc(reader->arena, chat->n_messages, sizeof *chat->message);
    if (!chat->message)
        return lf_chat_no_memory(reader->err);
    struct lf_json_span key, message;
    struct lf_json_walk walk = lf_json_walk_open(messages);
    for (size_t i = 0; lf_json_walk_next(&walk, &key, &message); i++) {
        char place[LF_PLACE_MAX];
        lf_place_set(place, "messages[%zu]", i);
        LF_TRY(read_message(reader, message, place, &chat->message[i]));
    }
    return LF_OK;
}
