#include "serve/fields.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

const char *lf_json_kind(struct lf_json_span value) {
    static const char *const kinds[] = {
        [LF_JSON_ABSENT] = "nothing",  [LF_JSON_NULL] = "null",     [LF_JSON_BOOL] = "a boolean",
        [LF_JSON_NUMBER] = "a number", [LF_JSON_STRING] = "a string", [LF_JSON_ARRAY] = "an array",
        [LF_JSON_OBJECT] = "an object",
    };
    return kinds[lf_json_type(value)];
}

// A NUL-terminated copy of a string value, or NULL.
static char *unescape(struct lf_arena *arena, struct lf_json_span value, size_t *len) {
    struct lf_buffer text = {0};
    bool string = lf_json_string(&text, value);
    char *copy = string && !text.failed ? lf_arena_copy(arena, text.data ? text.data : "", text.len)
                                        : NULL;
    *len = text.len;
    lf_buffer_free(&text);
    return copy;
}

enum lf_status lf_fields_read(struct lf_fields *out, struct lf_arena *arena,
                              struct lf_json_span object, const char *prefix,
                              struct lf_error *err) {
    struct lf_json_span key, value;
    size_t n = 0, len;
    for (struct lf_json_walk w = lf_json_walk_open(object); lf_json_walk_next(&w, &key, &value);)
        n++;
    struct lf_field *field = lf_arena_alloc(arena, n + 1, sizeof *field);
    if (!field)
        return lf_fail(err, LF_E_MEM, "no memory for %zu request fields", n);
    *out = (struct lf_fields){field, n, prefix};
    struct lf_json_walk w = lf_json_walk_open(object);
    for (size_t i = 0; i < n && lf_json_walk_next(&w, &key, &value); i++) {
        field[i].name = unescape(arena, key, &len);
        field[i].value = value;
        if (!field[i].name)
            return lf_fail(err, LF_E_MEM, "no memory for %zu request fields", n);
    }
    return LF_OK;
}

struct lf_json_span lf_fields_get(const struct lf_fields *fields, const char *name) {
    for (size_t i = fields->n; i-- > 0;)
        if (!strcmp(fields->field[i].name, name)) {
            struct lf_json_span value = fields->field[i].value;
            return lf_json_type(value) == LF_JSON_NULL ? (struct lf_json_span){0} : value;
        }
    return (struct lf_json_span){0};
}

static const char *full_name(const struct lf_fields *fields, const char *name, char out[96]) {
    snprintf(out, 96, "%s%s", fields->prefix, name);
    return out;
}

enum lf_status lf_field_bool(const struct lf_fields *fields, const char *name, bool *out,
                             struct lf_error *err) {
    char full[96];
    struct lf_json_span value = lf_fields_get(fields, name);
    full_name(fields, name, full);
    if (!value.text)
        return LF_OK;
    if (lf_json_type(value) != LF_JSON_BOOL)
        return lf_fail_param(err, LF_E_TYPE, full, "%s must be true or false, not %s", full,
                             lf_json_kind(value));
    *out = lf_json_true(value);
    return LF_OK;
}

enum lf_status lf_field_number(const struct lf_fields *fields, const char *name, double low,
                               double high, double *out, struct lf_error *err) {
    char full[96];
    double number = 0;
    struct lf_json_span value = lf_fields_get(fields, name);
    full_name(fields, name, full);
    if (!value.text)
        return LF_OK;
    if (lf_json_type(value) != LF_JSON_NUMBER)
        return lf_fail_param(err, LF_E_TYPE, full, "%s must be a number, not %s", full,
                             lf_json_kind(value));
    if (!lf_json_double(value, &number))
        return lf_fail_param(err, LF_E_TYPE, full, "%s must be a finite number", full);
    if (number < low || number > high)
        return lf_fail_param(err, LF_E_VALUE, full, "%s must be from %g to %g, not %g", full, low,
                             high, number);
    *out = number;
    return LF_OK;
}

