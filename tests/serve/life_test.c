// Does a request wait, stream, end, hang up and drain as api.md 6.3 and 17 say?
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <cmocka.h>
#include <jansson.h>
#include "base/log.h"
#include "base/sha256.h"
#include "http_client.h"
#include "served.h"

#define PATH "/v1/completions"
#define SHORT "{\"prompt\":\"Sam has a blue bag.\",\"temperature\":0"
static const char script[] = "Sam has a blue bag. It is in Lima, near 47 birds.";

static json_t *parse(const char *text, size_t len) {
    json_t *json = json_loadb(text, len, 0, NULL);
    if (!json)
        fail_msg("not JSON: %.*s", (int)len, text);
    return json;
}

static const char *first_text(json_t *json) {
    json_t *choice = json_array_get(json_object_get(json, "choices"), 0);
    const char *text = json_string_value(json_object_get(choice, "text"));
    return text ? text : "";
}

// A prompt of n ids; fake launches take 16 of them at a time.
static char *long_body(unsigned n, const char *more) {
    struct lf_buffer body = {0};
    lf_buffer_add_text(&body, "{\"prompt\":[300");
    for (unsigned i = 1; i < n; i++)
        lf_buffer_printf(&body, ",%u", 300 + i % 50);
    lf_buffer_printf(&body, "],\"temperature\":0%s}", more);
    return body.data;
}

static void a_stream_and_a_whole_reply_say_the_same(void **state) {
    (void)state;
    struct served s;
    served_open(&s, &(struct served_plan){.script = script});
    struct reply whole = http_call(s.url, "POST", PATH, "", SHORT ",\"return_token_ids\":true}");
    assert_int_equal(whole.status, 200);
    json_t *json = parse(whole.body.data, whole.body.len);
    assert_string_equal(first_text(json), script);
    json_t *extra = json_object_get(json, "lanefold"), *usage = json_object_get(json, "usage");
    char hex[65];
    lf_sha256_ids(s.script.id, s.script.len, hex);
    assert_string_equal(json_string_value(json_object_get(extra, "token_sha256")), hex);
    assert_int_equal(json_array_size(json_object_get(extra, "token_ids")), s.script.len);
    assert_string_equal(json_string_value(json_object_get(extra, "finish_detail")), "eos");
    assert_int_equal(json_integer_value(json_object_get(usage, "completion_tokens")),
                     (json_int_t)s.script.len);
    struct reply stream = http_call(s.url, "POST", PATH, "",
                                    SHORT ",\"stream\":true,\"stream_options\":"
                                          "{\"include_usage\":true}}");
    assert_int_equal(stream.status, 200);
    struct lf_buffer text = {0};
    bool done = false, used = false;
    for (char *line = stream.body.data; *line; line = strstr(line, "\n\n") + 2) {
        assert_true(!done && !strncmp(line, "data: ", 6));
        size_t len = (size_t)(strstr(line, "\n\n") - line) - 6;
        done = strstr(line, "[DONE]") == line + 6;
        if (done)
            continue;
        json_t *chunk = parse(line + 6, len);
        assert_null(json_object_get(chunk, "error"));
        lf_buffer_add_text(&text, first_text(chunk));
        used = json_is_object(json_object_get(chunk, "usage"));
        if (used) {
            assert_int_equal(json_array_size(json_object_get(chunk, "choices")), 0);
            assert_string_equal(json_string_value(json_object_get(
                                    json_object_get(chunk, "lanefold"), "token_sha256")),
                                hex);
        }
        json_decref(chunk);
    }
    assert_true(done && used);
    assert_string_equal(text.data, script);
    lf_buffer_free(&text);
    json_decref(json);
    http_free(&whole);
    http_free(&stream);
    served_close(&s);
}

