// One tag of the tool markup: its name and its attributes (prompts.md 12.2).
#pragma once
#include <stdbool.h>
#include <stddef.h>

enum lf_tag_name { LF_TAG_UNKNOWN, LF_TAG_CALLS, LF_TAG_INVOKE, LF_TAG_PARAMETER };

struct lf_tag {
    enum lf_tag_name name;
    const char *key; // of the attribute name="...", NULL when there is none
    size_t key_len;
    bool typed; // string="false"
};

// text is what stands between the DSML token and the closing '>'.
struct lf_tag lf_tag_parse(const char *text, size_t len);
// Whether text may still grow into a tag of a known name.
bool lf_tag_possible(const char *text, size_t len);
