// Slots on the fake target: background replay, storage, failures, cancels, drain (engine.md 6-8).
#include "kit.h"

#include <stdlib.h>

enum { N_MAX = 12 };

// What a hook does at one launch.
struct act {
    uint32_t at; // launch number
    bool done;
    uint64_t cancel;
    const struct lf_request *request; // or NULL
    uint64_t id;
    struct heard *heard;
};

static void act_at(struct kit *k, const struct lf_fake_launch *l) {
    struct act *a = k->ctx;
    if (a->done || l->number != a->at)
        return;
    a->done = true;
    if (a->cancel)
        lf_engine_cancel(k->engine, a->cancel);
    if (a->request)
        kit_submit(k, a->id, a->request, a->heard);
}

// L-31, L-38: cancelled at every chunk and round, a request ends within one launch, without trace.
static void does_a_cancel_at_any_launch_end_it_there(void **state) {
    (void)state;
    for (uint32_t at = 1; at <= 30; at++) {
        struct act act = {.at = at, .cancel = 1};
        struct kit k = {.each = act_at, .ctx = &act};
        uint32_t prompt[100];
        struct heard h, after;
        kit_open(&k, (struct lf_fake_options){.drafter = {.present = true, .right = 0.5}},
                 (struct lf_engine_options){.drafts = LF_DRAFTS_ON, .draft_depth = 3}, true);
        kit_prompt(prompt, 100, 3);
        struct lf_request r = kit_request(prompt, 100, 150);
        kit_submit(&k, 1, &r, &h);
        heard_wait(&h);
        assert_int_equal(h.why, LF_DONE_CANCELLED);
        assert_int_equal(h.finished, 1);
        assert_int_equal(lf_fake_launches(k.target), at);
        heard_expect(&h, prompt, 100, h.ids.len);
        assert_int_equal(h.ids.len > 0, at >= 7);
        kit_submit(&k, 2, &r, &after);
        heard_wait(&after);
        heard_expect(&after, prompt, 100, 150);
        heard_free(&h);
        heard_free(&after);
        kit_close(&k);
    }
}

// L-40 at every launch of the background request, drafted and plain.
static void does_a_background_stream_yield_and_replay(void **state) {
    (void)state;
    for (uint32_t depth = 0; depth <= 4; depth += 4) {
        for (uint32_t at = 1; at <= 24; at++) {
            uint32_t prompt[40], front_prompt[20];
            struct heard back, front;
            struct lf_request back_r = kit_request(prompt, 40, 90);
            struct lf_request front_r = kit_request(front_prompt, 20, 12);
            struct act act = {.at = at, .request = &front_r, .id = 2, .heard = &front};
            struct kit k = {.each = act_at, .ctx = &act};
            kit_prompt(prompt, 40, 3);
            kit_prompt(front_prompt, 20, 8);
            back_r.background = back_r.want_logprobs = true;
            back_r.top_logprobs = 1;
            kit_open(&k, (struct lf_fake_options){.drafter = {.present = depth, .right = 0.5}},
                     (struct lf_engine_options){.drafts = depth ? LF_DRAFTS_ON : LF_DRAFTS_OFF,
                                                .draft_depth = depth},
                     true);
            kit_submit(&k, 1, &back_r, &back);
            heard_wait(&back);
            heard_wait(&front);
            heard_expect(&back, prompt, 40, 90);
            heard_expect(&front, front_prompt, 20, 12);
            assert_int_equal(back.admitted, 1);
            assert_int_equal(back.prefilled, 1);
            assert_int_equal(back.why, LF_DONE_LENGTH);
            assert_true(front.stats.queue_seconds == 0);
            struct lf_engine_status status;
            lf_engine_status_read(k.engine, &status);
            assert_int_equal(status.yielded, 1);
            assert_int_equal(status.running, 0);
            heard_free(&back);
            heard_free(&front);
            kit_close(&k);
        }
    }
}

static void does_a_replay_that_differs_fail_its_stream(void **state) {
    (void)state;
    uint32_t prompt[40], front_prompt[20];
    struct heard back, front;
    struct lf_request back_r = kit_request(prompt, 40, 90);
    struct lf_request front_r = kit_request(front_prompt, 4, 12);
    struct act act = {.at = 20, .request = &front_r, .id = 2, .heard = &front};
    struct kit k = {.each = act_at, .ctx = &act};
    kit_prompt(prompt, 40, 3);
    kit_prompt(front_prompt, 20, 8);
    back_r.background = true;
    kit_open(&k, (struct lf_fake_options){.moody_at = 45}, (struct lf_engine_options){0}, true);
    kit_submit(&k, 1, &back_r, &back);
    heard_wait(&back);
    heard_wait(&front);
    assert_int_equal(back.why, LF_DONE_FAILED);
    assert_non_null(strstr(back.message, "restarted reply differs"));
    assert_int_equal(front.why, LF_DONE_LENGTH);
    heard_free(&back);
    heard_free(&front);
    kit_close(&k);
}

