// Does every field of api.md section 5 take its range, and refuse what lies outside, as stated?
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>
#include "serve/errors.h"
#include "serve/params.h"

struct result {
    struct lf_params params;
    struct lf_error err;
    struct lf_arena arena;
};

static struct result read_body(const char *body, bool completions) {
    struct result r = {.err = LF_ERROR_INIT};
    struct lf_json_span span;
    struct lf_fields fields;
    struct lf_params_limits limits = {.sampling = {.temperature = 0.7, .top_p = 0.9},
                                      .n_max = 8,
                                      .vocab = 100,
                                      .completions = completions};
    if (lf_json_check(&span, body, strlen(body), 128, &r.err) ||
        lf_fields_read(&fields, &r.arena, span, "", &r.err) ||
        lf_params_read(&r.params, &r.arena, &fields, &limits, &r.err))
        assert_int_not_equal(r.err.status, LF_OK);
    return r;
}

// code NULL: accepted.
struct row {
    const char *field, *value, *code;
    const char *param; // NULL: the field
};

#define TYPE "invalid_type"
#define VALUE "invalid_value"
#define NO_FIELD "unsupported_parameter"
#define NO_VALUE "unsupported_value"
static const struct row rows[] = {
    {"model", "\"x\"", NULL, NULL}, {"model", "3", TYPE, NULL},
    {"max_tokens", "1", NULL, NULL}, {"max_tokens", "0", VALUE, NULL},
    {"max_tokens", "-1", VALUE, NULL}, {"max_tokens", "3.0", NULL, NULL},
    {"max_tokens", "3.5", TYPE, NULL}, {"max_tokens", "\"3\"", TYPE, NULL},
    {"max_tokens", "true", TYPE, NULL}, {"max_completion_tokens", "1", NULL, NULL},
    {"max_completion_tokens", "0", VALUE, NULL}, {"max_completion_tokens", "[]", TYPE, NULL},
    {"min_tokens", "0", NULL, NULL}, {"min_tokens", "1", NO_FIELD, NULL},
    {"min_tokens", "-1", VALUE, NULL}, {"min_tokens", "0.5", TYPE, NULL},
    {"temperature", "0", NULL, NULL}, {"temperature", "2", NULL, NULL},
    {"temperature", "2.1", VALUE, NULL}, {"temperature", "-0.1", VALUE, NULL},
    {"temperature", "\"1\"", TYPE, NULL}, {"temperature", "true", TYPE, NULL},
    {"temperature", "1e999", TYPE, NULL},
    {"top_p", "0", NULL, NULL}, {"top_p", "1", NULL, NULL}, {"top_p", "1.01", VALUE, NULL},
    {"top_p", "-0.01", VALUE, NULL}, {"top_p", "false", TYPE, NULL},
    {"top_k", "-1", NULL, NULL}, {"top_k", "100000", NULL, NULL}, {"top_k", "-2", VALUE, NULL},
    {"top_k", "1.5", TYPE, NULL}, {"top_k", "\"5\"", TYPE, NULL},
    {"min_p", "0", NULL, NULL}, {"min_p", "1", NULL, NULL}, {"min_p", "1.1", VALUE, NULL},
    {"min_p", "-1", VALUE, NULL}, {"min_p", "{}", TYPE, NULL},
    {"presence_penalty", "0", NULL, NULL}, {"presence_penalty", "2", NO_FIELD, NULL},
    {"presence_penalty", "2.1", VALUE, NULL}, {"presence_penalty", "\"0\"", TYPE, NULL},
    {"frequency_penalty", "0.0", NULL, NULL}, {"frequency_penalty", "-2", NO_FIELD, NULL},
    {"frequency_penalty", "-2.1", VALUE, NULL}, {"frequency_penalty", "true", TYPE, NULL},
    {"repetition_penalty", "1", NULL, NULL}, {"repetition_penalty", "1.1", NO_FIELD, NULL},
    {"repetition_penalty", "0", VALUE, NULL}, {"repetition_penalty", "2.1", VALUE, NULL},
    {"repetition_penalty", "[]", TYPE, NULL},
    {"logit_bias", "{}", NULL, NULL}, {"logit_bias", "{\"5\":1}", NO_FIELD, NULL},
    {"logit_bias", "{\"100\":1}", VALUE, NULL}, {"logit_bias", "{\"x\":1}", VALUE, NULL},
    {"logit_bias", "{\"5\":101}", VALUE, NULL}, {"logit_bias", "{\"5\":\"1\"}", TYPE, NULL},
    {"logit_bias", "[]", TYPE, NULL},
    {"seed", "-9223372036854775808", NULL, NULL}, {"seed", "18446744073709551615", NULL, NULL},
    {"seed", "-9223372036854775809", VALUE, NULL}, {"seed", "18446744073709551616", VALUE, NULL},
    {"seed", "1.5", TYPE, NULL}, {"seed", "\"1\"", TYPE, NULL}, {"seed", "true", TYPE, NULL},
    {"seed", "7.0", NULL, NULL},
    {"stop", "\"a\"", NULL, NULL}, {"stop", "[\"a\",\"\"]", NULL, NULL}, {"stop", "[]", NULL, NULL},
    {"stop", "3", TYPE, NULL}, {"stop", "[\"a\",3]", TYPE, "stop[1]"},
    {"stop", "[null]", TYPE, "stop[0]"}, {"stop", "\"a\\u0000\"", VALUE, NULL},
    {"stop_token_ids", "[0,99]", NULL, NULL},
    {"stop_token_ids", "[100]", VALUE, "stop_token_ids[0]"},
    {"stop_token_ids", "[1,-1]", VALUE, "stop_token_ids[1]"},
    {"stop_token_ids", "[\"1\"]", TYPE, "stop_token_ids[0]"}, {"stop_token_ids", "1", TYPE, NULL},
    {"stop_in_reasoning", "true", NULL, NULL}, {"stop_in_reasoning", "1", TYPE, NULL},
    {"include_stop_str_in_output", "true", NULL, NULL},
    {"include_stop_str_in_output", "\"true\"", TYPE, NULL},
    {"ignore_eos", "true", NULL, NULL}, {"ignore_eos", "0", TYPE, NULL},
    {"n", "1", NULL, NULL}, {"n", "1.0", NULL, NULL}, {"n", "2", NO_VALUE, NULL},
    {"n", "8", NO_VALUE, NULL}, {"n", "9", VALUE, NULL}, {"n", "0", VALUE, NULL},
    {"n", "\"1\"", TYPE, NULL}, {"best_of", "1", NULL, NULL}, {"best_of", "2", NO_VALUE, NULL},
    {"stream", "true", NULL, NULL}, {"stream", "1", TYPE, NULL},
    {"stream_options", "{}", NULL, NULL}, {"stream_options", "[]", TYPE, NULL},
    {"stream_options", "{\"include_usage\":1}", TYPE, "stream_options.include_usage"},
    {"stream_options", "{\"include_usage\":true,\"other\":3}", NULL, NULL},
    {"stream_options", "{\"continuous_usage_stats\":\"x\"}", TYPE,
     "stream_options.continuous_usage_stats"},
    {"draft", "false", NULL, NULL}, {"draft", "0", TYPE, NULL},
    {"thinking_budget", "0", NULL, NULL}, {"thinking_budget", "1", NULL, NULL},
    {"thinking_budget", "-1", VALUE, NULL}, {"thinking_budget", "true", TYPE, NULL},
    {"thinking_budget", "null", NULL, NULL}, {"thinking_budget", "9223372036854775807", NULL, NULL},
    {"thinking_budget", "1.5", TYPE, NULL}, {"thinking_budget", "\"8\"", TYPE, NULL},
    {"thinking_budget", "9223372036854775808", VALUE, NULL},
    {"priority", "\"normal\"", NULL, NULL}, {"priority", "\"background\"", NULL, NULL},
    {"priority", "0", NULL, NULL}, {"priority", "7", NULL, NULL}, {"priority", "-1", VALUE, NULL},
    {"priority", "\"high\"", VALUE, NULL}, {"priority", "true", TYPE, NULL},
    {"cache_prompt", "false", NULL, NULL}, {"cache_prompt", "\"no\"", TYPE, NULL},
    {"return_token_ids", "true", NULL, NULL}, {"return_token_ids", "1", TYPE, NULL},
    {"return_prompt_token_ids", "true", NULL, NULL}, {"return_prompt_token_ids", "{}", TYPE, NULL},
    {"timeout", "0.5", NULL, NULL}, {"timeout", "0", VALUE, NULL}, {"timeout", "-1", VALUE, NULL},
    {"timeout", "\"1\"", TYPE, NULL},
    {"request_id", "\"abc\"", NULL, NULL}, {"request_id", "3", TYPE, NULL},
    {"logprobs", "false", NULL, NULL}, {"logprobs", "true", NULL, NULL},
    {"logprobs", "1", TYPE, NULL}, {"logprobs", "\"true\"", TYPE, NULL},
    {"top_logprobs", "0", VALUE, NULL}, {"top_logprobs", "20", VALUE, NULL},
    {"top_logprobs", "21", VALUE, NULL}, {"top_logprobs", "-1", VALUE, NULL},
    {"top_logprobs", "true", TYPE, NULL}, {"top_logprobs", "0.5", TYPE, NULL},
    {"user", "\"me\"", NULL, NULL}, {"metadata", "{\"a\":1}", NULL, NULL},
    {"store", "true", NULL, NULL}, {"service_tier", "\"auto\"", NULL, NULL},
    {"verbosity", "\"low\"", NULL, NULL}, {"skip_special_tokens", "false", NULL, NULL},
    {"unknown_field", "[1]", NULL, NULL},
    {"modalities", "[\"text\"]", NULL, NULL},
    {"modalities", "[\"text\",\"audio\"]", NO_FIELD, NULL},
    {"modalities", "\"text\"", TYPE, NULL}, {"modalities", "[\"smell\"]", VALUE, NULL},
    {"audio", "{}", NO_FIELD, NULL}, {"web_search_options", "{}", NO_FIELD, NULL},
    {"suffix", "\"x\"", NO_FIELD, NULL}, {"use_beam_search", "false", NULL, NULL},
    {"use_beam_search", "true", NO_FIELD, NULL}, {"prompt_logprobs", "1", NO_FIELD, NULL},
    {"mirostat", "0", NULL, NULL}, {"mirostat", "2", NO_FIELD, NULL},
    {"typical_p", "1", NULL, NULL}, {"typical_p", "0.5", NO_FIELD, NULL},
    {"guided_json", "{}", NO_FIELD, NULL}, {"grammar", "\"root\"", NO_FIELD, NULL},
};

