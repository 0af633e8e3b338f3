// A reply put together from the parser's events, and the ids of segments cut into pieces.
#pragma once
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/utf8.h"
#include "data.h"
#include "text/reply.h"

enum { FOLD_CALLS_MAX = 64 };

struct fold {
    struct lf_buffer reasoning, content;
    struct {
        struct lf_buffer name, space, arguments;
        bool closed, complete;
    } call[FOLD_CALLS_MAX];
    uint32_t n_calls;
    struct lf_ids token, place; // whose text starts where in reasoning and content, joined
    int stop; // what push or the end gave
};

static inline void fold_text(struct fold *f, struct lf_buffer *out,
                             const struct lf_reply_event *event) {
    for (size_t i = 0; i < event->n_tokens; i++) {
        assert_true(event->token[i].at < event->len);
        lf_ids_add(&f->token, event->token[i].index);
        lf_ids_add(&f->place, (uint32_t)(f->reasoning.len + f->content.len + event->token[i].at));
    }
    assert_true(event->len > 0);
    assert_int_equal(lf_utf8_valid(event->text, event->len), event->len);
    lf_buffer_add(out, event->text, event->len);
}

// Checks the order too: reasoning, content, calls; a complete call's arguments are an object.
static inline void fold_event(void *ctx, const struct lf_reply_event *event) {
    struct fold *f = ctx;
    if (event->kind == LF_REPLY_REASONING) {
        assert_true(!f->n_calls && !f->content.len);
        fold_text(f, &f->reasoning, event);
        return;
    }
    if (event->kind == LF_REPLY_CONTENT) {
        assert_true(!f->n_calls);
        fold_text(f, &f->content, event);
        return;
    }
    if (event->kind == LF_REPLY_CALL_OPEN) {
        assert_int_equal(event->index, f->n_calls);
        assert_true(!f->n_calls || f->call[f->n_calls - 1].closed);
        assert_true(f->n_calls < FOLD_CALLS_MAX);
        lf_buffer_add(&f->call[f->n_calls].name, event->text, event->len);
        lf_buffer_add_text(&f->call[f->n_calls++].space, event->space);
        return;
    }
    assert_true(f->n_calls > 0);
    assert_int_equal(event->index, f->n_calls - 1);
    assert_false(f->call[event->index].closed);
    if (event->kind == LF_REPLY_ARGUMENTS) {
        fold_text(f, &f->call[event->index].arguments, event);
    } else {
        struct lf_json_span value;
        struct lf_error err = LF_ERROR_INIT;
        const struct lf_buffer *text = &f->call[event->index].arguments;
        if (event->complete &&
            (lf_json_check(&value, text->data, text->len, LF_JSON_DEPTH_MAX, &err) != LF_OK ||
             lf_json_type(value) != LF_JSON_OBJECT))
            fail_msg("arguments of a complete call: %s: %s", text->data, err.text);
        f->call[event->index].closed = true;
        f->call[event->index].complete = event->complete;
    }
}

// From where a token begins to where the next one does, the text is a part of that token's.
static inline void fold_check_tokens(const struct fold *f, const struct lf_tokenizer *tokenizer,
                                     const struct lf_ids *ids) {
    struct lf_buffer text = {0};
    lf_buffer_add(&text, f->reasoning.data, f->reasoning.len);
    lf_buffer_add(&text, f->content.data, f->content.len);
    bool whole = !text.len || !memmem(text.data, text.len, "\uFFFD", 3);
    assert_int_equal(f->token.len > 0, text.len > 0);
    for (size_t i = 0; i < f->token.len; i++) {
        size_t len, from = f->place.id[i];
        size_t to = i + 1 < f->token.len ? f->place.id[i + 1] : text.len;
        const char *bytes = lf_tokenizer_bytes(tokenizer, ids->id[f->token.id[i]], &len);
        assert_true(i ? f->token.id[i] > f->token.id[i - 1] && from > f->place.id[i - 1] : !from);
        if (whole && !memmem(bytes, len, text.data + from, to - from))
            fail_msg("token %u '%.*s' is said to show '%.*s'", f->token.id[i], (int)len, bytes,
                     (int)(to - from), text.data + from);
    }
    lf_buffer_free(&text);
}

