#include "text/reply.h"

#include <stdlib.h>
#include <string.h>
#include "base/log.h"
#include "base/utf8.h"
#include "text/reply_stop.h"
#include "text/reply_tag.h"
#include "text/reply_trail.h"

enum mode {
    MODE_REASONING,
    MODE_CONTENT,
    MODE_BLOCK, // inside the calls block, between calls
    MODE_CALL,  // inside a call, between parameters
    MODE_VALUE, // inside a parameter
    MODE_DONE,  // nothing more is shown
};

struct lf_reply {
    const struct lf_tokenizer *tokenizer;
    struct lf_controls controls;
    lf_reply_sink *sink;
    void *ctx;
    bool tools, parallel, stop_in_reasoning, failed;
    enum mode mode;
    int stopped;
    uint32_t n_calls, reasoning_tokens, n_ids;
    struct lf_trail trail;
    struct lf_utf8_stream utf8;
    struct lf_stops stops;
    struct lf_buffer text;    // whole characters of the id at hand
    struct lf_buffer pending; // a tail that may still belong to a tag
    struct lf_buffer tag;     // what follows the DSML token, up to '>'
    bool in_tag, tag_closes;
    bool literal;         // the rest of a tag that turned out to be text, up to '>'
    struct lf_buffer raw; // the block as generated, until a call opens in it
    struct lf_buffer body, key, value, keys, out;
    size_t n_parameters;
    bool typed, skipped; // of the open parameter
};

// Clearing forgets a failed allocation, so it is noted first.
static void reset(struct lf_reply *r, struct lf_buffer *buffer) {
    r->failed |= buffer->failed;
    lf_buffer_clear(buffer);
}

static void emit(struct lf_reply *r, struct lf_reply_event event) {
    if (event.len || event.kind == LF_REPLY_CALL_OPEN || event.kind == LF_REPLY_CALL_CLOSE)
        r->sink(r->ctx, &event);
}

static void emit_visible(struct lf_reply *r, const char *text, size_t len) {
    enum lf_reply_event_kind kind =
        r->mode == MODE_REASONING ? LF_REPLY_REASONING : LF_REPLY_CONTENT;
    struct lf_reply_event event = {.kind = kind, .text = text, .len = len};
    lf_trail_give(&r->trail, &event);
    emit(r, event);
}

static void emit_arguments(struct lf_reply *r) {
    emit(r, (struct lf_reply_event){.kind = LF_REPLY_ARGUMENTS, .index = r->n_calls - 1,
                                    .text = r->out.data, .len = r->out.len});
    reset(r, &r->out);
}

// Reasoning or content that no tag can take back any more; `after` bytes read since are not in it.
static void show(struct lf_reply *r, const char *text, size_t len, size_t after) {
    lf_trail_show(&r->trail, len, after);
    if (r->mode == MODE_REASONING && !r->stop_in_reasoning) {
        emit_visible(r, text, len);
        return;
    }
    int found = lf_stops_feed(&r->stops, text, len, &r->out);
    emit_visible(r, r->out.data, r->out.len);
    reset(r, &r->out);
    if (found >= 0) {
        r->stopped = found;
        r->mode = MODE_DONE;
    }
}

static void flush_stops(struct lf_reply *r) {
    lf_stops_flush(&r->stops, &r->out);
    emit_visible(r, r->out.data, r->out.len);
    reset(r, &r->out);
}

// Text that is known to be no markup goes where the mode wants it.
static void decide(struct lf_reply *r, const char *text, size_t len, size_t after) {
    if (!len)
        return;
    switch (r->mode) {
    case MODE_REASONING:
    case MODE_CONTENT:
        show(r, text, len, after);
        break;
    case MODE_BLOCK:
        if (!r->n_calls)
            lf_buffer_add(&r->raw, text, len);
        break;
    case MODE_CALL:
        lf_buffer_add(&r->body, text, len);
        break;
    case MODE_VALUE:
        if (r->typed || r->skipped) {
            lf_buffer_add(&r->value, text, r->skipped ? 0 : len);
        } else {
            lf_json_print_escaped(&r->out, text, len);
            emit_arguments(r);
        }
        break;
    case MODE_DONE:
        break;
    }
}