static void every_row_gives_its_status_code_and_param(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char body[256];
        snprintf(body, sizeof body, "{\"%s\": %s}", rows[i].field, rows[i].value);
        struct result r = read_body(body, false);
        const char *code = r.err.status ? lf_refusal_row(lf_refusal_of(r.err.status))->code : NULL;
        bool same = code && rows[i].code ? !strcmp(code, rows[i].code) : code == rows[i].code;
        if (!same)
            fail_msg("%s: %s (%s), not %s", body, code ? code : "accepted", r.err.text,
                     rows[i].code ? rows[i].code : "accepted");
        if (code) {
            assert_string_equal(r.err.param, rows[i].param ? rows[i].param : rows[i].field);
            assert_int_equal(lf_refusal_row(lf_refusal_of(r.err.status))->status, 400);
        }
        lf_arena_free(&r.arena);
    }
}

static void null_is_absent_for_every_field(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char body[256];
        snprintf(body, sizeof body, "{\"%s\": null}", rows[i].field);
        struct result r = read_body(body, false);
        if (r.err.status)
            fail_msg("%s: %s", body, r.err.text);
        assert_true(r.params.sampling.temperature == 0.7);
        assert_true(r.params.sampling.top_p == 0.9);
        assert_int_equal(r.params.max_tokens, 0);
        assert_true(r.params.draft && r.params.cache_prompt && !r.params.seed_given);
        lf_arena_free(&r.arena);
    }
}