// A background stream never yields to another of its kind; a foreground one never yields.
static void do_only_background_streams_yield(void **state) {
    (void)state;
    for (int running = 0; running < 2; running++) {
        uint32_t prompt[20];
        struct heard first, second;
        kit_prompt(prompt, 20, 3);
        struct lf_request first_r = kit_request(prompt, 20, 40), second_r = first_r;
        first_r.background = running;
        second_r.background = true;
        struct act act = {.at = 9, .request = &second_r, .id = 2, .heard = &second};
        struct kit k = {.each = act_at, .ctx = &act};
        kit_open(&k, (struct lf_fake_options){0}, (struct lf_engine_options){0}, true);
        kit_submit(&k, 1, &first_r, &first);
        heard_wait(&first);
        heard_wait(&second);
        struct lf_engine_status status;
        lf_engine_status_read(k.engine, &status);
        assert_int_equal(status.yielded, 0);
        heard_expect(&first, prompt, 20, 40);
        heard_expect(&second, prompt, 20, 40);
        heard_free(&first);
        heard_free(&second);
        kit_close(&k);
    }
}

// L-43: storage for less than all replies; every reply is whole and equal all the same.
static void do_replies_survive_a_lack_of_storage(void **state) {
    (void)state;
    for (uint64_t storage = 110; storage <= 400; storage += 29) {
        struct kit k = {.closed = true};
        uint32_t prompt[5][20];
        struct heard h[5];
        kit_open(&k,
                 (struct lf_fake_options){.slots = 3, .storage = storage, .context = 120,
                                          .drafter = {.present = true, .right = 0.7}},
                 (struct lf_engine_options){.drafts = LF_DRAFTS_ON, .draft_depth = 4}, true);
        for (uint32_t i = 0; i < 5; i++) {
            kit_prompt(prompt[i], 20, i);
            struct lf_request r = kit_request(prompt[i], 20, 85);
            r.max_explicit = i % 2;
            kit_submit(&k, i + 1, &r, &h[i]);
        }
        kit_gate_open(&k);
        for (uint32_t i = 0; i < 5; i++) {
            heard_wait(&h[i]);
            assert_int_equal(h[i].why, LF_DONE_LENGTH);
            heard_expect(&h[i], prompt[i], 20, 85);
            heard_free(&h[i]);
        }
        kit_close(&k);
    }
}

// Storage is committed a little at a time, so streams meet its end in the middle of replies.
static void do_streams_pause_and_restart_when_storage_ends(void **state) {
    (void)state;
    enum { PROMPT = 20, REPLY = 5000, CONTEXT = 6000 };
    struct kit k = {.closed = true};
    static uint32_t prompt[3][PROMPT];
    struct heard h[3];
    kit_open(&k, (struct lf_fake_options){.slots = 3, .storage = 8000, .context = CONTEXT},
             (struct lf_engine_options){0}, true);
    for (uint32_t i = 0; i < 3; i++) {
        kit_prompt(prompt[i], PROMPT, i);
        struct lf_request r = kit_request(prompt[i], PROMPT, REPLY);
        kit_submit(&k, i + 1, &r, &h[i]);
    }
    kit_gate_open(&k);
    for (uint32_t i = 0; i < 3; i++) {
        heard_wait(&h[i]);
        assert_int_equal(h[i].why, LF_DONE_LENGTH);
        heard_expect(&h[i], prompt[i], PROMPT, REPLY);
        heard_free(&h[i]);
    }
    struct lf_engine_status status;
    lf_engine_status_read(k.engine, &status);
    assert_true(status.paused >= 2 && status.yielded >= 1);
    kit_close(&k);
}

static void does_a_stream_alone_without_storage_fail_with_the_way_out(void **state) {
    (void)state;
    struct kit k = {0};
    uint32_t prompt[300];
    struct heard h, whole;
    kit_open(&k, (struct lf_fake_options){.slots = 2, .storage = 100},
             (struct lf_engine_options){0}, true);
    kit_prompt(prompt, 200, 1);
    struct lf_request r = kit_request(prompt, 60, 85), large = kit_request(prompt, 200, 5);
    r.max_explicit = false;
    kit_submit(&k, 1, &r, &h);
    heard_wait(&h);
    assert_int_equal(h.why, LF_DONE_MEMORY);
    assert_non_null(strstr(h.message, "--parallel 2, --context 300"));
    kit_submit(&k, 2, &large, &whole);
    heard_wait(&whole);
    assert_int_equal(whole.why, LF_DONE_MEMORY);
    assert_int_equal(whole.admitted, 0);
    assert_non_null(strstr(whole.message, "the prompt's 200 tokens"));
    heard_free(&h);
    heard_free(&whole);
    kit_close(&k);
}

