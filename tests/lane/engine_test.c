// The engine on the fake target: queue, rounds, stop conditions, cancels, failures, drain.
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <pthread.h>
#include <string.h>
#include <unistd.h>
#include "base/buffer.h"
#include "base/sha256.h"
#include "lane/engine.h"
#include "support/fake_target.h"

enum { VOCAB = 1000, CONTEXT = 300, EOS = 7 };

// What one request's events left behind.
struct heard {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct lf_ids ids;
    uint32_t admitted, prefilled, finished;
    enum lf_done why;
    struct lf_stats stats;
    char message[512];
};

static void on_admitted(void *ctx, uint64_t id) {
    struct heard *h = ctx;
    (void)id;
    pthread_mutex_lock(&h->lock);
    h->admitted++;
    pthread_mutex_unlock(&h->lock);
}

static void on_prefilled(void *ctx, uint64_t id, uint32_t cached) {
    struct heard *h = ctx;
    (void)id;
    pthread_mutex_lock(&h->lock);
    assert_int_equal(cached, 0);
    h->prefilled++;
    pthread_cond_signal(&h->changed);
    pthread_mutex_unlock(&h->lock);
}

static void on_tokens(void *ctx, uint64_t id, const uint32_t *token, uint32_t n,
                      const struct lf_logprob_row *rows) {
    struct heard *h = ctx;
    (void)id;
    (void)rows;
    pthread_mutex_lock(&h->lock);
    lf_ids_add_all(&h->ids, token, n);
    pthread_cond_signal(&h->changed);
    pthread_mutex_unlock(&h->lock);
}

static void on_finished(void *ctx, uint64_t id, enum lf_done why, const struct lf_stats *stats,
                        const char *message) {
    struct heard *h = ctx;
    (void)id;
    pthread_mutex_lock(&h->lock);
    h->finished++;
    h->why = why;
    h->stats = *stats;
    strncpy(h->message, message, sizeof h->message - 1);
    pthread_cond_signal(&h->changed);
    pthread_mutex_unlock(&h->lock);
}

static const struct lf_sink sink = {on_admitted, on_prefilled, on_tokens, on_finished};

static void heard_init(struct heard *h) {
    *h = (struct heard){0};
    pthread_mutex_init(&h->lock, NULL);
    pthread_cond_init(&h->changed, NULL);
}

static void wait_finished(struct heard *h) {
    pthread_mutex_lock(&h->lock);
    while (!h->finished)
        pthread_cond_wait(&h->changed, &h->lock);
    pthread_mutex_unlock(&h->lock);
}

static void wait_tokens(struct heard *h, size_t n) {
    pthread_mutex_lock(&h->lock);
    while (h->ids.len < n)
        pthread_cond_wait(&h->changed, &h->lock);
    pthread_mutex_unlock(&h->lock);
}

static struct lf_engine *engine_open(struct lf_fake_options options, uint32_t queue_max,
                                     double timeout_s) {
    struct lf_error err = LF_ERROR_INIT;
    struct lf_engine *e;
    options.vocab = VOCAB;
    options.context = CONTEXT;
    if (!options.chunk_rows)
        options.chunk_rows = 16;
    if (!options.slots)
        options.slots = 1;
    struct lf_engine_options o = {.queue_max = queue_max, .queue_timeout_s = timeout_s};
    assert_int_equal(lf_engine_open(&e, lf_fake_target_open(&options), &o, &err), LF_OK);
    return e;
}

static const uint32_t end_id[1] = {EOS};

static struct lf_request request(const uint32_t *prompt, uint32_t len, uint32_t max_tokens) {
    return (struct lf_request){.prompt = prompt, .prompt_len = len, .max_tokens = max_tokens,
                               .sampling = {.temperature = 1, .seed = 42}, .eos = end_id};
}

static void prompt_fill(uint32_t *prompt, uint32_t n, uint32_t salt) {
    for (uint32_t i = 0; i < n; i++)
        prompt[i] = (i * 31 + salt) % VOCAB;
}

// What a serial engine would give.
static void expect_reply(const struct heard *h, const uint32_t *prompt, uint32_t n, size_t len) {
    uint32_t history[CONTEXT + 1];
    memcpy(history, prompt, n * sizeof *prompt);
    assert_int_equal(h->ids.len, len);
    for (size_t i = 0; i < len; i++) {
        history[n + i] = lf_fake_next(history, n + i, 42, VOCAB);
        assert_int_equal(h->ids.id[i], history[n + i]);
    }
}

