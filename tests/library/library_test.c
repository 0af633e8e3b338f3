// Goal: what an embedder gets of good and of bad use. Method: the shared library on the demo model.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <lanefold.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { LONG_REPLY = 3000 };

// What one request's events left behind.
struct heard {
    sem_t started, done;
    uint32_t n_tokens, n_finished, n_after; // n_after: events past the last
    enum lf_done why;
    struct lf_stats stats;
};

static void on_tokens(void *ctx, uint64_t id, const uint32_t *token, uint32_t n,
                      const struct lf_logprob_row *rows) {
    struct heard *h = ctx;
    (void)id, (void)token, (void)rows;
    h->n_after += h->n_finished;
    if (!h->n_tokens)
        sem_post(&h->started);
    h->n_tokens += n;
}

static void on_finished(void *ctx, uint64_t id, enum lf_done why, const struct lf_stats *stats,
                        const char *message) {
    struct heard *h = ctx;
    (void)id, (void)message;
    h->n_finished++;
    h->why = why;
    h->stats = *stats;
    sem_post(&h->done);
}

static const struct lf_sink sink = {.tokens = on_tokens, .finished = on_finished};

static void heard_init(struct heard *h) {
    memset(h, 0, sizeof *h);
    sem_init(&h->started, 0, 0);
    sem_init(&h->done, 0, 0);
}

static struct lf_engine *open_demo(void) {
    struct lf_engine_options options = LF_ENGINE_OPTIONS_INIT;
    struct lf_error err = LF_ERROR_INIT;
    struct lf_engine *engine;
    options.parallel = 2;
    options.context = 4096;
    options.drafts = LF_DRAFTS_OFF;
    options.prompt_cache_bytes = 0;
    if (lf_engine_open(&engine, NULL, &options, &err) != LF_OK)
        fail_msg("%s", err.text);
    return engine;
}

static struct lf_ids ask(const struct lf_engine *engine, const char *text) {
    struct lf_chat_turn turn = {.role = "user", .content = text};
    struct lf_error err = LF_ERROR_INIT;
    struct lf_ids ids = {0};
    assert_int_equal(lf_engine_render(engine, &turn, 1, false, &ids, &err), LF_OK);
    return ids;
}

// A reply that no end token ends.
static struct lf_request endless(const struct lf_engine *engine, const struct lf_ids *ids) {
    struct lf_request request = lf_engine_request(engine, ids);
    request.n_eos = 0;
    request.max_tokens = LONG_REPLY;
    return request;
}

static void refused(struct lf_engine *engine, const struct lf_request *request,
                    enum lf_status status, const char *text) {
    struct lf_error err = LF_ERROR_INIT;
    struct heard h;
    heard_init(&h);
    assert_int_equal(lf_engine_submit(engine, 1, request, &sink, &h, &err), status);
    assert_non_null(strstr(err.text, text));
    assert_int_equal(h.n_finished, 0);
}

static void bad_models_are_refused_with_a_sentence(void **state) {
    static const struct {
        const char *model, *text;
        enum lf_status status;
    } cases[] = {
        {"/nowhere/at/all", "neither a folder nor a hub name", LF_E_NOT_FOUND},
        {"", "neither a folder nor a hub name", LF_E_NOT_FOUND},
        {"lanefold-test/absent", "hf download lanefold-test/absent", LF_E_MISSING},
        {"/dev/null", "is not a folder", LF_E_FORMAT},
        {"/proc/self/fd", "config.json", LF_E_MISSING},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct lf_error err = LF_ERROR_INIT;
        struct lf_engine *engine = (struct lf_engine *)&err;
        assert_int_equal(lf_engine_open(&engine, cases[i].model, NULL, &err), cases[i].status);
        assert_non_null(strstr(err.text, cases[i].text));
        assert_null(engine);
    }
    lf_engine_close(NULL, 0);
}

static void bad_options_are_refused_with_a_sentence(void **state) {
    struct lf_engine_options o[7];
    static const char *const texts[7] = {"parallel 65", "threads 1025", "chunk_rows 255",
                                         "context of 4097", "isa sse9", "decode share of 1",
                                         "does not fit"};
    (void)state;
    for (size_t i = 0; i < 7; i++)
        o[i] = (struct lf_engine_options){.decode_share = 0.25};
    o[0].parallel = 65;
    o[1].threads = 1025;
    o[2].chunk_rows = 255;
    o[3].context = 4097;
    o[4].isa = "sse9";
    o[5].decode_share = 1;
    o[6].memory_limit_bytes = 1 << 20;
    for (size_t i = 0; i < 7; i++) {
        struct lf_error err = LF_ERROR_INIT;
        struct lf_engine *engine;
        assert_int_not_equal(lf_engine_open(&engine, NULL, &o[i], &err), LF_OK);
        if (!strstr(err.text, texts[i]))
            fail_msg("%s: expected %s", err.text, texts[i]);
        assert_null(engine);
    }
}

