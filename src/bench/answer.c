#include "bench/answer.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <stdio.h>
#include "base/sha256.h"
#include "bench/report.h"

void lf_answer_init(struct lf_answer *reply) {
    *reply = (struct lf_answer){.prompt_tokens = -1, .cached_tokens = -1, .tokens = -1,
                               .drafted = -1, .accepted = -1, .rounds = -1, .plain_rounds = -1,
                               .ttft_s = NAN, .decode_tps = NAN};
}

void lf_answer_free(struct lf_answer *reply) {
    free(reply->piece);
    lf_buffer_free(&reply->content);
    lf_buffer_free(&reply->reasoning);
    lf_buffer_free(&reply->body);
    lf_buffer_free(&reply->line);
    *reply = (struct lf_answer){0};
}

void lf_answer_fail(struct lf_answer *reply, const char *code, const char *detail) {
    if (reply->error)
        return;
    reply->error = code;
    snprintf(reply->detail, sizeof reply->detail, "%s", detail);
}

static void add_piece(struct lf_answer *reply, struct lf_buffer *to, const json_t *text,
                      double now_s) {
    const char *bytes = json_string_value(text);
    size_t len = json_string_length(text);
    if (!bytes || !len)
        return;
    lf_buffer_add(to, bytes, len);
    if (reply->pieces == reply->piece_cap) {
        size_t cap = reply->piece_cap ? 2 * reply->piece_cap : 64;
        struct lf_answer_piece *grown = realloc(reply->piece, cap * sizeof *grown);
        if (!grown) {
            lf_answer_fail(reply, "memory", "out of memory for pieces");
            return;
        }
        reply->piece = grown;
        reply->piece_cap = cap;
    }
    uint32_t chars = 0;
    for (size_t i = 0; i < len; i++)
        chars += (bytes[i] & 0xc0) != 0x80;
    reply->piece[reply->pieces++] = (struct lf_answer_piece){now_s, chars};
}

// The text of a choice: chat deltas and messages, or the completions' text.
static void read_choice(struct lf_answer *reply, const json_t *choice, double now_s) {
    const json_t *delta = json_object_get(choice, "delta");
    delta = delta ? delta : json_object_get(choice, "message");
    const json_t *thought = json_object_get(delta, "reasoning_content");
    // Servers that write both names write the same text twice.
    thought = json_is_string(thought) ? thought : json_object_get(delta, "reasoning");
    add_piece(reply, &reply->reasoning, thought, now_s);
    add_piece(reply, &reply->content, json_object_get(delta, "content"), now_s);
    add_piece(reply, &reply->content, json_object_get(choice, "text"), now_s);
}

static int64_t count_of(const json_t *object, const char *name) {
    const json_t *value = json_object_get(object, name);
    return json_is_integer(value) && json_integer_value(value) >= 0 ? json_integer_value(value)
                                                                     : -1;
}

static void read_sha(struct lf_answer *reply, const json_t *block) {
    const char *text = json_string_value(json_object_get(block, "token_sha256"));
    size_t len = text ? strlen(text) : 0;
    bool good = (len == 64 || len == 12) && strspn(text, "0123456789abcdef") == len;
    snprintf(reply->token_sha, sizeof reply->token_sha, "%s", good ? text : "");
}

static void read_counters(struct lf_answer *reply, const json_t *event) {
    const json_t *usage = json_object_get(event, "usage");
    const json_t *block = json_object_get(event, "lanefold");
    if (json_is_object(usage)) {
        reply->prompt_tokens = count_of(usage, "prompt_tokens");
        reply->tokens = count_of(usage, "completion_tokens");
        reply->cached_tokens = count_of(json_object_get(usage, "prompt_tokens_details"),
                                        "cached_tokens");
    }
    if (json_is_object(block)) {
        read_sha(reply, block);
        reply->drafted = count_of(block, "drafted");
        reply->accepted = count_of(block, "accepted");
        reply->rounds = count_of(block, "rounds");
        reply->plain_rounds = count_of(block, "plain_rounds");
    }
}

static void read_event(struct lf_answer *reply, const char *text, size_t len, double now_s) {
    size_t i;
    const json_t *choice;
    json_t *event = json_loadb(text, len, JSON_ALLOW_NUL, NULL);
    const json_t *error = json_object_get(event, "error");
    if (!json_is_object(event))
        lf_answer_fail(reply, "not_json", "an event is not a JSON object");
    else if (error && !json_is_null(error))
        lf_answer_fail(reply, "error_event", "the server sent an error object");
    const json_t *choices = json_object_get(event, "choices");
    json_array_foreach(choices, i, choice)
        read_choice(reply, choice, now_s);
    read_counters(reply, event);
    json_decref(event);
}

static void read_line(struct lf_answer *reply, double now_s) {
    const char *line = reply->line.data;
    size_t len = reply->line.len;
    if (len && line[len - 1] == '\r')
        len--;
    // Comments, blank lines and other fields carry no text.
    if (len >= 5 && !memcmp(line, "data:", 5)) {
        size_t skip = len > 5 && line[5] == ' ' ? 6 : 5;
        if (len - skip == 6 && !memcmp(line + skip, "[DONE]", 6))
            reply->complete = true;
        else if (!reply->complete)
            read_event(reply, line + skip, len - skip, now_s);
    }
    lf_buffer_clear(&reply->line);
}

