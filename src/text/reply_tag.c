#include "text/reply_tag.h"

#include <string.h>

static const struct {
    const char *text;
    enum lf_tag_name name;
} names[] = {
    {"calls", LF_TAG_CALLS},   {"tool_calls", LF_TAG_CALLS}, {"function_calls", LF_TAG_CALLS},
    {"invoke", LF_TAG_INVOKE}, {"parameter", LF_TAG_PARAMETER},
};
enum { N_NAMES = sizeof names / sizeof *names };

static bool is_space(char c) {
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

// The name's start and length; whole: something stands after it.
static const char *find_name(const char *text, size_t len, size_t *name_len, bool *whole) {
    size_t start = len && text[0] == ' ' ? 1 : 0, end = start;
    while (end < len && !is_space(text[end]))
        end++;
    *name_len = end - start;
    *whole = end < len;
    return text + start;
}

bool lf_tag_possible(const char *text, size_t len) {
    size_t name_len;
    bool whole;
    const char *name = find_name(text, len, &name_len, &whole);
    for (int i = 0; i < N_NAMES; i++) {
        size_t known = strlen(names[i].text);
        if (name_len <= known && (!whole || name_len == known) &&
            !memcmp(name, names[i].text, name_len))
            return true;
    }
    return false;
}

// Reads one attribute at *at and moves behind it; false at the end and at anything malformed.
static bool next_attribute(const char **at, const char *end, struct lf_tag *tag) {
    const char *name = *at;
    while (name < end && is_space(*name))
        name++;
    const char *equals = memchr(name, '=', (size_t)(end - name));
    if (!equals || equals + 1 >= end || equals[1] != '"')
        return false;
    const char *value = equals + 2, *quote = memchr(value, '"', (size_t)(end - value));
    if (!quote)
        return false;
    size_t name_len = (size_t)(equals - name), value_len = (size_t)(quote - value);
    if (name_len == 4 && !memcmp(name, "name", 4) && !tag->key) {
        tag->key = value;
        tag->key_len = value_len;
    } else if (name_len == 6 && !memcmp(name, "string", 6)) {
        tag->typed = value_len == 5 && !memcmp(value, "false", 5);
    }
    *at = quote + 1;
    return true;
}

struct lf_tag lf_tag_parse(const char *text, size_t len) {
    struct lf_tag tag = {0};
    size_t name_len;
    bool whole;
    const char *name = find_name(text, len, &name_len, &whole);
    for (int i = 0; i < N_NAMES; i++)
        if (name_len == strlen(names[i].text) && !memcmp(name, names[i].text, name_len))
            tag.name = names[i].name;
    const char *at = name + name_len;
    while (tag.name != LF_TAG_UNKNOWN && next_attribute(&at, text + len, &tag))
        continue;
    return tag;
}
