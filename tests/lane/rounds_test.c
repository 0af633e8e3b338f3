// Rounds on the fake target: acceptance, cuts, windows, fairness among streams (engine.md 2).
#include "kit.h"

#include <stdlib.h>
#include "lane/stream.h"

enum { WINDOW = 16 };

// What a stop callback of a test watches: it fires at its n-th call.
struct stopper {
    uint32_t calls, at;
};

static int stop_at(void *ctx, uint32_t id) {
    struct stopper *s = ctx;
    (void)id;
    return ++s->calls == s->at;
}

static void stream_init(struct lf_stream *s, uint32_t limit) {
    static const uint32_t end_id[1] = {KIT_EOS};
    *s = (struct lf_stream){.limit = limit};
    s->request.eos = end_id;
    s->request.n_eos = 1;
}

// L-4, L-20: a window of k drafts whose first a are right keeps a + 1 rows, for every k and a.
static void is_every_keep_length_reached(void **state) {
    (void)state;
    for (uint32_t k = 0; k < WINDOW; k++) {
        for (uint32_t a = 0; a <= k; a++) {
            uint32_t draft[WINDOW], drawn[WINDOW + 1], fresh;
            for (uint32_t i = 0; i <= k; i++)
                drawn[i] = 100 + i;
            for (uint32_t i = 0; i < k; i++)
                draft[i] = drawn[i] + (i == a ? 500 : 0);
            assert_int_equal(lf_accept_count(draft, k, drawn), a);
            struct lf_stream s;
            stream_init(&s, 1000);
            assert_int_equal(lf_accept_window(&s, draft, k, drawn, NULL, &fresh), a + 1);
            assert_int_equal(fresh, a + 1);
            assert_int_equal(s.pending, drawn[a]);
            assert_false(s.done);
            lf_ids_free(&s.reply);
        }
    }
}

// L-5, L-22: each condition at each index of each commit list cuts right after its token.
static void do_stop_conditions_cut_at_each_index(void **state) {
    (void)state;
    for (uint32_t n = 1; n <= WINDOW; n++) {
        for (uint32_t at = 0; at < n; at++) {
            for (int kind = 0; kind < 4; kind++) {
                uint32_t drawn[WINDOW], fresh;
                struct stopper stopper = {.at = kind == 1 ? at + 1 : 0};
                struct lf_stream s;
                for (uint32_t i = 0; i < n; i++)
                    drawn[i] = 100 + i;
                stream_init(&s, kind == 2 ? at + 1 : 1000);
                s.request.stop = stop_at;
                s.request.stop_ctx = &stopper;
                drawn[at] = kind == 0 ? KIT_EOS : kind == 3 ? LF_SAMPLE_NONE : drawn[at];
                static const enum lf_done why[] = {LF_DONE_EOS, LF_DONE_STOP_STRING, LF_DONE_LENGTH,
                                                   LF_DONE_FAILED};
                uint32_t kept = kind == 3 ? at : at + 1;
                assert_int_equal(lf_accept_window(&s, drawn, n - 1, drawn, NULL, &fresh), kept);
                assert_int_equal(s.reply.len, kept);
                assert_int_equal(stopper.calls, kept); // no token past the cut was ever shown
                assert_true(s.done);
                assert_int_equal(s.why, why[kind]);
                lf_ids_free(&s.reply);
            }
        }
    }
}

// L-40: tokens drawn again are compared, not shown again; a difference fails the stream.
static void are_replayed_tokens_compared_and_not_shown(void **state) {
    (void)state;
    for (uint32_t differs = 0; differs <= 4; differs++) {
        uint32_t first[4] = {1, 2, 3, 4}, again[6] = {1, 2, 3, 4, 5, 6}, fresh;
        struct stopper stopper = {0};
        struct lf_stream s;
        stream_init(&s, 1000);
        s.request.stop = stop_at;
        s.request.stop_ctx = &stopper;
        lf_accept_window(&s, first, 3, first, NULL, &fresh);
        s.produced = 0;
        if (differs < 4)
            again[differs] = 99;
        uint32_t n = lf_accept_window(&s, again, 5, again, NULL, &fresh);
        assert_int_equal(n, differs < 4 ? differs : 6);
        assert_int_equal(fresh, differs < 4 ? 0 : 2);
        assert_int_equal(stopper.calls, 4 + fresh);
        assert_int_equal(s.done, differs < 4);
        if (s.done)
            assert_int_equal(s.why, LF_DONE_FAILED);
        lf_ids_free(&s.reply);
    }
}

