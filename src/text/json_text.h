// JSON kept as text: key order, number spelling and integers of any size survive (prompts.md 7).
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include "base/buffer.h"
#include "base/error.h"

struct lf_json_span {
    const char *text; // NULL: absent
    size_t len;       // of the value, without surrounding white space
};

// An object's member, the last one of that name; absent when there is none. Needs checked JSON.
struct lf_json_span lf_json_member(struct lf_json_span object, const char *name);
// Element i of an array. Absent when not an array or too short.
struct lf_json_span lf_json_element(struct lf_json_span array, size_t i);
// Checks that text is one JSON value (RFC 8259, valid UTF-8, depth_max levels) and gives its span.
LF_CHECKED enum lf_status lf_json_check(struct lf_json_span *out, const char *text, size_t len,
                                        unsigned depth_max, struct lf_error *err);
// Appends the value as Python's JSON printer writes it with non-ASCII allowed (prompts.md 7).
void lf_json_print(struct lf_buffer *out, struct lf_json_span value);
// Appends text as a JSON string with quotes, escaped the same way.
void lf_json_print_string(struct lf_buffer *out, const char *text, size_t len);
// Appends the characters of a JSON string value, unescaped. False when value is not a string.
bool lf_json_string(struct lf_buffer *out, struct lf_json_span value);
