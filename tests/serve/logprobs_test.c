// Do log-probabilities come with the text of their tokens, streamed and whole (api.md 8, 12)?
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>
#include <jansson.h>
#include <math.h>
#include "base/log.h"
#include "base/utf8.h"
#include "http_client.h"
#include "serve/logprobs.h"
#include "served.h"

#define CHAT "/v1/chat/completions"
#define TEXT "/v1/completions"
#define HELLO "\"messages\":[{\"role\":\"user\",\"content\":\"Hello!\"}]"
#define TOOLS                                                                                      \
    "\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"f\","                              \
    "\"parameters\":{\"type\":\"object\"}}}]"
#define BAR "\xEF\xBD\x9C"
#define DSML BAR "DSML" BAR

static const char calls[] =
    "I look a while.</think>I ask: caf\xC3\xA9 \xE2\x82\xAC?\n\n<" DSML " calls>\n<" DSML
    " invoke name=\"f\">\n<" DSML " parameter name=\"x\" string=\"true\">1</" DSML " parameter>\n"
    "</" DSML " invoke>\n</" DSML " calls>";

static json_t *choice_of(json_t *json) {
    return json_array_get(json_object_get(json, "choices"), 0);
}

static const char *text_at(const json_t *json, const char *name) {
    const char *text = json_string_value(json_object_get(json, name));
    return text ? text : "";
}

static json_t *call(struct served *s, const char *path, const char *body) {
    struct reply reply = http_call(s->url, "POST", path, "", body);
    json_t *json = json_loadb(reply.body.data, reply.body.len, 0, NULL);
    if (!json || reply.status != 200)
        fail_msg("%d: %s", reply.status, reply.body.data);
    http_free(&reply);
    return json;
}

// What the bytes of a list's entries make together.
static struct lf_buffer joined(const json_t *list) {
    struct lf_buffer out = {0};
    size_t i, j;
    json_t *entry, *byte;
    lf_buffer_add(&out, "", 0);
    json_array_foreach(list, i, entry) {
        json_array_foreach(json_object_get(entry, "bytes"), j, byte) {
            char c = (char)json_integer_value(byte);
            lf_buffer_add(&out, &c, 1);
        }
    }
    return out;
}

static void check_token(const struct served *s, const json_t *entry, uint32_t id) {
    size_t len;
    const char *bytes = lf_tokenizer_bytes(s->tokenizer, id, &len);
    struct lf_buffer text = {0};
    json_t *list = json_object_get(entry, "bytes");
    assert_int_equal(json_array_size(list), len);
    for (size_t i = 0; i < len; i++)
        assert_int_equal(json_integer_value(json_array_get(list, i)), (unsigned char)bytes[i]);
    lf_utf8_repair(&text, bytes, len);
    assert_string_equal(text_at(entry, "token"), text.data);
    lf_buffer_free(&text);
}

// The fake's value is minus the token's position; alternatives are id, id + 1 .. at 0, -1 ...
static void check_list(const struct served *s, const json_t *list, size_t prompt, size_t *next,
                       size_t top) {
    size_t i, j;
    json_t *entry, *one;
    json_array_foreach(list, i, entry) {
        json_t *best = json_object_get(entry, "top_logprobs");
        size_t at = (size_t)-json_number_value(json_object_get(entry, "logprob")) - prompt;
        assert_true(at >= *next && at < s->script.len);
        *next = at + 1;
        check_token(s, entry, s->script.id[at]);
        assert_int_equal(json_array_size(best), top);
        json_array_foreach(best, j, one) {
            uint32_t id = (s->script.id[at] + (uint32_t)j) % lf_tokenizer_size(s->tokenizer);
            assert_true(json_number_value(json_object_get(one, "logprob")) == -(double)j);
            check_token(s, one, id);
        }
    }
}