static void bad_requests_are_refused_and_never_finish(void **state) {
    struct lf_engine *engine = *state;
    struct lf_ids ids = ask(engine, "Hello!");
    struct lf_request good = lf_engine_request(engine, &ids), bad = good;
    uint32_t past = lf_engine_info(engine)->vocab;
    bad.prompt_len = 0;
    refused(engine, &bad, LF_E_VALUE, "the prompt is empty");
    bad = good;
    bad.prompt = &past;
    bad.prompt_len = 1;
    refused(engine, &bad, LF_E_TOKEN, "at prompt index 0: expected below");
    bad = good;
    bad.max_tokens = 0;
    refused(engine, &bad, LF_E_VALUE, "the reply limit is 0");
    bad = good;
    bad.max_tokens = 4096;
    bad.max_explicit = true;
    refused(engine, &bad, LF_E_CONTEXT, "maximum context length is 4096");
    bad = good;
    bad.top_logprobs = LF_LOGPROBS_MAX + 1;
    refused(engine, &bad, LF_E_VALUE, "21 alternatives");
    bad = good;
    bad.n_shared = LF_SHARED_MAX + 1;
    refused(engine, &bad, LF_E_VALUE, "5 shared blocks");
    lf_ids_free(&ids);
}

static void a_cancelled_request_finishes_once_and_an_unknown_one_is_ignored(void **state) {
    struct lf_engine *engine = *state;
    struct lf_ids ids = ask(engine, "Tell me a story.");
    struct lf_request request = endless(engine, &ids);
    struct lf_error err = LF_ERROR_INIT;
    struct heard h;
    heard_init(&h);
    lf_engine_cancel(engine, 99);
    assert_int_equal(lf_engine_submit(engine, 7, &request, &sink, &h, &err), LF_OK);
    sem_wait(&h.started);
    lf_engine_cancel(engine, 99);
    lf_engine_cancel(engine, 7);
    lf_engine_cancel(engine, 7);
    sem_wait(&h.done);
    lf_engine_cancel(engine, 7);
    usleep(50000);
    assert_int_equal(h.why, LF_DONE_CANCELLED);
    assert_int_equal(h.n_finished, 1);
    assert_int_equal(h.n_after, 0);
    assert_int_equal(h.stats.completion_tokens, h.n_tokens);
    lf_ids_free(&ids);
}

static void *close_slowly(void *arg) {
    lf_engine_close(arg, 1);
    return NULL;
}

static void a_submit_while_the_engine_closes_is_refused(void **state) {
    struct lf_engine *engine = open_demo();
    struct lf_ids ids = ask(engine, "Tell me a story.");
    struct lf_request request = endless(engine, &ids);
    struct lf_engine_status status = {0};
    struct lf_error err = LF_ERROR_INIT;
    struct heard h;
    pthread_t closer;
    (void)state;
    heard_init(&h);
    assert_int_equal(lf_engine_submit(engine, 1, &request, &sink, &h, &err), LF_OK);
    sem_wait(&h.started);
    assert_int_equal(pthread_create(&closer, NULL, close_slowly, engine), 0);
    while (!status.draining) {
        usleep(1000);
        lf_engine_status_read(engine, &status);
    }
    refused(engine, &request, LF_E_CLOSED, "shutting down");
    pthread_join(closer, NULL);
    assert_int_equal(h.n_finished, 1);
    assert_true(h.why == LF_DONE_CLOSED || h.why == LF_DONE_LENGTH);
    lf_ids_free(&ids);
}

static void two_engines_of_one_process_give_the_same_tokens(void **state) {
    struct lf_engine *engine[2] = {*state, open_demo()};
    struct lf_ids ids = ask(engine[0], "What is the capital of Norway?");
    struct lf_request request = lf_engine_request(engine[0], &ids);
    struct lf_error err = LF_ERROR_INIT;
    struct heard h[2];
    for (int i = 0; i < 2; i++) {
        heard_init(&h[i]);
        assert_int_equal(lf_engine_submit(engine[i], 1, &request, &sink, &h[i], &err), LF_OK);
    }
    for (int i = 0; i < 2; i++)
        sem_wait(&h[i].done);
    assert_int_equal(h[0].why, LF_DONE_EOS);
    assert_int_equal(strlen(h[0].stats.token_sha256), 64);
    assert_string_equal(h[0].stats.token_sha256, h[1].stats.token_sha256);
    assert_string_equal(lf_engine_info(engine[0])->fingerprint,
                        lf_engine_info(engine[1])->fingerprint);
    lf_engine_close(engine[1], 0);
    lf_ids_free(&ids);
}

