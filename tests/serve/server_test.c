// Does the server keep the transport, routes, limits and life of a request as api.md says?
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <cmocka.h>
#include <jansson.h>
#include "base/log.h"
#include "http_client.h"
#include "served.h"

#define PROMPT "{\"prompt\":\"Sam has a blue bag.\",\"temperature\":0"

static json_t *parse(const struct reply *reply) {
    json_t *json = json_loadb(reply->body.data ? reply->body.data : "", reply->body.len, 0, NULL);
    if (!json)
        fail_msg("status %d, not JSON: %s", reply->status, reply->body.data);
    return json;
}

static const char *text_at(json_t *json, const char *a, const char *b) {
    json_t *at = json_object_get(json, a);
    at = b ? json_object_get(at, b) : at;
    return json_string_value(at) ? json_string_value(at) : "";
}

static void expect_error(struct reply reply, int status, const char *code, const char *part) {
    json_t *json = parse(&reply);
    json_t *error = json_object_get(json, "error");
    assert_int_equal(reply.status, status);
    assert_string_equal(text_at(error, "code", NULL), code);
    assert_int_equal(json_object_size(error), 4);
    if (!strstr(text_at(error, "message", NULL), part))
        fail_msg("%s does not say %s", text_at(error, "message", NULL), part);
    json_decref(json);
    http_free(&reply);
}

static void every_route_answers_its_method_and_refuses_others(void **state) {
    (void)state;
    struct served s;
    char value[64];
    served_open(&s, &(struct served_plan){.script = "Hi."});
    static const char *const good[] = {"/health", "/ready/", "/version", "/memory", "/v1/models",
                                       "/models", "/v1/models/demo", "/models/demo/", "/"};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        struct reply reply = http_call(s.url, "GET", good[i], "", NULL);
        assert_int_equal(reply.status, 200);
        assert_true(http_header(&reply, "x-request-id", value, sizeof value));
        assert_int_equal(strlen(value), 28);
        assert_true(http_header(&reply, "lanefold-version", value, sizeof value));
        http_free(&reply);
        reply = http_call(s.url, "HEAD", good[i], "", NULL);
        assert_int_equal(reply.status, 200);
        assert_int_equal(reply.body.len, 0);
        http_free(&reply);
    }
    expect_error(http_call(s.url, "GET", "/nowhere", "", NULL), 404, "unknown_url", "/nowhere");
    expect_error(http_call(s.url, "POST", "/v1/embeddings", "", "{}"), 404, "unsupported_endpoint",
                 "text");
    expect_error(http_call(s.url, "GET", "/v1/models/other", "", NULL), 404, "model_not_found",
                 "other");
    struct reply reply = http_call(s.url, "GET", "/v1/chat/completions", "", NULL);
    assert_true(http_header(&reply, "Allow", value, sizeof value));
    assert_string_equal(value, "POST, OPTIONS");
    assert_true(http_header(&reply, "x-should-retry", value, sizeof value));
    expect_error(reply, 405, "method_not_allowed", "GET");
    reply = http_call(s.url, "OPTIONS", "/v1/chat/completions", "", NULL);
    assert_int_equal(reply.status, 204);
    http_free(&reply);
    served_close(&s);
}

static void the_root_is_a_page_for_browsers_only(void **state) {
    (void)state;
    struct served s;
    char value[64];
    served_open(&s, &(struct served_plan){.script = "Hi."});
    struct reply reply = http_call(s.url, "GET", "/", "Accept: text/html,*/*\r\n", NULL);
    assert_true(http_header(&reply, "Vary", value, sizeof value));
    assert_string_equal(value, "Accept");
    assert_non_null(strstr(reply.body.data, "<!doctype html>"));
    assert_null(strstr(reply.body.data, "http://"));
    http_free(&reply);
    reply = http_call(s.url, "GET", "/", "x-request-id: mine-1\r\n", NULL);
    assert_true(http_header(&reply, "x-request-id", value, sizeof value));
    assert_string_equal(value, "mine-1");
    json_t *json = parse(&reply);
    assert_string_equal(text_at(json, "name", NULL), "lanefold");
    json_decref(json);
    http_free(&reply);
    served_close(&s);
}

