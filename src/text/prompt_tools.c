#include "text/prompt_parts.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const char tools_head[] =
    "## Tools\n\n"
    "You have access to a set of tools to help answer the user's question. You can invoke tools by "
    "writing a \"<" LF_MARK_DSML " calls>\" block like the following:\n\n"
    "<" LF_MARK_DSML " calls>\n"
    "<" LF_MARK_DSML " invoke name=\"$TOOL_NAME\">\n"
    "<" LF_MARK_DSML " parameter name=\"$PARAMETER_NAME\" string=\"true|false\">$PARAMETER_VALUE</"
    LF_MARK_DSML " parameter>\n"
    "...\n"
    "</" LF_MARK_DSML " invoke>\n"
    "<" LF_MARK_DSML " invoke name=\"$TOOL_NAME2\">\n"
    "...\n"
    "</" LF_MARK_DSML " invoke>\n"
    "</" LF_MARK_DSML " calls>\n\n"
    "String parameters should be specified as is and set `string=\"true\"`. For all other types "
    "(numbers, booleans, arrays, objects), pass the value in JSON format and set "
    "`string=\"false\"`.\n\n"
    "If thinking_mode is enabled (triggered by " LF_MARK_THINK "), you MUST output your complete "
    "reasoning inside " LF_MARK_THINK "..." LF_MARK_THINK_END " BEFORE any tool calls or final "
    "response.\n\n"
    "Otherwise, output directly after " LF_MARK_THINK_END " with tool calls or final response.\n\n"
    "### Available Tool Schemas\n\n";
static const char tools_tail[] = "\n\nYou MUST strictly follow the above defined tool name and "
                                 "parameter schemas to invoke tool calls.\n";

void lf_place_set(char place[LF_PLACE_MAX], const char *format, ...) {
    va_list args;
    va_start(args, format);
    vsnprintf(place, LF_PLACE_MAX, format, args);
    va_end(args);
}

enum lf_status lf_json_name(const char **out, struct lf_arena *arena, struct lf_json_span value,
                            const char *place, struct lf_error *err) {
    struct lf_buffer text = {0};
    if (!lf_json_string(&text, value))
        return lf_fail_param(err, LF_E_TYPE, place, "%s must be a string", place);
    bool zero = text.len && memchr(text.data, 0, text.len);
    *out = zero || text.failed ? NULL : lf_arena_copy(arena, text.data, text.len);
    lf_buffer_free(&text);
    if (zero)
        return lf_fail_param(err, LF_E_VALUE, place, "%s must not hold the character U+0000",
                             place);
    return *out ? LF_OK : lf_fail(err, LF_E_MEM, "no memory for %s", place);
}

enum lf_status lf_tool_space(const char **out, struct lf_json_span *description,
                             struct lf_arena *arena, struct lf_json_span value, const char *place,
                             struct lf_error *err) {
    enum lf_json_type type = lf_json_type(value);
    char param[LF_PLACE_MAX];
    *out = "";
    *description = (struct lf_json_span){0};
    if (type == LF_JSON_ABSENT || type == LF_JSON_NULL)
        return LF_OK;
    if (type == LF_JSON_STRING)
        return lf_json_name(out, arena, value, place, err);
    if (type != LF_JSON_OBJECT)
        return lf_fail_param(err, LF_E_TYPE, place, "%s must be a string or an object", place);
    struct lf_json_span name = lf_json_member(value, "name");
    lf_place_set(param, "%s.name", place);
    if (!name.text)
        return lf_fail_param(err, LF_E_MISSING, param, "%s is missing", param);
    LF_TRY(lf_json_name(out, arena, name, param, err));
    *description = lf_json_member(value, "description");
    type = lf_json_type(*description);
    if (type == LF_JSON_NULL)
        *description = (struct lf_json_span){0};
    else if (type != LF_JSON_ABSENT && type != LF_JSON_STRING) {
        lf_place_set(param, "%s.description", place);
        return lf_fail_param(err, LF_E_TYPE, param, "%s must be a string", param);
    }
    return LF_OK;
}

// Splits or joins name and namespace so that name is what is rendered.
static enum lf_status qualify(struct lf_tool_view *tool, struct lf_arena *arena, const char *place,
                              struct lf_error *err) {
    const char *split = strstr(tool->declared, "::");
    tool->name = tool->declared;
    if (strstr(tool->space, "::") || (split && strstr(split + 2, "::")))
        return lf_fail_param(err, LF_E_VALUE, place, "%s holds '::' more than once", place);
    if (split && (split == tool->declared || !split[2]))
        return lf_fail_param(err, LF_E_VALUE, place,
                             "%s must have a namespace before '::' and a name after it", place);
    if (split) {
        size_t len = (size_t)(split - tool->declared);
        if (tool->space[0] &&
            (strlen(tool->space) != len || memcmp(tool->space, tool->declared, len)))
            return lf_fail_param(err, LF_E_VALUE, place,
                                 "%s is qualified with another namespace than '%.40s'", place,
                                 tool->space);
        tool->space = lf_arena_copy(arena, tool->declared, len);
    } else if (tool->space[0]) {
        struct lf_buffer name = {0};
        lf_buffer_printf(&name, "%s::%s", tool->space, tool->declared);
        tool->name = name.failed ? NULL : lf_arena_copy(arena, name.data, name.len);
        lf_buffer_free(&name);
    }
    return tool->name && tool->space ? LF_OK : lf_fail(err, LF_E_MEM, "no memory for %s", place);
}