static void decoded_ids_are_whole_characters_of_the_text(void **state) {
    static const char text[] = "Smørrebrød, 寿司 and 🍕🍕 <think>";
    struct lf_engine *engine = *state;
    struct lf_error err = LF_ERROR_INIT;
    struct lf_utf8_stream stream = {0};
    struct lf_buffer out = {0};
    struct lf_ids ids = {0};
    assert_int_equal(lf_engine_encode(engine, text, strlen(text), &ids, &err), LF_OK);
    for (size_t i = 0; i < ids.len; i++) {
        lf_engine_decode(engine, ids.id[i], &stream, &out);
        // What is out is a prefix of the text that ends with a character.
        assert_memory_equal(out.data, text, out.len);
        assert_true((text[out.len] & 0xc0) != 0x80);
    }
    lf_engine_decode(engine, lf_engine_info(engine)->eos[0], &stream, &out);
    lf_engine_decode(engine, UINT32_MAX, &stream, &out);
    lf_utf8_stream_end(&stream, &out);
    assert_string_equal(out.data, text);
    lf_ids_clear(&ids);
    assert_int_equal(lf_engine_encode(engine, "a\xff", 2, &ids, &err), LF_E_FORMAT);
    assert_int_equal(err.byte, 1);
    lf_buffer_free(&out);
    lf_ids_free(&ids);
}

static void chats_render_to_marked_prompts_and_bad_ones_are_refused(void **state) {
    static const struct lf_chat_turn turn[] = {{"system", "Be brief."}, {"user", "Hello!"},
                                               {"assistant", "Hi."}, {"user", "2 + 2?"}};
    static const struct lf_chat_turn bad[] = {{"robot", "x"}, {"user", "a\xff"}};
    struct lf_engine *engine = *state;
    struct lf_error err = LF_ERROR_INIT;
    struct lf_ids ids = {0}, none = {0};
    assert_int_equal(lf_engine_render(engine, turn, 4, false, &ids, &err), LF_OK);
    struct lf_request request = lf_engine_request(engine, &ids);
    assert_int_equal(ids.id[0], lf_engine_info(engine)->bos);
    assert_int_equal(request.n_shared, 1);
    assert_true(request.shared[0] < request.rewind_len);
    assert_true(request.rewind_len < request.history_len && request.history_len < ids.len);
    assert_int_equal(request.max_tokens, 4096 - ids.len);
    for (size_t i = 0; i < 2; i++) {
        err = (struct lf_error)LF_ERROR_INIT;
        assert_int_not_equal(lf_engine_render(engine, &bad[i], 1, false, &none, &err), LF_OK);
    }
    err = (struct lf_error)LF_ERROR_INIT;
    assert_int_equal(lf_engine_render(engine, turn, 0, false, &none, &err), LF_E_VALUE);
    assert_int_equal(none.len, 0);
    lf_ids_free(&ids);
    lf_ids_free(&none);
}

static void take_line(void *ctx, enum lf_log_level level, const char *text) {
    uint32_t *lines = ctx;
    *lines += level == LF_LOG_INFO && strncmp(text, "plan: ", 6) == 0;
}

static void the_memory_report_and_the_log_tell_the_plan(void **state) {
    struct lf_memory_report report;
    uint32_t lines = 0;
    uint64_t need = 0;
    (void)state;
    lf_log_to(LF_LOG_INFO, take_line, &lines);
    struct lf_engine *engine = open_demo();
    lf_log_to(LF_LOG_WARN, NULL, NULL);
    lf_engine_memory_read(engine, &report);
    for (uint32_t i = 0; i < report.n_lines; i++)
        need += report.line[i].counted ? report.line[i].planned_bytes : 0;
    assert_true(report.n_lines > 10 && lines > report.n_lines);
    assert_int_equal(need, report.need_bytes);
    assert_true(need <= report.budget_bytes && report.budget_bytes <= report.total_bytes);
    assert_int_equal(report.parallel, 2);
    assert_string_equal(lf_engine_info(engine)->name, "demo");
    lf_engine_close(engine, 0);
}

static int set_up(void **state) {
    *state = open_demo();
    return 0;
}

static int tear_down(void **state) {
    lf_engine_close(*state, 0);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bad_models_are_refused_with_a_sentence),
        cmocka_unit_test(bad_options_are_refused_with_a_sentence),
        cmocka_unit_test(bad_requests_are_refused_and_never_finish),
        cmocka_unit_test(a_cancelled_request_finishes_once_and_an_unknown_one_is_ignored),
        cmocka_unit_test(a_submit_while_the_engine_closes_is_refused),
        cmocka_unit_test(two_engines_of_one_process_give_the_same_tokens),
        cmocka_unit_test(decoded_ids_are_whole_characters_of_the_text),
        cmocka_unit_test(chats_render_to_marked_prompts_and_bad_ones_are_refused),
        cmocka_unit_test(the_memory_report_and_the_log_tell_the_plan),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
