// JSON kept as text: key order, number spelling and integers of any size survive (prompts.md 7).
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/buffer.h"
#include "base/error.h"

enum { LF_JSON_DEPTH_MAX = 1024 };

struct lf_json_span {
    const char *text; // NULL: absent
    size_t len;       // of the value, without surrounding white space
};

enum lf_json_type {
    LF_JSON_ABSENT, LF_JSON_NULL, LF_JSON_BOOL, LF_JSON_NUMBER, LF_JSON_STRING, LF_JSON_ARRAY,
    LF_JSON_OBJECT
};

// Checks that text is one JSON value (RFC 8259, valid UTF-8, depth_max levels) and gives its span.
LF_CHECKED enum lf_status lf_json_check(struct lf_json_span *out, const char *text, size_t len,
                                        unsigned depth_max, struct lf_error *err);

// Everything below needs checked JSON.
enum lf_json_type lf_json_type(struct lf_json_span value);
bool lf_json_true(struct lf_json_span value); // the literal true
// An object's member, the last one of that name; absent when there is none.
struct lf_json_span lf_json_member(struct lf_json_span object, const char *name);
// The named members in one pass; null counts as absent (api.md 5).
void lf_json_members(struct lf_json_span object, const char *const *name, size_t n,
                     struct lf_json_span *out);
// Element i of an array. Absent when not an array or too short. Walk instead to see them all.
struct lf_json_span lf_json_element(struct lf_json_span array, size_t i);

// Walks an array or an object in one pass; key is absent in arrays, other values are empty.
struct lf_json_walk {
    const char *at, *end;
    bool object;
};
struct lf_json_walk lf_json_walk_open(struct lf_json_span container);
bool lf_json_walk_next(struct lf_json_walk *walk, struct lf_json_span *key,
                       struct lf_json_span *value);
size_t lf_json_count(struct lf_json_span container); // of elements or members

// Appends the characters of a JSON string value, unescaped. False when value is not a string.
bool lf_json_string(struct lf_buffer *out, struct lf_json_span value);
// Whether value is a string of exactly these characters, whatever escapes it is written with.
bool lf_json_string_is(struct lf_json_span value, const char *text);
// A number without a fractional part (3, 3.0, 3e0) below 2^64 in magnitude, from its digits.
bool lf_json_whole(struct lf_json_span value, bool *negative, uint64_t *magnitude);
// The nearest double of a number; false for other values and for numbers beyond the doubles.
bool lf_json_double(struct lf_json_span value, double *out);

// Appends the value as Python's JSON printer writes it with non-ASCII allowed (prompts.md 7).
void lf_json_print(struct lf_buffer *out, struct lf_json_span value);
// Appends text as a JSON string with quotes, escaped the same way.
void lf_json_print_string(struct lf_buffer *out, const char *text, size_t len);
// The same without the quotes.
void lf_json_print_escaped(struct lf_buffer *out, const char *text, size_t len);