struct plan {
    uint32_t slots, streams, depth, window_max;
    double right;
};

// X-1 drafted == plain, concurrent == solo, whatever part of the drafts is right.
static void reply_all(const struct plan *plan) {
    enum { MOST = 12 };
    struct kit k = {.closed = true};
    uint32_t prompt[MOST][KIT_CONTEXT];
    struct heard h[MOST];
    kit_open(&k,
             (struct lf_fake_options){.slots = plan->slots, .window_max = plan->window_max,
                                      .drafter = {.present = true, .right = plan->right,
                                                  .depth = LF_DRAFTS_MAX}},
             (struct lf_engine_options){.drafts = LF_DRAFTS_ON, .draft_depth = plan->depth}, true);
    for (uint32_t i = 0; i < plan->streams; i++) {
        kit_prompt(prompt[i], 5 + 11 * i, i);
        struct lf_request r = kit_request(prompt[i], 5 + 11 * i, 60 + i);
        r.no_drafts = i % 5 == 4;
        r.want_logprobs = i % 2;
        r.top_logprobs = 3;
        kit_submit(&k, i + 1, &r, &h[i]);
    }
    kit_gate_open(&k);
    for (uint32_t i = 0; i < plan->streams; i++) {
        heard_wait(&h[i]);
        const struct lf_stats *s = &h[i].stats;
        assert_int_equal(h[i].why, LF_DONE_LENGTH);
        heard_expect(&h[i], prompt[i], 5 + 11 * i, 60 + i);
        assert_true(s->accepted <= s->drafted);
        assert_int_equal(1 + s->rounds + s->accepted, 60 + i);
        if (i % 5 == 4)
            assert_int_equal(s->drafted + s->rounds - s->plain_rounds, 0);
        heard_free(&h[i]);
    }
    for (uint32_t i = 0; i < k.n_log; i++)
        for (uint32_t w = 0; k.log[i].kind == LF_FAKE_VERIFY && w < k.log[i].n; w++)
            assert_true(k.log[i].slot_rows[w] <= 1 + plan->depth);
    kit_close(&k);
}

static void does_a_drafted_reply_equal_the_plain_one(void **state) {
    (void)state;
    static const double right[] = {0, 0.2, 0.5, 0.8, 0.95, 1};
    for (size_t i = 0; i < sizeof right / sizeof *right; i++)
        for (uint32_t depth = 1; depth < WINDOW; depth += depth < 5 ? 1 : 5)
            for (uint32_t streams = 1; streams <= 12; streams += 5)
                reply_all(&(struct plan){.slots = 1 + streams / 2, .streams = streams,
                                         .depth = depth, .right = right[i]});
}

static void are_smaller_windows_respected(void **state) {
    (void)state;
    for (uint32_t most = 1; most <= WINDOW; most++)
        reply_all(&(struct plan){.slots = 2, .streams = 3, .depth = most > 1 ? most - 1 : 1,
                                 .window_max = most, .right = 0.9});
}

// A perfect drafter: the windows are full, and L-3 cuts the last one to the limit.
static void do_right_drafts_fill_every_window(void **state) {
    (void)state;
    struct kit k = {0};
    uint32_t prompt[8];
    struct heard h;
    kit_open(&k,
             (struct lf_fake_options){.drafter = {.present = true, .right = 1,
                                                  .depth = LF_DRAFTS_MAX}},
             (struct lf_engine_options){.drafts = LF_DRAFTS_AUTO, .draft_depth = 15}, true);
    kit_prompt(prompt, 8, 3);
    struct lf_request r = kit_request(prompt, 8, 1 + 16 * 5 + 3);
    kit_submit(&k, 1, &r, &h);
    heard_wait(&h);
    heard_expect(&h, prompt, 8, 84);
    assert_int_equal(h.stats.rounds, 6);
    assert_int_equal(h.stats.drafted, 77);
    assert_int_equal(h.stats.accepted, 77);
    assert_int_equal(h.calls, 7);
    assert_int_equal(h.stats.min_rows, 3);
    heard_free(&h);
    kit_close(&k);
}