static void values_arrive_as_sent(void **state) {
    (void)state;
    struct result r = read_body(
        "{\"max_tokens\":5,\"max_completion_tokens\":7,\"temperature\":0,\"top_p\":0.25,"
        "\"top_k\":3,\"min_p\":0.5,\"stop\":[\"a\",\"\",\"bc\"],\"stop_token_ids\":[9],"
        "\"stream\":true,\"stream_options\":{\"include_usage\":true},\"priority\":1,"
        "\"timeout\":1.5,\"draft\":false,\"temperature\":0.5}",
        false);
    assert_int_equal(r.err.status, LF_OK);
    assert_int_equal(r.params.max_tokens, 7);
    assert_true(r.params.sampling.temperature == 0.5);
    assert_true(r.params.sampling.top_p == 0.25 && r.params.sampling.min_p == 0.5);
    assert_int_equal(r.params.sampling.top_k, 3);
    assert_int_equal(r.params.n_stops, 2);
    assert_string_equal(r.params.stop[1], "bc");
    assert_int_equal(r.params.n_stop_ids, 1);
    assert_int_equal(r.params.stop_id[0], 9);
    assert_true(r.params.stream && r.params.include_usage && r.params.background);
    assert_true(r.params.timeout_s == 1.5 && !r.params.draft);
    lf_arena_free(&r.arena);
}

static void seeds_are_read_from_their_digits(void **state) {
    (void)state;
    static const struct {
        const char *text;
        uint64_t seed;
    } seeds[] = {
        {"0", 0}, {"-1", UINT64_MAX}, {"9007199254740993", 9007199254740993u},
        {"18446744073709551615", UINT64_MAX}, {"-9223372036854775808", (uint64_t)1 << 63},
        {"9223372036854775807.0", INT64_MAX}, {"1e3", 1000},
    };
    for (size_t i = 0; i < sizeof seeds / sizeof *seeds; i++) {
        char body[64];
        snprintf(body, sizeof body, "{\"seed\":%s}", seeds[i].text);
        struct result r = read_body(body, false);
        assert_int_equal(r.err.status, LF_OK);
        assert_true(r.params.seed_given);
        assert_true(r.params.sampling.seed == seeds[i].seed);
        lf_arena_free(&r.arena);
    }
}

