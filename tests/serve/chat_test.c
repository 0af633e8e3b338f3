// Does a chat request become the right prompt, and a reply the right message and chunks?
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include <jansson.h>
#include "base/log.h"
#include "http_client.h"
#include "served.h"

#define PATH "/v1/chat/completions"
#define HELLO "\"messages\":[{\"role\":\"user\",\"content\":\"Hello!\"}]"
#define TOOLS                                                                                      \
    "\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"get_weather\","                    \
    "\"parameters\":{\"type\":\"object\"}}},"                                                      \
    "{\"type\":\"custom\",\"custom\":{\"name\":\"note\"}},{\"type\":\"web_search\"}]"
#define BAR "\xEF\xBD\x9C"
#define DSML BAR "DSML" BAR

static const char calls[] =
    "I look.</think>I ask.\n\n<" DSML " calls>\n<" DSML " invoke name=\"get_weather\">\n"
    "<" DSML " parameter name=\"location\" string=\"true\">Paris \"x\"</" DSML " parameter>\n"
    "<" DSML " parameter name=\"days\" string=\"false\">[1, 2]</" DSML " parameter>\n"
    "</" DSML " invoke>\n<" DSML " invoke name=\"note\">\n"
    "<" DSML " parameter name=\"input\" string=\"true\">a\nb</" DSML " parameter>\n"
    "</" DSML " invoke>\n</" DSML " calls>";
static const char arguments[] = "{\"location\": \"Paris \\\"x\\\"\", \"days\": [1, 2]}";

static json_t *call(struct served *s, const char *body, int status) {
    struct reply reply = http_call(s->url, "POST", PATH, "", body);
    json_t *json = json_loadb(reply.body.data, reply.body.len, 0, NULL);
    if (!json || reply.status != status)
        fail_msg("%d: %s", reply.status, reply.body.data);
    http_free(&reply);
    return json;
}

static json_t *choice_of(json_t *json) {
    return json_array_get(json_object_get(json, "choices"), 0);
}

static const char *text_at(json_t *json, const char *name) {
    const char *text = json_string_value(json_object_get(json, name));
    return text ? text : "(none)";
}

static void a_reply_has_its_reasoning_and_content(void **state) {
    (void)state;
    struct served s;
    served_open(&s, &(struct served_plan){.script = "I greet.</think>Hello there!",
                                          .options.thinking = true});
    json_t *json = call(&s, "{" HELLO "}", 200);
    json_t *choice = choice_of(json), *message = json_object_get(choice, "message");
    assert_string_equal(text_at(json, "object"), "chat.completion");
    assert_string_equal(text_at(json, "model"), "demo");
    assert_string_equal(text_at(message, "content"), "Hello there!");
    assert_string_equal(text_at(message, "reasoning_content"), "I greet.");
    assert_null(json_object_get(message, "tool_calls"));
    assert_true(json_is_null(json_object_get(message, "refusal")));
    assert_string_equal(text_at(choice, "finish_reason"), "stop");
    json_t *details = json_object_get(json_object_get(json, "usage"), "completion_tokens_details");
    assert_true(json_integer_value(json_object_get(details, "reasoning_tokens")) > 1);
    json_decref(json);
    json = call(&s, "{" HELLO ",\"include_reasoning\":false}", 200);
    message = json_object_get(choice_of(json), "message");
    assert_null(json_object_get(message, "reasoning_content"));
    json_decref(json);
    json = call(&s, "{" HELLO ",\"max_tokens\":2}", 200);
    message = json_object_get(choice_of(json), "message");
    assert_true(json_is_null(json_object_get(message, "content")));
    assert_string_equal(text_at(choice_of(json), "finish_reason"), "length");
    json_decref(json);
    served_close(&s);
}

