#include "text/chat_json_parts.h"

#include <stdlib.h>
#include <string.h>
#include "text/prompt_parts.h"

// The name in {"function": {"name": N}}, {"custom": {"name": N}} or {"name": N}.
static enum lf_status check_named(struct lf_chat_reader *reader, struct lf_json_span choice,
                                  const char *place) {
    const char *kind = lf_json_string_is(lf_json_member(choice, "type"), "custom") ? "custom"
                                                                                   : "function";
    struct lf_json_span inner = lf_json_member(choice, kind);
    bool wrapped = inner.text && lf_json_type(inner) != LF_JSON_NULL;
    char param[LF_PLACE_MAX];
    lf_place_set(param, "%s.%s", place, kind);
    if (wrapped && lf_json_type(inner) != LF_JSON_OBJECT)
        return lf_chat_wrong_type(reader->err, param, "an object", inner);
    struct lf_json_span name = lf_json_member(wrapped ? inner : choice, "name");
    lf_place_set(param, "%s%s%s.name", place, wrapped ? "." : "", wrapped ? kind : "");
    if (!name.text || lf_json_type(name) == LF_JSON_NULL)
        return lf_chat_missing(reader->err, param);
    const char *text;
    LF_TRY(lf_json_name(&text, reader->arena, name, param, reader->err));
    if (!reader->n_offered || !bsearch(&text, reader->offered, reader->n_offered, sizeof text,
                                       lf_chat_compare_names))
        return lf_fail_param(reader->err, LF_E_VALUE, param,
                             "%s '%.60s' is no tool of this request", param, text);
    return LF_OK;
}

static enum lf_status refuse_forced(struct lf_chat_reader *reader, const char *place) {
    if (!reader->chat->n_tools)
        return lf_fail_param(reader->err, LF_E_VALUE, place, "%s asks for a call without tools",
                             place);
    return lf_fail_param(reader->err, LF_E_UNSUPPORTED, place,
                         "%s cannot force a call: this server lets the model choose, use auto or "
                         "none",
                         place);
}

static enum lf_status read_allowed(struct lf_chat_reader *reader, struct lf_json_span choice,
                                   const char *place) {
    struct lf_json_span allowed = lf_json_member(choice, "allowed_tools"), key, tool;
    char param[LF_PLACE_MAX];
    // Responses writes mode and tools beside the type.
    if (lf_json_type(allowed) == LF_JSON_ABSENT || lf_json_type(allowed) == LF_JSON_NULL)
        allowed = choice;
    lf_place_set(param, "%s.allowed_tools", place);
    if (lf_json_type(allowed) != LF_JSON_OBJECT)
        return lf_chat_wrong_type(reader->err, param, "an object", allowed);
    struct lf_json_span mode = lf_json_member(allowed, "mode");
    struct lf_json_span tools = lf_json_member(allowed, "tools");
    lf_place_set(param, "%s.allowed_tools.tools", place);
    if (lf_json_type(tools) != LF_JSON_ARRAY)
        return lf_chat_wrong_type(reader->err, param, "an array", tools);
    struct lf_json_walk walk = lf_json_walk_open(tools);
    for (size_t i = 0; lf_json_walk_next(&walk, &key, &tool); i++) {
        lf_place_set(param, "%s.allowed_tools.tools[%zu]", place, i);
        if (lf_json_type(tool) != LF_JSON_OBJECT)
            return lf_chat_wrong_type(reader->err, param, "an object", tool);
        LF_TRY(check_named(reader, tool, param));
    }
    lf_place_set(param, "%s.allowed_tools.mode", place);
    if (!mode.text)
        return lf_chat_missing(reader->err, param);
    if (lf_json_string_is(mode, "required"))
        return refuse_forced(reader, place);
    if (!lf_json_string_is(mode, "auto"))
        return lf_fail_param(reader->err, LF_E_VALUE, param, "%s must be auto or required", param);
    return LF_OK;
}

enum lf_status lf_chat_read_choice(struct lf_chat_reader *reader, struct lf_json_span choice,
                                   const char *place) {
    enum lf_json_type type = lf_json_type(choice);
    char param[LF_PLACE_MAX];
    if (type == LF_JSON_ABSENT || lf_json_string_is(choice, "auto"))
        return LF_OK;
    if (lf_json_string_is(choice, "none")) {
        reader->chat->n_tools = 0;
        return LF_OK;
    }
    if (lf_json_string_is(choice, "required"))
        return refuse_forced(reader, place);
    if (type == LF_JSON_STRING)
        return lf_fail_param(reader->err, LF_E_VALUE, place,
                             "%s must be auto, none, required or an object", place);
    if (type != LF_JSON_OBJECT)
        return lf_chat_wrong_type(reader->err, place, "a string or an object", choice);
    struct lf_json_span kind = lf_json_member(choice, "type");
    lf_place_set(param, "%s.type", place);
    bool legacy = !kind.text && !strcmp(place, "function_call");
    if (!kind.text && !legacy)
        return lf_chat_missing(reader->err, param);
    if (!legacy && lf_json_type(kind) != LF_JSON_STRING)
        return lf_chat_wrong_type(reader->err, param, "a string", kind);
    if (lf_json_string_is(kind, "allowed_tools"))
        return read_allowed(reader, choice, place);
    if (lf_chat_tool_hosted(kind))
        return lf_fail_param(reader->err, LF_E_UNSUPPORTED, param,
                             "%s names a hosted tool, which cannot run here", param);
    if (!legacy && !lf_json_string_is(kind, "function") && !lf_json_string_is(kind, "custom"))
        return lf_fail_param(reader->err, LF_E_VALUE, param,
                             "%s must be function, custom or allowed_tools", param);
    if (!reader->chat->n_tools)
        return refuse_forced(reader, place);
    LF_TRY(check_named(reader, choice, place));
    return refuse_forced(reader, place);
}
