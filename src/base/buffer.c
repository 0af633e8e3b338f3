#include "base/buffer.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Grows *data so that need units of bytes_each fit; false when memory ran out.
static bool grow(void **data, size_t *cap, size_t need, size_t bytes_each) {
    if (need <= *cap)
        return true;
    size_t cap_new = *cap ? *cap : 64;
    while (cap_new < need) {
        if (cap_new > SIZE_MAX / 2 / bytes_each)
            return false;
        cap_new *= 2;
    }
    void *grown = realloc(*data, cap_new * bytes_each);
    if (!grown)
        return false;
    *data = grown;
    *cap = cap_new;
    return true;
}

static bool buffer_reserve(struct lf_buffer *buffer, size_t more) {
    size_t need;
    if (buffer->failed || __builtin_add_overflow(buffer->len, more, &need) || need == SIZE_MAX) {
        buffer->failed = true;
        return false;
    }
    void *data = buffer->data;
    if (!grow(&data, &buffer->cap, need + 1, 1))
        buffer->failed = true;
    buffer->data = data;
    return !buffer->failed;
}

void lf_buffer_add(struct lf_buffer *buffer, const void *bytes, size_t len) {
    if (!buffer_reserve(buffer, len))
        return;
    if (len)
        memcpy(buffer->data + buffer->len, bytes, len);
    buffer->len += len;
    buffer->data[buffer->len] = 0;
}

void lf_buffer_add_text(struct lf_buffer *buffer, const char *text) {
    lf_buffer_add(buffer, text, strlen(text));
}

void lf_buffer_printf(struct lf_buffer *buffer, const char *format, ...) {
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    int len = vsnprintf(NULL, 0, format, args);
    va_end(args);
    if (len < 0)
        buffer->failed = true;
    else if (buffer_reserve(buffer, (size_t)len)) {
        vsnprintf(buffer->data + buffer->len, (size_t)len + 1, format, again);
        buffer->len += (size_t)len;
    }
    va_end(again);
}

void lf_buffer_clear(struct lf_buffer *buffer) {
    buffer->len = 0;
    buffer->failed = false;
    if (buffer->data)
        buffer->data[0] = 0;
}

void lf_buffer_free(struct lf_buffer *buffer) {
    free(buffer->data);
    *buffer = (struct lf_buffer){0};
}

void lf_ids_add_all(struct lf_ids *ids, const uint32_t *id, size_t len) {
    size_t need;
    void *data = ids->id;
    if (ids->failed || __builtin_add_overflow(ids->len, len, &need) ||
        !grow(&data, &ids->cap, need, sizeof *id)) {
        ids->failed = true;
        return;
    }
    ids->id = data;
    if (len)
        memcpy(ids->id + ids->len, id, len * sizeof *id);
    ids->len = need;
}

void lf_ids_add(struct lf_ids *ids, uint32_t id) {
    lf_ids_add_all(ids, &id, 1);
}

void lf_ids_clear(struct lf_ids *ids) {
    ids->len = 0;
    ids->failed = false;
}

void lf_ids_free(struct lf_ids *ids) {
    free(ids->id);
    *ids = (struct lf_ids){0};
}
