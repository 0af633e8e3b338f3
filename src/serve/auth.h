// Who may ask: API keys, the Host check and CORS (api.md 3).
#pragma once
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>
#include "base/error.h"

struct lf_key {
    uint8_t digest[32];
    bool from_file;
};

// Digests only: a key is forgotten once it was hashed.
struct lf_keys {
    pthread_mutex_t lock;
    struct lf_key *key;
    size_t n, cap;
    const char *path; // NULL: no file
    struct timespec changed;
    double checked_s;
    bool wanted; // keys were configured: an empty list then closes every route
};

LF_CHECKED enum lf_status lf_keys_open(struct lf_keys *keys, const char *const *given,
                                       size_t n_given, const char *path, struct lf_error *err);
void lf_keys_close(struct lf_keys *keys);
// Looks at the file again when it changed, at most once a second.
void lf_keys_refresh(struct lf_keys *keys, double now_s);
// Compares with every digest whatever the outcome. text need not end in NUL.
bool lf_keys_match(struct lf_keys *keys, const char *text, size_t len);

// localhost, a loopback address, or one of allowed; port and brackets are ignored.
bool lf_host_allowed(const char *host, const char *const *allowed, size_t n_allowed);
