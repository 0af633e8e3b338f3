#include "text/chat_json_parts.h"

#include <string.h>
#include "text/prompt_parts.h"

enum lf_status lf_chat_wrong_type(struct lf_error *err, const char *place, const char *wanted,
                                  struct lf_json_span value) {
    static const char *const names[] = {
        [LF_JSON_ABSENT] = "nothing", [LF_JSON_NULL] = "null",       [LF_JSON_BOOL] = "a boolean",
        [LF_JSON_NUMBER] = "a number", [LF_JSON_STRING] = "a string", [LF_JSON_ARRAY] = "an array",
        [LF_JSON_OBJECT] = "an object"};
    return lf_fail_param(err, LF_E_TYPE, place, "%s must be %s, not %s", place, wanted,
                         names[lf_json_type(value)]);
}

enum lf_status lf_chat_missing(struct lf_error *err, const char *place) {
    return lf_fail_param(err, LF_E_MISSING, place, "%s is missing", place);
}

enum lf_status lf_chat_no_memory(struct lf_error *err) {
    return lf_fail(err, LF_E_MEM, "no memory for the request's conversation");
}

enum lf_status lf_chat_read_bool(bool *out, struct lf_json_span value, const char *place,
                                 struct lf_error *err) {
    if (!value.text)
        return LF_OK;
    if (lf_json_type(value) != LF_JSON_BOOL)
        return lf_chat_wrong_type(err, place, "a boolean", value);
    *out = lf_json_true(value);
    return LF_OK;
}

// A bool or {"type": "enabled" | "disabled" | "adaptive"}; *given when the value is there.
static enum lf_status read_thinking(bool *out, bool *given, struct lf_json_span value,
                                    const char *place, struct lf_error *err) {
    char param[LF_PLACE_MAX];
    if (!value.text)
        return LF_OK;
    *given = true;
    if (lf_json_type(value) == LF_JSON_BOOL)
        return lf_chat_read_bool(out, value, place, err);
    if (lf_json_type(value) != LF_JSON_OBJECT)
        return lf_chat_wrong_type(err, place, "a boolean or an object", value);
    struct lf_json_span type = lf_json_member(value, "type");
    lf_place_set(param, "%s.type", place);
    if (!type.text || lf_json_type(type) == LF_JSON_NULL)
        return lf_chat_missing(err, param);
    if (lf_json_type(type) != LF_JSON_STRING)
        return lf_chat_wrong_type(err, param, "a string", type);
    *out = !lf_json_string_is(type, "disabled");
    if (*out && !lf_json_string_is(type, "enabled") && !lf_json_string_is(type, "adaptive"))
        return lf_fail_param(err, LF_E_VALUE, param, "%s must be enabled, disabled or adaptive",
                             param);
    return LF_OK;
}

// A name or an integer; digits in a string and numbers with a fraction are refused.
static enum lf_status read_effort(int *out, bool *off, struct lf_json_span value,
                                  const char *place, struct lf_arena *arena,
                                  struct lf_error *err) {
    enum lf_json_type type = lf_json_type(value);
    const char *name;
    if (type == LF_JSON_STRING)
        LF_TRY(lf_json_name(&name, arena, value, place, err));
    else if (type != LF_JSON_NUMBER || memchr(value.text, '.', value.len) ||
             memchr(value.text, 'e', value.len) || memchr(value.text, 'E', value.len))
        return lf_chat_wrong_type(err, place, "a name or an integer", value);
    else
        name = lf_arena_copy(arena, value.text, value.len);
    if (!name)
        return lf_chat_no_memory(err);
    struct lf_error why = LF_ERROR_INIT;
    bool digits = type == LF_JSON_STRING && name[0] >= '0' && name[0] <= '9';
    if (!digits && lf_effort_parse(out, off, name, &why) == LF_OK)
        return LF_OK;
    return lf_fail_param(err, LF_E_VALUE, place, "%s: %s", place,
                         digits ? "an integer must be sent as a number, not as a string"
                                : why.text);
}

enum kwarg { ENABLE_THINKING, KWARG_THINKING, KWARG_EFFORT, DROP_THINKING, KWARGS };
enum body_field {
    MESSAGES, TOOLS, TOOL_CHOICE, FUNCTIONS, FUNCTION_CALL, PARALLEL, RESPONSE_FORMAT, EFFORT,
    THINKING, TEMPLATE, GENERATION_PROMPT, CONTINUE_FINAL, BODY_FIELDS
};

// The first place that says something wins (prompts.md 3).
static enum lf_status read_options(struct lf_chat_reader *reader,
                                   const struct lf_json_span *field) {
    static const char *const names[KWARGS] = {"enable_thinking", "thinking", "reasoning_effort",
                                              "drop_thinking"};
    struct lf_json_span kwarg[KWARGS];
    struct lf_chat *chat = reader->chat;
    struct lf_error *err = reader->err;
    bool given = false, off = false, thinking = false;
    if (field[TEMPLATE].text && lf_json_type(field[TEMPLATE]) != LF_JSON_OBJECT)
        return lf_chat_wrong_type(err, "chat_template_kwargs", "an object", field[TEMPLATE]);
    lf_json_members(field[TEMPLATE], names, KWARGS, kwarg);
    LF_TRY(read_thinking(&thinking, &given, field[THINKING], "thinking", err));
    if (!given && kwarg[ENABLE_THINKING].text) {
        given = true;
        LF_TRY(lf_chat_read_bool(&thinking, kwarg[ENABLE_THINKING],
                                 "chat_template_kwargs.enable_thinking", err));
    }
    if (!given)
        LF_TRY(read_thinking(&thinking, &given, kwarg[KWARG_THINKING],
                             "chat_template_kwargs.thinking", err));
    LF_TRY(lf_chat_read_bool(&chat->drop_thinking, kwarg[DROP_THINKING],
                             "chat_template_kwargs.drop_thinking", err));
    struct lf_json_span effort = field[EFFORT].text ? field[EFFORT] : kwarg[KWARG_EFFORT];
    chat->effort = reader->defaults->effort;
    if (effort.text)
        LF_TRY(read_effort(&chat->effort, &off, effort,
                           field[EFFORT].text ? "reasoning_effort"
                                              : "chat_template_kwargs.reasoning_effort",
                           reader->arena, err));
    if (given)
        chat->thinking = thinking;
    else if (effort.text)
        chat->thinking = !off;
    else if (reader->defaults->alias_thinking >= 0)
        chat->thinking = reader->defaults->alias_thinking;
    else
        chat->thinking = reader->defaults->thinking;
    return LF_OK;
}