static void submit(struct lf_engine *e, uint64_t id, const struct lf_request *r, struct heard *h) {
    struct lf_error err = LF_ERROR_INIT;
    heard_init(h);
    assert_int_equal(lf_engine_submit(e, id, r, &sink, h, &err), LF_OK);
}

static void does_a_reply_follow_the_serial_rule(void **state) {
    (void)state;
    static const uint32_t lengths[] = {1, 2, 15, 16, 17, 100};
    struct lf_engine *e = engine_open((struct lf_fake_options){0}, 0, 0);
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        uint32_t prompt[CONTEXT];
        struct heard h;
        prompt_fill(prompt, lengths[i], 5);
        struct lf_request r = request(prompt, lengths[i], 40);
        submit(e, 1, &r, &h);
        wait_finished(&h);
        assert_int_equal(h.why, LF_DONE_LENGTH);
        assert_int_equal(h.admitted, 1);
        assert_int_equal(h.prefilled, 1);
        expect_reply(&h, prompt, lengths[i], 40);
        char hex[65];
        lf_sha256_ids(h.ids.id, h.ids.len, hex);
        assert_string_equal(h.stats.token_sha256, hex);
        assert_int_equal(h.stats.rounds, 39);
        assert_int_equal(h.stats.plain_rounds, 39);
        assert_int_equal(h.stats.min_rows, 1);
        lf_ids_free(&h.ids);
    }
    lf_engine_close(e, 0);
}

static void does_a_reply_beside_others_equal_the_reply_alone(void **state) {
    (void)state;
    enum { N = 12 };
    struct lf_engine *e = engine_open((struct lf_fake_options){.slots = 3}, 0, 0);
    uint32_t prompt[N][CONTEXT];
    struct heard h[N];
    for (uint32_t i = 0; i < N; i++) {
        prompt_fill(prompt[i], 10 + 13 * i, i);
        struct lf_request r = request(prompt[i], 10 + 13 * i, 30 + i);
        submit(e, i + 1, &r, &h[i]);
    }
    for (uint32_t i = 0; i < N; i++) {
        wait_finished(&h[i]);
        assert_int_equal(h[i].finished, 1);
        expect_reply(&h[i], prompt[i], 10 + 13 * i, 30 + i);
        lf_ids_free(&h[i].ids);
    }
    lf_engine_close(e, 0);
}

static int stop_at_third(void *ctx, uint32_t id) {
    uint32_t *n = ctx;
    (void)id;
    return ++*n == 3;
}

static void do_stop_conditions_fire_at_their_token_and_in_order(void **state) {
    (void)state;
    static const uint32_t script[] = {1, 2, 3, 4, EOS, 9};
    static const struct {
        bool stop;
        uint32_t max_tokens, n_eos;
        enum lf_done why;
        size_t len;
    } cases[] = {
        {false, 100, 1, LF_DONE_EOS, 5},  {true, 100, 1, LF_DONE_STOP_STRING, 3},
        {false, 4, 1, LF_DONE_LENGTH, 4}, {false, 5, 1, LF_DONE_EOS, 5},
        {true, 3, 1, LF_DONE_STOP_STRING, 3}, {false, 6, 0, LF_DONE_LENGTH, 6},
        {false, 1, 1, LF_DONE_LENGTH, 1},
    };
    struct lf_engine *e =
        engine_open((struct lf_fake_options){.script = script, .n_script = 6}, 0, 0);
    uint32_t prompt[8];
    prompt_fill(prompt, 8, 1);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct heard h;
        uint32_t asked = 0;
        struct lf_request r = request(prompt, 8, cases[i].max_tokens);
        r.n_eos = cases[i].n_eos;
        r.stop = cases[i].stop ? stop_at_third : NULL;
        r.stop_ctx = &asked;
        submit(e, 1, &r, &h);
        wait_finished(&h);
        assert_int_equal(h.why, cases[i].why);
        assert_int_equal(h.ids.len, cases[i].len);
        lf_ids_free(&h.ids);
    }
    lf_engine_close(e, 0);
}