static void ends_are_told_apart(void **state) {
    (void)state;
    static const struct {
        const char *more, *text, *reason, *detail;
    } rows[] = {
        {",\"stop\":\"blue\"", "Sam has a ", "stop", "stop_string"},
        {",\"stop\":[\"zzz\",\"It\"],\"include_stop_str_in_output\":true",
         "Sam has a blue bag. It", "stop", "stop_string"},
        {",\"max_tokens\":1", NULL, "length", "length"},
        {",\"max_tokens\":3,\"ignore_eos\":true", NULL, "length", "length"},
        {"", script, "stop", "eos"},
    };
    struct served s;
    served_open(&s, &(struct served_plan){.script = script});
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char body[256];
        snprintf(body, sizeof body, "%s%s}", SHORT, rows[i].more);
        struct reply reply = http_call(s.url, "POST", PATH, "", body);
        json_t *json = parse(reply.body.data, reply.body.len);
        json_t *choice = json_array_get(json_object_get(json, "choices"), 0);
        json_t *extra = json_object_get(json, "lanefold");
        if (rows[i].text)
            assert_string_equal(first_text(json), rows[i].text);
        assert_string_equal(json_string_value(json_object_get(choice, "finish_reason")),
                            rows[i].reason);
        assert_string_equal(json_string_value(json_object_get(extra, "finish_detail")),
                            rows[i].detail);
        json_decref(json);
        http_free(&reply);
    }
    served_close(&s);
}

static void hanging_up_frees_the_slot(struct served *s, const char *body, bool queued) {
    int first = -1;
    char *busy = long_body(400, "");
    if (queued) {
        first = http_connect(s->url);
        http_request(first, "POST", PATH, "", busy);
        assert_true(served_wait(s, 1, 0));
    }
    int fd = http_connect(s->url);
    http_request(fd, "POST", PATH, "", body);
    assert_true(served_wait(s, 1, queued));
    if (!queued)
        usleep(150000);
    close(fd);
    assert_true(served_wait(s, queued, 0));
    if (queued)
        close(first);
    assert_true(served_wait(s, 0, 0));
    free(busy);
}

static void a_client_that_leaves_in_any_phase_is_cancelled(void **state) {
    (void)state;
    struct served s;
    struct lf_engine_status status;
    served_open(&s, &(struct served_plan){.launch_us = 60000});
    char *prefill = long_body(400, ""), *prefill_stream = long_body(400, ",\"stream\":true");
    const char *decode = SHORT ",\"ignore_eos\":true,\"max_tokens\":400}";
    const char *decode_stream = SHORT ",\"ignore_eos\":true,\"max_tokens\":400,\"stream\":true}";
    hanging_up_frees_the_slot(&s, prefill, false);
    hanging_up_frees_the_slot(&s, prefill_stream, false);
    hanging_up_frees_the_slot(&s, decode, false);
    hanging_up_frees_the_slot(&s, decode_stream, false);
    hanging_up_frees_the_slot(&s, decode, true);
    lf_engine_status_read(s.engine, &status);
    assert_int_equal(status.cancelled, 6);
    free(prefill);
    free(prefill_stream);
    served_close(&s);
}

static void a_full_queue_is_503_before_any_stream(void **state) {
    (void)state;
    struct served s;
    char value[32];
    char *busy = long_body(400, ",\"stream\":true");
    served_open(&s, &(struct served_plan){.launch_us = 30000, .queue = 1});
    int fd[2];
    for (unsigned i = 0; i < 2; i++) {
        fd[i] = http_connect(s.url);
        http_request(fd[i], "POST", PATH, "", busy);
        assert_true(served_wait(&s, 1, i));
    }
    struct reply reply = http_call(s.url, "POST", PATH, "", SHORT ",\"stream\":true}");
    assert_int_equal(reply.status, 503);
    assert_true(http_header(&reply, "Retry-After", value, sizeof value));
    assert_true(strtol(value, NULL, 10) >= 1);
    assert_non_null(strstr(reply.body.data, "\"queue_full\""));
    http_free(&reply);
    close(fd[0]);
    close(fd[1]);
    assert_true(served_wait(&s, 0, 0));
    free(busy);
    served_close(&s);
}