// L-2: with more streams than rows, no stream waits longer than the others need.
static void are_streams_past_the_row_limit_served_in_turn(void **state) {
    (void)state;
    enum { N = 7, ROWS = 3 };
    for (uint32_t depth = 0; depth <= 2; depth += 2) {
        struct kit k = {.closed = true};
        uint32_t prompt[N][8], last[N] = {0}, round = 0;
        struct heard h[N];
        struct lf_engine_options o = {.drafts = depth ? LF_DRAFTS_ON : LF_DRAFTS_OFF,
                                      .draft_depth = depth};
        kit_open(&k,
                 (struct lf_fake_options){.slots = N, .launch_rows = ROWS, .chunk_rows = 64,
                                          .drafter = {.present = depth, .right = 0.6}},
                 o, true);
        for (uint32_t i = 0; i < N; i++) {
            kit_prompt(prompt[i], 8, i);
            struct lf_request r = kit_request(prompt[i], 8, 40);
            kit_submit(&k, i + 1, &r, &h[i]);
        }
        kit_gate_open(&k);
        for (uint32_t i = 0; i < N; i++) {
            heard_wait(&h[i]);
            heard_expect(&h[i], prompt[i], 8, 40);
            heard_free(&h[i]);
        }
        for (uint32_t i = 0; i < k.n_log && round < 60; i++) {
            if (k.log[i].kind != LF_FAKE_VERIFY)
                continue;
            round++;
            assert_true(k.log[i].rows <= ROWS && k.log[i].n <= ROWS);
            for (uint32_t w = 0; w < k.log[i].n; w++) {
                assert_true(round < 10 || round - last[k.log[i].slot[w]] <= (N + ROWS - 1) / ROWS);
                last[k.log[i].slot[w]] = round;
            }
        }
        assert_true(round >= 60);
        kit_close(&k);
    }
}

static const uint32_t end_script[] = {1, 2, 3, 4, 5, 6, KIT_EOS, 8, 9, 10, 11, 12, 13, 14, 15, 16};

// The end token inside an accepted window: what follows it is neither shown nor counted.
static void does_an_end_token_inside_a_window_cut_it(void **state) {
    (void)state;
    for (uint32_t depth = 1; depth < WINDOW; depth++) {
        struct kit k = {0};
        uint32_t prompt[8];
        struct heard h;
        kit_open(&k,
                 (struct lf_fake_options){.script = end_script, .n_script = 16,
                                          .drafter = {.present = true, .right = 1,
                                                      .depth = LF_DRAFTS_MAX}},
                 (struct lf_engine_options){.drafts = LF_DRAFTS_ON, .draft_depth = depth}, true);
        kit_prompt(prompt, 8, 3);
        struct lf_request r = kit_request(prompt, 8, 16);
        r.n_eos = 1;
        kit_submit(&k, 1, &r, &h);
        heard_wait(&h);
        assert_int_equal(h.why, LF_DONE_EOS);
        assert_int_equal(h.ids.len, 7);
        assert_int_equal(h.stats.completion_tokens, 7);
        assert_int_equal(h.stats.rounds, (6 + depth) / (depth + 1));
        heard_free(&h);
        kit_close(&k);
    }
}

// F-5 inside a window: the tokens before it arrive, the same as undrafted.
static void do_non_finite_logits_inside_a_window_end_it_there(void **state) {
    (void)state;
    for (uint32_t at = 9; at < 20; at++) {
        struct kit k = {0};
        uint32_t prompt[8];
        struct heard h;
        kit_open(&k,
                 (struct lf_fake_options){.none_at = at, .drafter = {.present = true, .right = 1}},
                 (struct lf_engine_options){.drafts = LF_DRAFTS_ON, .draft_depth = 5}, true);
        kit_prompt(prompt, 8, 3);
        struct lf_request r = kit_request(prompt, 8, 16);
        kit_submit(&k, 1, &r, &h);
        heard_wait(&h);
        assert_int_equal(h.why, LF_DONE_FAILED);
        heard_expect(&h, prompt, 8, at - 8);
        heard_free(&h);
        kit_close(&k);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(is_every_keep_length_reached),
        cmocka_unit_test(do_stop_conditions_cut_at_each_index),
        cmocka_unit_test(are_replayed_tokens_compared_and_not_shown),
        cmocka_unit_test(does_a_drafted_reply_equal_the_plain_one),
        cmocka_unit_test(are_smaller_windows_respected),
        cmocka_unit_test(do_right_drafts_fill_every_window),
        cmocka_unit_test(are_streams_past_the_row_limit_served_in_turn),
        cmocka_unit_test(does_an_end_token_inside_a_window_cut_it),
        cmocka_unit_test(do_non_finite_logits_inside_a_window_end_it_there),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