static void decide_pending(struct lf_reply *r, size_t after) {
    decide(r, r->pending.data, r->pending.len, after);
    reset(r, &r->pending);
}

// How much of the pending text no tag can claim (prompts.md 12.7).
static size_t decided_len(const struct lf_reply *r) {
    const char *text = r->pending.data;
    size_t len = r->pending.len;
    if (len && text[len - 1] == '<')
        len--;
    else if (len > 1 && text[len - 1] == '/' && text[len - 2] == '<')
        len -= 2;
    bool visible = r->mode == MODE_REASONING || r->mode == MODE_CONTENT;
    for (int newlines = 0; visible && newlines < 2 && len && text[len - 1] == '\n'; newlines++)
        len--;
    return len;
}

static void plain(struct lf_reply *r, const char *text, size_t len) {
    if (!r->tools) {
        decide(r, text, len, 0);
        return;
    }
    lf_buffer_add(&r->pending, text, len);
    size_t done = decided_len(r);
    if (!done)
        return;
    decide(r, r->pending.data, done, r->pending.len - done);
    memmove(r->pending.data, r->pending.data + done, r->pending.len - done + 1);
    r->pending.len -= done;
}

// The length of the whole tag at hand as it was generated.
static size_t tag_source_len(const struct lf_reply *r) {
    return (r->tag_closes ? 2 : 1) + strlen(lf_control_text(LF_CONTROL_DSML)) + r->tag.len + 1;
}

// Appends the tag at hand as it was generated.
static void add_tag_source(const struct lf_reply *r, struct lf_buffer *out, bool whole) {
    lf_buffer_add_text(out, r->tag_closes ? "</" : "<");
    lf_buffer_add_text(out, lf_control_text(LF_CONTROL_DSML));
    lf_buffer_add(out, r->tag.data, r->tag.len);
    lf_buffer_add(out, ">", whole ? 1 : 0);
}

static void tag_is_text(struct lf_reply *r, bool whole) {
    r->in_tag = false;
    r->literal = !whole;
    add_tag_source(r, &r->pending, whole);
    decide_pending(r, 0);
}

static void block_open(struct lf_reply *r) {
    reset(r, &r->raw);
    if (r->pending.len == 2)
        lf_buffer_add(&r->raw, r->pending.data, r->pending.len);
    else
        decide_pending(r, tag_source_len(r));
    reset(r, &r->pending);
    if (r->mode == MODE_REASONING)
        flush_stops(r);
    if (r->mode != MODE_DONE)
        r->mode = MODE_BLOCK;
    add_tag_source(r, &r->raw, true);
}

static void block_close(struct lf_reply *r) {
    if (r->mode == MODE_BLOCK)
        r->mode = r->n_calls ? MODE_DONE : MODE_CONTENT;
}

static void call_open(struct lf_reply *r, const struct lf_tag *tag) {
    if (r->mode != MODE_BLOCK)
        return;
    flush_stops(r);
    reset(r, &r->raw);
    reset(r, &r->body);
    reset(r, &r->keys);
    reset(r, &r->key);
    lf_buffer_add(&r->key, tag->key, tag->key_len);
    r->n_parameters = 0;
    r->mode = MODE_CALL;
    const char *split = r->key.data ? strstr(r->key.data, "::") : NULL;
    size_t before = split ? (size_t)(split - r->key.data) : 0, skip = split ? before + 2 : 0;
    lf_buffer_add(&r->out, r->key.data, before);
    emit(r, (struct lf_reply_event){.kind = LF_REPLY_CALL_OPEN, .index = r->n_calls++,
                                    .text = r->key.data ? r->key.data + skip : "",
                                    .len = r->key.len - skip,
                                    .space = before && r->out.data ? r->out.data : ""});
    reset(r, &r->out);
}

static void begin_parameter(struct lf_reply *r) {
    lf_buffer_add_text(&r->out, r->n_parameters++ ? ", " : "{");
    lf_json_print_string(&r->out, r->key.len ? r->key.data : "", r->key.len);
    lf_buffer_add_text(&r->out, ": ");
}

