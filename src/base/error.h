// Errors: the enum and struct of lanefold.h, filled with one clear sentence; the first wins.
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include "lanefold.h"

#ifdef __cplusplus
extern "C" {
#endif

#define LF_PRINTF(f, a) __attribute__((format(printf, f, a)))

// Fills err unless it already holds a failure, and returns the status it holds.
enum lf_status lf_fail(struct lf_error *err, enum lf_status status, const char *format, ...)
    LF_PRINTF(3, 4);
// The same with errno as cause; ": strerror" is appended to the sentence.
enum lf_status lf_fail_errno(struct lf_error *err, enum lf_status status, const char *format, ...)
    LF_PRINTF(3, 4);
// The same for a request field.
enum lf_status lf_fail_param(struct lf_error *err, enum lf_status status, const char *param,
                             const char *format, ...) LF_PRINTF(4, 5);
// The same for a place in an input.
enum lf_status lf_fail_byte(struct lf_error *err, enum lf_status status, int64_t byte,
                            const char *format, ...) LF_PRINTF(4, 5);

// Passes a failure up: LF_TRY(call(..., err));
#define LF_TRY(call)                                                                               \
    do {                                                                                           \
        enum lf_status lf_try_status_ = (call);                                                    \
        if (lf_try_status_ != LF_OK)                                                               \
            return lf_try_status_;                                                                 \
    } while (0)

// Programmer errors: on in every build.
void lf_assert_failed(const char *file, int line, const char *what) __attribute__((noreturn));
#define LF_ASSERT(cond) ((cond) ? (void)0 : lf_assert_failed(__FILE__, __LINE__, #cond))

#ifdef __cplusplus
}
#endif
