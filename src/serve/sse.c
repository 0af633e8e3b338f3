#include "serve/sse.h"

#include <string.h>

void lf_sse_event(struct lf_buffer *out, const char *json, size_t len) {
    LF_ASSERT(!len || !memchr(json, '\n', len));
    lf_buffer_add_text(out, "data: ");
    lf_buffer_add(out, json, len);
    lf_buffer_add_text(out, "\n\n");
}

void lf_sse_keep_alive(struct lf_buffer *out) {
    lf_buffer_add_text(out, ": keep-alive\n\n");
}

void lf_sse_done(struct lf_buffer *out) {
    lf_buffer_add_text(out, "data: [DONE]\n\n");
}