bool lf_answer_feed(struct lf_answer *reply, const char *bytes, size_t len, double now_s) {
    reply->body_bytes += len;
    if (reply->body_bytes > LF_ANSWER_BODY_MAX)
        lf_answer_fail(reply, "too_large", "the body is over 16 MiB");
    while (len && (!reply->error || strcmp(reply->error, "too_large"))) {
        const char *end = memchr(bytes, '\n', len);
        size_t part = end ? (size_t)(end - bytes) : len;
        if (reply->line.len + part > LF_ANSWER_LINE_MAX) {
            lf_answer_fail(reply, "too_large", "a line is over 64 KiB");
            break;
        }
        lf_buffer_add(&reply->line, bytes, part);
        if (reply->line.failed)
            lf_answer_fail(reply, "memory", "out of memory for a line");
        if (!end)
            break;
        read_line(reply, now_s);
        bytes += part + 1;
        len -= part + 1;
    }
    return !reply->error || (strcmp(reply->error, "too_large") && strcmp(reply->error, "memory"));
}

void lf_answer_whole(struct lf_answer *reply) {
    read_event(reply, reply->body.data ? reply->body.data : "", reply->body.len,
               lf_clock_s());
    reply->complete = !reply->error;
}

// The digest of both digests: where the network cut the text does not matter.
static void hash_output(struct lf_answer *reply) {
    const struct lf_buffer *text[2] = {&reply->content, &reply->reasoning};
    struct lf_sha256 sha;
    uint8_t digest[2][32], both[32];
    for (int i = 0; i < 2; i++) {
        lf_sha256_init(&sha);
        lf_sha256_add(&sha, text[i]->data ? text[i]->data : "", text[i]->len);
        lf_sha256_finish(&sha, digest[i]);
    }
    lf_sha256_init(&sha);
    lf_sha256_add(&sha, digest, sizeof digest);
    lf_sha256_finish(&sha, both);
    lf_sha256_hex(both, reply->output_sha);
}

void lf_answer_finish(struct lf_answer *reply, uint64_t tokens_asked) {
    if (reply->content.failed || reply->reasoning.failed || reply->body.failed)
        lf_answer_fail(reply, "memory", "out of memory for the reply's text");
    if (!reply->complete)
        lf_answer_fail(reply, "incomplete", "the stream ended without [DONE]");
    if (reply->tokens <= 0 || (uint64_t)reply->tokens > tokens_asked)
        lf_answer_fail(reply, "usage", "completion_tokens is missing, not a positive integer or "
                                      "above the tokens asked");
    hash_output(reply);
    if (!reply->pieces)
        return;
    reply->first_s = reply->piece[0].at_s;
    reply->last_s = reply->piece[reply->pieces - 1].at_s;
    if (reply->error || reply->pieces < LF_ANSWER_PIECES_MIN || reply->last_s <= reply->first_s)
        return;
    reply->ttft_s = reply->first_s - reply->sent_s;
    reply->decode_tps = (double)(reply->tokens - 1) / (reply->last_s - reply->first_s);
}

const char *lf_answer_cache_state(const struct lf_answer *reply) {
    if (reply->complete && reply->cached_tokens == 0)
        return "cold";
    bool reused = reply->complete && reply->cached_tokens > 0 &&
                  reply->cached_tokens <= reply->prompt_tokens;
    return reused ? "reused" : "unverified";
}

bool lf_answer_failed(const struct lf_answer *reply) {
    return reply->error || !reply->complete;
}

bool lf_answer_measured(const struct lf_answer *reply) {
    return !isnan(reply->decode_tps);
}

enum lf_answer_equal lf_answer_compare(const struct lf_answer *a, const struct lf_answer *b) {
    size_t len = strlen(a->token_sha);
    // Two forms of hash say nothing about each other.
    if (lf_answer_failed(a) || lf_answer_failed(b) || !len || strlen(b->token_sha) != len)
        return LF_ANSWER_UNVERIFIED;
    return strcmp(a->token_sha, b->token_sha) ? LF_ANSWER_UNEQUAL : LF_ANSWER_EQUAL;
}

json_t *lf_answer_evidence(const struct lf_answer *reply) {
    json_t *row = json_object();
    json_object_set_new(row, "prompt_tokens", lf_report_count(reply->prompt_tokens));
    json_object_set_new(row, "cached_tokens", lf_report_count(reply->cached_tokens));
    json_object_set_new(row, "tokens", lf_report_count(reply->tokens));
    json_object_set_new(row, "cache_state", json_string(lf_answer_cache_state(reply)));
    json_object_set_new(row, "complete", json_boolean(reply->complete));
    json_object_set_new(row, "token_sha", lf_report_text(reply->token_sha));
    json_object_set_new(row, "output_sha256", lf_report_text(reply->output_sha));
    json_object_set_new(row, "ttft_s", lf_report_number(reply->ttft_s));
    json_object_set_new(row, "decode_tps", lf_report_number(reply->decode_tps));
    json_object_set_new(row, "drafted", lf_report_count(reply->drafted));
    json_object_set_new(row, "accepted", lf_report_count(reply->accepted));
    json_object_set_new(row, "rounds", lf_report_count(reply->rounds));
    json_object_set_new(row, "plain_rounds", lf_report_count(reply->plain_rounds));
    json_object_set_new(row, "error", reply->error ? json_string(reply->error) : json_null());
    return row;
}
