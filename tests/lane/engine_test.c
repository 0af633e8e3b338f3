// The engine on the fake target: queue, rounds, stop conditions, cancels, failures, drain.
#include "kit.h"

#include <stdlib.h>
#include <unistd.h>
#include "base/sha256.h"

enum { VOCAB = KIT_VOCAB, CONTEXT = KIT_CONTEXT, EOS = KIT_EOS };

static void does_a_reply_follow_the_serial_rule(void **state) {
    (void)state;
    static const uint32_t lengths[] = {1, 2, 15, 16, 17, 100};
    struct kit k = {0};
    kit_open(&k, (struct lf_fake_options){0}, (struct lf_engine_options){0}, false);
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        uint32_t prompt[CONTEXT];
        struct heard h;
        kit_prompt(prompt, lengths[i], 5);
        struct lf_request r = kit_request(prompt, lengths[i], 40);
        kit_submit(&k, 1, &r, &h);
        heard_wait(&h);
        assert_int_equal(h.why, LF_DONE_LENGTH);
        assert_int_equal(h.admitted, 1);
        assert_int_equal(h.prefilled, 1);
        heard_expect(&h, prompt, lengths[i], 40);
        char hex[65];
        lf_sha256_ids(h.ids.id, h.ids.len, hex);
        assert_string_equal(h.stats.token_sha256, hex);
        assert_int_equal(h.stats.rounds, 39);
        assert_int_equal(h.stats.plain_rounds, 39);
        assert_int_equal(h.stats.min_rows, 1);
        lf_ids_free(&h.ids);
    }
    kit_close(&k);
}

static void does_a_reply_beside_others_equal_the_reply_alone(void **state) {
    (void)state;
    enum { N = 12 };
    struct kit k = {0};
    kit_open(&k, (struct lf_fake_options){.slots = 3}, (struct lf_engine_options){0}, false);
    uint32_t prompt[N][CONTEXT];
    struct heard h[N];
    for (uint32_t i = 0; i < N; i++) {
        kit_prompt(prompt[i], 10 + 13 * i, i);
        struct lf_request r = kit_request(prompt[i], 10 + 13 * i, 30 + i);
        kit_submit(&k, i + 1, &r, &h[i]);
    }
    for (uint32_t i = 0; i < N; i++) {
        heard_wait(&h[i]);
        assert_int_equal(h[i].finished, 1);
        heard_expect(&h[i], prompt[i], 10 + 13 * i, 30 + i);
        lf_ids_free(&h[i].ids);
    }
    kit_close(&k);
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
    struct kit k = {0};
    kit_open(&k, (struct lf_fake_options){.script = script, .n_script = 6},
             (struct lf_engine_options){0}, false);
    uint32_t prompt[8];
    kit_prompt(prompt, 8, 1);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct heard h;
        uint32_t asked = 0;
        struct lf_request r = kit_request(prompt, 8, cases[i].max_tokens);
        r.n_eos = cases[i].n_eos;
        r.stop = cases[i].stop ? stop_at_third : NULL;
        r.stop_ctx = &asked;
        kit_submit(&k, 1, &r, &h);
        heard_wait(&h);
        assert_int_equal(h.why, cases[i].why);
        assert_int_equal(h.ids.len, cases[i].len);
        lf_ids_free(&h.ids);
    }
    kit_close(&k);
}

static void does_the_context_end_a_reply_that_named_no_limit(void **state) {
    (void)state;
    struct kit k = {0};
    kit_open(&k, (struct lf_fake_options){0}, (struct lf_engine_options){0}, false);
    uint32_t prompt[CONTEXT];
    struct heard h;
    kit_prompt(prompt, CONTEXT - 5, 1);
    struct lf_request r = kit_request(prompt, CONTEXT - 5, 8192);
    kit_submit(&k, 1, &r, &h);
    heard_wait(&h);
    assert_int_equal(h.why, LF_DONE_WINDOW);
    heard_expect(&h, prompt, CONTEXT - 5, 5);
    lf_ids_free(&h.ids);
    kit_close(&k);
}

