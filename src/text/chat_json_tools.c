#include "text/chat_json_parts.h"

#include <stdlib.h>
#include <string.h>
#include "base/utf8.h"
#include "text/prompt_parts.h"

enum { NAME_MAX_CHARACTERS = 128 };

bool lf_chat_tool_hosted(struct lf_json_span type) {
    static const char *const prefixes[] = {
        "web_search",       "web_fetch", "file_search", "computer",    "code_interpreter",
        "image_generation", "mcp",       "local_shell", "tool_search", "code_execution"};
    for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++) {
        size_t len = strlen(prefixes[i]);
        if (lf_json_type(type) == LF_JSON_STRING && type.len >= len + 2 &&
            !memcmp(type.text + 1, prefixes[i], len))
            return true;
    }
    return false;
}

static enum lf_status check_name(struct lf_error *err, const char *name, const char *place) {
    size_t characters = 0, len = strlen(name);
    for (size_t i = 0; i < len; characters++) {
        struct lf_utf8 c = lf_utf8_next(name + i, len - i);
        if (c.code < 0x20 || (c.code >= 0x7F && c.code < 0xA0) || c.code == '"' ||
            c.code == '<' || c.code == '>')
            return lf_fail_param(err, LF_E_VALUE, place,
                                 "%s must not hold quotes, angle brackets or control characters",
                                 place);
        i += c.len;
    }
    if (!characters || characters > NAME_MAX_CHARACTERS)
        return lf_fail_param(err, LF_E_VALUE, place, "%s must be 1 to %d characters long, not %zu",
                             place, NAME_MAX_CHARACTERS, characters);
    return LF_OK;
}

// Types of the fields that are rendered; everything else in a definition is the client's own.
static enum lf_status check_function(struct lf_error *err, struct lf_json_span function,
                                     const char *place) {
    static const char *const names[] = {"description", "parameters"};
    struct lf_json_span field[2];
    char param[LF_PLACE_MAX];
    lf_json_members(function, names, 2, field);
    lf_place_set(param, "%s.description", place);
    if (field[0].text && lf_json_type(field[0]) != LF_JSON_STRING)
        return lf_chat_wrong_type(err, param, "a string", field[0]);
    lf_place_set(param, "%s.parameters", place);
    if (field[1].text && lf_json_type(field[1]) != LF_JSON_OBJECT)
        return lf_chat_wrong_type(err, param, "an object", field[1]);
    return LF_OK;
}

// The tools while they are collected: a namespace gives several.
struct tool_list {
    struct lf_json_span *tool;
    const char **name; // rendered
    size_t n, cap;
};

static enum lf_status add_tool(struct lf_chat_reader *reader, struct tool_list *list,
                               struct lf_json_span tool, const char *place) {
    struct lf_tool_view view;
    char param[LF_PLACE_MAX], inner[LF_PLACE_MAX];
    LF_ASSERT(list->n < list->cap);
    LF_TRY(lf_tool_read(&view, reader->arena, tool, place, reader->err));
    bool wrapped = view.function.text != tool.text;
    lf_place_set(inner, "%s%s", place, wrapped ? ".function" : "");
    lf_place_set(param, "%s.name", inner);
    LF_TRY(check_name(reader->err, view.declared, param));
    if (view.space[0]) {
        lf_place_set(param, "%s.namespace", place);
        LF_TRY(check_name(reader->err, view.space, param));
    }
    LF_TRY(check_function(reader->err, view.function, inner));
    list->tool[list->n] = tool;
    reader->offered[reader->n_offered++] = view.declared;
    reader->offered[reader->n_offered++] = view.name;
    list->name[list->n++] = view.name;
    return LF_OK;
}

static struct lf_json_span keep(struct lf_arena *arena, struct lf_buffer *text) {
    struct lf_json_span span = {NULL, text->len};
    if (!text->failed)
        span.text = lf_arena_copy(arena, text->data, text->len);
    lf_buffer_free(text);
    return span;
}

static void add_json_string(struct lf_buffer *out, const char *before, struct lf_json_span value) {
    struct lf_buffer plain = {0};
    if (lf_json_string(&plain, value)) {
        lf_buffer_add_text(out, before);
        lf_json_print_string(out, plain.len ? plain.data : "", plain.len);
    }
    out->failed |= plain.failed;
    lf_buffer_free(&plain);
}

