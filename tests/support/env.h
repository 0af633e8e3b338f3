// The test environment: LF_SOURCE_ROOT and LF_SHARED as meson sets them.
#pragma once
#include <string.h>
#include <unistd.h>

// The value of a variable, or NULL when it is not set.
static inline const char *env_value(const char *name) {
    size_t len = strlen(name);
    for (char **entry = environ; *entry; entry++)
        if (!strncmp(*entry, name, len) && (*entry)[len] == '=')
            return *entry + len + 1;
    return NULL;
}