// keys holds each name with its length in front; true when the new one was there already.
static bool add_key(struct lf_reply *r, const char *key, size_t key_len) {
    for (size_t at = 0; at < r->keys.len;) {
        size_t len;
        memcpy(&len, r->keys.data + at, sizeof len);
        at += sizeof len;
        if (len == key_len && (!len || !memcmp(r->keys.data + at, key, len)))
            return true;
        at += len;
    }
    lf_buffer_add(&r->keys, &key_len, sizeof key_len);
    lf_buffer_add(&r->keys, key, key_len);
    // A list that lost its last entry must not be read on.
    if (r->keys.failed)
        reset(r, &r->keys);
    return false;
}

static void value_open(struct lf_reply *r, const struct lf_tag *tag) {
    r->mode = MODE_VALUE;
    r->typed = tag->typed;
    r->skipped = add_key(r, tag->key, tag->key_len);
    reset(r, &r->value);
    reset(r, &r->key);
    lf_buffer_add(&r->key, tag->key, tag->key_len);
    if (r->skipped) {
        lf_log(LF_LOG_DEBUG, "a repeated tool parameter was dropped");
    } else if (!r->typed) {
        begin_parameter(r);
        lf_buffer_add(&r->out, "\"", 1);
        emit_arguments(r);
    }
}

static bool is_json(const struct lf_buffer *text, struct lf_json_span *value) {
    struct lf_error unused = LF_ERROR_INIT;
    // One level is left for the argument object around a value.
    return text->len &&
           lf_json_check(value, text->data, text->len, LF_JSON_DEPTH_MAX - 1, &unused) == LF_OK;
}

static void value_close(struct lf_reply *r) {
    struct lf_json_span value;
    r->mode = MODE_CALL;
    if (r->skipped)
        return;
    if (!r->typed) {
        lf_buffer_add(&r->out, "\"", 1);
    } else {
        begin_parameter(r);
        if (is_json(&r->value, &value))
            lf_buffer_add(&r->out, r->value.data, r->value.len);
        else
            lf_json_print_string(&r->out, r->value.len ? r->value.data : "", r->value.len);
    }
    emit_arguments(r);
}

static void call_close(struct lf_reply *r) {
    if (r->mode != MODE_CALL)
        return;
    struct lf_json_span object;
    if (r->n_parameters) {
        lf_buffer_add(&r->out, "}", 1);
    } else if (is_json(&r->body, &object) && object.text[0] == '{') {
        lf_buffer_add(&r->out, object.text, object.len);
    } else if (r->body.len && strspn(r->body.data, " \t\r\n") < r->body.len) {
        lf_buffer_add_text(&r->out, "{\"arguments\": ");
        lf_json_print_string(&r->out, r->body.data, r->body.len);
        lf_buffer_add(&r->out, "}", 1);
    } else {
        lf_buffer_add_text(&r->out, "{}");
    }
    emit_arguments(r);
    emit(r, (struct lf_reply_event){.kind = LF_REPLY_CALL_CLOSE, .index = r->n_calls - 1,
                                    .complete = true});
    r->mode = r->parallel ? MODE_BLOCK : MODE_DONE;
}

// A closing tag also closes what is open inside its element.
static void closing_tag(struct lf_reply *r, const struct lf_tag *tag) {
    if (r->mode == MODE_VALUE)
        value_close(r);
    else if (tag->name == LF_TAG_UNKNOWN) {
        tag_is_text(r, true);
        return;
    }
    if (r->mode == MODE_BLOCK && !r->n_calls)
        add_tag_source(r, &r->raw, true);
    if (r->mode == MODE_REASONING || r->mode == MODE_CONTENT)
        lf_trail_cut(&r->trail, tag_source_len(r));
    if (tag->name == LF_TAG_INVOKE || tag->name == LF_TAG_CALLS)
        call_close(r);
    if (tag->name == LF_TAG_CALLS)
        block_close(r);
}

