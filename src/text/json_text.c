#include "text/json_text.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "base/utf8.h"

static bool is_space(char c) {
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static const char *skip_space(const char *at, const char *end) {
    while (at < end && is_space(*at))
        at++;
    return at;
}

static const char *skip_string(const char *at, const char *end) {
    for (at++; at < end && *at != '"'; at++)
        if (*at == '\\' && at + 1 < end)
            at++;
    return at < end ? at + 1 : end;
}

static const char *skip_scalar(const char *at, const char *end) {
    while (at < end && !is_space(*at) && *at != ',' && *at != ']' && *at != '}')
        at++;
    return at;
}

static const char *skip_value(const char *at, const char *end) {
    if (at < end && *at == '"')
        return skip_string(at, end);
    if (at >= end || (*at != '{' && *at != '['))
        return skip_scalar(at, end);
    size_t depth = 0;
    while (at < end) {
        if (*at == '"') {
            at = skip_string(at, end);
            continue;
        }
        if (*at == '{' || *at == '[')
            depth++;
        else if ((*at == '}' || *at == ']') && --depth == 0)
            return at + 1;
        at++;
    }
    return end;
}

enum lf_json_type lf_json_type(struct lf_json_span value) {
    if (!value.text || !value.len)
        return LF_JSON_ABSENT;
    switch (value.text[0]) {
    case '"':
        return LF_JSON_STRING;
    case '{':
        return LF_JSON_OBJECT;
    case '[':
        return LF_JSON_ARRAY;
    case 'n':
        return LF_JSON_NULL;
    case 't':
    case 'f':
        return LF_JSON_BOOL;
    default:
        return LF_JSON_NUMBER;
    }
}

bool lf_json_true(struct lf_json_span value) {
    return value.text && value.len && value.text[0] == 't';
}

struct lf_json_walk lf_json_walk_open(struct lf_json_span container) {
    struct lf_json_walk walk = {0};
    enum lf_json_type type = lf_json_type(container);
    if ((type == LF_JSON_ARRAY || type == LF_JSON_OBJECT) && container.len >= 2) {
        walk.object = type == LF_JSON_OBJECT;
        walk.at = container.text + 1;
        walk.end = container.text + container.len - 1;
    }
    return walk;
}

bool lf_json_walk_next(struct lf_json_walk *walk, struct lf_json_span *key,
                       struct lf_json_span *value) {
    const char *at = walk->at, *end = walk->end;
    while (at < end && (is_space(*at) || *at == ','))
        at++;
    if (at >= end)
        return false;
    *key = (struct lf_json_span){0};
    if (walk->object) {
        const char *start = at;
        at = skip_string(at, end);
        *key = (struct lf_json_span){start, (size_t)(at - start)};
        at = skip_space(at, end);
        at = skip_space(at < end ? at + 1 : end, end);
    }
    const char *start = at;
    at = skip_value(at, end);
    *value = (struct lf_json_span){start, (size_t)(at - start)};
    walk->at = at;
    return true;
}

struct lf_json_span lf_json_member(struct lf_json_span object, const char *name) {
    struct lf_json_span found = {0}, key, value;
    struct lf_json_walk walk = lf_json_walk_open(object);
    while (walk.object && lf_json_walk_next(&walk, &key, &value))
        if (lf_json_string_is(key, name))
            found = value;
    return found;
}

void lf_json_members(struct lf_json_span object, const char *const *name, size_t n,
                     struct lf_json_span *out) {
    struct lf_json_span key, value;
    struct lf_json_walk walk = lf_json_walk_open(object);
    memset(out, 0, n * sizeof *out);
    while (walk.object && lf_json_walk_next(&walk, &key, &value)) {
        size_t i = 0;
        while (i < n && !lf_json_string_is(key, name[i]))
            i++;
        if (i < n)
            out[i] = lf_json_type(value) == LF_JSON_NULL ? (struct lf_json_span){0} : value;
    }
}

size_t lf_json_count(struct lf_json_span container) {
    struct lf_json_span key, value;
    struct lf_json_walk walk = lf_json_walk_open(container);
    size_t n = 0;
    while (lf_json_walk_next(&walk, &key, &value))
        n++;
    return n;
}

struct lf_json_span lf_json_element(struct lf_json_span array, size_t i) {
    struct lf_json_span key, value;
    struct lf_json_walk walk = lf_json_walk_open(array);
    while (!walk.object && lf_json_walk_next(&walk, &key, &value))
        if (i-- == 0)
            return value;
    return (struct lf_json_span){0};
}

static uint32_t hex4(const char *at) {
    uint32_t code = 0;
    for (int i = 0; i < 4; i++) {
        char c = at[i];
        uint32_t digit = (uint32_t)(c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10);
        code = code << 4 | digit;
    }
    return code;
}

// Reads the escape at at (a backslash) and gives the place after it.
static const char *read_escape(const char *at, uint32_t *code) {
    static const char names[] = "\"\\/bfnrt", codes[] = "\"\\/\b\f\n\r\t";
    const char *name = strchr(names, at[1]);
    if (name && at[1]) {
        *code = (unsigned char)codes[name - names];
        return at + 2;
    }
    *code = hex4(at + 2);
    at += 6;
    if (*code >= 0xD800 && *code < 0xDC00) {
        *code = 0x10000 + ((*code - 0xD800) << 10) + (hex4(at + 2) - 0xDC00);
        at += 6;
    }
    return at;
}

bool lf_json_string(struct lf_buffer *out, struct lf_json_span value) {
    if (lf_json_type(value) != LF_JSON_STRING || value.len < 2)
        return false;
    const char *at = value.text + 1, *end = value.text + value.len - 1;
    while (at < end) {
        const char *escape = memchr(at, '\\', (size_t)(end - at));
        const char *stop = escape ? escape : end;
        lf_buffer_add(out, at, (size_t)(stop - at));
        at = stop;
        if (escape) {
            uint32_t code;
            at = read_escape(at, &code);
            lf_utf8_add(out, code);
        }
    }
    return true;
}

bool lf_json_string_is(struct lf_json_span value, const char *text) {
    size_t len = strlen(text);
    if (lf_json_type(value) != LF_JSON_STRING || value.len < 2)
        return false;
    if (!memchr(value.text, '\\', value.len))
        return value.len - 2 == len && !memcmp(value.text + 1, text, len);
    // An escape is at most six bytes for one, so a much longer string cannot be equal.
    if (value.len - 2 > 6 * len)
        return false;
    struct lf_buffer plain = {0};
    lf_json_string(&plain, value);
    bool same = !plain.failed && plain.len == len && (!len || !memcmp(plain.data, text, len));
    lf_buffer_free(&plain);
    return same;
}

static bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

// The exponent of a number, cut off far outside of what matters.
static long read_exponent(const char *at, const char *end) {
    long exponent = 0;
    bool negative = at < end && *at == '-';
    if (at < end && (*at == '-' || *at == '+'))
        at++;
    for (; at < end && is_digit(*at); at++)
        if (exponent < 1000000000)
            exponent = exponent * 10 + (*at - '0');
    return negative ? -exponent : exponent;
}

static bool append_digit(uint64_t *magnitude, unsigned digit) {
    return !__builtin_mul_overflow(*magnitude, (uint64_t)10, magnitude) &&
           !__builtin_add_overflow(*magnitude, (uint64_t)digit, magnitude);
}

bool lf_json_whole(struct lf_json_span value, bool *negative, uint64_t *magnitude) {
    if (lf_json_type(value) != LF_JSON_NUMBER)
        return false;
    const char *at = value.text, *end = value.text + value.len;
    *negative = *at == '-';
    at += *negative;
    const char *digits = at, *dot = NULL;
    while (at < end && (is_digit(*at) || *at == '.')) {
        if (*at == '.')
            dot = at;
        at++;
    }
    const char *digits_end = at;
    long exponent = at < end ? read_exponent(at + 1, end) : 0;
    long point = (long)((dot ? dot : digits_end) - digits) + exponent;
    long place = 0;
    *magnitude = 0;
    for (at = digits; at < digits_end; at++) {
        if (*at == '.')
            continue;
        unsigned digit = (unsigned)(*at - '0');
        bool whole = place++ < point;
        if (!whole && digit)
            return false;
        if (whole && !append_digit(magnitude, digit))
            return false;
    }
    for (; place < point && *magnitude; place++)
        if (!append_digit(magnitude, 0))
            return false;
    return true;
}

bool lf_json_double(struct lf_json_span value, double *out) {
    if (lf_json_type(value) != LF_JSON_NUMBER)
        return false;
    struct lf_buffer text = {0};
    lf_buffer_add(&text, value.text, value.len);
    *out = text.failed ? HUGE_VAL : strtod(text.data, NULL);
    lf_buffer_free(&text);
    return isfinite(*out);
}
