#include "base/error.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static enum lf_status fill(struct lf_error *err, enum lf_status status, const char *format,
                           va_list args) {
    LF_ASSERT(err && status != LF_OK);
    if (err->status != LF_OK)
        return err->status;
    err->status = status;
    err->cause = 0;
    err->byte = -1;
    err->param[0] = 0;
    vsnprintf(err->text, sizeof err->text, format, args);
    return status;
}

enum lf_status lf_fail(struct lf_error *err, enum lf_status status, const char *format, ...) {
    va_list args;
    va_start(args, format);
    enum lf_status result = fill(err, status, format, args);
    va_end(args);
    return result;
}

enum lf_status lf_fail_errno(struct lf_error *err, enum lf_status status, const char *format, ...) {
    int cause = errno;
    bool first = err->status == LF_OK;
    va_list args;
    va_start(args, format);
    enum lf_status result = fill(err, status, format, args);
    va_end(args);
    if (first) {
        err->cause = cause;
        size_t used = strlen(err->text);
        snprintf(err->text + used, sizeof err->text - used, ": %s", strerror(cause));
    }
    return result;
}

enum lf_status lf_fail_param(struct lf_error *err, enum lf_status status, const char *param,
                             const char *format, ...) {
    bool first = err->status == LF_OK;
    va_list args;
    va_start(args, format);
    enum lf_status result = fill(err, status, format, args);
    va_end(args);
    if (first)
        snprintf(err->param, sizeof err->param, "%s", param);
    return result;
}

enum lf_status lf_fail_byte(struct lf_error *err, enum lf_status status, int64_t byte,
                            const char *format, ...) {
    bool first = err->status == LF_OK;
    va_list args;
    va_start(args, format);
    enum lf_status result = fill(err, status, format, args);
    va_end(args);
    if (first)
        err->byte = byte;
    return result;
}

const char *lf_version(void) {
    return LF_VERSION;
}

const char *lf_status_name(enum lf_status status) {
    static const char *const names[] = {
        "ok",        "usage",    "io",        "format", "json",  "missing",    "type",
        "value",     "unsupported", "context", "not found", "too large", "memory", "queue full",
        "closed",    "cancelled", "slot",     "token",  "position", "rows",    "keep",
        "plan",      "nonfinite", "device", "absent", "field",
    };
    return (size_t)status < sizeof names / sizeof *names ? names[status] : "unknown";
}

void lf_assert_failed(const char *file, int line, const char *what) {
    fprintf(stderr, "lanefold: assertion failed at %s:%d: %s\n", file, line, what);
    abort();
}