static void completions_read_logprobs_and_echo_their_way(void **state) {
    (void)state;
    static const struct row own[] = {
        {"logprobs", "0", NULL, NULL},     {"logprobs", "20", NULL, NULL},
        {"logprobs", "21", VALUE, NULL},   {"logprobs", "true", TYPE, NULL},
        {"logprobs", "-1", VALUE, NULL},   {"top_logprobs", "0", NULL, NULL},
        {"top_logprobs", "3", NO_FIELD, NULL}, {"top_logprobs", "21", VALUE, NULL},
        {"logprobs", "null", NULL, NULL},  {"echo", "false", NULL, NULL},
        {"echo", "true", NO_FIELD, NULL},  {"echo", "1", TYPE, NULL},
    };
    for (size_t i = 0; i < sizeof own / sizeof *own; i++) {
        char body[64];
        snprintf(body, sizeof body, "{\"%s\":%s}", own[i].field, own[i].value);
        struct result r = read_body(body, true);
        const char *code = r.err.status ? lf_refusal_row(lf_refusal_of(r.err.status))->code : "";
        assert_string_equal(code, own[i].code ? own[i].code : "");
        lf_arena_free(&r.arena);
    }
}

// api.md 8: alternatives need the flag, whatever their number.
static void logprobs_arrive_as_asked(void **state) {
    (void)state;
    static const struct {
        const char *body;
        bool completions, wanted, refused;
        uint32_t top;
    } asked[] = {
        {"{\"logprobs\":true}", false, true, false, 0},
        {"{\"logprobs\":true,\"top_logprobs\":0}", false, true, false, 0},
        {"{\"logprobs\":true,\"top_logprobs\":20}", false, true, false, 20},
        {"{\"logprobs\":true,\"top_logprobs\":21}", false, true, true, 0},
        {"{\"logprobs\":false,\"top_logprobs\":null}", false, false, false, 0},
        {"{\"logprobs\":false,\"top_logprobs\":2}", false, false, true, 0},
        {"{}", true, false, false, 0},
        {"{\"logprobs\":0}", true, true, false, 0},
        {"{\"logprobs\":20}", true, true, false, 20},
    };
    for (size_t i = 0; i < sizeof asked / sizeof *asked; i++) {
        struct result r = read_body(asked[i].body, asked[i].completions);
        assert_int_equal(r.err.status, asked[i].refused ? LF_E_VALUE : LF_OK);
        if (asked[i].refused)
            assert_string_equal(r.err.param, "top_logprobs");
        else
            assert_true(r.params.logprobs == asked[i].wanted &&
                        r.params.top_logprobs == asked[i].top);
        lf_arena_free(&r.arena);
    }
}

static void stop_lists_end_at_their_bounds(void **state) {
    (void)state;
    struct lf_buffer body = {0};
    for (size_t n = 64; n <= 65; n++) {
        lf_buffer_clear(&body);
        lf_buffer_add_text(&body, "{\"stop\":[");
        for (size_t i = 0; i < n; i++)
            lf_buffer_add_text(&body, i ? ",\"s\"" : "\"s\"");
        lf_buffer_add_text(&body, "]}");
        struct result r = read_body(body.data, false);
        assert_int_equal(r.err.status, n == 64 ? LF_OK : LF_E_VALUE);
        lf_arena_free(&r.arena);
    }
    for (size_t len = 1024; len <= 1025; len++) {
        lf_buffer_clear(&body);
        lf_buffer_add_text(&body, "{\"stop\":\"");
        for (size_t i = 0; i < len; i++)
            lf_buffer_add_text(&body, "x");
        lf_buffer_add_text(&body, "\"}");
        struct result r = read_body(body.data, false);
        assert_int_equal(r.err.status, len == 1024 ? LF_OK : LF_E_VALUE);
        lf_arena_free(&r.arena);
    }
    lf_buffer_free(&body);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_row_gives_its_status_code_and_param),
        cmocka_unit_test(null_is_absent_for_every_field),
        cmocka_unit_test(values_arrive_as_sent),
        cmocka_unit_test(seeds_are_read_from_their_digits),
        cmocka_unit_test(completions_read_logprobs_and_echo_their_way),
        cmocka_unit_test(logprobs_arrive_as_asked),
        cmocka_unit_test(stop_lists_end_at_their_bounds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
