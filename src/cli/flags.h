// The command line's one reader: long options, --name value or --name=value, and the environment.
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/error.h"

enum lf_flag_kind {
    LF_FLAG_TEXT,  // const char *
    LF_FLAG_LIST,  // struct lf_flag_list *, repeatable
    LF_FLAG_COUNT, // uint64_t *, min .. max, or with choices that word: LF_FLAG_WORD
    LF_FLAG_REAL,  // double *, min .. max
    LF_FLAG_ON,    // bool *, set to true; takes no value
    LF_FLAG_OFF,   // bool *, set to false; takes no value
};

#define LF_FLAG_WORD UINT64_MAX

enum { LF_FLAG_LIST_MAX = 32 };
struct lf_flag_list {
    const char *value[LF_FLAG_LIST_MAX];
    size_t n;
};

struct lf_flag {
    const char *name; // without the dashes
    enum lf_flag_kind kind;
    void *out;
    double min, max;     // numbers
    const char *choices; // text: "a|b|c", NULL: anything; of a count: one word, or NULL
    const char *help;
    bool given; // set when the user gave it
};

struct lf_positionals {
    const char *value[4];
    size_t n;
};

// Fills the flags' targets; argv[0] is skipped. Errors are LF_E_USAGE naming the option.
LF_CHECKED enum lf_status lf_flags_parse(struct lf_flag *flags, size_t n, int argc, char **argv,
                                         struct lf_positionals *positionals,
                                         size_t positionals_max, struct lf_error *err);
// Prints usage, each flag with its range and help.
void lf_flags_print(const char *usage, const char *what, const struct lf_flag *flags, size_t n);
bool lf_flag_given(const struct lf_flag *flags, size_t n, const char *name);
// An environment variable, NULL when unset or empty.
const char *lf_environment(const char *name);