enum lf_status lf_tool_read(struct lf_tool_view *out, struct lf_arena *arena,
                            struct lf_json_span tool, const char *place, struct lf_error *err) {
    *out = (struct lf_tool_view){0};
    char param[LF_PLACE_MAX], inner[LF_PLACE_MAX];
    if (lf_json_type(tool) != LF_JSON_OBJECT)
        return lf_fail_param(err, LF_E_TYPE, place, "%s must be an object", place);
    struct lf_json_span function = lf_json_member(tool, "function");
    bool wrapped = function.text && lf_json_type(function) != LF_JSON_NULL;
    lf_place_set(inner, "%s%s", place, wrapped ? ".function" : "");
    if (wrapped && lf_json_type(function) != LF_JSON_OBJECT)
        return lf_fail_param(err, LF_E_TYPE, inner, "%s must be an object", inner);
    out->function = wrapped ? function : tool;
    struct lf_json_span space = lf_json_member(tool, "namespace");
    lf_place_set(param, "%s.namespace", place);
    if (wrapped && (!space.text || lf_json_type(space) == LF_JSON_NULL)) {
        space = lf_json_member(function, "namespace");
        lf_place_set(param, "%s.namespace", inner);
    }
    LF_TRY(lf_tool_space(&out->space, &out->space_description, arena, space, param, err));
    struct lf_json_span name = lf_json_member(out->function, "name");
    lf_place_set(param, "%s.name", inner);
    if (!name.text || lf_json_type(name) == LF_JSON_NULL)
        return lf_fail_param(err, LF_E_MISSING, param, "%s is missing", param);
    LF_TRY(lf_json_name(&out->declared, arena, name, param, err));
    return qualify(out, arena, param, err);
}

static void print_described(struct lf_buffer *out, struct lf_json_span space,
                            struct lf_json_span own) {
    struct lf_buffer text = {0};
    lf_json_string(&text, space);
    lf_buffer_add(&text, "\n", 1);
    lf_json_string(&text, own);
    out->failed |= text.failed;
    lf_json_print_string(out, text.data ? text.data : "", text.len);
    lf_buffer_free(&text);
}

// The function's line with its two namespace edits (prompts.md 7).
static enum lf_status print_line(struct lf_buffer *out, const struct lf_tool_view *tool,
                                 const char *place, struct lf_error *err) {
    struct lf_buffer plain = {0};
    lf_json_print(&plain, tool->function);
    out->failed |= plain.failed;
    struct lf_json_span key, value, object = {plain.data, plain.len};
    struct lf_json_walk walk = lf_json_walk_open(object);
    bool described = !tool->space_description.text, first = true, refused = false;
    lf_buffer_add(out, "{", 1);
    while (!plain.failed && lf_json_walk_next(&walk, &key, &value)) {
        if (lf_json_string_is(key, "namespace"))
            continue;
        lf_buffer_add(out, ", ", first ? 0 : 2);
        first = false;
        lf_buffer_add(out, key.text, key.len);
        lf_buffer_add(out, ": ", 2);
        if (lf_json_string_is(key, "name")) {
            lf_json_print_string(out, tool->name, strlen(tool->name));
        } else if (!described && lf_json_string_is(key, "description")) {
            enum lf_json_type type = lf_json_type(value);
            refused = type != LF_JSON_STRING && type != LF_JSON_NULL;
            print_described(out, tool->space_description, value);
            described = true;
        } else {
            lf_buffer_add(out, value.text, value.len);
        }
    }
    if (!described) {
        lf_buffer_add_text(out, ", \"description\": ");
        print_described(out, tool->space_description, (struct lf_json_span){0});
    }
    lf_buffer_add(out, "}", 1);
    lf_buffer_free(&plain);
    if (refused)
        return lf_fail_param(err, LF_E_TYPE, place,
                             "%s: the description of a tool in a namespace must be a string",
                             place);
    return LF_OK;
}

static enum lf_status add_lines(struct lf_buffer *out, struct lf_arena *arena,
                                const struct lf_turn *turn, struct lf_error *err) {
    for (size_t i = 0; i < turn->n_tools; i++) {
        char place[LF_PLACE_MAX];
        struct lf_tool_view tool;
        lf_place_set(place, "%s[%zu]", turn->tool_place, i);
        LF_TRY(lf_tool_read(&tool, arena, turn->tool[i], place, err));
        lf_buffer_add(out, "\n", i ? 1 : 0);
        LF_TRY(print_line(out, &tool, place, err));
    }
    return LF_OK;
}

