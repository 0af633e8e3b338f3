// Does a stream give the same evidence wherever the network cuts it, and does nothing wrong pass?
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/sha256.h"
#include "bench/answer.h"
#include "bench/report.h"

#define SHA "4636993d3e1da4e9d6b8f87b79e8f7c6d018580d52661950eabc3845c5897a4d"
static const char head[] =
    ": keep-alive\n\n"
    "data: {\"choices\":[{\"delta\":{\"role\":\"assistant\",\"content\":\"\"}}]}\r\n\r\n"
    "data: {\"choices\":[{\"delta\":{\"reasoning_content\":\"h\xc3\xbc\","
    "\"reasoning\":\"h\xc3\xbc\"}}]}\n\n"
    "data: {\"choices\":[{\"delta\":{\"content\":\"\xe8\xaa\x9e\xf0\x9d\x84\x9e\"}}]}\n\n"
    "data: {\"choices\":[{\"delta\":{\"content\":\"b\"}}]}\n\n"
    "data:{\"choices\":[{\"text\":\"c\"}]}\n\n";
static const char tail[] =
    "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":9,\"completion_tokens\":6,"
    "\"prompt_tokens_details\":{\"cached_tokens\":4}},\"lanefold\":{\"token_sha256\":\"" SHA
    "\",\"drafted\":3,\"accepted\":2,\"rounds\":4,\"plain_rounds\":1}}\n\n"
    "data: [DONE]\n\n";

// Feeds the text in parts of so many bytes, one second apart.
static void feed(struct lf_answer *reply, const char *text, size_t part) {
    size_t len = strlen(text);
    lf_answer_init(reply);
    reply->sent_s = 100;
    for (size_t at = 0, i = 1; at < len; at += part, i++) {
        size_t n = len - at < part ? len - at : part;
        if (!lf_answer_feed(reply, text + at, n, 100 + (double)i))
            break;
    }
    lf_answer_finish(reply, 8);
}

static char *join(const char *a, const char *b) {
    char *text = malloc(strlen(a) + strlen(b) + 1);
    assert_non_null(text);
    memcpy(text, a, strlen(a));
    memcpy(text + strlen(a), b, strlen(b) + 1);
    return text;
}

static void evidence_does_not_depend_on_network_pieces(void **state) {
    (void)state;
    char *text = join(head, tail), want[65];
    uint8_t digest[2][32], both[32];
    const char *parts[2] = {"\xe8\xaa\x9e\xf0\x9d\x84\x9e" "bc", "h\xc3\xbc"};
    struct lf_sha256 sha;
    for (int i = 0; i < 2; i++) {
        lf_sha256_init(&sha);
        lf_sha256_add(&sha, parts[i], strlen(parts[i]));
        lf_sha256_finish(&sha, digest[i]);
    }
    lf_sha256_init(&sha);
    lf_sha256_add(&sha, digest, 64);
    lf_sha256_finish(&sha, both);
    lf_sha256_hex(both, want);
    for (size_t part = 1; part < strlen(text); part++) {
        struct lf_answer reply;
        feed(&reply, text, part);
        assert_null(reply.error);
        assert_true(reply.complete && reply.pieces == 4 && reply.piece[1].chars == 2);
        assert_string_equal(reply.output_sha, want);
        assert_string_equal(reply.token_sha, SHA);
        assert_int_equal(reply.prompt_tokens, 9);
        assert_string_equal(lf_answer_cache_state(&reply), "reused");
        assert_int_equal(reply.drafted + 10 * reply.accepted + 100 * reply.rounds +
                             1000 * reply.plain_rounds, 1423);
        lf_answer_free(&reply);
    }
    free(text);
}

static void rates_need_four_pieces_and_time_between_them(void **state) {
    (void)state;
    struct lf_answer reply;
    char *text = join(head, tail);
    feed(&reply, text, 1);
    assert_true(lf_answer_measured(&reply));
    assert_true(reply.decode_tps == 5 / (reply.last_s - reply.first_s));
    assert_true(reply.ttft_s == reply.first_s - 100);
    lf_answer_free(&reply);
    feed(&reply, text, strlen(text));
    assert_null(reply.error);
    assert_false(lf_answer_measured(&reply));
    assert_true(isnan(reply.ttft_s));
    lf_answer_free(&reply);
    free(text);
}

static void a_cut_at_any_byte_is_an_error(void **state) {
    (void)state;
    char *text = join(head, tail);
    size_t done = strlen(text) - 1;
    for (size_t len = 0; len < done; len++) {
        struct lf_answer reply;
        lf_answer_init(&reply);
        lf_answer_feed(&reply, text, len, 1);
        lf_answer_finish(&reply, 8);
        assert_true(lf_answer_failed(&reply));
        assert_string_equal(reply.error, "incomplete");
        lf_answer_free(&reply);
    }
    free(text);
}

