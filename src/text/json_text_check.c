#include "text/json_text.h"

#include <string.h>
#include "base/utf8.h"

struct reader {
    const char *text;
    size_t len, at;
    struct lf_error *err;
};

static enum lf_status refuse(struct reader *r, const char *why) {
    if (r->at >= r->len)
        return lf_fail_byte(r->err, LF_E_JSON, (int64_t)r->at, "not JSON: ends at byte %zu, %s",
                            r->at, why);
    return lf_fail_byte(r->err, LF_E_JSON, (int64_t)r->at, "not JSON at byte %zu: %s", r->at, why);
}

static int peek(const struct reader *r) {
    return r->at < r->len ? (unsigned char)r->text[r->at] : -1;
}

static void skip_space(struct reader *r) {
    while (r->at < r->len && strchr(" \t\n\r", r->text[r->at]) && r->text[r->at])
        r->at++;
}

static bool read_hex4(struct reader *r, uint32_t *code) {
    *code = 0;
    for (int i = 0; i < 4; i++, r->at++) {
        int c = peek(r);
        if (c >= '0' && c <= '9')
            *code = *code << 4 | (uint32_t)(c - '0');
        else if ((c | 0x20) >= 'a' && (c | 0x20) <= 'f' && c > 0)
            *code = *code << 4 | (uint32_t)((c | 0x20) - 'a' + 10);
        else
            return false;
    }
    return true;
}

static enum lf_status check_escape(struct reader *r) {
    size_t start = r->at++;
    int c = peek(r);
    if (c <= 0 || !strchr("\"\\/bfnrtu", c))
        return refuse(r, "expected an escape after the backslash");
    r->at++;
    if (c != 'u')
        return LF_OK;
    uint32_t code, low;
    if (!read_hex4(r, &code))
        return refuse(r, "expected four hexadecimal digits after \\u");
    if (code < 0xD800 || code > 0xDFFF)
        return LF_OK;
    if (code < 0xDC00 && peek(r) == '\\') {
        r->at++;
        if (peek(r) == 'u') {
            r->at++;
            if (read_hex4(r, &low) && low >= 0xDC00 && low <= 0xDFFF)
                return LF_OK;
        }
    }
    r->at = start;
    return refuse(r, "a lone surrogate escape");
}

static enum lf_status check_string(struct reader *r) {
    r->at++;
    for (;;) {
        int c = peek(r);
        if (c == '"') {
            r->at++;
            return LF_OK;
        }
        if (c < 0)
            return refuse(r, "expected the string's closing quote");
        if (c < 0x20)
            return refuse(r, "an unescaped control character in a string");
        if (c == '\\') {
            LF_TRY(check_escape(r));
        } else if (c < 0x80) {
            r->at++;
        } else {
            struct lf_utf8 character = lf_utf8_next(r->text + r->at, r->len - r->at);
            if (!character.valid)
                return refuse(r, "invalid UTF-8");
            r->at += character.len;
        }
    }
}

static bool skip_digits(struct reader *r) {
    size_t start = r->at;
    while (peek(r) >= '0' && peek(r) <= '9')
        r->at++;
    return r->at > start;
}

static enum lf_status check_number(struct reader *r) {
    if (peek(r) == '-')
        r->at++;
    if (peek(r) == '0')
        r->at++;
    else if (!skip_digits(r))
        return refuse(r, "expected a digit");
    if (peek(r) == '.') {
        r->at++;
        if (!skip_digits(r))
            return refuse(r, "expected a digit after the decimal point");
    }
    if (peek(r) == 'e' || peek(r) == 'E') {
        r->at++;
        if (peek(r) == '+' || peek(r) == '-')
            r->at++;
        if (!skip_digits(r))
            return refuse(r, "expected a digit in the exponent");
    }
    return LF_OK;
}

static enum lf_status check_scalar(struct reader *r) {
    static const char *const words[] = {"true", "false", "null"};
    int c = peek(r);
    if (c == '"')
        return check_string(r);
    if (c == '-' || (c >= '0' && c <= '9'))
        return check_number(r);
    for (int i = 0; i < 3; i++) {
        size_t len = strlen(words[i]);
        if (r->len - r->at >= len && !memcmp(r->text + r->at, words[i], len)) {
            r->at += len;
            return LF_OK;
        }
    }
    return refuse(r, "expected a value");
}

static enum lf_status check_key(struct reader *r) {
    if (peek(r) != '"')
        return refuse(r, "expected a member's name in quotes");
    LF_TRY(check_string(r));
    skip_space(r);
    if (peek(r) != ':')
        return refuse(r, "expected a colon after the member's name");
    r->at++;
    skip_space(r);
    return LF_OK;
}

struct nest {
    bool object[LF_JSON_DEPTH_MAX];
    unsigned depth, depth_max;
};

// Opens containers until a scalar or an empty container ends the value that starts here.
static enum lf_status check_start(struct reader *r, struct nest *nest) {
    for (;;) {
        int c = peek(r);
        if (c != '{' && c != '[')
            return check_scalar(r);
        if (nest->depth >= nest->depth_max)
            return lf_fail_byte(r->err, LF_E_JSON, (int64_t)r->at,
                                "JSON at byte %zu is nested deeper than %u levels", r->at,
                                nest->depth_max);
        nest->object[nest->depth++] = c == '{';
        r->at++;
        skip_space(r);
        if (peek(r) == (c == '{' ? '}' : ']'))
            return LF_OK;
        if (c == '{')
            LF_TRY(check_key(r));
    }
}

// After a value: closes containers until another value follows; *more is false at the very end.
static enum lf_status check_next(struct reader *r, struct nest *nest, bool *more) {
    for (*more = false; nest->depth;) {
        skip_space(r);
        bool object = nest->object[nest->depth - 1];
        int c = peek(r);
        if (c == (object ? '}' : ']')) {
            r->at++;
            nest->depth--;
            continue;
        }
        if (c != ',')
            return refuse(r, object ? "expected a comma or a closing brace"
                                    : "expected a comma or a closing bracket");
        r->at++;
        skip_space(r);
        if (object)
            LF_TRY(check_key(r));
        *more = true;
        return LF_OK;
    }
    return LF_OK;
}

enum lf_status lf_json_check(struct lf_json_span *out, const char *text, size_t len,
                             unsigned depth_max, struct lf_error *err) {
    LF_ASSERT(depth_max <= LF_JSON_DEPTH_MAX);
    struct reader r = {text, len, 0, err};
    struct nest nest = {.depth_max = depth_max};
    *out = (struct lf_json_span){0};
    skip_space(&r);
    size_t start = r.at, end;
    for (bool more = true; more;) {
        LF_TRY(check_start(&r, &nest));
        LF_TRY(check_next(&r, &nest, &more));
    }
    end = r.at;
    skip_space(&r);
    if (r.at < len)
        return refuse(&r, "expected nothing after the value");
    *out = (struct lf_json_span){text + start, end - start};
    return LF_OK;
}
