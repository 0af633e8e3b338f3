// Forced tokens on the fake target: any path, windows, drafts, company and replay (engine.md L-6).
#include "kit.h"

#include <math.h>
#include <stdlib.h>
#include "lane/stream.h"

enum { WINDOW = 16, PROMPT = 20, REPLY = 90 };

// How a test's path guesses ahead of drafts.
enum guess { GUESS_RIGHT, GUESS_NOTHING, GUESS_WRONG, GUESSES };

// Forces a run of length ids from index start on, and after that one id at a hash's will.
struct path {
    uint32_t start, length, one_in; // one_in 0: nothing but the run
    enum guess guess;
};

static uint32_t id_at(const struct path *p, const uint32_t *reply, uint32_t n,
                      const uint32_t *draft, uint32_t n_drafts) {
    uint32_t hash = 2166136261u, at = n + n_drafts;
    if (at >= p->start && at < p->start + p->length)
        return (100 + at) % KIT_VOCAB;
    for (uint32_t i = 0; i < at; i++)
        hash = (hash ^ (i < n ? reply[i] : draft[i - n])) * 16777619u;
    return p->one_in && hash / 7 % p->one_in == 0 ? hash % KIT_VOCAB : LF_PATH_FREE;
}

static uint32_t path_next(void *ctx, const uint32_t *reply, uint32_t n, const uint32_t *draft,
                          uint32_t n_drafts) {
    const struct path *p = ctx;
    uint32_t id = id_at(p, reply, n, draft, n_drafts);
    if (!n_drafts || p->guess == GUESS_RIGHT)
        return id;
    return p->guess == GUESS_NOTHING ? LF_PATH_FREE : (n + n_drafts * 5) % KIT_VOCAB;
}

// The reply of an engine that runs one row a round.
static void expect(const struct heard *h, const struct path *p, const uint32_t *prompt) {
    uint32_t history[PROMPT + REPLY], forced = 0;
    memcpy(history, prompt, PROMPT * sizeof *prompt);
    assert_int_equal(h->ids.len, REPLY);
    for (uint32_t i = 0; i < REPLY; i++) {
        uint32_t id = id_at(p, history + PROMPT, i, NULL, 0);
        forced += id != LF_PATH_FREE;
        if (id == LF_PATH_FREE)
            id = lf_fake_next(history, PROMPT + i, 42, KIT_VOCAB);
        assert_int_equal(h->ids.id[i], id);
        history[PROMPT + i] = id;
    }
    assert_true(forced >= (p->length < REPLY - p->start ? p->length : 1));
    assert_false(h->logprobs_wrong);
}

static struct lf_request request_on(struct path *p, const uint32_t *prompt) {
    struct lf_request r = kit_request(prompt, PROMPT, REPLY);
    r.path = path_next;
    r.path_ctx = p;
    r.want_logprobs = true;
    r.top_logprobs = 4;
    return r;
}

static struct lf_stream stream_on(struct path *p) {
    return (struct lf_stream){.limit = 1000, .vocab = KIT_VOCAB,
                              .request = {.path = path_next, .path_ctx = p}};
}

// L-22, L-5: a forced id at each index of each commit list, which the drafts know or do not.
static void is_a_forced_token_at_each_index_committed(void **state) {
    (void)state;
    for (uint32_t n = 1; n <= WINDOW; n++) {
        for (uint32_t at = 0; at < n; at++) {
            for (int known = 0; known < 2; known++) {
                struct path p = {.start = at, .length = 1};
                struct lf_stream s = stream_on(&p);
                struct lf_logprob_row rows[WINDOW] = {0};
                uint32_t drawn[WINDOW], draft[WINDOW], fresh;
                for (uint32_t i = 0; i < n; i++)
                    draft[i] = drawn[i] = 500 + i;
                if (known)
                    draft[at] = 100 + at;
                rows[at] = (struct lf_logprob_row){.drawn = -1, .n = 2, .id = {500, 100 + at},
                                                   .value = {-1, -2}};
                uint32_t kept = known ? n : at + 1;
                assert_int_equal(lf_accept_window(&s, draft, n - 1, drawn, rows, &fresh), kept);
                assert_int_equal(fresh, kept);
                assert_int_equal(s.reply.id[at], 100 + at);
                assert_int_equal(s.pending, kept == at + 1 ? 100 + at : 500 + n - 1);
                assert_true(rows[at].drawn == -2);
                assert_int_equal(lf_accept_count(draft, n - 1, drawn), kept - 1);
                assert_false(s.done);
                lf_ids_free(&s.reply);
            }
        }
    }
}

// S-21: no value where it is not among the alternatives; its own where the draw was the same id.
static void is_an_unknown_value_left_out(void **state) {
    (void)state;
    for (int same = 0; same < 2; same++) {
        struct path p = {.start = 0, .length = 1};
        struct lf_stream s = stream_on(&p);
        struct lf_logprob_row row = {.drawn = -3, .n = 1, .id = {7}, .value = {-1}};
        uint32_t drawn = same ? 100 : 101, fresh;
        lf_accept_window(&s, NULL, 0, &drawn, &row, &fresh);
        assert_int_equal(drawn, 100);
        assert_true(same ? row.drawn == -3 : isnan(row.drawn));
        lf_ids_free(&s.reply);
    }
}

