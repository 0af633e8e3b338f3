#include "format/fields.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "base/utf8.h"

enum { FOUND_BYTES = 64 };

// What a message says was found; strings are not repeated, they may be long.
static const char *found_text(const json_t *value, char text[FOUND_BYTES]) {
    static const char *const names[] = {
        [JSON_OBJECT] = "an object", [JSON_ARRAY] = "an array", [JSON_STRING] = "a string",
        [JSON_TRUE] = "true",        [JSON_FALSE] = "false",    [JSON_NULL] = "null",
    };
    if (json_is_integer(value))
        snprintf(text, FOUND_BYTES, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
    else if (json_is_real(value))
        snprintf(text, FOUND_BYTES, "%.17g (written as a real)", json_real_value(value));
    else
        snprintf(text, FOUND_BYTES, "%s", names[json_typeof(value)]);
    return text;
}

const char *lf_fields_shown(char shown[LF_SHOWN_BYTES], const char *text) {
    size_t used = 0, len = strlen(text);
    while (len) {
        struct lf_utf8 c = lf_utf8_next(text, len);
        bool plain = c.valid && c.code >= 0x20 && !(c.code >= 0x7F && c.code < 0xA0);
        if (used + c.len + 1 > LF_SHOWN_BYTES)
            break;
        if (plain)
            memcpy(shown + used, text, c.len);
        else
            shown[used] = '?';
        used += plain ? c.len : 1;
        text += c.len;
        len -= c.len;
    }
    shown[used] = 0;
    return shown;
}

enum lf_status lf_fields_load(json_t **out, const char *text, size_t len, const char *origin,
                              struct lf_error *err) {
    json_error_t where;
    char shown[LF_SHOWN_BYTES];
    *out = NULL;
    size_t valid = lf_utf8_valid(text, len);
    if (valid != len)
        return lf_fail_byte(err, LF_E_JSON, (int64_t)valid, "%s: byte %zu is not UTF-8", origin,
                            valid);
    json_t *root = json_loadb(text, len, JSON_REJECT_DUPLICATES, &where);
    if (!root && json_error_code(&where) == json_error_out_of_memory)
        return lf_fail(err, LF_E_MEM, "%s: out of memory", origin);
    if (!root)
        return lf_fail_byte(err, LF_E_JSON, where.position, "%s: not JSON at byte %d: %s", origin,
                            where.position, lf_fields_shown(shown, where.text));
    if (!json_is_object(root)) {
        json_decref(root);
        return lf_fail(err, LF_E_JSON, "%s: expected a JSON object", origin);
    }
    *out = root;
    return LF_OK;
}

const json_t *lf_fields_optional(const struct lf_fields *fields, const char *name) {
    const json_t *value = json_object_get(fields->object, name);
    return json_is_null(value) ? NULL : value;
}

static enum lf_status required(const struct lf_fields *fields, const char *name,
                               const json_t **out, struct lf_error *err) {
    *out = json_object_get(fields->object, name);
    if (!*out)
        return lf_fail(err, LF_E_MISSING, "%s: %s%s is missing", fields->origin, fields->prefix,
                       name);
    return LF_OK;
}

static enum lf_status wrong_type(const struct lf_fields *fields, const char *name,
                                 const char *expected, const json_t *value, struct lf_error *err) {
    char found[FOUND_BYTES];
    return lf_fail(err, LF_E_TYPE, "%s: %s%s must be %s, found %s", fields->origin, fields->prefix,
                   name, expected, found_text(value, found));
}

enum lf_status lf_fields_object(const struct lf_fields *fields, const char *name,
                                const json_t **out, struct lf_error *err) {
    LF_TRY(required(fields, name, out, err));
    if (!json_is_object(*out))
        return wrong_type(fields, name, "an object", *out, err);
    return LF_OK;
}

enum lf_status lf_fields_count(const struct lf_fields *fields, const char *name, uint64_t min,
                               uint64_t max, uint64_t *out, struct lf_error *err) {
    const json_t *value;
    LF_TRY(required(fields, name, &value, err));
    if (!json_is_integer(value))
        return wrong_type(fields, name, "an integer", value, err);
    json_int_t count = json_integer_value(value);
    if (count < 0 || (uint64_t)count < min || (uint64_t)count > max)
        return lf_fail(err, LF_E_VALUE,
                       "%s: %s%s must be %" PRIu64 " to %" PRIu64 ", found %" JSON_INTEGER_FORMAT,
                       fields->origin, fields->prefix, name, min, max, count);
    *out = (uint64_t)count;
    return LF_OK;
}

enum lf_status lf_fields_real(const struct lf_fields *fields, const char *name, double *out,
                              struct lf_error *err) {
    const json_t *value;
    LF_TRY(required(fields, name, &value, err));
    if (!json_is_number(value))
        return wrong_type(fields, name, "a number", value, err);
    *out = json_number_value(value);
    if (!isfinite(*out) || *out < 0 || *out > (double)FLT_MAX)
        return lf_fail(err, LF_E_VALUE, "%s: %s%s must be 0 to %g, found %g", fields->origin,
                       fields->prefix, name, (double)FLT_MAX, *out);
    return LF_OK;
}

enum lf_status lf_fields_text(const struct lf_fields *fields, const char *name, const char **out,
                              struct lf_error *err) {
    const json_t *value;
    LF_TRY(required(fields, name, &value, err));
    if (!json_is_string(value))
        return wrong_type(fields, name, "a string", value, err);
    *out = json_string_value(value);
    return LF_OK;
}

enum lf_status lf_fields_bool(const struct lf_fields *fields, const char *name, bool *out,
                              struct lf_error *err) {
    const json_t *value;
    LF_TRY(required(fields, name, &value, err));
    if (!json_is_boolean(value))
        return wrong_type(fields, name, "true or false", value, err);
    *out = json_is_true(value);
    return LF_OK;
}

enum lf_status lf_fields_list(const struct lf_fields *fields, const char *name, uint64_t max,
                              uint64_t *out, size_t cap, size_t *n, struct lf_error *err) {
    const json_t *list;
    LF_TRY(required(fields, name, &list, err));
    if (!json_is_array(list))
        return wrong_type(fields, name, "an array of integers", list, err);
    *n = json_array_size(list);
    if (*n > cap)
        return lf_fail(err, LF_E_VALUE, "%s: %s%s has %zu entries, at most %zu are supported",
                       fields->origin, fields->prefix, name, *n, cap);
    for (size_t i = 0; i < *n; i++) {
        const json_t *value = json_array_get(list, i);
        char found[FOUND_BYTES];
        if (!json_is_integer(value) || json_integer_value(value) < 0 ||
            (uint64_t)json_integer_value(value) > max)
            return lf_fail(err, json_is_integer(value) ? LF_E_VALUE : LF_E_TYPE,
                           "%s: %s%s[%zu] must be an integer from 0 to %" PRIu64 ", found %s",
                           fields->origin, fields->prefix, name, i, max,
                           found_text(value, found));
        out[i] = (uint64_t)json_integer_value(value);
    }
    return LF_OK;
}