static void calls_come_back_as_the_client_declared_them(void **state) {
    (void)state;
    struct served s;
    served_open(&s, &(struct served_plan){.script = calls, .options.thinking = true});
    json_t *json = call(&s, "{" HELLO "," TOOLS "}", 200);
    json_t *choice = choice_of(json), *message = json_object_get(choice, "message");
    json_t *list = json_object_get(message, "tool_calls"), *first = json_array_get(list, 0);
    assert_string_equal(text_at(message, "content"), "I ask.");
    assert_string_equal(text_at(choice, "finish_reason"), "tool_calls");
    assert_int_equal(json_array_size(list), 2);
    assert_int_equal(strlen(text_at(first, "id")), 29);
    assert_string_equal(text_at(first, "type"), "function");
    assert_string_equal(text_at(json_object_get(first, "function"), "arguments"), arguments);
    json_t *second = json_array_get(list, 1);
    assert_string_equal(text_at(second, "type"), "custom");
    assert_string_equal(text_at(json_object_get(second, "custom"), "name"), "note");
    assert_string_equal(text_at(json_object_get(second, "custom"), "input"), "a\nb");
    json_t *dropped = json_object_get(json_object_get(json, "lanefold"), "dropped_tools");
    assert_int_equal(json_array_size(dropped), 1);
    json_decref(json);
    served_close(&s);
}

struct folded {
    struct lf_buffer reasoning, content, arguments[2];
    char name[2][32], finish[32];
    unsigned chunks, roles;
};

static void fold_call(struct folded *f, json_t *call) {
    size_t i = (size_t)json_integer_value(json_object_get(call, "index"));
    assert_true(i < 2);
    json_t *inner = json_object_get(call, i ? "custom" : "function");
    if (json_object_get(call, "id")) {
        assert_int_equal(f->name[i][0], 0);
        snprintf(f->name[i], sizeof f->name[i], "%s", text_at(inner, "name"));
    } else {
        assert_null(json_object_get(inner, "name"));
        assert_null(json_object_get(call, "type"));
    }
    lf_buffer_add_text(&f->arguments[i], text_at(inner, i ? "input" : "arguments"));
}

static void fold_chunk(struct folded *f, json_t *chunk) {
    json_t *choice = choice_of(chunk), *delta = json_object_get(choice, "delta");
    assert_string_equal(text_at(chunk, "object"), "chat.completion.chunk");
    if (f->chunks++ == 0)
        assert_string_equal(text_at(delta, "role"), "assistant");
    f->roles += json_object_get(delta, "role") != NULL;
    if (json_object_get(delta, "reasoning_content"))
        lf_buffer_add_text(&f->reasoning, text_at(delta, "reasoning_content"));
    if (json_object_get(delta, "content"))
        lf_buffer_add_text(&f->content, text_at(delta, "content"));
    if (json_object_get(delta, "tool_calls"))
        fold_call(f, json_array_get(json_object_get(delta, "tool_calls"), 0));
    if (!json_is_null(json_object_get(choice, "finish_reason"))) {
        assert_int_equal(json_object_size(delta), 0);
        snprintf(f->finish, sizeof f->finish, "%s", text_at(choice, "finish_reason"));
        assert_true(json_is_object(json_object_get(chunk, "usage")));
        assert_true(json_is_object(json_object_get(chunk, "lanefold")));
    } else {
        assert_true(json_object_size(delta) == 1 || json_object_get(delta, "role"));
        assert_null(json_object_get(chunk, "usage"));
    }
}

static void a_stream_folds_to_the_whole_reply(void **state) {
    (void)state;
    struct served s;
    struct folded f = {0};
    served_open(&s, &(struct served_plan){.script = calls, .launch_us = 1000,
                                          .options.thinking = true});
    struct reply reply =
        http_call(s.url, "POST", PATH, "", "{" HELLO "," TOOLS ",\"stream\":true}");
    char value[64];
    assert_int_equal(reply.status, 200);
    assert_true(http_header(&reply, "Content-Type", value, sizeof value));
    assert_string_equal(value, "text/event-stream; charset=utf-8");
    assert_true(http_header(&reply, "X-Accel-Buffering", value, sizeof value));
    char *line = reply.body.data;
    for (; !strncmp(line, "data: {", 7); line = strstr(line, "\n\n") + 2) {
        json_t *chunk = json_loadb(line + 6, (size_t)(strstr(line, "\n\n") - line) - 6, 0, NULL);
        assert_non_null(chunk);
        fold_chunk(&f, chunk);
        json_decref(chunk);
    }
    assert_string_equal(line, "data: [DONE]\n\n");
    assert_string_equal(f.reasoning.data, "I look.");
    assert_string_equal(f.content.data, "I ask.");
    assert_string_equal(f.name[0], "get_weather");
    assert_string_equal(f.arguments[0].data, arguments);
    assert_string_equal(f.name[1], "note");
    assert_string_equal(f.arguments[1].data, "a\nb");
    assert_string_equal(f.finish, "tool_calls");
    assert_int_equal(f.roles, 1);
    assert_true(f.chunks > 8);
    lf_buffer_free(&f.reasoning);
    lf_buffer_free(&f.content);
    lf_buffer_free(&f.arguments[0]);
    lf_buffer_free(&f.arguments[1]);
    http_free(&reply);
    served_close(&s);
}