// F-5: a row without finite logits fails its request also where nothing is drawn of it.
static void do_non_finite_logits_fail_a_forced_token_too(void **state) {
    (void)state;
    struct path p = {.start = 0, .length = 3};
    struct lf_stream s = stream_on(&p);
    uint32_t drawn = LF_SAMPLE_NONE, fresh;
    assert_int_equal(lf_accept_window(&s, NULL, 0, &drawn, NULL, &fresh), 0);
    assert_int_equal(s.why, LF_DONE_FAILED);
}

static uint32_t path_astray(void *ctx, const uint32_t *reply, uint32_t n, const uint32_t *draft,
                            uint32_t n_drafts) {
    (void)ctx, (void)reply, (void)draft;
    return n + n_drafts < 6 ? LF_PATH_FREE : KIT_VOCAB;
}

// F-1: others of the same launches are untouched.
static void does_a_path_outside_the_vocabulary_fail_its_request_alone(void **state) {
    (void)state;
    struct kit k = {.closed = true};
    uint32_t prompt[PROMPT];
    struct heard h[2];
    kit_open(&k, (struct lf_fake_options){.slots = 2, .drafter = {.present = true, .right = 1}},
             (struct lf_engine_options){.drafts = LF_DRAFTS_ON, .draft_depth = 4}, true);
    kit_prompt(prompt, PROMPT, 3);
    struct lf_request r = kit_request(prompt, PROMPT, REPLY);
    kit_submit(&k, 1, &r, &h[0]);
    r.path = path_astray;
    kit_submit(&k, 2, &r, &h[1]);
    kit_gate_open(&k);
    heard_wait(&h[0]);
    heard_wait(&h[1]);
    heard_expect(&h[0], prompt, PROMPT, REPLY);
    heard_expect(&h[1], prompt, PROMPT, 6);
    assert_int_equal(h[1].why, LF_DONE_FAILED);
    assert_non_null(strstr(h[1].message, "leaves the vocabulary"));
    heard_free(&h[0]);
    heard_free(&h[1]);
    kit_close(&k);
}

// Forced ids before, among and after drafts; those after another token go.
static void does_a_chain_take_forced_ids_in(void **state) {
    (void)state;
    for (uint32_t room = 0; room <= LF_DRAFTS_MAX; room++) {
        for (uint32_t start = 0; start < 8; start++) {
            for (uint32_t drafts = 0; drafts <= room; drafts++) {
                struct path p = {.start = start, .length = 4};
                struct lf_stream s = stream_on(&p);
                struct lf_chain c = {.n = drafts};
                for (uint32_t j = 0; j < drafts; j++)
                    c.tok[j] = 500 + j;
                lf_path_chain(&s, room, &c);
                uint32_t end = start + 4 < room ? start + 4 : room;
                assert_int_equal(c.n, drafts < start || start >= room ? drafts : end);
                for (uint32_t j = 0; j < c.n; j++) {
                    assert_int_equal(c.forced[j], j >= start);
                    assert_int_equal(c.tok[j], j >= start ? 100 + j : 500 + j);
                }
                assert_int_equal(lf_path_due(&s), start == 0);
            }
        }
    }
}

static void do_right_drafts_stay_after_a_forced_token(void **state) {
    (void)state;
    struct path p = {.start = 1, .length = 1};
    struct lf_stream s = stream_on(&p);
    struct lf_chain c = {.n = 3, .tok = {500, 101, 502}};
    lf_path_chain(&s, 15, &c);
    assert_int_equal(c.n, 3);
    assert_true(!c.forced[0] && c.forced[1] && !c.forced[2]);
}

struct plan {
    uint32_t streams, depth, window_max;
    double right;
    enum guess guess;
};

// X-1 with forced tokens: each stream has its own path, every fifth one draws no drafts.
static void reply_all(const struct plan *plan) {
    enum { MOST = 6 };
    struct kit k = {.closed = true};
    uint32_t prompt[MOST][PROMPT];
    struct path path[MOST];
    struct heard h[MOST];
    kit_open(&k,
             (struct lf_fake_options){.slots = 1 + plan->streams / 2,
                                      .window_max = plan->window_max,
                                      .drafter = {.present = true, .right = plan->right,
                                                  .depth = LF_DRAFTS_MAX}},
             (struct lf_engine_options){.drafts = LF_DRAFTS_ON, .draft_depth = plan->depth}, true);
    for (uint32_t i = 0; i < plan->streams; i++) {
        kit_prompt(prompt[i], PROMPT, i);
        path[i] = (struct path){.start = i * 9, .length = i * 8, .one_in = 3 + 4 * i,
                                .guess = plan->guess};
        struct lf_request r = request_on(&path[i], prompt[i]);
        r.no_drafts = i % 5 == 4;
        kit_submit(&k, i + 1, &r, &h[i]);
    }
    kit_gate_open(&k);
    for (uint32_t i = 0; i < plan->streams; i++) {
        heard_wait(&h[i]);
        assert_int_equal(h[i].why, LF_DONE_LENGTH);
        expect(&h[i], &path[i], prompt[i]);
        assert_int_equal(1 + h[i].stats.rounds + h[i].stats.accepted, REPLY);
        heard_free(&h[i]);
    }
    kit_close(&k);
}