static inline void fold_free(struct fold *f) {
    lf_ids_free(&f->token);
    lf_ids_free(&f->place);
    lf_buffer_free(&f->reasoning);
    lf_buffer_free(&f->content);
    for (uint32_t i = 0; i < f->n_calls; i++) {
        lf_buffer_free(&f->call[i].name);
        lf_buffer_free(&f->call[i].space);
        lf_buffer_free(&f->call[i].arguments);
    }
}

static inline struct fold fold_ids(const struct lf_tokenizer *tokenizer,
                                   const struct lf_controls *controls,
                                   const struct lf_reply_options *options,
                                   const struct lf_ids *ids, bool length) {
    struct fold f = {.stop = -1};
    struct lf_error err = LF_ERROR_INIT;
    struct lf_reply *reply;
    assert_int_equal(
        lf_reply_open(&reply, tokenizer, controls, options, fold_event, &f, &err), LF_OK);
    for (size_t i = 0; i < ids->len; i++) {
        int stop = lf_reply_push(reply, ids->id[i]);
        if (stop >= 0) {
            assert_int_equal(f.stop, -1);
            f.stop = stop;
        }
    }
    lf_reply_end(reply, length);
    assert_false(lf_reply_failed(reply));
    if (f.stop >= 0)
        assert_int_equal(lf_reply_stopped(reply), f.stop);
    f.stop = lf_reply_stopped(reply);
    assert_int_equal(lf_reply_calls(reply), f.n_calls);
    for (uint32_t i = 0; i < f.n_calls; i++)
        assert_true(f.call[i].closed);
    lf_reply_close(reply);
    fold_check_tokens(&f, tokenizer, ids);
    return f;
}

static inline bool same_text(const struct lf_buffer *a, const struct lf_buffer *b) {
    return a->len == b->len && (!a->len || !memcmp(a->data, b->data, a->len));
}

static inline bool fold_same(const struct fold *a, const struct fold *b) {
    bool same = same_text(&a->reasoning, &b->reasoning) && same_text(&a->content, &b->content) &&
                a->n_calls == b->n_calls && a->stop == b->stop;
    for (uint32_t i = 0; same && i < a->n_calls; i++)
        same = same_text(&a->call[i].name, &b->call[i].name) &&
               same_text(&a->call[i].space, &b->call[i].space) &&
               same_text(&a->call[i].arguments, &b->call[i].arguments) &&
               a->call[i].complete == b->call[i].complete;
    return same;
}

static inline size_t next_character(const char *text, size_t len) {
    struct lf_utf8 c = lf_utf8_next(text, len);
    assert_true(c.valid);
    return c.len;
}

static inline void encode_piece(const struct lf_tokenizer *t, const char *text, size_t len,
                                struct lf_ids *out) {
    struct lf_error err = LF_ERROR_INIT;
    if (len)
        assert_int_equal(lf_tokenizer_encode(t, text, len, false, out, &err), LF_OK);
}

static inline void encode_control(const struct lf_tokenizer *t, const char *text,
                                  struct lf_ids *out) {
    int64_t id = lf_tokenizer_added_id(t, text);
    if (id < 0)
        fail_msg("no added token %s", text);
    lf_ids_add(out, (uint32_t)id);
}

// Appends text's ids, cut after every `piece` characters (0: nowhere).
static inline void encode_pieces(const struct lf_tokenizer *t, const char *text, size_t piece,
                                 struct lf_ids *out) {
    size_t len = strlen(text);
    while (len) {
        size_t part = piece ? 0 : len;
        for (size_t i = 0; i < piece && part < len; i++)
            part += next_character(text + part, len - part);
        encode_piece(t, text, part, out);
        text += part;
        len -= part;
    }
}

static inline struct lf_controls find_controls(const struct lf_tokenizer *t) {
    struct lf_controls controls;
    struct lf_error err = LF_ERROR_INIT;
    uint32_t eos = (uint32_t)lf_tokenizer_added_id(t, "<｜end▁of▁sentence｜>");
    uint32_t image = (uint32_t)lf_tokenizer_added_id(t, "<｜deepseek_image｜>");
    if (lf_controls_find(&controls, t, eos, image, &err) != LF_OK)
        fail_msg("%s", err.text);
    return controls;
}