static enum lf_status read_format(struct lf_json_span format, struct lf_error *err) {
    if (!format.text)
        return LF_OK;
    if (lf_json_type(format) != LF_JSON_OBJECT)
        return lf_chat_wrong_type(err, "response_format", "an object", format);
    struct lf_json_span type = lf_json_member(format, "type");
    if (!type.text || lf_json_type(type) == LF_JSON_NULL)
        return lf_chat_missing(err, "response_format.type");
    if (lf_json_type(type) != LF_JSON_STRING)
        return lf_chat_wrong_type(err, "response_format.type", "a string", type);
    if (lf_json_string_is(type, "text"))
        return LF_OK;
    if (lf_json_string_is(type, "json_schema")) {
        struct lf_json_span outer = lf_json_member(format, "json_schema");
        struct lf_json_span schema = lf_json_member(outer, "schema");
        if (!outer.text)
            return lf_chat_missing(err, "response_format.json_schema");
        if (lf_json_type(outer) != LF_JSON_OBJECT)
            return lf_chat_wrong_type(err, "response_format.json_schema", "an object", outer);
        if (!schema.text)
            return lf_chat_missing(err, "response_format.json_schema.schema");
        if (lf_json_type(schema) != LF_JSON_OBJECT)
            return lf_chat_wrong_type(err, "response_format.json_schema.schema", "an object",
                                      schema);
    } else if (!lf_json_string_is(type, "json_object")) {
        return lf_fail_param(err, LF_E_VALUE, "response_format.type",
                             "response_format.type must be text, json_object or json_schema");
    }
    return lf_fail_param(err, LF_E_UNSUPPORTED, "response_format",
                         "response_format can only be text: this server does not constrain "
                         "replies to JSON");
}

static enum lf_status read_continuing(struct lf_chat_reader *reader,
                                      const struct lf_json_span *field) {
    struct lf_chat *chat = reader->chat;
    LF_TRY(lf_chat_read_bool(&chat->add_generation_prompt, field[GENERATION_PROMPT],
                             "add_generation_prompt", reader->err));
    LF_TRY(lf_chat_read_bool(&chat->continue_final, field[CONTINUE_FINAL],
                             "continue_final_message", reader->err));
    if (chat->continue_final && lf_json_true(field[GENERATION_PROMPT]))
        return lf_fail_param(reader->err, LF_E_VALUE, "continue_final_message",
                             "continue_final_message and add_generation_prompt cannot both be "
                             "true");
    return LF_OK;
}

enum lf_status lf_chat_from_json(struct lf_chat *out, struct lf_chat_extras *extras,
                                 struct lf_arena *arena, struct lf_json_span body,
                                 const struct lf_chat_defaults *defaults, struct lf_error *err) {
    static const char *const names[BODY_FIELDS] = {
        "messages",      "tools",                "tool_choice",           "functions",
        "function_call", "parallel_tool_calls",  "response_format",       "reasoning_effort",
        "thinking",      "chat_template_kwargs", "add_generation_prompt", "continue_final_message"};
    struct lf_json_span field[BODY_FIELDS];
    *out = (struct lf_chat)LF_CHAT_DEFAULTS;
    *extras = (struct lf_chat_extras){.parallel_calls = true};
    struct lf_chat_reader reader = {.chat = out, .extras = extras, .arena = arena,
                                    .defaults = defaults, .err = err};
    if (lf_json_type(body) != LF_JSON_OBJECT)
        return lf_chat_wrong_type(err, "the request", "an object", body);
    lf_json_members(body, names, BODY_FIELDS, field);
    LF_TRY(lf_chat_read_messages(&reader, field[MESSAGES]));
    if (field[TOOLS].text)
        LF_TRY(lf_chat_read_tools(&reader, field[TOOLS], "tools"));
    if (!out->n_tools && !extras->n_dropped && field[FUNCTIONS].text)
        LF_TRY(lf_chat_read_tools(&reader, field[FUNCTIONS], "functions"));
    if (field[TOOL_CHOICE].text)
        LF_TRY(lf_chat_read_choice(&reader, field[TOOL_CHOICE], "tool_choice"));
    else
        LF_TRY(lf_chat_read_choice(&reader, field[FUNCTION_CALL], "function_call"));
    LF_TRY(lf_chat_read_bool(&extras->parallel_calls, field[PARALLEL], "parallel_tool_calls", err));
    LF_TRY(read_format(field[RESPONSE_FORMAT], err));
    LF_TRY(read_options(&reader, field));
    return read_continuing(&reader, field);
}
