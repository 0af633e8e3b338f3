// Test data of the text floor: files under the roots that the environment names.
#pragma once
#include <jansson.h>
#include <stdio.h>
#include "text/tokenizer.h"
#include "../support/env.h"

static inline void path_under(char path[4096], const char *root, const char *name) {
    const char *folder = env_value(root);
    snprintf(path, 4096, "%s/%s", folder ? folder : ".", name);
}

static inline json_t *load_json(const char *root, const char *name) {
    char path[4096];
    json_error_t wrong;
    path_under(path, root, name);
    json_t *json = json_load_file(path, JSON_ALLOW_NUL, &wrong);
    if (!json)
        fail_msg("%s: %s", path, wrong.text);
    return json;
}

// NULL with the reason in err.
static inline struct lf_tokenizer *open_tokenizer(const char *root, const char *name,
                                                  struct lf_error *err) {
    char path[4096];
    struct lf_tokenizer *t;
    path_under(path, root, name);
    return lf_tokenizer_open(&t, path, err) == LF_OK ? t : NULL;
}
