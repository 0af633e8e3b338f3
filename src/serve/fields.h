// The members of a request object, read once and then asked for by name, type and range.
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/arena.h"
#include "base/error.h"
#include "text/json_text.h"

struct lf_field {
    const char *name;
    struct lf_json_span value;
};
struct lf_fields {
    struct lf_field *field;
    size_t n;
    const char *prefix; // of names in errors: "" or "stream_options."
};

LF_CHECKED enum lf_status lf_fields_read(struct lf_fields *out, struct lf_arena *arena,
                                         struct lf_json_span object, const char *prefix,
                                         struct lf_error *err);
// Absent also when the value is null (api.md 5); of equal names the last one counts.
struct lf_json_span lf_fields_get(const struct lf_fields *fields, const char *name);

// Each leaves *out alone when the field is absent. LF_E_TYPE or LF_E_VALUE name the field.
LF_CHECKED enum lf_status lf_field_bool(const struct lf_fields *fields, const char *name, bool *out,
                                        struct lf_error *err);
LF_CHECKED enum lf_status lf_field_number(const struct lf_fields *fields, const char *name,
                                          double low, double high, double *out,
                                          struct lf_error *err);
// Accepts 3 and 3.0; bounds are inclusive.
LF_CHECKED enum lf_status lf_field_integer(const struct lf_fields *fields, const char *name,
                                           int64_t low, int64_t high, int64_t *out,
                                           struct lf_error *err);
// -2^63 .. 2^64-1 from the digits, modulo 2^64 (engine.md S-13).
LF_CHECKED enum lf_status lf_field_seed(const struct lf_fields *fields, const char *name,
                                        uint64_t *out, bool *given, struct lf_error *err);
LF_CHECKED enum lf_status lf_field_text(const struct lf_fields *fields, const char *name,
                                        struct lf_arena *arena, const char **out, size_t *len,
                                        struct lf_error *err);
LF_CHECKED enum lf_status lf_field_object(const struct lf_fields *fields, const char *name,
                                          struct lf_json_span *out, struct lf_error *err);

// The same for one value whose place has a name of its own ("stop[2]").
LF_CHECKED enum lf_status lf_json_integer(struct lf_json_span value, const char *param, int64_t low,
                                          int64_t high, int64_t *out, struct lf_error *err);
LF_CHECKED enum lf_status lf_json_text(struct lf_json_span value, const char *param,
                                       struct lf_arena *arena, const char **out, size_t *len,
                                       struct lf_error *err);
// "a string", "null" ...: what a value is, for messages.
const char *lf_json_kind(struct lf_json_span value);
