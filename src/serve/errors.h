// The one table of HTTP errors: code, status and type as api.md 4 lists them.
#pragma once
#include <stdbool.h>
#include "base/buffer.h"
#include "base/error.h"

enum lf_refusal {
    LF_REFUSAL_INVALID_JSON,
    LF_REFUSAL_MISSING_FIELD,
    LF_REFUSAL_INVALID_TYPE,
    LF_REFUSAL_INVALID_VALUE,
    LF_REFUSAL_UNSUPPORTED_VALUE,
    LF_REFUSAL_UNSUPPORTED_PARAMETER,
    LF_REFUSAL_CONTEXT_LENGTH_EXCEEDED,
    LF_REFUSAL_INVALID_API_KEY,
    LF_REFUSAL_HOST_NOT_ALLOWED,
    LF_REFUSAL_UNKNOWN_URL,
    LF_REFUSAL_UNSUPPORTED_ENDPOINT,
    LF_REFUSAL_MODEL_NOT_FOUND,
    LF_REFUSAL_METHOD_NOT_ALLOWED,
    LF_REFUSAL_BODY_TIMEOUT,
    LF_REFUSAL_REQUEST_TOO_LARGE,
    LF_REFUSAL_UNSUPPORTED_MEDIA_TYPE,
    LF_REFUSAL_HEADERS_TOO_LARGE,
    LF_REFUSAL_INTERNAL_ERROR,
    LF_REFUSAL_GENERATION_FAILED,
    LF_REFUSAL_QUEUE_FULL,
    LF_REFUSAL_QUEUE_TIMEOUT,
    LF_REFUSAL_MEMORY_FULL,
    LF_REFUSAL_SHUTTING_DOWN,
    LF_REFUSAL_ENGINE_FAILED,
    LF_REFUSAL_REQUEST_TIMEOUT,
    LF_REFUSALS
};

struct lf_refusal_row {
    int status;
    const char *type, *code;
    bool retry; // clients may try again: no x-should-retry: false
};

const struct lf_refusal_row *lf_refusal_row(enum lf_refusal refusal);
// Where a failure of the floors below lands in the table.
enum lf_refusal lf_refusal_of(enum lf_status status);
// Appends {"error":{...}} with its four keys; param and message are repaired to valid UTF-8.
void lf_refusal_print(struct lf_buffer *out, enum lf_refusal refusal, const char *param,
                      const char *message);