static void does_the_context_end_a_reply_that_named_no_limit(void **state) {
    (void)state;
    struct lf_engine *e = engine_open((struct lf_fake_options){0}, 0, 0);
    uint32_t prompt[CONTEXT];
    struct heard h;
    prompt_fill(prompt, CONTEXT - 5, 1);
    struct lf_request r = request(prompt, CONTEXT - 5, 8192);
    submit(e, 1, &r, &h);
    wait_finished(&h);
    assert_int_equal(h.why, LF_DONE_WINDOW);
    expect_reply(&h, prompt, CONTEXT - 5, 5);
    lf_ids_free(&h.ids);
    lf_engine_close(e, 0);
}

static void is_a_wrong_request_refused_with_its_reason(void **state) {
    (void)state;
    struct lf_engine *e = engine_open((struct lf_fake_options){0}, 0, 0);
    uint32_t prompt[CONTEXT + 1] = {1, 2, VOCAB};
    struct {
        uint32_t len, max_tokens;
        bool explicit_limit;
        enum lf_status status;
        const char *text;
    } cases[] = {
        {0, 5, false, LF_E_VALUE, "empty"},
        {3, 5, false, LF_E_TOKEN, "token id 1000 at prompt index 2"},
        {2, 0, true, LF_E_VALUE, "limit is 0"},
        {2, CONTEXT - 1, true, LF_E_CONTEXT,
         "This model's maximum context length is 300 tokens, but the request needs 301 tokens "
         "(2 in the prompt, 299 for the reply)."},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct lf_error err = LF_ERROR_INIT;
        struct heard h;
        struct lf_request r = request(prompt, cases[i].len, cases[i].max_tokens);
        r.max_explicit = cases[i].explicit_limit;
        heard_init(&h);
        assert_int_equal(lf_engine_submit(e, 1, &r, &sink, &h, &err), cases[i].status);
        assert_non_null(strstr(err.text, cases[i].text));
        assert_int_equal(h.finished, 0);
    }
    prompt_fill(prompt, CONTEXT, 0);
    struct lf_error err = LF_ERROR_INIT;
    struct lf_request whole = request(prompt, CONTEXT, 10);
    assert_int_equal(lf_engine_submit(e, 1, &whole, &sink, NULL, &err), LF_E_CONTEXT);
    lf_engine_close(e, 0);
}

static void is_the_queue_bounded_and_does_it_time_out(void **state) {
    (void)state;
    struct lf_engine *e =
        engine_open((struct lf_fake_options){.launch_us = 20000}, 2, 0.2);
    uint32_t prompt[8];
    struct heard h[3];
    struct lf_error err = LF_ERROR_INIT;
    prompt_fill(prompt, 8, 1);
    struct lf_request r = request(prompt, 8, 100);
    submit(e, 1, &r, &h[0]);
    wait_tokens(&h[0], 1);
    submit(e, 2, &r, &h[1]);
    submit(e, 3, &r, &h[2]);
    assert_int_equal(lf_engine_submit(e, 4, &r, &sink, NULL, &err), LF_E_QUEUE_FULL);
    wait_finished(&h[1]);
    wait_finished(&h[2]);
    assert_int_equal(h[1].why, LF_DONE_TIMEOUT);
    assert_int_equal(h[2].why, LF_DONE_TIMEOUT);
    assert_int_equal(h[1].ids.len, 0);
    wait_finished(&h[0]);
    expect_reply(&h[0], prompt, 8, 100);
    lf_ids_free(&h[0].ids);
    lf_engine_close(e, 0);
}

static void does_a_cancel_end_a_request_and_leave_no_trace(void **state) {
    (void)state;
    struct lf_engine *e = engine_open((struct lf_fake_options){.launch_us = 3000}, 0, 0);
    uint32_t prompt[CONTEXT];
    struct heard running, queued, filling, after;
    prompt_fill(prompt, 200, 1);
    struct lf_request small = request(prompt, 8, 90), large = request(prompt, 200, 20);
    submit(e, 1, &small, &running);
    submit(e, 2, &small, &queued);
    wait_tokens(&running, 4);
    lf_engine_cancel(e, 2);
    wait_finished(&queued);
    assert_int_equal(queued.why, LF_DONE_CANCELLED);
    assert_int_equal(queued.admitted + queued.prefilled + queued.ids.len, 0);
    lf_engine_cancel(e, 1);
    wait_finished(&running);
    assert_int_equal(running.why, LF_DONE_CANCELLED);
    assert_true(running.ids.len < 90);
    submit(e, 3, &large, &filling);
    usleep(8000);
    lf_engine_cancel(e, 3);
    wait_finished(&filling);
    assert_int_equal(filling.why, LF_DONE_CANCELLED);
    submit(e, 4, &large, &after);
    wait_finished(&after);
    expect_reply(&after, prompt, 200, 20);
    assert_int_equal(running.finished + queued.finished + filling.finished, 3);
    lf_ids_free(&running.ids);
    lf_ids_free(&after.ids);
    lf_engine_close(e, 0);
}

