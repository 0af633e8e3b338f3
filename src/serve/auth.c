#include "serve/auth.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include "base/file.h"
#include "base/log.h"
#include "base/sha256.h"

enum { KEY_FILE_BYTES_MAX = 1 << 20 };

static void digest_of(const char *text, size_t len, uint8_t digest[32]) {
    struct lf_sha256 sha;
    lf_sha256_init(&sha);
    lf_sha256_add(&sha, text, len);
    lf_sha256_finish(&sha, digest);
}

static enum lf_status key_add(struct lf_keys *keys, const char *text, size_t len, bool from_file,
                              struct lf_error *err) {
    if (keys->n == keys->cap) {
        size_t cap = keys->cap ? keys->cap * 2 : 8;
        struct lf_key *grown = realloc(keys->key, cap * sizeof *grown);
        if (!grown)
            return lf_fail(err, LF_E_MEM, "no memory for %zu API keys", cap);
        keys->key = grown;
        keys->cap = cap;
    }
    keys->key[keys->n].from_file = from_file;
    digest_of(text, len, keys->key[keys->n++].digest);
    return LF_OK;
}

// One line: blank, a # comment, "key", or "label: key".
static enum lf_status line_add(struct lf_keys *keys, const char *line, size_t len,
                               struct lf_error *err) {
    static const char blanks[] = " \t\r";
    const char *colon = memchr(line, ':', len);
    if (colon && colon + 1 < line + len && strchr(blanks, colon[1])) {
        len -= (size_t)(colon + 1 - line);
        line = colon + 1;
    }
    for (; len && strchr(blanks, *line); len--)
        line++;
    while (len && strchr(blanks, line[len - 1]))
        len--;
    return len && *line != '#' ? key_add(keys, line, len, true, err) : LF_OK;
}

static void drop_file_keys(struct lf_keys *keys) {
    size_t kept = 0;
    for (size_t i = 0; i < keys->n; i++)
        if (!keys->key[i].from_file)
            keys->key[kept++] = keys->key[i];
    keys->n = kept;
}

static enum lf_status file_read(struct lf_keys *keys, struct lf_error *err) {
    struct stat info;
    struct lf_buffer text = {0};
    size_t before = keys->n;
    if (stat(keys->path, &info))
        return lf_fail_errno(err, LF_E_IO, "API key file %s", keys->path);
    if (info.st_mode & (S_IRGRP | S_IROTH))
        return lf_fail(err, LF_E_IO, "API key file %s is readable by others: chmod 600 it",
                       keys->path);
    keys->changed = info.st_mtim;
    enum lf_status status = lf_file_read(&text, keys->path, KEY_FILE_BYTES_MAX, err);
    for (size_t at = 0; status == LF_OK && at < text.len;) {
        const char *line = text.data + at, *end = memchr(line, '\n', text.len - at);
        size_t len = end ? (size_t)(end - line) : text.len - at;
        if (memchr(line, 0, len))
            status = lf_fail(err, LF_E_FORMAT, "API key file %s holds a NUL byte", keys->path);
        else
            status = line_add(keys, line, len, err);
        at += len + 1;
    }
    if (text.data)
        explicit_bzero(text.data, text.cap);
    lf_buffer_free(&text);
    if (status == LF_OK && keys->n == before)
        status = lf_fail(err, LF_E_FORMAT, "API key file %s holds no key", keys->path);
    return status;
}

enum lf_status lf_keys_open(struct lf_keys *keys, const char *const *given, size_t n_given,
                            const char *path, struct lf_error *err) {
    *keys = (struct lf_keys){.path = path, .wanted = path || n_given};
    pthread_mutex_init(&keys->lock, NULL);
    for (size_t i = 0; i < n_given; i++)
        LF_TRY(key_add(keys, given[i], strlen(given[i]), false, err));
    return path ? file_read(keys, err) : LF_OK;
}

void lf_keys_close(struct lf_keys *keys) {
    free(keys->key);
    pthread_mutex_destroy(&keys->lock);
    keys->key = NULL;
    keys->n = 0;
}

void lf_keys_refresh(struct lf_keys *keys, double now_s) {
    struct stat info;
    struct lf_error err = LF_ERROR_INIT;
    pthread_mutex_lock(&keys->lock);
    if (keys->path && now_s - keys->checked_s >= 1) {
        keys->checked_s = now_s;
        bool found = !stat(keys->path, &info);
        bool same = found && info.st_mtim.tv_sec == keys->changed.tv_sec &&
                    info.st_mtim.tv_nsec == keys->changed.tv_nsec;
        if (!same)
            drop_file_keys(keys);
        if (!same && file_read(keys, &err)) {
            drop_file_keys(keys);
            keys->changed = (struct timespec){0};
            lf_log(LF_LOG_ERROR, "%s; its keys are refused", err.text);
        }
    }
    pthread_mutex_unlock(&keys->lock);
}

bool lf_keys_match(struct lf_keys *keys, const char *text, size_t len) {
    uint8_t digest[32];
    unsigned found = 0;
    digest_of(text, len, digest);
    pthread_mutex_lock(&keys->lock);
    for (size_t i = 0; i < keys->n; i++) {
        unsigned differ = 0;
        for (size_t b = 0; b < sizeof digest; b++)
            differ |= (unsigned)(digest[b] ^ keys->key[i].digest[b]);
        found |= (differ - 1) >> 31;
    }
    pthread_mutex_unlock(&keys->lock);
    return found;
}

// Four decimal numbers, the first 127.
static bool is_loopback_v4(const char *host, size_t len) {
    if (len < 4 || strncmp(host, "127.", 4))
        return false;
    unsigned dots = 0;
    for (size_t i = 0; i < len; i++) {
        dots += host[i] == '.';
        if (host[i] != '.' && (host[i] < '0' || host[i] > '9'))
            return false;
    }
    return dots == 3;
}

bool lf_host_allowed(const char *host, const char *const *allowed, size_t n_allowed) {
    size_t len = strlen(host);
    const char *close = *host == '[' ? strchr(host, ']') : NULL;
    if (close) {
        len = (size_t)(close - ++host);
    } else {
        const char *colon = strrchr(host, ':');
        len = colon ? (size_t)(colon - host) : len;
    }
    if ((len == 9 && !strncasecmp(host, "localhost", 9)) || is_loopback_v4(host, len) ||
        (len == 3 && !strncmp(host, "::1", 3)))
        return true;
    for (size_t i = 0; i < n_allowed; i++)
        if (strlen(allowed[i]) == len && !strncasecmp(allowed[i], host, len))
            return true;
    return false;
}