static void opening_tag(struct lf_reply *r, const struct lf_tag *tag) {
    bool visible = r->mode == MODE_REASONING || r->mode == MODE_CONTENT;
    bool invoke = tag->name == LF_TAG_INVOKE && tag->key;
    if (visible && (tag->name == LF_TAG_CALLS || invoke)) {
        block_open(r);
        if (invoke)
            call_open(r, tag);
    } else if (invoke) {
        call_close(r);
        call_open(r, tag);
    } else if (r->mode == MODE_CALL && tag->name == LF_TAG_PARAMETER && tag->key) {
        value_open(r, tag);
    } else if (r->mode != MODE_CALL || tag->name != LF_TAG_CALLS) {
        tag_is_text(r, true);
    }
}

static void tag_complete(struct lf_reply *r) {
    struct lf_tag tag = lf_tag_parse(r->tag.data ? r->tag.data : "", r->tag.len);
    r->in_tag = false;
    if (r->tag_closes)
        closing_tag(r, &tag);
    else
        opening_tag(r, &tag);
}

static void feed(struct lf_reply *r, const char *text, size_t len) {
    while (len && r->mode != MODE_DONE) {
        const char *end = r->in_tag || r->literal ? memchr(text, '>', len) : NULL;
        size_t part = end ? (size_t)(end - text) : len;
        r->trail.source += part + (end ? 1 : 0);
        if (r->in_tag) {
            lf_buffer_add(&r->tag, text, part);
            if (end)
                tag_complete(r);
            else if (r->mode != MODE_VALUE && !lf_tag_possible(r->tag.data, r->tag.len))
                tag_is_text(r, false);
        } else if (r->literal) {
            r->literal = !end;
            decide(r, text, part + (end ? 1 : 0), 0);
        } else {
            plain(r, text, len);
        }
        part += end ? 1 : 0;
        text += part;
        len -= part;
    }
}

// Before a token that is no text: an unfinished character will not be finished.
static void end_characters(struct lf_reply *r) {
    reset(r, &r->text);
    lf_utf8_stream_end(&r->utf8, &r->text);
    feed(r, r->text.data, r->text.len);
}

// A token gave len bytes besides `before` held ones; what it leaves held counts as its text.
static void note_token(struct lf_reply *r, uint32_t index, size_t len, size_t before) {
    uint64_t start = r->trail.source + before, end = r->trail.source + len + r->utf8.tail_len;
    if (!r->n_calls) // after a call nothing is shown
        lf_trail_token(&r->trail, index, start, end);
}

static void take_think_end(struct lf_reply *r) {
    if (r->mode != MODE_REASONING)
        return;
    end_characters(r);
    if (r->in_tag)
        tag_is_text(r, false);
    decide_pending(r, 0);
    r->literal = false;
    flush_stops(r);
    if (r->mode == MODE_REASONING)
        r->mode = MODE_CONTENT;
}

static void take_dsml(struct lf_reply *r, uint32_t index) {
    const char *mark = lf_control_text(LF_CONTROL_DSML);
    end_characters(r);
    note_token(r, index, strlen(mark), 0);
    const char *text = r->pending.data;
    size_t len = r->pending.len;
    bool closes = len > 1 && text[len - 1] == '/' && text[len - 2] == '<';
    bool opens = len && text[len - 1] == '<' && r->mode != MODE_VALUE;
    if (r->mode == MODE_DONE)
        return;
    if (!r->tools || r->in_tag || r->literal || (!closes && !opens)) {
        feed(r, mark, strlen(mark));
        return;
    }
    r->trail.source += strlen(mark);
    r->pending.len -= closes ? 2 : 1;
    r->pending.data[r->pending.len] = 0;
    reset(r, &r->tag);
    r->in_tag = true;
    r->tag_closes = closes;
}

static void note_failures(struct lf_reply *r) {
    r->failed |= r->text.failed | r->pending.failed | r->tag.failed | r->raw.failed |
                 r->body.failed | r->key.failed | r->value.failed | r->out.failed |
                 r->trail.mark.failed | r->trail.due.failed | r->trail.out.failed;
}