// The grammar of a free-text tool describes its one parameter.
static void add_format(struct lf_buffer *out, struct lf_json_span format) {
    struct lf_json_span grammar = lf_json_member(format, "grammar");
    struct lf_json_span from = lf_json_type(grammar) == LF_JSON_OBJECT ? grammar : format;
    struct lf_buffer text = {0};
    struct lf_json_span definition = lf_json_member(from, "definition");
    lf_buffer_add_text(&text, "Text in the grammar below, syntax ");
    lf_json_string(&text, lf_json_member(from, "syntax"));
    lf_buffer_add_text(&text, ":\n");
    if (lf_json_string(&text, definition)) {
        lf_buffer_add_text(out, ", \"description\": ");
        lf_json_print_string(out, text.data, text.len);
    }
    out->failed |= text.failed;
    lf_buffer_free(&text);
}

static enum lf_status add_custom(struct lf_chat_reader *reader, struct tool_list *list,
                                 struct lf_json_span tool, const char *place) {
    static const char *const names[] = {"name", "description", "format"};
    struct lf_json_span custom = lf_json_member(tool, "custom"), field[3];
    struct lf_chat_extras *extras = reader->extras;
    bool wrapped = lf_json_type(custom) == LF_JSON_OBJECT;
    char param[LF_PLACE_MAX];
    lf_json_members(wrapped ? custom : tool, names, 3, field);
    lf_place_set(param, "%s%s.name", place, wrapped ? ".custom" : "");
    if (!field[0].text)
        return lf_chat_missing(reader->err, param);
    if (lf_json_type(field[0]) != LF_JSON_STRING)
        return lf_chat_wrong_type(reader->err, param, "a string", field[0]);
    struct lf_buffer text = {0};
    add_json_string(&text, "{\"name\": ", field[0]);
    add_json_string(&text, ", \"description\": ", field[1]);
    lf_buffer_add_text(&text, ", \"parameters\": {\"type\": \"object\", \"properties\": "
                              "{\"input\": {\"type\": \"string\"");
    add_format(&text, field[2]);
    lf_buffer_add_text(&text, "}}, \"required\": [\"input\"]}}");
    struct lf_json_span function = keep(reader->arena, &text);
    if (!function.text)
        return lf_chat_no_memory(reader->err);
    LF_TRY(add_tool(reader, list, function, place));
    extras->custom[extras->n_customs++] = list->name[list->n - 1];
    return LF_OK;
}

static enum lf_status add_space(struct lf_chat_reader *reader, struct tool_list *list,
                                struct lf_json_span tool, const char *place) {
    struct lf_json_span key, member, tools = lf_json_member(tool, "tools");
    struct lf_json_walk walk = lf_json_walk_open(tools);
    char param[LF_PLACE_MAX];
    lf_place_set(param, "%s.tools", place);
    if (lf_json_type(tools) != LF_JSON_ARRAY)
        return lf_chat_wrong_type(reader->err, param, "an array", tools);
    lf_place_set(param, "%s.name", place);
    if (lf_json_type(lf_json_member(tool, "name")) != LF_JSON_STRING)
        return lf_chat_wrong_type(reader->err, param, "a string", lf_json_member(tool, "name"));
    for (size_t i = 0; lf_json_walk_next(&walk, &key, &member); i++) {
        struct lf_json_span function = lf_json_member(member, "function");
        struct lf_buffer text = {0};
        lf_place_set(param, "%s.tools[%zu]", place, i);
        if (lf_json_type(member) != LF_JSON_OBJECT)
            return lf_chat_wrong_type(reader->err, param, "an object", member);
        add_json_string(&text, "{\"namespace\": {\"name\": ", lf_json_member(tool, "name"));
        add_json_string(&text, ", \"description\": ", lf_json_member(tool, "description"));
        lf_buffer_add_text(&text, "}, \"function\": ");
        if (lf_json_type(function) != LF_JSON_OBJECT)
            function = member;
        lf_buffer_add(&text, function.text, function.len);
        lf_buffer_add_text(&text, "}");
        struct lf_json_span whole = keep(reader->arena, &text);
        if (!whole.text)
            return lf_chat_no_memory(reader->err);
        LF_TRY(add_tool(reader, list, whole, param));
    }
    return LF_OK;
}