static void wrong_counts_are_errors_or_unknown(void **state) {
    (void)state;
    static const struct {
        const char *tokens, *cached, *error, *cache;
    } cases[] = {
        {"8", "0", NULL, "cold"},          {"9", "0", "usage", "cold"},
        {"0", "0", "usage", "cold"},       {"-1", "0", "usage", "cold"},
        {"true", "0", "usage", "cold"},    {"\"6\"", "0", "usage", "cold"},
        {"6.0", "0", "usage", "cold"},     {"null", "0", "usage", "cold"},
        {"6", "9", NULL, "reused"},        {"6", "10", NULL, "unverified"},
        {"6", "-1", NULL, "unverified"},   {"6", "false", NULL, "unverified"},
        {"6", "\"0\"", NULL, "unverified"}, {"6", "0.0", NULL, "unverified"},
        {"6", "null", NULL, "unverified"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct lf_answer reply;
        char event[400];
        snprintf(event, sizeof event,
                 "data: {\"usage\":{\"prompt_tokens\":9,\"completion_tokens\":%s,"
                 "\"prompt_tokens_details\":{\"cached_tokens\":%s}}}\n\ndata: [DONE]\n\n",
                 cases[i].tokens, cases[i].cached);
        feed(&reply, event, 7);
        if (cases[i].error)
            assert_string_equal(reply.error, cases[i].error);
        else
            assert_null(reply.error);
        assert_string_equal(lf_answer_cache_state(&reply), cases[i].cache);
        lf_answer_free(&reply);
    }
}

static void comparison_is_unverified_without_two_whole_hashes(void **state) {
    (void)state;
    struct lf_answer a = {.complete = true, .token_sha = SHA}, b = a, c = a, d = a, e = a, f = a;
    b.token_sha[5] = '0';
    c.complete = false;
    d.error = "usage";
    e.token_sha[0] = 0;
    f.token_sha[12] = 0;
    assert_int_equal(lf_answer_compare(&a, &a), LF_ANSWER_EQUAL);
    assert_int_equal(lf_answer_compare(&a, &b), LF_ANSWER_UNEQUAL);
    assert_int_equal(lf_answer_compare(&a, &c), LF_ANSWER_UNVERIFIED);
    assert_int_equal(lf_answer_compare(&d, &a), LF_ANSWER_UNVERIFIED);
    assert_int_equal(lf_answer_compare(&e, &e), LF_ANSWER_UNVERIFIED);
    assert_int_equal(lf_answer_compare(&a, &f), LF_ANSWER_UNVERIFIED);
    assert_int_equal(lf_answer_compare(&f, &f), LF_ANSWER_EQUAL);
}

static void bounds_of_a_line_and_a_body_hold(void **state) {
    (void)state;
    char *bytes = malloc(LF_ANSWER_LINE_MAX + 1);
    struct lf_answer reply;
    assert_non_null(bytes);
    memset(bytes, ' ', LF_ANSWER_LINE_MAX + 1);
    lf_answer_init(&reply);
    assert_true(lf_answer_feed(&reply, bytes, LF_ANSWER_LINE_MAX, 1));
    assert_false(lf_answer_feed(&reply, bytes, 1, 1));
    assert_string_equal(reply.error, "too_large");
    lf_answer_free(&reply);
    lf_answer_init(&reply);
    bytes[LF_ANSWER_LINE_MAX - 1] = '\n';
    for (int i = 0; i < LF_ANSWER_BODY_MAX / LF_ANSWER_LINE_MAX; i++)
        assert_true(lf_answer_feed(&reply, bytes, LF_ANSWER_LINE_MAX, 1));
    assert_false(lf_answer_feed(&reply, "\n", 1, 1));
    assert_string_equal(reply.error, "too_large");
    lf_answer_free(&reply);
    free(bytes);
}

static void a_report_takes_only_listed_fields_and_names(void **state) {
    (void)state;
    struct lf_report report;
    struct lf_error err = LF_ERROR_INIT, none = LF_ERROR_INIT;
    assert_int_equal(lf_report_open(&report, "cache", "rows", true, json_object(), NULL, &err),
                     LF_OK);
    assert_int_equal(lf_report_row(&report, json_pack("{s:i}", "tokens", 1), &err), LF_OK);
    assert_int_not_equal(lf_report_row(&report, json_pack("{s:i}", "endpoint", 1), &err), LF_OK);
    assert_non_null(strstr(err.text, "endpoint"));
    err = none;
    json_t *nested = json_pack("{s:[{s:s}]}", "evidence", "error", "http://127.0.0.1:1/");
    assert_int_not_equal(lf_report_row(&report, nested, &err), LF_OK);
    assert_int_equal(json_array_size(report.rows), 1);
    lf_report_close(&report);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(evidence_does_not_depend_on_network_pieces),
        cmocka_unit_test(rates_need_four_pieces_and_time_between_them),
        cmocka_unit_test(a_cut_at_any_byte_is_an_error),
        cmocka_unit_test(wrong_counts_are_errors_or_unknown),
        cmocka_unit_test(comparison_is_unverified_without_two_whole_hashes),
        cmocka_unit_test(bounds_of_a_line_and_a_body_hold),
        cmocka_unit_test(a_report_takes_only_listed_fields_and_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