// Why a number that is no integer in reach was refused: a fraction has the wrong type.
static enum lf_status no_integer(struct lf_json_span value, const char *param,
                                 struct lf_error *err) {
    double number = 0;
    if (lf_json_type(value) != LF_JSON_NUMBER)
        return lf_fail_param(err, LF_E_TYPE, param, "%s must be an integer, not %s", param,
                             lf_json_kind(value));
    if (lf_json_double(value, &number) && number != floor(number))
        return lf_fail_param(err, LF_E_TYPE, param, "%s must be an integer, not a fraction", param);
    return LF_OK;
}

enum lf_status lf_json_integer(struct lf_json_span value, const char *param, int64_t low,
                               int64_t high, int64_t *out, struct lf_error *err) {
    bool negative = false;
    uint64_t magnitude = 0;
    LF_TRY(no_integer(value, param, err));
    bool fits = lf_json_whole(value, &negative, &magnitude) && magnitude <= INT64_MAX;
    int64_t number = negative ? -(int64_t)magnitude : (int64_t)magnitude;
    if (fits && number >= low && number <= high) {
        *out = number;
        return LF_OK;
    }
    if (high == INT64_MAX)
        return lf_fail_param(err, LF_E_VALUE, param, "%s must be at least %lld", param,
                             (long long)low);
    return lf_fail_param(err, LF_E_VALUE, param, "%s must be from %lld to %lld", param,
                         (long long)low, (long long)high);
}

enum lf_status lf_field_integer(const struct lf_fields *fields, const char *name, int64_t low,
                                int64_t high, int64_t *out, struct lf_error *err) {
    char full[96];
    struct lf_json_span value = lf_fields_get(fields, name);
    if (!value.text)
        return LF_OK;
    return lf_json_integer(value, full_name(fields, name, full), low, high, out, err);
}

enum lf_status lf_field_seed(const struct lf_fields *fields, const char *name, uint64_t *out,
                             bool *given, struct lf_error *err) {
    bool negative = false;
    uint64_t magnitude = 0;
    struct lf_json_span value = lf_fields_get(fields, name);
    if (!value.text)
        return LF_OK;
    LF_TRY(no_integer(value, name, err));
    if (!lf_json_whole(value, &negative, &magnitude) ||
        (negative && magnitude > (uint64_t)INT64_MAX + 1))
        return lf_fail_param(err, LF_E_VALUE, name, "%s must be from -2^63 to 2^64-1", name);
    *out = negative ? 0 - magnitude : magnitude;
    *given = true;
    return LF_OK;
}

enum lf_status lf_json_text(struct lf_json_span value, const char *param, struct lf_arena *arena,
                            const char **out, size_t *len, struct lf_error *err) {
    if (lf_json_type(value) != LF_JSON_STRING)
        return lf_fail_param(err, LF_E_TYPE, param, "%s must be a string, not %s", param,
                             lf_json_kind(value));
    *out = unescape(arena, value, len);
    return *out ? LF_OK : lf_fail_param(err, LF_E_MEM, param, "no memory for %s", param);
}

enum lf_status lf_field_text(const struct lf_fields *fields, const char *name,
                             struct lf_arena *arena, const char **out, size_t *len,
                             struct lf_error *err) {
    char full[96];
    struct lf_json_span value = lf_fields_get(fields, name);
    if (!value.text)
        return LF_OK;
    return lf_json_text(value, full_name(fields, name, full), arena, out, len, err);
}

enum lf_status lf_field_object(const struct lf_fields *fields, const char *name,
                               struct lf_json_span *out, struct lf_error *err) {
    char full[96];
    struct lf_json_span value = lf_fields_get(fields, name);
    full_name(fields, name, full);
    if (!value.text)
        return LF_OK;
    if (lf_json_type(value) != LF_JSON_OBJECT)
        return lf_fail_param(err, LF_E_TYPE, full, "%s must be an object, not %s", full,
                             lf_json_kind(value));
    *out = value;
    return LF_OK;
}
