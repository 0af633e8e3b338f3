#include "serve/pieces.h"

#include <stdlib.h>
#include <string.h>

struct head {
    size_t len, space_len, n_tokens;
    uint32_t index;
    enum lf_reply_event_kind kind;
    bool complete;
};

static bool has_text(enum lf_reply_event_kind kind) {
    return kind != LF_REPLY_CALL_CLOSE;
}

void lf_pieces_add(struct lf_buffer *pieces, const struct lf_reply_event *event) {
    bool opens = event->kind == LF_REPLY_CALL_OPEN;
    struct head head = {.len = has_text(event->kind) ? event->len : 0,
                        .space_len = opens ? strlen(event->space) : 0,
                        .n_tokens = event->n_tokens,
                        .index = event->index,
                        .kind = event->kind,
                        .complete = event->complete};
    lf_buffer_add(pieces, &head, sizeof head);
    if (has_text(event->kind))
        lf_buffer_add(pieces, event->text, head.len);
    if (opens)
        lf_buffer_add(pieces, event->space, head.space_len);
    lf_buffer_add(pieces, "", 1);
}

bool lf_pieces_next(const struct lf_buffer *pieces, size_t *at, struct lf_reply_event *event) {
    struct head head;
    if (pieces->failed || pieces->len - *at < sizeof head)
        return false;
    memcpy(&head, pieces->data + *at, sizeof head);
    const char *text = pieces->data + *at + sizeof head;
    *event = (struct lf_reply_event){.kind = head.kind,
                                     .index = head.index,
                                     .text = text,
                                     .len = head.len,
                                     .space = text + head.len,
                                     .complete = head.complete,
                                     .n_tokens = head.n_tokens};
    *at += sizeof head + head.len + head.space_len + 1;
    return true;
}

static bool joins(const struct lf_reply_event *a, const struct lf_reply_event *b) {
    return a->kind == b->kind && a->index == b->index &&
           (a->kind == LF_REPLY_REASONING || a->kind == LF_REPLY_CONTENT ||
            a->kind == LF_REPLY_ARGUMENTS);
}

bool lf_pieces_next_joined(const struct lf_buffer *pieces, size_t *at, struct lf_buffer *scratch,
                           struct lf_reply_event *event) {
    struct lf_reply_event more;
    size_t ahead;
    if (!lf_pieces_next(pieces, at, event))
        return false;
    ahead = *at;
    if (!lf_pieces_next(pieces, &ahead, &more) || !joins(event, &more))
        return true;
    lf_buffer_clear(scratch);
    lf_buffer_add(scratch, event->text, event->len);
    do {
        lf_buffer_add(scratch, more.text, more.len);
        event->n_tokens += more.n_tokens;
        *at = ahead;
    } while (lf_pieces_next(pieces, &ahead, &more) && joins(event, &more));
    event->text = scratch->data ? scratch->data : "";
    event->len = scratch->len;
    return true;
}

static void open_call(struct lf_folded *out, const struct lf_reply_event *event) {
    struct lf_folded_call *grown = realloc(out->call, (out->n_calls + 1) * sizeof *grown);
    if (!grown) {
        out->failed = true;
        return;
    }
    out->call = grown;
    struct lf_folded_call *call = &grown[out->n_calls++];
    *call = (struct lf_folded_call){0};
    lf_buffer_add(&call->name, event->text, event->len);
    lf_buffer_add_text(&call->space, event->space);
}

void lf_folded_add(struct lf_folded *out, const struct lf_buffer *pieces) {
    struct lf_reply_event event;
    out->failed = out->failed || pieces->failed;
    for (size_t at = 0; lf_pieces_next(pieces, &at, &event);) {
        out->reasoning_tokens += event.kind == LF_REPLY_REASONING ? event.n_tokens : 0;
        out->content_tokens += event.kind == LF_REPLY_CONTENT ? event.n_tokens : 0;
        if (event.kind == LF_REPLY_REASONING)
            lf_buffer_add(&out->reasoning, event.text, event.len);
        else if (event.kind == LF_REPLY_CONTENT)
            lf_buffer_add(&out->content, event.text, event.len);
        else if (event.kind == LF_REPLY_CALL_OPEN)
            open_call(out, &event);
        else if (event.kind == LF_REPLY_ARGUMENTS && event.index < out->n_calls)
            lf_buffer_add(&out->call[event.index].arguments, event.text, event.len);
    }
    out->failed = out->failed || out->reasoning.failed || out->content.failed;
    for (size_t i = 0; i < out->n_calls; i++)
        out->failed = out->failed || out->call[i].arguments.failed || out->call[i].name.failed ||
                      out->call[i].space.failed;
}

void lf_folded_free(struct lf_folded *folded) {
    for (size_t i = 0; i < folded->n_calls; i++) {
        lf_buffer_free(&folded->call[i].name);
        lf_buffer_free(&folded->call[i].space);
        lf_buffer_free(&folded->call[i].arguments);
    }
    free(folded->call);
    lf_buffer_free(&folded->reasoning);
    lf_buffer_free(&folded->content);
    *folded = (struct lf_folded){0};
}