static void does_a_drafted_path_equal_the_plain_one(void **state) {
    (void)state;
    for (int guess = 0; guess < GUESSES; guess++)
        for (double right = 0; right <= 1; right += 0.5)
            for (uint32_t depth = 0; depth < WINDOW; depth += depth < 3 ? 1 : 4)
                for (uint32_t streams = 1; streams <= 6; streams += 5)
                    reply_all(&(struct plan){.streams = streams, .depth = depth, .right = right,
                                             .guess = guess});
}

static void are_smaller_windows_respected(void **state) {
    (void)state;
    for (uint32_t most = 1; most <= WINDOW; most++)
        reply_all(&(struct plan){.streams = 3, .depth = most > 1 ? most - 1 : 1,
                                 .window_max = most, .right = 0.9});
}

// L-6: every row of a window of forced tokens is kept, up to the widest window.
static void do_windows_of_forced_tokens_keep_all_rows(void **state) {
    (void)state;
    for (uint32_t most = 1; most <= WINDOW; most++) {
        struct path p = {.start = 1, .length = REPLY};
        struct kit k = {0};
        uint32_t prompt[PROMPT];
        struct heard h;
        kit_open(&k, (struct lf_fake_options){.window_max = most},
                 (struct lf_engine_options){.drafts = LF_DRAFTS_AUTO, .draft_depth = 15}, true);
        kit_prompt(prompt, PROMPT, 3);
        struct lf_request r = request_on(&p, prompt);
        kit_submit(&k, 1, &r, &h);
        heard_wait(&h);
        expect(&h, &p, prompt);
        assert_int_equal(h.stats.rounds, (REPLY - 1 + most - 1) / most);
        assert_int_equal(h.stats.drafted, h.stats.accepted);
        heard_free(&h);
        kit_close(&k);
    }
}

struct act {
    uint32_t at;
    bool done;
    const struct lf_request *request;
    struct heard *heard;
};

static void act_at(struct kit *k, const struct lf_fake_launch *l) {
    struct act *a = k->ctx;
    if (a->done || l->number != a->at)
        return;
    a->done = true;
    kit_submit(k, 2, a->request, a->heard);
}

// L-40: at each launch a stream yields; its forced tokens are forced again.
static void does_a_path_survive_a_replay(void **state) {
    (void)state;
    for (uint32_t depth = 0; depth <= 4; depth += 4) {
        for (uint32_t at = 1; at <= 30; at++) {
            struct path p = {.start = 3, .length = 6, .one_in = 6, .guess = at % GUESSES};
            uint32_t prompt[PROMPT], front_prompt[PROMPT];
            struct heard back, front;
            kit_prompt(prompt, PROMPT, 3);
            kit_prompt(front_prompt, PROMPT, 8);
            struct lf_request back_r = request_on(&p, prompt);
            struct lf_request front_r = kit_request(front_prompt, PROMPT, 12);
            struct act act = {.at = at, .request = &front_r, .heard = &front};
            struct kit k = {.each = act_at, .ctx = &act};
            back_r.background = true;
            kit_open(&k, (struct lf_fake_options){.drafter = {.present = depth, .right = 0.5}},
                     (struct lf_engine_options){.drafts = depth ? LF_DRAFTS_ON : LF_DRAFTS_OFF,
                                                .draft_depth = depth},
                     true);
            kit_submit(&k, 1, &back_r, &back);
            heard_wait(&back);
            heard_wait(&front);
            assert_int_equal(back.why, LF_DONE_LENGTH);
            expect(&back, &p, prompt);
            heard_expect(&front, front_prompt, PROMPT, 12);
            struct lf_engine_status status;
            lf_engine_status_read(k.engine, &status);
            assert_int_equal(status.yielded, 1);
            heard_free(&back);
            heard_free(&front);
            kit_close(&k);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(is_a_forced_token_at_each_index_committed),
        cmocka_unit_test(is_an_unknown_value_left_out),
        cmocka_unit_test(do_non_finite_logits_fail_a_forced_token_too),
        cmocka_unit_test(does_a_path_outside_the_vocabulary_fail_its_request_alone),
        cmocka_unit_test(does_a_chain_take_forced_ids_in),
        cmocka_unit_test(do_right_drafts_stay_after_a_forced_token),
        cmocka_unit_test(does_a_drafted_path_equal_the_plain_one),
        cmocka_unit_test(are_smaller_windows_respected),
        cmocka_unit_test(do_windows_of_forced_tokens_keep_all_rows),
        cmocka_unit_test(does_a_path_survive_a_replay),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
