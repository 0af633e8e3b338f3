// Streaming decode: whole characters out of bytes that come in any cuts (checkpoint.md 3.6).
#include "base/utf8.h"
#include "text/tokenizer.h"

static const char replacement[] = "\xEF\xBF\xBD";

// Feeds the held-back tail byte by byte until its character is whole or broken.
static size_t finish_tail(struct lf_utf8_stream *stream, const char *bytes, size_t len,
                          struct lf_buffer *out) {
    size_t at = 0;
    while (stream->tail_len && at < len) {
        stream->tail[stream->tail_len++] = bytes[at++];
        struct lf_utf8 c = lf_utf8_next(stream->tail, stream->tail_len);
        if (c.cut)
            continue;
        if (c.valid) {
            lf_buffer_add(out, stream->tail, stream->tail_len);
        } else {
            // The byte that broke the character may begin the next one.
            lf_buffer_add(out, replacement, 3);
            at--;
        }
        stream->tail_len = 0;
    }
    return at;
}

void lf_utf8_stream_push(struct lf_utf8_stream *stream, const char *bytes, size_t len,
                         struct lf_buffer *out) {
    size_t at = finish_tail(stream, bytes, len, out);
    while (at < len) {
        size_t valid = lf_utf8_valid(bytes + at, len - at);
        lf_buffer_add(out, bytes + at, valid);
        at += valid;
        struct lf_utf8 c = lf_utf8_next(bytes + at, len - at);
        if (c.cut) {
            for (; at < len; at++)
                stream->tail[stream->tail_len++] = bytes[at];
        } else if (at < len) {
            lf_buffer_add(out, replacement, 3);
            at += c.len;
        }
    }
}

void lf_utf8_stream_end(struct lf_utf8_stream *stream, struct lf_buffer *out) {
    if (stream->tail_len)
        lf_buffer_add(out, replacement, 3);
    stream->tail_len = 0;
}
