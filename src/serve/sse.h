// Server-sent events: how one event is framed (api.md 6.3).
#pragma once
#include <stddef.h>
#include "base/buffer.h"

// Appends "data: " + json + blank line. json holds no line break: its printer escapes them.
void lf_sse_event(struct lf_buffer *out, const char *json, size_t len);
// ": keep-alive", a comment that clients skip.
void lf_sse_keep_alive(struct lf_buffer *out);
void lf_sse_done(struct lf_buffer *out); // data: [DONE]