static enum lf_status read_tool(struct lf_chat_reader *reader, struct tool_list *list,
                                struct lf_json_span tool, const char *place) {
    struct lf_chat_extras *extras = reader->extras;
    char param[LF_PLACE_MAX];
    if (lf_json_type(tool) != LF_JSON_OBJECT)
        return lf_chat_wrong_type(reader->err, place, "an object", tool);
    struct lf_json_span type = lf_json_member(tool, "type");
    lf_place_set(param, "%s.type", place);
    enum lf_json_type kind = lf_json_type(type);
    if (kind == LF_JSON_ABSENT || kind == LF_JSON_NULL || lf_json_string_is(type, "function"))
        return add_tool(reader, list, tool, place);
    if (kind != LF_JSON_STRING)
        return lf_chat_wrong_type(reader->err, param, "a string", type);
    if (lf_json_string_is(type, "custom"))
        return add_custom(reader, list, tool, place);
    if (lf_json_string_is(type, "namespace"))
        return add_space(reader, list, tool, place);
    if (!lf_chat_tool_hosted(type))
        return lf_fail_param(reader->err, LF_E_VALUE, param,
                             "%s must be function, custom or namespace", param);
    if (reader->defaults->strict_tools)
        return lf_fail_param(reader->err, LF_E_UNSUPPORTED, param,
                             "%s is a hosted tool, which cannot run here", param);
    return lf_json_name(&extras->dropped[extras->n_dropped++], reader->arena, type, param,
                        reader->err);
}

int lf_chat_compare_names(const void *left, const void *right) {
    return strcmp(*(const char *const *)left, *(const char *const *)right);
}

static enum lf_status check_unique(struct lf_chat_reader *reader, const struct tool_list *list,
                                   const char *place) {
    const char **sorted = lf_arena_alloc(reader->arena, list->n, sizeof *sorted);
    if (!sorted)
        return lf_chat_no_memory(reader->err);
    for (size_t i = 0; i < list->n; i++)
        sorted[i] = list->name[i];
    qsort(sorted, list->n, sizeof *sorted, lf_chat_compare_names);
    for (size_t i = 1; i < list->n; i++)
        if (!strcmp(sorted[i - 1], sorted[i]))
            return lf_fail_param(reader->err, LF_E_VALUE, place,
                                 "%s defines the name '%.100s' more than once", place, sorted[i]);
    return LF_OK;
}

// No more tools than this can come out of a list: namespaces hold several.
static size_t count_tools(struct lf_json_span tools) {
    struct lf_json_span key, tool;
    struct lf_json_walk walk = lf_json_walk_open(tools);
    size_t n = 0;
    while (lf_json_walk_next(&walk, &key, &tool))
        n += 1 + lf_json_count(lf_json_member(tool, "tools"));
    return n;
}

enum lf_status lf_chat_read_tools(struct lf_chat_reader *reader, struct lf_json_span tools,
                                  const char *place) {
    if (lf_json_type(tools) != LF_JSON_ARRAY)
        return lf_chat_wrong_type(reader->err, place, "an array", tools);
    struct tool_list list = {.cap = count_tools(tools)};
    struct lf_arena *arena = reader->arena;
    list.tool = lf_arena_alloc(arena, list.cap, sizeof *list.tool);
    list.name = lf_arena_alloc(arena, list.cap, sizeof *list.name);
    reader->extras->dropped = lf_arena_alloc(arena, list.cap, sizeof *list.name);
    reader->extras->custom = lf_arena_alloc(arena, list.cap, sizeof *list.name);
    reader->n_offered = 0;
    reader->offered = lf_arena_alloc(arena, list.cap, 2 * sizeof *list.name);
    if (!list.tool || !list.name || !reader->offered || !reader->extras->dropped ||
        !reader->extras->custom)
        return lf_chat_no_memory(reader->err);
    struct lf_json_span key, tool;
    struct lf_json_walk walk = lf_json_walk_open(tools);
    for (size_t i = 0; lf_json_walk_next(&walk, &key, &tool); i++) {
        char item[LF_PLACE_MAX];
        lf_place_set(item, "%s[%zu]", place, i);
        LF_TRY(read_tool(reader, &list, tool, item));
    }
    LF_TRY(check_unique(reader, &list, place));
    qsort(reader->offered, reader->n_offered, sizeof *reader->offered, lf_chat_compare_names);
    reader->chat->tool = list.tool;
    reader->chat->n_tools = list.n;
    return LF_OK;
}
