#include "serve/errors.h"

#include <string.h>
#include "base/utf8.h"
#include "text/json_text.h"

#define INVALID "invalid_request_error"
static const struct lf_refusal_row rows[LF_REFUSALS] = {
    [LF_REFUSAL_INVALID_JSON] = {400, INVALID, "invalid_json", false},
    [LF_REFUSAL_MISSING_FIELD] = {400, INVALID, "missing_field", false},
    [LF_REFUSAL_INVALID_TYPE] = {400, INVALID, "invalid_type", false},
    [LF_REFUSAL_INVALID_VALUE] = {400, INVALID, "invalid_value", false},
    [LF_REFUSAL_UNSUPPORTED_VALUE] = {400, INVALID, "unsupported_value", false},
    [LF_REFUSAL_UNSUPPORTED_PARAMETER] = {400, INVALID, "unsupported_parameter", false},
    [LF_REFUSAL_CONTEXT_LENGTH_EXCEEDED] = {400, INVALID, "context_length_exceeded", false},
    [LF_REFUSAL_INVALID_API_KEY] = {401, "authentication_error", "invalid_api_key", false},
    [LF_REFUSAL_HOST_NOT_ALLOWED] = {403, "permission_error", "host_not_allowed", false},
    [LF_REFUSAL_UNKNOWN_URL] = {404, "not_found_error", "unknown_url", false},
    [LF_REFUSAL_UNSUPPORTED_ENDPOINT] = {404, "not_found_error", "unsupported_endpoint", false},
    [LF_REFUSAL_MODEL_NOT_FOUND] = {404, "not_found_error", "model_not_found", false},
    [LF_REFUSAL_METHOD_NOT_ALLOWED] = {405, INVALID, "method_not_allowed", false},
    [LF_REFUSAL_BODY_TIMEOUT] = {408, INVALID, "body_timeout", true},
    [LF_REFUSAL_REQUEST_TOO_LARGE] = {413, INVALID, "request_too_large", false},
    [LF_REFUSAL_UNSUPPORTED_MEDIA_TYPE] = {415, INVALID, "unsupported_media_type", false},
    [LF_REFUSAL_HEADERS_TOO_LARGE] = {431, INVALID, "headers_too_large", false},
    [LF_REFUSAL_INTERNAL_ERROR] = {500, "server_error", "internal_error", true},
    [LF_REFUSAL_GENERATION_FAILED] = {500, "server_error", "generation_failed", false},
    [LF_REFUSAL_QUEUE_FULL] = {503, "server_error", "queue_full", true},
    [LF_REFUSAL_QUEUE_TIMEOUT] = {503, "server_error", "queue_timeout", true},
    [LF_REFUSAL_MEMORY_FULL] = {503, "server_error", "memory_full", true},
    [LF_REFUSAL_SHUTTING_DOWN] = {503, "server_error", "shutting_down", true},
    [LF_REFUSAL_ENGINE_FAILED] = {503, "server_error", "engine_failed", true},
    [LF_REFUSAL_REQUEST_TIMEOUT] = {504, "server_error", "request_timeout", true},
};

const struct lf_refusal_row *lf_refusal_row(enum lf_refusal refusal) {
    LF_ASSERT((unsigned)refusal < LF_REFUSALS);
    return &rows[refusal];
}

enum lf_refusal lf_refusal_of(enum lf_status status) {
    switch (status) {
    case LF_E_JSON: return LF_REFUSAL_INVALID_JSON;
    case LF_E_MISSING: return LF_REFUSAL_MISSING_FIELD;
    case LF_E_TYPE: return LF_REFUSAL_INVALID_TYPE;
    case LF_E_VALUE:
    case LF_E_TOKEN: return LF_REFUSAL_INVALID_VALUE;
    case LF_E_UNSUPPORTED: return LF_REFUSAL_UNSUPPORTED_VALUE;
    case LF_E_FIELD: return LF_REFUSAL_UNSUPPORTED_PARAMETER;
    case LF_E_CONTEXT: return LF_REFUSAL_CONTEXT_LENGTH_EXCEEDED;
    case LF_E_NOT_FOUND: return LF_REFUSAL_MODEL_NOT_FOUND;
    case LF_E_TOO_LARGE: return LF_REFUSAL_REQUEST_TOO_LARGE;
    case LF_E_MEM: return LF_REFUSAL_MEMORY_FULL;
    case LF_E_QUEUE_FULL: return LF_REFUSAL_QUEUE_FULL;
    case LF_E_CLOSED: return LF_REFUSAL_SHUTTING_DOWN;
    case LF_E_DEVICE: return LF_REFUSAL_ENGINE_FAILED;
    case LF_E_NONFINITE: return LF_REFUSAL_GENERATION_FAILED;
    default: return LF_REFUSAL_INTERNAL_ERROR;
    }
}

static void print_text(struct lf_buffer *out, const char *text) {
    struct lf_buffer repaired = {0};
    lf_utf8_repair(&repaired, text, strlen(text));
    lf_json_print_string(out, repaired.data ? repaired.data : "", repaired.len);
    out->failed = out->failed || repaired.failed;
    lf_buffer_free(&repaired);
}

void lf_refusal_print(struct lf_buffer *out, enum lf_refusal refusal, const char *param,
                      const char *message) {
    const struct lf_refusal_row *row = lf_refusal_row(refusal);
    lf_buffer_add_text(out, "{\"error\":{\"message\":");
    print_text(out, message);
    lf_buffer_printf(out, ",\"type\":\"%s\",\"param\":", row->type);
    if (*param)
        print_text(out, param);
    else
        lf_buffer_add_text(out, "null");
    lf_buffer_printf(out, ",\"code\":\"%s\"}}", row->code);
}
