#include "serve/logprobs.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>
#include "base/utf8.h"
#include "text/json_text.h"

struct due {
    uint32_t index, offset;
};

void lf_entry_queue_free(struct lf_entry_queue *queue) {
    lf_buffer_free(&queue->row);
    lf_buffer_free(&queue->due);
}

void lf_entry_queue_hear(struct lf_entry_queue *queue, const uint32_t *id, uint32_t n,
                         const struct lf_logprob_row *rows) {
    for (uint32_t i = 0; i < n; i++) {
        struct lf_entry entry = {.id = id[i], .row = {.drawn = NAN}};
        if (rows)
            entry.row = rows[i];
        lf_buffer_add(&queue->row, &entry, sizeof entry);
    }
    queue->n_heard += n;
}

// Continuation bytes aside, every byte begins a character.
static uint32_t count_characters(const char *text, size_t len) {
    uint32_t n = 0;
    for (size_t i = 0; i < len; i++)
        n += ((unsigned char)text[i] & 0xC0) != 0x80;
    return n;
}

void lf_entry_queue_event(struct lf_entry_queue *queue, const struct lf_reply_event *event) {
    size_t counted = 0;
    for (size_t i = 0; i < event->n_tokens; i++) {
        const struct lf_reply_token *token = &event->token[i];
        struct due due = {.index = token->index};
        if (event->kind == LF_REPLY_CONTENT) {
            queue->characters += count_characters(event->text + counted, token->at + 1 - counted);
            counted = token->at + 1;
            // The character that holds the token's first byte.
            due.offset = queue->characters - 1;
        }
        lf_buffer_add(&queue->due, &due, sizeof due);
    }
    if (event->kind == LF_REPLY_CONTENT)
        queue->characters += count_characters(event->text + counted, event->len - counted);
}

void lf_entry_queue_pass(struct lf_entry_queue *queue, struct lf_buffer *out) {
    const struct due *due = (const struct due *)(const void *)queue->due.data;
    struct lf_entry *row = (struct lf_entry *)(void *)queue->row.data;
    size_t n = queue->due.len / sizeof *due, rows = queue->row.len / sizeof *row, passed = 0;
    for (size_t i = 0; i < n; i++) {
        size_t at = due[i].index - queue->first;
        if (at >= rows)
            break;
        row[at].offset = due[i].offset;
        lf_buffer_add(out, &row[at], sizeof *row);
        passed = at + 1;
    }
    out->failed = out->failed || queue->due.failed || queue->row.failed;
    lf_buffer_clear(&queue->due);
    if (!passed)
        return;
    // Shown text comes in the order of its tokens: no event will name an earlier one.
    memmove(row, row + passed, (rows - passed) * sizeof *row);
    queue->row.len = (rows - passed) * sizeof *row;
    queue->first += (uint32_t)passed;
}

static void print_value(struct lf_buffer *out, float value) {
    if (isfinite(value))
        lf_buffer_printf(out, "%.9g", (double)value);
    else
        lf_buffer_add_text(out, "-9999.0");
}

// A model's vocabulary may hold ids that the tokenizer does not know: they have no bytes.
static const char *bytes_of(const struct lf_tokenizer *tokenizer, uint32_t id, size_t *len) {
    *len = 0;
    return id < lf_tokenizer_size(tokenizer) ? lf_tokenizer_bytes(tokenizer, id, len) : "";
}

static void repair(const struct lf_tokenizer *tokenizer, uint32_t id, struct lf_buffer *out) {
    size_t len;
    const char *bytes = bytes_of(tokenizer, id, &len);
    out->len = 0;
    lf_utf8_repair(out, bytes, len);
}

static void print_token(const struct lf_tokenizer *tokenizer, uint32_t id, struct lf_buffer *out) {
    struct lf_buffer text = {0};
    repair(tokenizer, id, &text);
    lf_json_print_string(out, text.data ? text.data : "", text.len);
    out->failed = out->failed || text.failed;
    lf_buffer_free(&text);
}