static void check_calls(struct lf_fake_drafter drafter) {
    struct served s;
    size_t next = 0;
    served_open(&s, &(struct served_plan){.script = calls, .drafter = drafter,
                                          .options.thinking = true});
    json_t *json = call(&s, CHAT, "{" HELLO "," TOOLS ",\"logprobs\":true,\"top_logprobs\":3}");
    json_t *lists = json_object_get(choice_of(json), "logprobs");
    json_t *reasoning = json_object_get(lists, "reasoning_content");
    json_t *content = json_object_get(lists, "content");
    assert_int_equal(json_object_size(lists), 3);
    assert_true(json_is_null(json_object_get(lists, "refusal")));
    json_t *usage = json_object_get(json, "usage");
    size_t prompt = (size_t)json_integer_value(json_object_get(usage, "prompt_tokens"));
    check_list(&s, reasoning, prompt, &next, 3);
    check_list(&s, content, prompt, &next, 3);
    struct lf_buffer said = joined(reasoning);
    assert_string_equal(said.data, "I look a while.");
    lf_buffer_free(&said);
    said = joined(content);
    assert_string_equal(said.data, "I ask: caf\xC3\xA9 \xE2\x82\xAC?");
    lf_buffer_free(&said);
    json_t *drafted = json_object_get(json_object_get(json, "lanefold"), "accepted");
    assert_true((json_integer_value(drafted) > 0) == drafter.present);
    json_decref(json);
    json = call(&s, CHAT, "{" HELLO "," TOOLS ",\"logprobs\":true,\"include_reasoning\":false}");
    lists = json_object_get(choice_of(json), "logprobs");
    assert_int_equal(json_array_size(json_object_get(lists, "reasoning_content")), 0);
    content = json_object_get(lists, "content");
    json_t *first = json_array_get(content, 0);
    assert_true(json_array_size(content) > 3);
    assert_string_equal(text_at(first, "token"), "I");
    assert_int_equal(json_array_size(json_object_get(first, "top_logprobs")), 0);
    json_decref(json);
    json = call(&s, CHAT, "{" HELLO "," TOOLS "}");
    assert_true(json_is_null(json_object_get(choice_of(json), "logprobs")));
    json_decref(json);
    served_close(&s);
}

static void entries_follow_reasoning_and_content_and_nothing_else(void **state) {
    (void)state;
    check_calls((struct lf_fake_drafter){0});
}

// Accepted drafts are delivered several at a time, each with its own row.
static void drafted_tokens_have_their_own_rows(void **state) {
    (void)state;
    check_calls((struct lf_fake_drafter){.present = true, .right = 0.8});
}

struct streamed {
    struct lf_buffer reasoning, content;
    json_t *reasoning_list, *content_list;
};

// An entry comes with the first of its text: entries are never behind the text.
static void check_ahead(const json_t *list, const struct lf_buffer *text) {
    struct lf_buffer bytes = joined(list);
    assert_true(bytes.len >= text->len);
    assert_true(!text->len || !memcmp(bytes.data, text->data, text->len));
    lf_buffer_free(&bytes);
}

static void add_chunk(struct streamed *f, json_t *choice) {
    json_t *delta = json_object_get(choice, "delta"), *lists = json_object_get(choice, "logprobs");
    json_t *content = json_object_get(lists, "content");
    json_t *reasoning = json_object_get(lists, "reasoning_content");
    bool thinks = json_object_get(delta, "reasoning_content");
    bool speaks = json_object_get(delta, "content") && !json_object_get(delta, "role");
    assert_true(json_is_null(lists) == !(thinks || speaks));
    if (!thinks && !speaks)
        return;
    assert_int_equal(json_array_size(thinks ? content : reasoning), 0);
    lf_buffer_add_text(&f->reasoning, text_at(delta, "reasoning_content"));
    lf_buffer_add_text(&f->content, text_at(delta, "content"));
    json_array_extend(f->reasoning_list, reasoning);
    json_array_extend(f->content_list, content);
    check_ahead(f->reasoning_list, &f->reasoning);
    check_ahead(f->content_list, &f->content);
}