static void a_wrong_body_is_refused_with_its_place(void **state) {
    (void)state;
    struct served s;
    served_open(&s, &(struct served_plan){.script = "Hi.", .options.body_bytes_max = 600});
    const char *path = "/v1/completions";
    expect_error(http_call(s.url, "POST", path, "", "{\"prompt\": \"a\",}"), 400, "invalid_json",
                 "byte 15");
    expect_error(http_call(s.url, "POST", path, "", ""), 400, "invalid_json", "byte 0");
    expect_error(http_call(s.url, "POST", path, "", "[1]"), 400, "invalid_type", "object");
    expect_error(http_call(s.url, "POST", path, "", "{}"), 400, "missing_field", "prompt");
    expect_error(http_call(s.url, "POST", path, "", "{\"messages\":[]}"), 400, "missing_field",
                 "messages");
    expect_error(http_call(s.url, "POST", path, "", "{\"prompt\":[2292]}"), 400, "invalid_value",
                 "image");
    expect_error(http_call(s.url, "POST", path, "", "{\"prompt\":[99999]}"), 400, "invalid_value",
                 "prompt");
    expect_error(http_call(s.url, "POST", path, "", "{\"prompt\":\"\"}"), 400, "invalid_value",
                 "empty");
    expect_error(http_call(s.url, "POST", path, "", "{\"prompt\":[\"a\",\"b\"]}"), 400,
                 "unsupported_value", "one prompt");
    expect_error(http_call(s.url, "POST", path, "", PROMPT ",\"stream\":true,\"top_p\":2}"), 400,
                 "invalid_value", "top_p");
    expect_error(http_call(s.url, "POST", path, "", PROMPT ",\"max_tokens\":510}"), 400,
                 "context_length_exceeded", "maximum context length is 512 tokens");
    expect_error(http_call(s.url, "POST", path, "Content-Encoding: gzip\r\n", "{}"), 415,
                 "unsupported_media_type", "identity");
    struct lf_buffer deep = {0};
    lf_buffer_add_text(&deep, "{\"a\":");
    for (int i = 0; i < 128; i++)
        lf_buffer_add_text(&deep, "[");
    expect_error(http_call(s.url, "POST", path, "", deep.data), 400, "invalid_json", "128");
    lf_buffer_free(&deep);
    served_close(&s);
}

static void a_body_over_the_limit_is_413_by_length_and_chunked(void **state) {
    (void)state;
    struct served s;
    char body[400];
    served_open(&s, &(struct served_plan){.script = "Hi.", .options.body_bytes_max = 300});
    memset(body, ' ', sizeof body);
    body[399] = 0;
    expect_error(http_call(s.url, "POST", "/v1/completions", "", body), 413, "request_too_large",
                 "300 bytes");
    int fd = http_connect(s.url);
    struct lf_buffer text = {0};
    lf_buffer_printf(&text,
                     "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
                     "Transfer-Encoding: chunked\r\n\r\n%zx\r\n%s\r\n0\r\n\r\n",
                     strlen(body), body);
    http_send(fd, text.data, text.len);
    expect_error(http_read(fd), 413, "request_too_large", "300 bytes");
    close(fd);
    // Expect: 100-continue is refused before the body.
    fd = http_connect(s.url);
    static const char head[] = "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\n"
                               "Expect: 100-continue\r\nContent-Length: 4000\r\n\r\n";
    http_send(fd, head, strlen(head));
    expect_error(http_read(fd), 413, "request_too_large", "300 bytes");
    close(fd);
    lf_buffer_free(&text);
    served_close(&s);
}

static void a_chunked_body_and_100_continue_work(void **state) {
    (void)state;
    struct served s;
    served_open(&s, &(struct served_plan){.script = "Hi."});
    int fd = http_connect(s.url);
    static const char head[] = "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\n"
                               "Connection: close\r\nTransfer-Encoding: chunked\r\n"
                               "Expect: 100-continue\r\n\r\n";
    static const char body[] = "5\r\n{\"pro\r\n0d\r\nmpt\":\"hello\"}\r\n0\r\n\r\n";
    char line[64] = "";
    http_send(fd, head, strlen(head));
    assert_true(http_wait(fd, 2000));
    assert_true(recv(fd, line, 25, 0) == 25);
    assert_string_equal(line, "HTTP/1.1 100 Continue\r\n\r\n");
    http_send(fd, body, strlen(body));
    struct reply reply = http_read(fd);
    assert_int_equal(reply.status, 200);
    json_t *json = parse(&reply);
    assert_string_equal(text_at(json_array_get(json_object_get(json, "choices"), 0), "text", NULL),
                        "Hi.");
    json_decref(json);
    http_free(&reply);
    close(fd);
    served_close(&s);
}