// engine.md M-10, L-36: what never fits is refused with a status, not in a stream
static void a_prompt_without_memory_is_503_before_any_stream(void **state) {
    (void)state;
    struct served s;
    char value[32];
    served_open(&s, &(struct served_plan){.storage = 2});
    for (int streamed = 0; streamed < 2; streamed++) {
        struct reply reply = http_call(s.url, "POST", PATH, "",
                                       streamed ? SHORT ",\"stream\":true}" : SHORT "}");
        assert_int_equal(reply.status, 503);
        assert_true(http_header(&reply, "Retry-After", value, sizeof value));
        assert_non_null(strstr(reply.body.data, "\"memory_full\""));
        assert_non_null(strstr(reply.body.data, "no memory for the prompt's"));
        http_free(&reply);
    }
    served_close(&s);
}

static void silence_is_filled_from_admission_on_and_not_before(void **state) {
    (void)state;
    struct served s;
    char block[8192];
    char *busy = long_body(320, ",\"stream\":true,\"max_tokens\":1");
    served_open(&s, &(struct served_plan){.launch_us = 60000, .options.keep_alive_s = 0.3});
    int first = http_connect(s.url), second = http_connect(s.url);
    http_request(first, "POST", PATH, "", busy);
    assert_true(served_wait(&s, 1, 0));
    http_request(second, "POST", PATH, "", busy);
    assert_true(http_wait(first, 1000));
    assert_false(http_wait(second, 200));
    ssize_t n = recv(first, block, sizeof block - 1, 0);
    assert_true(n > 0);
    block[n] = 0;
    assert_non_null(strstr(block, "HTTP/1.1 200 OK"));
    struct reply rest = http_read(second);
    assert_int_equal(rest.status, 200);
    assert_non_null(strstr(rest.body.data, ": keep-alive\n\ndata: {"));
    assert_non_null(strstr(rest.body.data, "data: [DONE]\n\n"));
    http_free(&rest);
    close(first);
    close(second);
    free(busy);
    served_close(&s);
}

static void a_failed_launch_is_500_or_an_error_event(void **state) {
    (void)state;
    for (int streamed = 0; streamed < 2; streamed++) {
        struct served s;
        served_open(&s, &(struct served_plan){.script = script, .launch_us = 30000,
                                              .fail_launch = 6});
        struct reply reply = http_call(s.url, "POST", PATH, "",
                                       streamed ? SHORT ",\"stream\":true}" : SHORT "}");
        assert_int_equal(reply.status, streamed ? 200 : 500);
        assert_non_null(strstr(reply.body.data, "generation_failed"));
        if (streamed)
            assert_non_null(strstr(reply.body.data, "}}\n\ndata: [DONE]\n\n"));
        http_free(&reply);
        served_close(&s);
    }
}

static void times_over_are_503_in_the_queue_and_504_running(void **state) {
    (void)state;
    struct served s;
    char *busy = long_body(400, ",\"max_tokens\":20");
    served_open(&s, &(struct served_plan){.launch_us = 60000, .queue_timeout_s = 0.3});
    int fd = http_connect(s.url);
    http_request(fd, "POST", PATH, "", busy);
    assert_true(served_wait(&s, 1, 0));
    struct reply reply = http_call(s.url, "POST", PATH, "", SHORT "}");
    assert_int_equal(reply.status, 503);
    assert_non_null(strstr(reply.body.data, "queue_timeout"));
    http_free(&reply);
    close(fd);
    assert_true(served_wait(&s, 0, 0));
    reply = http_call(s.url, "POST", PATH, "",
                      SHORT ",\"max_tokens\":400,\"ignore_eos\":true,\"timeout\":0.3}");
    assert_int_equal(reply.status, 504);
    assert_non_null(strstr(reply.body.data, "request_timeout"));
    http_free(&reply);
    free(busy);
    served_close(&s);
}

static void *stop_main(void *closure) {
    struct served *s = closure;
    lf_server_stop(s->server, 1);
    s->server = NULL;
    return NULL;
}