// L-37: shorter requests pass a large one that waits for storage, eight at most.
static void is_the_head_of_the_line_passed_eight_times_at_most(void **state) {
    (void)state;
    enum { SMALL = 12 };
    struct kit k = {.closed = true};
    static uint32_t prompt[200];
    struct heard long_running, large, small[SMALL];
    kit_open(&k, (struct lf_fake_options){.slots = 3, .storage = 300, .chunk_rows = 256},
             (struct lf_engine_options){0}, true);
    kit_prompt(prompt, 200, 1);
    struct lf_request a = kit_request(prompt, 20, 120), b = kit_request(prompt, 180, 4);
    struct lf_request c = kit_request(prompt, 10, 8);
    a.max_explicit = b.max_explicit = c.max_explicit = true;
    kit_submit(&k, 1, &a, &long_running);
    kit_submit(&k, 2, &b, &large);
    for (uint32_t i = 0; i < SMALL; i++)
        kit_submit(&k, 3 + i, &c, &small[i]);
    kit_gate_open(&k);
    heard_wait(&long_running);
    heard_wait(&large);
    uint32_t passed = 0;
    for (uint32_t i = 0; i < SMALL; i++) {
        heard_wait(&small[i]);
        heard_expect(&small[i], prompt, 10, 8);
        heard_free(&small[i]);
    }
    bool begun = false;
    for (uint32_t i = 0; i < k.n_log && !begun; i++) {
        bool read = k.log[i].kind == LF_FAKE_PREFILL;
        for (uint32_t j = 0; read && j < k.log[i].n; j++)
            begun |= k.log[i].slot_rows[j] == 180;
        for (uint32_t j = 0; read && !begun && j < k.log[i].n; j++)
            passed += k.log[i].slot_rows[j] == 10;
    }
    assert_true(begun);
    assert_int_equal(passed, 8);
    heard_expect(&large, prompt, 180, 4);
    heard_free(&large);
    heard_free(&long_running);
    kit_close(&k);
}

// F-2: the streams of a failed launch end, others and later ones are untouched.
static void does_a_failed_launch_at_any_point_leave_others_whole(void **state) {
    (void)state;
    for (uint32_t at = 1; at < 20; at++) {
        struct kit k = {.closed = true};
        uint32_t prompt[3][20], failed = 0;
        struct heard h[3];
        kit_open(&k, (struct lf_fake_options){.slots = 2, .fail_launch = at,
                                              .drafter = {.present = true, .right = 0.7}},
                 (struct lf_engine_options){.drafts = LF_DRAFTS_ON, .draft_depth = 2}, true);
        for (uint32_t i = 0; i < 3; i++) {
            kit_prompt(prompt[i], 20, i);
            struct lf_request r = kit_request(prompt[i], 20, 30);
            kit_submit(&k, i + 1, &r, &h[i]);
        }
        kit_gate_open(&k);
        for (uint32_t i = 0; i < 3; i++) {
            heard_wait(&h[i]);
            failed += h[i].why == LF_DONE_FAILED;
            heard_expect(&h[i], prompt[i], 20, h[i].why == LF_DONE_FAILED ? h[i].ids.len : 30);
            heard_free(&h[i]);
        }
        assert_in_range(failed, 1, 2);
        struct lf_engine_status status;
        lf_engine_status_read(k.engine, &status);
        assert_false(status.dead);
        kit_close(&k);
    }
}

// F-3: a device that is gone fails everything that lives and waits, and refuses what comes.
static void does_a_dead_device_fail_every_request(void **state) {
    (void)state;
    for (uint32_t at = 1; at < 20; at++) {
        struct kit k = {.closed = true};
        uint32_t prompt[5][20];
        struct heard h[5];
        struct lf_error err = LF_ERROR_INIT;
        kit_open(&k, (struct lf_fake_options){.slots = 2, .dead_from = at},
                 (struct lf_engine_options){0}, true);
        for (uint32_t i = 0; i < 5; i++) {
            kit_prompt(prompt[i], 20, i);
            struct lf_request r = kit_request(prompt[i], 20, 30);
            kit_submit(&k, i + 1, &r, &h[i]);
        }
        kit_gate_open(&k);
        for (uint32_t i = 0; i < 5; i++) {
            heard_wait(&h[i]);
            assert_int_equal(h[i].why, LF_DONE_FAILED);
            assert_non_null(strstr(h[i].message, "device is gone"));
            heard_free(&h[i]);
        }
        struct lf_engine_status status;
        lf_engine_status_read(k.engine, &status);
        assert_true(status.dead);
        assert_non_null(strstr(status.message, "device is gone"));
        struct lf_request r = kit_request(prompt[0], 20, 30);
        assert_int_equal(lf_engine_submit(k.engine, 9, &r, &kit_sink, NULL, &err), LF_E_DEVICE);
        kit_close(&k);
    }
}