static void headers_over_64_kib_are_431(void **state) {
    (void)state;
    struct served s;
    served_open(&s, &(struct served_plan){.script = "Hi."});
    char *extra = malloc(70010);
    memset(extra, 'a', 70009);
    memcpy(extra, "x-long: ", 8);
    memcpy(extra + 70000, "\r\n", 3);
    expect_error(http_call(s.url, "GET", "/health", extra, NULL), 431, "headers_too_large",
                 "65536");
    free(extra);
    served_close(&s);
}

static void keys_hosts_and_origins_are_checked(void **state) {
    (void)state;
    struct served s;
    char value[128];
    const char *const keys[] = {"right"}, *const cors[] = {"http://a.example"};
    served_open(&s, &(struct served_plan){.script = "Hi.",
                                          .options = {.api_key = keys, .n_api_keys = 1,
                                                      .cors = cors, .n_cors = 1}});
    struct reply reply = http_call(s.url, "GET", "/v1/models", "", NULL);
    assert_true(http_header(&reply, "WWW-Authenticate", value, sizeof value));
    expect_error(reply, 401, "invalid_api_key", "API key");
    expect_error(http_call(s.url, "POST", "/v1/completions", "Authorization: Bearer wrong\r\n",
                           PROMPT "}"),
                 401, "invalid_api_key", "API key");
    static const char *const good[] = {
        "Authorization: bearer right\r\n", "x-api-key: right\r\n", "api-key: right\r\n",
        "Authorization: Bearer dummy\r\nx-api-key: right\r\n"};
    for (size_t i = 0; i < 4; i++) {
        reply = http_call(s.url, "GET", "/v1/models", good[i], NULL);
        assert_int_equal(reply.status, 200);
        http_free(&reply);
    }
    reply = http_call(s.url, "GET", "/health", "Origin: http://a.example\r\n", NULL);
    assert_int_equal(reply.status, 200);
    assert_true(http_header(&reply, "Access-Control-Allow-Origin", value, sizeof value));
    assert_string_equal(value, "http://a.example");
    http_free(&reply);
    reply = http_call(s.url, "GET", "/health", "Origin: http://b.example\r\n", NULL);
    assert_false(http_header(&reply, "Access-Control-Allow-Origin", value, sizeof value));
    http_free(&reply);
    int fd = http_connect(s.url);
    static const char head[] =
        "GET /health HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n";
    http_send(fd, head, strlen(head));
    expect_error(http_read(fd), 403, "host_not_allowed", "Host");
    close(fd);
    served_close(&s);
}

static void an_unknown_model_is_404_only_when_strict(void **state) {
    (void)state;
    struct served s;
    const char *const alias[] = {"other"};
    served_open(&s, &(struct served_plan){.script = "Hi.",
                                          .options = {.strict_model = true, .alias = alias,
                                                      .n_aliases = 1}});
    expect_error(http_call(s.url, "POST", "/v1/completions", "", PROMPT ",\"model\":\"gpt\"}"), 404,
                 "model_not_found", "gpt");
    struct reply reply =
        http_call(s.url, "POST", "/v1/completions", "", PROMPT ",\"model\":\"other\"}");
    assert_int_equal(reply.status, 200);
    json_t *json = parse(&reply);
    assert_string_equal(text_at(json, "model", NULL), "demo");
    json_decref(json);
    http_free(&reply);
    served_close(&s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_route_answers_its_method_and_refuses_others),
        cmocka_unit_test(the_root_is_a_page_for_browsers_only),
        cmocka_unit_test(a_wrong_body_is_refused_with_its_place),
        cmocka_unit_test(a_body_over_the_limit_is_413_by_length_and_chunked),
        cmocka_unit_test(a_chunked_body_and_100_continue_work),
        cmocka_unit_test(headers_over_64_kib_are_431),
        cmocka_unit_test(keys_hosts_and_origins_are_checked),
        cmocka_unit_test(an_unknown_model_is_404_only_when_strict),
    };
    lf_log_setup(LF_LOG_ERROR, false);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