static void draining_lets_short_replies_end_and_cuts_long_ones(void **state) {
    (void)state;
    for (int ends = 0; ends < 2; ends++) {
        struct served s;
        pthread_t stopper;
        served_open(&s, &(struct served_plan){.launch_us = 50000});
        char body[200];
        snprintf(body, sizeof body, "%s,\"ignore_eos\":true,\"stream\":true,\"max_tokens\":%d}",
                 SHORT, ends ? 8 : 400);
        int fd = http_connect(s.url);
        http_request(fd, "POST", PATH, "", body);
        assert_true(served_wait(&s, 1, 0) && http_wait(fd, 2000));
        char url[64];
        snprintf(url, sizeof url, "%s", s.url);
        pthread_create(&stopper, NULL, stop_main, &s);
        usleep(50000);
        struct reply health = http_call(url, "GET", "/health", "", NULL);
        assert_int_equal(health.status, 503);
        assert_non_null(strstr(health.body.data, "draining"));
        http_free(&health);
        struct reply refused = http_call(url, "POST", PATH, "", SHORT "}");
        assert_int_equal(refused.status, 503);
        assert_non_null(strstr(refused.body.data, "shutting_down"));
        http_free(&refused);
        struct reply reply = http_read(fd);
        assert_int_equal(!strstr(reply.body.data, "shutting_down"), ends);
        assert_non_null(strstr(reply.body.data, "data: [DONE]"));
        http_free(&reply);
        close(fd);
        pthread_join(stopper, NULL);
        served_close(&s);
    }
}

// F-4: a launch that hangs does not keep a dying process; nothing is freed under its thread.
static void a_stop_gives_up_on_an_engine_that_hangs(void **state) {
    (void)state;
    struct served s;
    served_open(&s, &(struct served_plan){.launch_us = 2000000});
    int fd = http_connect(s.url);
    http_request(fd, "POST", PATH, "", SHORT ",\"max_tokens\":1}");
    assert_true(served_wait(&s, 1, 0));
    assert_false(lf_server_stop(s.server, -1));
    assert_true(lf_server_stop(s.server, 0));
    s.server = NULL;
    close(fd);
    served_close(&s);
}

static void a_reader_that_stops_is_cancelled_and_slows_no_other(void **state) {
    (void)state;
    struct served s;
    struct lf_engine_status status;
    served_open(&s, &(struct served_plan){.script = script, .repeat = 6000, .context = 110000,
                                          .slots = 2, .launch_us = 30,
                                          .options = {.slow_reader_s = 0.5,
                                                      .stream_bytes_max = 4096}});
    int fd = http_connect(s.url), small = 4096;
    setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof small);
    http_request(fd, "POST", PATH, "",
                 SHORT ",\"stream\":true,\"max_tokens\":100000,"
                       "\"stream_options\":{\"continuous_usage_stats\":true}}");
    assert_true(http_wait(fd, 2000));
    struct reply other = http_call(s.url, "POST", PATH, "", SHORT ",\"max_tokens\":50}");
    assert_int_equal(other.status, 200);
    http_free(&other);
    for (int i = 0; i < 20 && !served_wait(&s, 0, 0); i++)
        continue;
    lf_engine_status_read(s.engine, &status);
    assert_int_equal(status.finished, 1);
    assert_int_equal(status.cancelled, 1);
    close(fd);
    served_close(&s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_stream_and_a_whole_reply_say_the_same),
        cmocka_unit_test(ends_are_told_apart),
        cmocka_unit_test(a_client_that_leaves_in_any_phase_is_cancelled),
        cmocka_unit_test(a_full_queue_is_503_before_any_stream),
        cmocka_unit_test(a_prompt_without_memory_is_503_before_any_stream),
        cmocka_unit_test(silence_is_filled_from_admission_on_and_not_before),
        cmocka_unit_test(a_failed_launch_is_500_or_an_error_event),
        cmocka_unit_test(times_over_are_503_in_the_queue_and_504_running),
        cmocka_unit_test(draining_lets_short_replies_end_and_cuts_long_ones),
        cmocka_unit_test(a_stop_gives_up_on_an_engine_that_hangs),
        cmocka_unit_test(a_reader_that_stops_is_cancelled_and_slows_no_other),
    };
    lf_log_setup(LF_LOG_ERROR, false);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
