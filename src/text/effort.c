#include "text/chat.h"

#include <string.h>

enum { EFFORT_MIN = 1, EFFORT_MAX = 100 };

// One to three decimal digits without sign; -1 for anything else.
static int parse_digits(const char *text) {
    int value = 0;
    size_t len = strlen(text);
    if (!len || len > 3)
        return -1;
    for (size_t i = 0; i < len; i++) {
        if (text[i] < '0' || text[i] > '9')
            return -1;
        value = value * 10 + (text[i] - '0');
    }
    return value;
}

enum lf_status lf_effort_parse(int *out, bool *thinking_off, const char *name,
                               struct lf_error *err) {
    static const struct {
        const char *name;
        int effort;
    } known[] = {
        {"low", 50},  {"minimal", 50}, {"high", 75},  {"medium", 75},
        {"xhigh", 75}, {"max", 100},   {"ultra", 100},
    };
    *thinking_off = !strcmp(name, "none");
    if (*thinking_off)
        return LF_OK;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (!strcmp(name, known[i].name)) {
            *out = known[i].effort;
            return LF_OK;
        }
    int value = parse_digits(name);
    if (value < EFFORT_MIN || value > EFFORT_MAX)
        return lf_fail(err, LF_E_VALUE,
                       "effort '%.40s' is not known: expected none, minimal, low, medium, high, "
                       "xhigh, max, ultra or an integer from %d to %d",
                       name, EFFORT_MIN, EFFORT_MAX);
    *out = value;
    return LF_OK;
}