// L-41: closing ends a background stream that yielded as well, once, at the end of the drain.
static void does_a_drain_end_every_request_once(void **state) {
    (void)state;
    struct kit k = {0};
    uint32_t prompt[20];
    struct heard h[4];
    kit_open(&k, (struct lf_fake_options){.slots = 1, .launch_us = 2000},
             (struct lf_engine_options){0}, false);
    kit_prompt(prompt, 20, 1);
    struct lf_request back = kit_request(prompt, 20, 200), front = kit_request(prompt, 20, 200);
    back.background = true;
    kit_submit(&k, 1, &back, &h[0]);
    heard_wait_tokens(&h[0], 3);
    for (uint32_t i = 1; i < 4; i++)
        kit_submit(&k, 1 + i, &front, &h[i]);
    heard_wait_tokens(&h[1], 3);
    lf_engine_close(k.engine, 0.02);
    for (uint32_t i = 0; i < 4; i++) {
        assert_int_equal(h[i].finished, 1);
        assert_int_equal(h[i].why, LF_DONE_CLOSED);
        heard_free(&h[i]);
    }
    free(k.log);
}

// F-4: close gives up on a launch that hangs, and later ends as ever.
static void does_close_give_up_on_a_device_that_hangs(void **state) {
    (void)state;
    struct kit k = {.closed = true};
    uint32_t prompt[20];
    struct heard h;
    kit_open(&k, (struct lf_fake_options){0}, (struct lf_engine_options){.device_wait_s = 0.1},
             false);
    kit_prompt(prompt, 20, 1);
    struct lf_request r = kit_request(prompt, 20, 200);
    kit_submit(&k, 1, &r, &h);
    struct lf_engine_status status = {0};
    while (!status.running) // from here its first launch follows at once
        lf_engine_status_read(k.engine, &status);
    assert_false(lf_engine_close(k.engine, 0));
    assert_int_equal(h.finished, 0);
    kit_gate_open(&k);
    bool closed = false;
    for (int tries = 0; !closed && tries < 600; tries++)
        closed = lf_engine_close(k.engine, 0);
    assert_true(closed);
    assert_int_equal(h.finished, 1);
    assert_int_equal(h.why, LF_DONE_CLOSED);
    heard_free(&h);
    free(k.log);
}

static void are_wrong_options_refused(void **state) {
    (void)state;
    struct lf_engine *e;
    struct lf_target *t = lf_fake_target_open(
        &(struct lf_fake_options){.slots = 1, .vocab = 10, .chunk_rows = 4, .context = 20});
    struct lf_error err = LF_ERROR_INIT;
    struct lf_engine_options on = {.drafts = LF_DRAFTS_ON}, share = {.decode_share = 1};
    assert_int_equal(lf_engine_start(&e, t, &on, NULL, &err), LF_E_UNSUPPORTED); // F-6
    assert_non_null(strstr(err.text, "no drafter"));
    err = (struct lf_error)LF_ERROR_INIT;
    assert_int_equal(lf_engine_start(&e, t, &share, NULL, &err), LF_E_VALUE);
    t->ops->close(t);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(does_a_cancel_at_any_launch_end_it_there),
        cmocka_unit_test(does_a_background_stream_yield_and_replay),
        cmocka_unit_test(does_a_replay_that_differs_fail_its_stream),
        cmocka_unit_test(do_only_background_streams_yield),
        cmocka_unit_test(do_replies_survive_a_lack_of_storage),
        cmocka_unit_test(do_streams_pause_and_restart_when_storage_ends),
        cmocka_unit_test(does_a_stream_alone_without_storage_fail_with_the_way_out),
        cmocka_unit_test(is_the_head_of_the_line_passed_eight_times_at_most),
        cmocka_unit_test(does_a_failed_launch_at_any_point_leave_others_whole),
        cmocka_unit_test(does_a_dead_device_fail_every_request),
        cmocka_unit_test(does_a_drain_end_every_request_once),
        cmocka_unit_test(does_close_give_up_on_a_device_that_hangs),
        cmocka_unit_test(are_wrong_options_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