static void a_streams_entries_are_those_of_the_whole_reply(void **state) {
    (void)state;
    struct served s;
    struct streamed f = {.reasoning_list = json_array(), .content_list = json_array()};
    served_open(&s, &(struct served_plan){.script = calls, .launch_us = 1000,
                                          .drafter = {.present = true, .right = 0.7},
                                          .options.thinking = true});
    json_t *json = call(&s, CHAT, "{" HELLO "," TOOLS ",\"logprobs\":true,\"top_logprobs\":20}");
    json_t *lists = json_object_get(choice_of(json), "logprobs");
    struct reply reply = http_call(s.url, "POST", CHAT, "",
                                   "{" HELLO "," TOOLS ",\"logprobs\":true,\"top_logprobs\":20,"
                                   "\"stream\":true}");
    char *line = reply.body.data;
    for (; !strncmp(line, "data: {", 7); line = strstr(line, "\n\n") + 2) {
        json_t *chunk = json_loadb(line + 6, (size_t)(strstr(line, "\n\n") - line) - 6, 0, NULL);
        assert_non_null(chunk);
        add_chunk(&f, choice_of(chunk));
        json_decref(chunk);
    }
    assert_true(json_equal(f.content_list, json_object_get(lists, "content")));
    assert_true(json_equal(f.reasoning_list, json_object_get(lists, "reasoning_content")));
    lf_buffer_free(&f.reasoning);
    lf_buffer_free(&f.content);
    json_decref(f.reasoning_list);
    json_decref(f.content_list);
    json_decref(json);
    http_free(&reply);
    served_close(&s);
}

// Lists side by side; each token stands in the text where its offset says.
static void check_legacy(const json_t *choice, const char *want) {
    json_t *lists = json_object_get(choice, "logprobs"), *tokens = json_object_get(lists, "tokens");
    json_t *offsets = json_object_get(lists, "text_offset"), *token;
    const char *text = text_at(choice, "text"), *at = text;
    size_t i, characters = 0;
    assert_string_equal(text, want);
    assert_int_equal(json_object_size(lists), 4);
    json_array_foreach(tokens, i, token) {
        size_t offset = (size_t)json_integer_value(json_array_get(offsets, i));
        const char *own = json_string_value(token);
        for (; characters < offset; characters++)
            at += lf_utf8_next(at, strlen(at)).len;
        if (strcmp(own, "\xEF\xBF\xBD") && strncmp(at, own, strlen(at) < strlen(own) ? strlen(at)
                                                                                    : strlen(own)))
            fail_msg("token %zu '%s' is not at %zu of '%s'", i, own, offset, text);
        assert_true(i || offset == 0);
    }
    assert_int_equal(json_array_size(json_object_get(lists, "token_logprobs")), i);
    assert_int_equal(json_array_size(json_object_get(lists, "top_logprobs")), i);
    assert_int_equal(json_array_size(offsets), i);
}

static void extend(json_t *all, json_t *lists) {
    const char *name;
    json_t *list;
    json_object_foreach(lists, name, list) {
        if (!json_object_get(all, name))
            json_object_set_new(all, name, json_array());
        json_array_extend(json_object_get(all, name), list);
    }
}

static void completions_have_lists_cut_where_a_stop_string_cuts(void **state) {
    (void)state;
    static const char text[] = "na\xC3\xAFve \xE2\x82\xAC 3, then more words";
    struct served s;
    served_open(&s, &(struct served_plan){.script = text});
    json_t *json = call(&s, TEXT, "{\"prompt\":\"x\",\"logprobs\":2}");
    check_legacy(choice_of(json), text);
    json_t *whole = json_object_get(choice_of(json), "logprobs");
    json_t *first = json_array_get(json_object_get(whole, "top_logprobs"), 0);
    assert_int_equal(json_array_size(json_object_get(whole, "tokens")), s.script.len - 1);
    assert_int_equal(json_object_size(first), 2);
    json_t *cut = call(&s, TEXT, "{\"prompt\":\"x\",\"logprobs\":0,\"stop\":\"then\"}");
    check_legacy(choice_of(cut), "na\xC3\xAFve \xE2\x82\xAC 3, ");
    json_t *lists = json_object_get(choice_of(cut), "logprobs");
    size_t n = json_array_size(json_object_get(lists, "tokens"));
    assert_true(n > 2 && n < s.script.len - 1);
    assert_int_equal(json_object_size(json_array_get(json_object_get(lists, "top_logprobs"), 0)),
                     0);
    json_decref(cut);
    struct reply reply =
        http_call(s.url, "POST", TEXT, "", "{\"prompt\":\"x\",\"logprobs\":2,\"stream\":true}");
    json_t *all = json_object();
    for (char *line = reply.body.data; !strncmp(line, "data: {", 7);
         line = strstr(line, "\n\n") + 2) {
        json_t *chunk = json_loadb(line + 6, (size_t)(strstr(line, "\n\n") - line) - 6, 0, NULL);
        assert_non_null(chunk);
        extend(all, json_object_get(choice_of(chunk), "logprobs"));
        json_decref(chunk);
    }
    assert_true(json_equal(all, whole));
    json_decref(all);
    json_decref(json);
    http_free(&reply);
    served_close(&s);
}