enum lf_status lf_prompt_add_tools(struct lf_prompt_builder *builder, const struct lf_turn *turn,
                                   struct lf_error *err) {
    struct lf_arena arena = {0};
    struct lf_buffer lines = {0};
    enum lf_status status = add_lines(&lines, &arena, turn, err);
    lf_prompt_add_fixed(builder, tools_head);
    lf_prompt_add_text(builder, lines.data, lines.len);
    lf_prompt_add_fixed(builder, tools_tail);
    builder->failed |= lines.failed;
    lf_buffer_free(&lines);
    lf_arena_free(&arena);
    return status;
}

static bool is_blank(const char *text, size_t len) {
    for (size_t i = 0; i < len; i++)
        if (!strchr(" \t\n\r\v\f", text[i]) || !text[i])
            return false;
    return true;
}

// The value a text holds as JSON; absent when it is no JSON.
static struct lf_json_span parse_text(const struct lf_buffer *text) {
    struct lf_json_span value = {0};
    struct lf_error unused = LF_ERROR_INIT;
    if (!text->len || lf_json_check(&value, text->data, text->len, LF_JSON_DEPTH_MAX, &unused))
        return (struct lf_json_span){0};
    return value;
}

// The object in a call's arguments, a string's text and a text within a text included.
static struct lf_json_span argument_object(struct lf_json_span arguments, struct lf_buffer *text,
                                           struct lf_buffer *inner) {
    static const struct lf_json_span empty = {"{}", 2};
    enum lf_json_type type = lf_json_type(arguments);
    if (type == LF_JSON_ABSENT || type == LF_JSON_NULL)
        return empty;
    if (lf_json_string(text, arguments)) {
        if (is_blank(text->data, text->len))
            return empty;
        arguments = parse_text(text);
        if (lf_json_string(inner, arguments))
            arguments = parse_text(inner);
    }
    return lf_json_type(arguments) == LF_JSON_OBJECT ? arguments : (struct lf_json_span){0};
}

// key is a JSON string, or absent for the key "arguments"; plain is scratch.
static void add_parameter(struct lf_prompt_builder *builder, struct lf_json_span key,
                          struct lf_json_span value, struct lf_buffer *plain) {
    lf_buffer_clear(plain);
    if (!lf_json_string(plain, key))
        lf_buffer_add_text(plain, "arguments");
    lf_prompt_add_fixed(builder, "<" LF_MARK_DSML " parameter name=\"");
    lf_prompt_add_text(builder, plain->data, plain->len);
    builder->failed |= plain->failed;
    lf_buffer_clear(plain);
    bool string = lf_json_string(plain, value);
    if (!string)
        lf_json_print(plain, value);
    lf_prompt_add_fixed(builder, string ? "\" string=\"true\">" : "\" string=\"false\">");
    lf_prompt_add_text(builder, plain->data, plain->len);
    builder->failed |= plain->failed;
    lf_prompt_add_fixed(builder, "</" LF_MARK_DSML " parameter>");
}

static void add_parameters(struct lf_prompt_builder *builder, struct lf_json_span arguments) {
    struct lf_buffer text = {0}, inner = {0}, object = {0}, plain = {0};
    struct lf_json_span found = argument_object(arguments, &text, &inner);
    if (!found.text) {
        add_parameter(builder, (struct lf_json_span){0}, arguments, &plain);
    } else {
        // Printed first, so that a repeated key is seen once.
        lf_json_print(&object, found);
        struct lf_json_span key, value;
        struct lf_json_walk walk =
            lf_json_walk_open((struct lf_json_span){object.data, object.len});
        for (bool first = true; lf_json_walk_next(&walk, &key, &value); first = false) {
            lf_prompt_add_text(builder, "\n", first ? 0 : 1);
            add_parameter(builder, key, value, &plain);
        }
    }
    builder->failed |= text.failed | inner.failed | object.failed;
    lf_buffer_free(&text);
    lf_buffer_free(&inner);
    lf_buffer_free(&object);
    lf_buffer_free(&plain);
}

static void add_call_name(struct lf_prompt_builder *builder, const struct lf_tool_call *call) {
    const char *name = lf_text_or_empty(call->name), *space = lf_text_or_empty(call->space);
    size_t len = strlen(space);
    bool qualified = !strncmp(name, space, len) && !strncmp(name + len, "::", 2);
    if (len && !qualified) {
        lf_prompt_add_text(builder, space, len);
        lf_prompt_add_text(builder, "::", 2);
    }
    lf_prompt_add_text(builder, name, strlen(name));
}

void lf_prompt_add_calls(struct lf_prompt_builder *builder, const struct lf_message *message) {
    lf_prompt_add_fixed(builder, "\n\n<" LF_MARK_DSML " calls>");
    for (size_t i = 0; i < message->n_calls; i++) {
        lf_prompt_add_fixed(builder, "\n<" LF_MARK_DSML " invoke name=\"");
        add_call_name(builder, &message->call[i]);
        lf_prompt_add_fixed(builder, "\">\n");
        add_parameters(builder, message->call[i].arguments);
        lf_prompt_add_fixed(builder, "\n</" LF_MARK_DSML " invoke>");
    }
    lf_prompt_add_fixed(builder, "\n</" LF_MARK_DSML " calls>");
}
