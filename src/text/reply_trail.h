// Which tokens the shown text of a reply came from, though text waits, is taken back or is cut.
#pragma once
#include <stddef.h>
#include <stdint.h>
#include "base/buffer.h"
#include "text/reply.h"

struct lf_trail {
    uint64_t source;       // bytes of generated text read so far
    uint64_t shown, given; // bytes that no tag can take back; of those, bytes in events
    struct lf_buffer mark; // tokens with generated text that is not all decided
    struct lf_buffer due;  // tokens with shown text that is in no event yet
    struct lf_buffer out;  // of the event at hand
};

void lf_trail_free(struct lf_trail *trail);
// A token's text will be bytes start .. end-1 of the generated text.
void lf_trail_token(struct lf_trail *trail, uint32_t index, uint64_t start, uint64_t end);
// The last len bytes read were markup among text: as if they had never been generated.
void lf_trail_cut(struct lf_trail *trail, size_t len);
// len bytes are shown that came before the last `after` bytes read.
void lf_trail_show(struct lf_trail *trail, size_t len, size_t after);
// The next len shown bytes make an event: adds their tokens, which stay valid until the next call.
void lf_trail_give(struct lf_trail *trail, struct lf_reply_event *event);