static void what_is_no_number_is_written_as_minus_9999(void **state) {
    (void)state;
    struct served s;
    struct lf_buffer out = {0};
    served_open(&s, &(struct served_plan){.script = "x"});
    uint32_t past = lf_tokenizer_size(s.tokenizer) + 5;
    struct lf_entry entry = {.id = past,
                             .row = {.drawn = NAN, .n = 2, .id = {past, past},
                                     .value = {-0.5f, -INFINITY}}};
    lf_entries_print_chat(s.tokenizer, NULL, 0, &entry, 1, &out);
    assert_string_equal(out.data,
                        "{\"content\":[{\"token\":\"\",\"bytes\":[],\"logprob\":-9999.0,"
                        "\"top_logprobs\":[{\"token\":\"\",\"bytes\":[],\"logprob\":-0.5},"
                        "{\"token\":\"\",\"bytes\":[],\"logprob\":-9999.0}]}],"
                        "\"reasoning_content\":[],\"refusal\":null}");
    lf_buffer_clear(&out);
    lf_entries_print_legacy(s.tokenizer, &entry, 1, &out);
    assert_string_equal(out.data, "{\"tokens\":[\"\"],\"token_logprobs\":[-9999.0],"
                                  "\"top_logprobs\":[{\"\":-0.5}],\"text_offset\":[0]}");
    lf_buffer_free(&out);
    served_close(&s);
}

// Rows come after the events of several ids; ids without text have rows and no event.
static void rows_and_events_meet_in_any_order(void **state) {
    (void)state;
    struct lf_entry_queue queue = {0};
    struct lf_buffer out = {0};
    const uint32_t ids[] = {10, 11, 12, 13};
    struct lf_logprob_row rows[4] = {{.drawn = -1}, {.drawn = -2}, {.drawn = -3}, {.drawn = -4}};
    struct lf_reply_token tokens[] = {{0, 0}, {2, 4}};
    struct lf_reply_event event = {.kind = LF_REPLY_CONTENT, .text = "\xC3\xA9\xE2\x82\xAC!",
                                   .len = 6, .token = tokens, .n_tokens = 2};
    lf_entry_queue_event(&queue, &event);
    lf_entry_queue_hear(&queue, ids, 4, rows);
    lf_entry_queue_pass(&queue, &out);
    tokens[0] = (struct lf_reply_token){3, 5};
    event.n_tokens = 1;
    lf_entry_queue_event(&queue, &event);
    lf_entry_queue_hear(&queue, ids, 1, NULL);
    lf_entry_queue_pass(&queue, &out);
    const struct lf_entry *entry = (const struct lf_entry *)(const void *)out.data;
    assert_int_equal(out.len, 3 * sizeof *entry);
    assert_true(entry[0].id == 10 && entry[0].offset == 0 && entry[0].row.drawn == -1);
    assert_true(entry[1].id == 12 && entry[1].offset == 1 && entry[1].row.drawn == -3);
    assert_true(entry[2].id == 13 && entry[2].offset == 5 && entry[2].row.drawn == -4);
    assert_int_equal(queue.row.len, sizeof *entry);
    lf_entry_queue_free(&queue);
    lf_buffer_free(&out);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(entries_follow_reasoning_and_content_and_nothing_else),
        cmocka_unit_test(drafted_tokens_have_their_own_rows),
        cmocka_unit_test(a_streams_entries_are_those_of_the_whole_reply),
        cmocka_unit_test(completions_have_lists_cut_where_a_stop_string_cuts),
        cmocka_unit_test(what_is_no_number_is_written_as_minus_9999),
        cmocka_unit_test(rows_and_events_meet_in_any_order),
    };
    lf_log_setup(LF_LOG_ERROR, false);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