// "token":...,"bytes":[...],"logprob":...
static void print_members(const struct lf_tokenizer *tokenizer, uint32_t id, float value,
                          struct lf_buffer *out) {
    size_t len;
    const char *bytes = bytes_of(tokenizer, id, &len);
    lf_buffer_add_text(out, "{\"token\":");
    print_token(tokenizer, id, out);
    lf_buffer_add_text(out, ",\"bytes\":[");
    for (size_t i = 0; i < len; i++)
        lf_buffer_printf(out, "%s%u", i ? "," : "", (unsigned)(unsigned char)bytes[i]);
    lf_buffer_add_text(out, "],\"logprob\":");
    print_value(out, value);
}

static void print_entries(const struct lf_tokenizer *tokenizer, const struct lf_entry *entry,
                          size_t n, struct lf_buffer *out) {
    lf_buffer_add_text(out, "[");
    for (size_t i = 0; i < n; i++) {
        const struct lf_logprob_row *row = &entry[i].row;
        lf_buffer_add_text(out, i ? "," : "");
        print_members(tokenizer, entry[i].id, row->drawn, out);
        lf_buffer_add_text(out, ",\"top_logprobs\":[");
        for (uint32_t j = 0; j < row->n; j++) {
            lf_buffer_add_text(out, j ? "," : "");
            print_members(tokenizer, row->id[j], row->value[j], out);
            lf_buffer_add_text(out, "}");
        }
        lf_buffer_add_text(out, "]}");
    }
    lf_buffer_add_text(out, "]");
}

void lf_entries_print_chat(const struct lf_tokenizer *tokenizer, const struct lf_entry *reasoning,
                           size_t n_reasoning, const struct lf_entry *content, size_t n_content,
                           struct lf_buffer *out) {
    lf_buffer_add_text(out, "{\"content\":");
    print_entries(tokenizer, content, n_content, out);
    lf_buffer_add_text(out, ",\"reasoning_content\":");
    print_entries(tokenizer, reasoning, n_reasoning, out);
    lf_buffer_add_text(out, ",\"refusal\":null}");
}

// Whether a better alternative has the same text: an object has one value a name, the best.
static bool named_before(const struct lf_tokenizer *tokenizer, const struct lf_logprob_row *row,
                         uint32_t i) {
    struct lf_buffer own = {0}, other = {0};
    bool found = false;
    repair(tokenizer, row->id[i], &own);
    for (uint32_t j = 0; j < i && !found; j++) {
        repair(tokenizer, row->id[j], &other);
        found = own.len == other.len && (!own.len || !memcmp(own.data, other.data, own.len));
    }
    lf_buffer_free(&own);
    lf_buffer_free(&other);
    return found;
}

static void print_best(const struct lf_tokenizer *tokenizer, const struct lf_logprob_row *row,
                       struct lf_buffer *out) {
    lf_buffer_add_text(out, "{");
    for (uint32_t i = 0; i < row->n; i++) {
        if (named_before(tokenizer, row, i))
            continue;
        lf_buffer_add_text(out, i ? "," : "");
        print_token(tokenizer, row->id[i], out);
        lf_buffer_add_text(out, ":");
        print_value(out, row->value[i]);
    }
    lf_buffer_add_text(out, "}");
}

void lf_entries_print_legacy(const struct lf_tokenizer *tokenizer, const struct lf_entry *entry,
                             size_t n, struct lf_buffer *out) {
    static const char *const lists[] = {"{\"tokens\":[", "],\"token_logprobs\":[",
                                        "],\"top_logprobs\":[", "],\"text_offset\":["};
    for (int list = 0; list < 4; list++) {
        lf_buffer_add_text(out, lists[list]);
        for (size_t i = 0; i < n; i++) {
            lf_buffer_add_text(out, i ? "," : "");
            if (list == 0)
                print_token(tokenizer, entry[i].id, out);
            else if (list == 1)
                print_value(out, entry[i].row.drawn);
            else if (list == 2)
                print_best(tokenizer, &entry[i].row, out);
            else
                lf_buffer_printf(out, "%u", entry[i].offset);
        }
    }
    lf_buffer_add_text(out, "]}");
}
