// Strict reading of JSON objects: a missing or ill-typed field is refused by its name.
#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/error.h"

enum { LF_SHOWN_BYTES = 72 };
// The start of text as a message may repeat it: control characters become ?, nothing is cut apart.
const char *lf_fields_shown(char shown[LF_SHOWN_BYTES], const char *text);

// An object and how messages name it: ORIGIN: PREFIX + field.
struct lf_fields {
    const json_t *object;
    const char *origin;
    const char *prefix; // "" or "text_config."
};

// One JSON object, duplicate keys refused; the caller releases it with json_decref.
LF_CHECKED enum lf_status lf_fields_load(json_t **out, const char *text, size_t len,
                                         const char *origin, struct lf_error *err);
// NULL when absent or null.
const json_t *lf_fields_optional(const struct lf_fields *fields, const char *name);
LF_CHECKED enum lf_status lf_fields_object(const struct lf_fields *fields, const char *name,
                                           const json_t **out, struct lf_error *err);
// An integer written as such, min .. max.
LF_CHECKED enum lf_status lf_fields_count(const struct lf_fields *fields, const char *name,
                                          uint64_t min, uint64_t max, uint64_t *out,
                                          struct lf_error *err);
// A finite real or integer, at least 0 and at most what float32 holds.
LF_CHECKED enum lf_status lf_fields_real(const struct lf_fields *fields, const char *name,
                                         double *out, struct lf_error *err);
LF_CHECKED enum lf_status lf_fields_text(const struct lf_fields *fields, const char *name,
                                         const char **out, struct lf_error *err);
LF_CHECKED enum lf_status lf_fields_bool(const struct lf_fields *fields, const char *name,
                                         bool *out, struct lf_error *err);
// An array of at most cap integers 0 .. max.
LF_CHECKED enum lf_status lf_fields_list(const struct lf_fields *fields, const char *name,
                                         uint64_t max, uint64_t *out, size_t cap, size_t *n,
                                         struct lf_error *err);