enum lf_status lf_reply_open(struct lf_reply **out, const struct lf_tokenizer *tokenizer,
                             const struct lf_controls *controls,
                             const struct lf_reply_options *options, lf_reply_sink *sink,
                             void *ctx, struct lf_error *err) {
    struct lf_reply *r = calloc(1, sizeof *r);
    *out = r;
    if (!r || !lf_stops_open(&r->stops, options->stop, options->n_stops, options->include_stop)) {
        lf_reply_close(r);
        *out = NULL;
        return lf_fail(err, LF_E_MEM, "no memory for a reply parser");
    }
    r->tokenizer = tokenizer;
    r->controls = *controls;
    r->sink = sink;
    r->ctx = ctx;
    r->tools = options->tools;
    r->parallel = options->parallel_calls;
    r->stop_in_reasoning = options->stop_in_reasoning;
    r->mode = options->in_reasoning ? MODE_REASONING : MODE_CONTENT;
    r->stopped = -1;
    return LF_OK;
}

void lf_reply_close(struct lf_reply *r) {
    if (!r)
        return;
    struct lf_buffer *const buffers[] = {&r->text, &r->pending, &r->tag,  &r->raw, &r->body,
                                         &r->key,  &r->value,   &r->keys, &r->out};
    for (size_t i = 0; i < sizeof buffers / sizeof *buffers; i++)
        lf_buffer_free(buffers[i]);
    lf_stops_free(&r->stops);
    lf_trail_free(&r->trail);
    free(r);
}

int lf_reply_push(struct lf_reply *r, uint32_t id) {
    const int64_t *known = r->controls.id;
    uint32_t index = r->n_ids++;
    if (r->mode == MODE_REASONING && id != known[LF_CONTROL_EOS])
        r->reasoning_tokens++;
    if (r->mode == MODE_DONE || id >= lf_tokenizer_size(r->tokenizer))
        return -1;
    if (id == known[LF_CONTROL_THINK_END]) {
        take_think_end(r);
    } else if (id == known[LF_CONTROL_DSML]) {
        take_dsml(r, index);
    } else if (!lf_tokenizer_is_added(r->tokenizer, id)) {
        size_t len, held = r->utf8.tail_len;
        const char *bytes = lf_tokenizer_bytes(r->tokenizer, id, &len);
        reset(r, &r->text);
        lf_utf8_stream_push(&r->utf8, bytes, len, &r->text);
        note_token(r, index, r->text.len, held);
        feed(r, r->text.data, r->text.len);
    }
    note_failures(r);
    return r->stopped;
}

void lf_reply_skip(struct lf_reply *r) {
    r->n_ids++;
}

static void end_block(struct lf_reply *r) {
    if (r->n_calls)
        return;
    if (r->in_tag)
        add_tag_source(r, &r->raw, false);
    else
        lf_buffer_add(&r->raw, r->pending.data, r->pending.len);
    r->mode = MODE_CONTENT;
    show(r, r->raw.data, r->raw.len, 0);
}

// The cause does not change what is shown: a cut call is incomplete either way (prompts.md 12.8).
void lf_reply_end(struct lf_reply *r, bool length) {
    (void)length;
    if (r->mode != MODE_DONE)
        end_characters(r);
    if (r->mode == MODE_REASONING || r->mode == MODE_CONTENT) {
        if (r->in_tag)
            tag_is_text(r, false);
        decide_pending(r, 0);
    } else if (r->mode == MODE_BLOCK) {
        end_block(r);
    } else if (r->mode == MODE_CALL || r->mode == MODE_VALUE) {
        if (r->mode == MODE_VALUE && !r->in_tag)
            decide_pending(r, 0);
        emit(r, (struct lf_reply_event){.kind = LF_REPLY_CALL_CLOSE, .index = r->n_calls - 1});
    }
    if (r->mode == MODE_REASONING || r->mode == MODE_CONTENT)
        flush_stops(r);
    r->mode = MODE_DONE;
    note_failures(r);
}

int lf_reply_stopped(const struct lf_reply *r) {
    return r->stopped;
}

bool lf_reply_failed(const struct lf_reply *r) {
    return r->failed;
}

bool lf_reply_in_reasoning(const struct lf_reply *r) {
    return r->mode == MODE_REASONING;
}

uint32_t lf_reply_calls(const struct lf_reply *r) {
    return r->n_calls;
}

uint32_t lf_reply_reasoning_tokens(const struct lf_reply *r) {
    return r->reasoning_tokens;
}
