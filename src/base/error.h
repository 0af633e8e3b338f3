// Errors: one enum, a caller-owned struct with one clear sentence; the first failure wins.
#pragma once
#include <stdbool.h>
#include <stdint.h>

#define LF_CHECKED __attribute__((warn_unused_result))
#define LF_PRINTF(f, a) __attribute__((format(printf, f, a)))

enum lf_status {
    LF_OK = 0,
    LF_E_USAGE,       // wrong command line
    LF_E_IO,          // the operating system said no; cause holds errno
    LF_E_FORMAT,      // a file's content is wrong
    LF_E_JSON,        // not JSON; byte says where
    LF_E_MISSING,     // a required field, file or tensor is absent
    LF_E_TYPE,        // a field has the wrong type
    LF_E_VALUE,       // a field's value is out of range
    LF_E_UNSUPPORTED, // a legal thing this program does not do
    LF_E_CONTEXT,     // prompt and reply do not fit the context
    LF_E_NOT_FOUND,   // an unknown name
    LF_E_TOO_LARGE,   // over a stated limit
    LF_E_MEM,         // allocation failed
    LF_E_QUEUE_FULL,  // the waiting line is at its bound
    LF_E_CLOSED,      // shutting down
    LF_E_CANCELLED,   // the client went away or asked to stop
    LF_E_SLOT,        // target: slot out of range or named twice
    LF_E_TOKEN,       // target: id not below the vocabulary
    LF_E_POS,         // target: position is not the slot's length
    LF_E_ROWS,        // target: row count out of range
    LF_E_KEEP,        // target: keep does not fit the last verify
    LF_E_PLAN,        // target: a boundary that was not in the pass's plan
    LF_E_NONFINITE,   // logits hold NaN or infinity
    LF_E_DEVICE,      // the device failed
    LF_E_FIELD,       // a known request field that this program does not do
};

struct lf_error {
    enum lf_status status; // LF_OK until something failed
    int cause;             // errno or 0
    int64_t byte;          // offset in the input, -1 when there is none
    char param[96];        // request field, "" when there is none
    char text[512];        // one sentence, no newline
};

#define LF_ERROR_INIT {.byte = -1}

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
const char *lf_status_name(enum lf_status status);

// Passes a failure up: LF_TRY(call(..., err));
#define LF_TRY(call)                                                                               \
    do {                                                                                           \
        enum lf_status lf_try_status_ = (call);                                                    \
        if (lf_try_status_ != LF_OK)                                                               \
            return lf_try_status_;                                                                 \
    } while (0)

// Programmer errors: on in every build.
_Noreturn void lf_assert_failed(const char *file, int line, const char *what);
#define LF_ASSERT(cond) ((cond) ? (void)0 : lf_assert_failed(__FILE__, __LINE__, #cond))