static void wrong_conversations_are_refused_with_their_place(void **state) {
    (void)state;
    static const struct {
        const char *body, *code, *param;
    } rows[] = {
        {"{}", "missing_field", "messages"},
        {"{\"messages\":[]}", "invalid_value", "messages"},
        {"{\"messages\":\"x\"}", "invalid_type", "messages"},
        {"{\"messages\":[{\"role\":\"robot\",\"content\":\"x\"}]}", "invalid_value",
         "messages[0].role"},
        {"{" HELLO ",\"tool_choice\":\"required\"}", "invalid_value", "tool_choice"},
        {"{" HELLO "," TOOLS ",\"tool_choice\":\"required\"}", "unsupported_value", "tool_choice"},
        {"{" HELLO ",\"reasoning_effort\":\"huge\"}", "invalid_value", "reasoning_effort"},
        {"{" HELLO ",\"response_format\":{\"type\":\"json_schema\",\"json_schema\":"
         "{\"name\":\"a\",\"schema\":{}}}}",
         "unsupported_parameter", "response_format"},
        {"{" HELLO ",\"n\":2}", "unsupported_value", "n"},
        {"{" HELLO ",\"temperature\":3,\"stream\":true}", "invalid_value", "temperature"},
        {"{" HELLO ",\"max_tokens\":500}", "context_length_exceeded", "messages"},
    };
    struct served s;
    served_open(&s, &(struct served_plan){.script = "Hi.", .options.thinking = true});
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        json_t *json = call(&s, rows[i].body, 400), *error = json_object_get(json, "error");
        assert_string_equal(text_at(error, "code"), rows[i].code);
        assert_string_equal(text_at(error, "param"), rows[i].param);
        json_decref(json);
    }
    served_close(&s);
}

static void an_image_is_refused_without_a_tower(void **state) {
    (void)state;
    struct served s;
    served_open(&s, &(struct served_plan){.script = "Hi."});
    json_t *json = call(&s,
                        "{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"image_url\","
                        "\"image_url\":{\"url\":\"data:image/png;base64,AAAA\"}}]}]}",
                        400);
    assert_non_null(strstr(text_at(json_object_get(json, "error"), "message"), "images"));
    assert_string_equal(text_at(json_object_get(json, "error"), "param"),
                        "messages[0].content[0]");
    json_decref(json);
    served_close(&s);
}

static void thinking_follows_field_then_alias_then_server(void **state) {
    (void)state;
    struct served s;
    const char *const alias[] = {"demo-chat", "demo-think"};
    static const struct {
        const char *more;
        bool on;
    } rows[] = {
        {"", true},
        {",\"model\":\"demo-chat\"", false},
        {",\"model\":\"demo-think\"", true},
        {",\"thinking\":{\"type\":\"disabled\"}", false},
        {",\"model\":\"demo-chat\",\"thinking\":{\"type\":\"enabled\"}", true},
        {",\"reasoning_effort\":\"none\"", false},
        {",\"chat_template_kwargs\":{\"enable_thinking\":false}", false},
    };
    served_open(&s, &(struct served_plan){.script = "Plain words.",
                                          .options = {.thinking = true, .alias = alias,
                                                      .n_aliases = 2}});
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char body[256];
        snprintf(body, sizeof body, "{%s%s}", HELLO, rows[i].more);
        json_t *json = call(&s, body, 200);
        json_t *message = json_object_get(choice_of(json), "message");
        const char *field = rows[i].on ? "reasoning_content" : "content";
        assert_string_equal(text_at(message, field), "Plain words.");
        json_decref(json);
    }
    served_close(&s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_reply_has_its_reasoning_and_content),
        cmocka_unit_test(calls_come_back_as_the_client_declared_them),
        cmocka_unit_test(a_stream_folds_to_the_whole_reply),
        cmocka_unit_test(wrong_conversations_are_refused_with_their_place),
        cmocka_unit_test(an_image_is_refused_without_a_tower),
        cmocka_unit_test(thinking_follows_field_then_alias_then_server),
    };
    lf_log_setup(LF_LOG_ERROR, false);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