static void does_foreground_go_before_background(void **state) {
    (void)state;
    struct lf_engine *e = engine_open((struct lf_fake_options){.launch_us = 5000}, 0, 0);
    uint32_t prompt[8];
    struct heard first, background, foreground;
    prompt_fill(prompt, 8, 1);
    struct lf_request r = request(prompt, 8, 10), late = request(prompt, 8, 10);
    late.background = true;
    submit(e, 1, &r, &first);
    wait_tokens(&first, 1);
    submit(e, 2, &late, &background);
    submit(e, 3, &r, &foreground);
    wait_finished(&foreground);
    assert_int_equal(background.finished, 0);
    wait_finished(&background);
    wait_finished(&first);
    lf_ids_free(&first.ids);
    lf_ids_free(&background.ids);
    lf_ids_free(&foreground.ids);
    lf_engine_close(e, 0);
}

static void does_a_failed_launch_end_its_streams_alone(void **state) {
    (void)state;
    struct lf_engine *e =
        engine_open((struct lf_fake_options){.fail_launch = 5}, 0, 0);
    uint32_t prompt[8];
    struct heard failed, after;
    prompt_fill(prompt, 8, 1);
    struct lf_request r = request(prompt, 8, 20);
    submit(e, 1, &r, &failed);
    wait_finished(&failed);
    assert_int_equal(failed.why, LF_DONE_FAILED);
    assert_non_null(strstr(failed.message, "launch 5"));
    submit(e, 2, &r, &after);
    wait_finished(&after);
    expect_reply(&after, prompt, 8, 20);
    lf_ids_free(&failed.ids);
    lf_ids_free(&after.ids);
    lf_engine_close(e, 0);
}

static void are_non_finite_logits_never_sampled(void **state) {
    (void)state;
    struct lf_engine *e = engine_open((struct lf_fake_options){.none_at = 12}, 0, 0);
    uint32_t prompt[8];
    struct heard h;
    prompt_fill(prompt, 8, 1);
    struct lf_request r = request(prompt, 8, 20);
    submit(e, 1, &r, &h);
    wait_finished(&h);
    assert_int_equal(h.why, LF_DONE_FAILED);
    assert_non_null(strstr(h.message, "not finite"));
    expect_reply(&h, prompt, 8, 4);
    lf_ids_free(&h.ids);
    lf_engine_close(e, 0);
}

static void does_closing_drain_running_and_refuse_new_requests(void **state) {
    (void)state;
    struct lf_engine *e = engine_open((struct lf_fake_options){.launch_us = 2000}, 0, 0);
    uint32_t prompt[8];
    struct heard running, queued;
    prompt_fill(prompt, 8, 1);
    struct lf_request r = request(prompt, 8, 20);
    submit(e, 1, &r, &running);
    submit(e, 2, &r, &queued);
    wait_tokens(&running, 1);
    lf_engine_close(e, 30);
    assert_int_equal(running.why, LF_DONE_LENGTH);
    assert_int_equal(queued.why, LF_DONE_CLOSED);
    expect_reply(&running, prompt, 8, 20);
    lf_ids_free(&running.ids);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(does_a_reply_follow_the_serial_rule),
        cmocka_unit_test(does_a_reply_beside_others_equal_the_reply_alone),
        cmocka_unit_test(do_stop_conditions_fire_at_their_token_and_in_order),
        cmocka_unit_test(does_the_context_end_a_reply_that_named_no_limit),
        cmocka_unit_test(is_a_wrong_request_refused_with_its_reason),
        cmocka_unit_test(is_the_queue_bounded_and_does_it_time_out),
        cmocka_unit_test(does_a_cancel_end_a_request_and_leave_no_trace),
        cmocka_unit_test(does_foreground_go_before_background),
        cmocka_unit_test(does_a_failed_launch_end_its_streams_alone),
        cmocka_unit_test(are_non_finite_logits_never_sampled),
        cmocka_unit_test(does_closing_drain_running_and_refuse_new_requests),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