static void is_a_wrong_request_refused_with_its_reason(void **state) {
    (void)state;
    struct kit k = {0};
    kit_open(&k, (struct lf_fake_options){0}, (struct lf_engine_options){0}, false);
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
        struct lf_request r = kit_request(prompt, cases[i].len, cases[i].max_tokens);
        r.max_explicit = cases[i].explicit_limit;
        heard_init(&h);
        assert_int_equal(lf_engine_submit(k.engine, 1, &r, &kit_sink, &h, &err), cases[i].status);
        assert_non_null(strstr(err.text, cases[i].text));
        assert_int_equal(h.finished, 0);
    }
    kit_prompt(prompt, CONTEXT, 0);
    struct lf_error err = LF_ERROR_INIT;
    struct lf_request whole = kit_request(prompt, CONTEXT, 10);
    assert_int_equal(lf_engine_submit(k.engine, 1, &whole, &kit_sink, NULL, &err), LF_E_CONTEXT);
    kit_close(&k);
}

static void is_the_queue_bounded_and_does_it_time_out(void **state) {
    (void)state;
    struct kit k = {0};
    kit_open(&k, (struct lf_fake_options){.launch_us = 20000},
             (struct lf_engine_options){.queue_max = 2, .queue_timeout_s = 0.2}, false);
    uint32_t prompt[8];
    struct heard h[3];
    struct lf_error err = LF_ERROR_INIT;
    kit_prompt(prompt, 8, 1);
    struct lf_request r = kit_request(prompt, 8, 100);
    kit_submit(&k, 1, &r, &h[0]);
    heard_wait_tokens(&h[0], 1);
    kit_submit(&k, 2, &r, &h[1]);
    kit_submit(&k, 3, &r, &h[2]);
    assert_int_equal(lf_engine_submit(k.engine, 4, &r, &kit_sink, NULL, &err), LF_E_QUEUE_FULL);
    heard_wait(&h[1]);
    heard_wait(&h[2]);
    assert_int_equal(h[1].why, LF_DONE_TIMEOUT);
    assert_int_equal(h[2].why, LF_DONE_TIMEOUT);
    assert_int_equal(h[1].ids.len, 0);
    heard_wait(&h[0]);
    heard_expect(&h[0], prompt, 8, 100);
    lf_ids_free(&h[0].ids);
    kit_close(&k);
}

static void does_a_cancel_end_a_request_and_leave_no_trace(void **state) {
    (void)state;
    struct kit k = {0};
    kit_open(&k, (struct lf_fake_options){.launch_us = 3000}, (struct lf_engine_options){0}, false);
    uint32_t prompt[CONTEXT];
    struct heard running, queued, filling, after;
    kit_prompt(prompt, 200, 1);
    struct lf_request small = kit_request(prompt, 8, 90), large = kit_request(prompt, 200, 20);
    kit_submit(&k, 1, &small, &running);
    kit_submit(&k, 2, &small, &queued);
    heard_wait_tokens(&running, 4);
    lf_engine_cancel(k.engine, 2);
    heard_wait(&queued);
    assert_int_equal(queued.why, LF_DONE_CANCELLED);
    assert_int_equal(queued.admitted + queued.prefilled + queued.ids.len, 0);
    lf_engine_cancel(k.engine, 1);
    heard_wait(&running);
    assert_int_equal(running.why, LF_DONE_CANCELLED);
    assert_true(running.ids.len < 90);
    kit_submit(&k, 3, &large, &filling);
    usleep(8000);
    lf_engine_cancel(k.engine, 3);
    heard_wait(&filling);
    assert_int_equal(filling.why, LF_DONE_CANCELLED);
    kit_submit(&k, 4, &large, &after);
    heard_wait(&after);
    heard_expect(&after, prompt, 200, 20);
    assert_int_equal(running.finished + queued.finished + filling.finished, 3);
    lf_ids_free(&running.ids);
    lf_ids_free(&after.ids);
    kit_close(&k);
}

static void does_foreground_go_before_background(void **state) {
    (void)state;
    struct kit k = {0};
    kit_open(&k, (struct lf_fake_options){.launch_us = 5000}, (struct lf_engine_options){0}, false);
    uint32_t prompt[8];
    struct heard first, background, foreground;
    kit_prompt(prompt, 8, 1);
    struct lf_request r = kit_request(prompt, 8, 10), late = kit_request(prompt, 8, 10);
    late.background = true;
    kit_submit(&k, 1, &r, &first);
    heard_wait_tokens(&first, 1);
    kit_submit(&k, 2, &late, &background);
    kit_submit(&k, 3, &r, &foreground);
    heard_wait(&foreground);
    assert_int_equal(background.finished, 0);
    heard_wait(&background);
    heard_wait(&first);
    lf_ids_free(&first.ids);
    lf_ids_free(&background.ids);
    lf_ids_free(&foreground.ids);
    kit_close(&k);
}

static void does_a_failed_launch_end_its_streams_alone(void **state) {
    (void)state;
    struct kit k = {0};
    kit_open(&k, (struct lf_fake_options){.fail_launch = 5}, (struct lf_engine_options){0}, false);
    uint32_t prompt[8];
    struct heard failed, after;
    kit_prompt(prompt, 8, 1);
    struct lf_request r = kit_request(prompt, 8, 20);
    kit_submit(&k, 1, &r, &failed);
    heard_wait(&failed);
    assert_int_equal(failed.why, LF_DONE_FAILED);
    assert_non_null(strstr(failed.message, "launch 5"));
    struct lf_engine_status status;
    lf_engine_status_read(k.engine, &status);
    assert_true(status.failed == 1 && status.nonfinite == 0);
    kit_submit(&k, 2, &r, &after);
    heard_wait(&after);
    heard_expect(&after, prompt, 8, 20);
    lf_ids_free(&failed.ids);
    lf_ids_free(&after.ids);
    kit_close(&k);
}

static void are_non_finite_logits_never_sampled(void **state) {
    (void)state;
    struct kit k = {0};
    kit_open(&k, (struct lf_fake_options){.none_at = 12}, (struct lf_engine_options){0}, false);
    uint32_t prompt[8];
    struct heard h;
    kit_prompt(prompt, 8, 1);
    struct lf_request r = kit_request(prompt, 8, 20);
    kit_submit(&k, 1, &r, &h);
    heard_wait(&h);
    assert_int_equal(h.why, LF_DONE_FAILED);
    assert_non_null(strstr(h.message, "not finite"));
    heard_expect(&h, prompt, 8, 4);
    struct lf_engine_status status;
    lf_engine_status_read(k.engine, &status);
    assert_int_equal(status.nonfinite, 1);
    assert_int_equal(status.failed, 1);
    lf_ids_free(&h.ids);
    kit_close(&k);
}

static void does_closing_drain_running_and_refuse_new_requests(void **state) {
    (void)state;
    struct kit k = {0};
    kit_open(&k, (struct lf_fake_options){.launch_us = 2000}, (struct lf_engine_options){0}, false);
    uint32_t prompt[8];
    struct heard running, queued;
    kit_prompt(prompt, 8, 1);
    struct lf_request r = kit_request(prompt, 8, 20);
    kit_submit(&k, 1, &r, &running);
    kit_submit(&k, 2, &r, &queued);
    heard_wait_tokens(&running, 1);
    lf_engine_close(k.engine, 30);
    free(k.log);
    assert_int_equal(running.why, LF_DONE_LENGTH);
    assert_int_equal(queued.why, LF_DONE_CLOSED);
    heard_expect(&running, prompt, 8, 20);
    lf_ids_free(&running.ids);
}

static uint64_t known(const struct kit *k) {
    struct lf_engine_status status;
    lf_engine_status_read(k->engine, &status);
    return status.running + status.waiting + status.finished + status.cancelled + status.failed;
}

// Whoever waits for a request to end finds it in one place or the other at any time.
static void does_the_status_count_every_request_at_any_time(void **state) {
    (void)state;
    enum { N = 2000 };
    static struct heard h[N];
    struct kit k = {.closed = true};
    uint32_t prompt[8], ended = 0;
    kit_open(&k, (struct lf_fake_options){.slots = 3},
             (struct lf_engine_options){.queue_max = N}, false);
    kit_prompt(prompt, 8, 3);
    for (uint32_t i = 0; i < N; i++) {
        struct lf_request r = kit_request(prompt, 8, 2);
        kit_submit(&k, i + 1, &r, &h[i]);
    }
    for (uint32_t i = 0; i < N; i += 3)
        lf_engine_cancel(k.engine, i + 1);
    kit_gate_open(&k);
    while (ended < N) {
        for (int i = 0; i < 20; i++)
            assert_int_equal(known(&k), N);
        pthread_mutex_lock(&h[ended].lock);
        bool over = h[ended].finished;
        pthread_mutex_unlock(&h[ended].lock);
        ended += over;
    }
    for (uint32_t i = 0; i < N; i++)
        heard_free(&h[i]);
    kit_close(&k);
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
        cmocka_unit_test(does_the_status_count_every_request_at_any_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
