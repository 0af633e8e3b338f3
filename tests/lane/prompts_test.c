// Prompts beside replies on the fake target, in simulated time (engine.md 5, rules L-24 .. L-32).
#include "kit.h"

#include <math.h>
#include "lane/share.h"

enum { CONTEXT = 80000 };
static uint32_t text[CONTEXT];

static const double launch_seconds[65] = {[1] = 0.01, 0.01, 0.01, 0.01, 0.01, 0.01, 0.01, 0.01};

static struct lf_fake_options timed(uint32_t slots, uint32_t chunk_rows) {
    return (struct lf_fake_options){.slots = slots, .chunk_rows = chunk_rows, .context = CONTEXT,
                                    .launch_seconds = launch_seconds, .chunk_seconds = 0.01,
                                    .row_seconds = 0.001};
}

static void does_debt_follow_the_share(void **state) {
    (void)state;
    struct lf_share s = {.share = 0.25};
    assert_true(lf_share_allows(&s, 5000, false));
    assert_false(lf_share_allows(&s, 5000, true)); // a round comes first
    lf_share_round(&s, 0.5);
    assert_true(lf_share_allows(&s, 5000, true));
    assert_true(s.debt == 0); // rounds before a chunk are no credit
    lf_share_chunk(&s, 1000, 3, true);
    assert_true(fabs(s.debt - 1) < 1e-12); // t S / (1 - S)
    assert_false(lf_share_allows(&s, 100, true)); // L-28: short, but no round ran yet
    lf_share_round(&s, 0.4);
    assert_true(lf_share_allows(&s, LF_PROMPT_SHORT, true));
    assert_false(lf_share_allows(&s, LF_PROMPT_SHORT + 1, true));
    lf_share_round(&s, 0.7);
    assert_true(lf_share_allows(&s, 5000, true));
    lf_share_chunk(&s, 1000, 3, false);
    assert_true(s.debt == 0);
    s.share = 0;
    lf_share_chunk(&s, 1000, 3, true);
    assert_true(s.debt == 0 && lf_share_allows(&s, 5000, true)); // S = 0 fills whole
}

static void do_chunks_fit_the_gap(void **state) {
    (void)state;
    struct lf_share s = {.share = 0.25, .gap = 1};
    assert_int_equal(lf_share_rows(&s, 2048, false), 2048);
    for (int i = 0; i < 20; i++) {
        uint32_t rows = lf_share_rows(&s, 2048, true);
        double seconds = 0.2 + rows * 0.01;
        assert_true(i < 4 || seconds <= 1.01);
        lf_share_chunk(&s, rows, seconds, true);
    }
    assert_in_range(lf_share_rows(&s, 2048, true), 70, 80);
    lf_share_chunk(&s, 3, 0.23, true); // a prompt's last rows
    assert_in_range(lf_share_rows(&s, 2048, true), 70, 80);
    for (int i = 0; i < 20; i++)
        lf_share_chunk(&s, lf_share_rows(&s, 2048, true), 0.01, true);
    assert_int_equal(lf_share_rows(&s, 2048, true), 2048);
}

// L-27, L-32: the share of time and the worst gap between tokens while a long prompt fills.
static void does_a_long_prompt_leave_replies_their_share_and_gap(void **state) {
    (void)state;
    static const double shares[] = {0.1, 0.25, 0.5};
    for (size_t i = 0; i < 3; i++) {
        struct kit k = {.closed = true};
        struct heard reply, prompt;
        kit_open(&k, timed(2, 2048),
                 (struct lf_engine_options){.decode_share = shares[i], .max_gap_ms = 300}, true);
        struct lf_request a = kit_request(text, 10, 3000), b = kit_request(text, 30000, 2);
        kit_submit(&k, 1, &a, &reply);
        kit_submit(&k, 2, &b, &prompt);
        kit_gate_open(&k);
        heard_wait(&prompt);
        lf_engine_cancel(k.engine, 1);
        heard_wait(&reply);
        double rounds = 0, chunks = 0, last = 0, worst = 0;
        uint32_t read = 0;
        for (uint32_t l = 0; l + 1 < k.n_log && read < 30010; l++) {
            double took = k.log[l + 1].at - k.log[l].at;
            bool round = k.log[l].kind == LF_FAKE_VERIFY;
            read += round ? 0 : k.log[l].rows;
            rounds += round ? took : 0;
            chunks += round ? 0 : took;
            if (round) {
                worst = last > 0 ? fmax(worst, k.log[l + 1].at - last) : 0;
                last = k.log[l + 1].at;
            }
        }
        assert_true(fabs(rounds / (rounds + chunks) - shares[i]) < 0.03);
        assert_true(worst <= 0.300 + 0.010 + 0.001);
        heard_free(&reply);
        heard_free(&prompt);
        kit_close(&k);
    }
}

// The slots of each chunk's first prompt, in order; n: how many were asked for.
static uint32_t chunk_order(const struct kit *k, uint32_t *slot, uint32_t most) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < k->n_log && n < most; i++)
        if (k->log[i].kind == LF_FAKE_PREFILL)
            slot[n++] = k->log[i].slot[0];
    return n;
}

// L-28: fewest rows left first, background last; passed eight times, a prompt goes next.
static void do_short_prompts_go_first_and_long_ones_not_last_for_ever(void **state) {
    (void)state;
    enum { N = 12 };
    struct kit k = {.closed = true};
    struct heard h[N];
    uint32_t slot[64];
    kit_open(&k, timed(N, 64), (struct lf_engine_options){.decode_share = 0.25}, true);
    struct lf_request large = kit_request(text, 640, 2), small = kit_request(text, 64, 2);
    for (uint32_t i = 0; i < N; i++)
        kit_submit(&k, 1 + i, i ? &small : &large, &h[i]);
    kit_gate_open(&k);
    for (uint32_t i = 0; i < N; i++) {
        heard_wait(&h[i]);
        heard_expect(&h[i], text, i ? 64 : 640, 2);
        heard_free(&h[i]);
    }
    // The large one holds slot 0 until its end; it may have had a chunk before the others came.
    uint32_t n = chunk_order(&k, slot, 64), alone = slot[0] == 0, at = alone;
    assert_int_equal(n, 10 + N - 1);
    while (slot[at] != 0)
        at++;
    assert_int_equal(at - alone, 8);
    kit_close(&k);
}

static void do_several_short_prompts_share_one_launch(void **state) {
    (void)state;
    enum { N = 7 }; // the first launch takes those that have come by then: four are together
    struct kit k = {.closed = true};
    struct heard h[N];
    kit_open(&k, timed(N, 256), (struct lf_engine_options){.decode_share = 0.25}, true);
    for (uint32_t i = 0; i < N; i++) {
        struct lf_request r = kit_request(text + i, 40 + i, 5);
        kit_submit(&k, 1 + i, &r, &h[i]);
    }
    kit_gate_open(&k);
    for (uint32_t i = 0; i < N; i++) {
        heard_wait(&h[i]);
        heard_expect(&h[i], text + i, 40 + i, 5); // L-30: the same replies
        heard_free(&h[i]);
    }
    uint32_t launches = 0, most = 0;
    for (uint32_t i = 0; i < k.n_log; i++) {
        if (k.log[i].kind != LF_FAKE_PREFILL)
            continue;
        launches++;
        most = k.log[i].n > most ? k.log[i].n : most;
    }
    assert_in_range(launches, 1, 3);
    assert_true(most >= 4);
    kit_close(&k);
}

// L-29: one long prompt fills at a time, and shorter ones behind them start.
static void do_long_prompts_wait_for_each_other_but_not_short_ones(void **state) {
    (void)state;
    for (uint32_t allowed = 1; allowed <= 2; allowed++) {
        struct kit k = {.closed = true};
        struct heard h[4];
        kit_open(&k, timed(4, 2048),
                 (struct lf_engine_options){.decode_share = 0.25, .long_prompts = allowed}, true);
        for (uint32_t i = 0; i < 4; i++) {
            struct lf_request r = kit_request(text, i < 3 ? 40000 : 50, 3);
            kit_submit(&k, 1 + i, &r, &h[i]);
        }
        kit_gate_open(&k);
        for (uint32_t i = 0; i < 4; i++)
            heard_wait(&h[i]);
        uint32_t filled[KIT_SLOTS] = {0}, most = 0;
        for (uint32_t i = 0; i < k.n_log; i++) {
            const struct kit_launch *l = &k.log[i];
            for (uint32_t j = 0; l->kind == LF_FAKE_PREFILL && j < l->n; j++)
                filled[l->slot[j]] = (filled[l->slot[j]] + l->slot_rows[j]) % 40000;
            uint32_t now = 0;
            for (uint32_t s = 0; s < KIT_SLOTS; s++)
                now += filled[s] > 2048 && 40000 - filled[s] > LF_PROMPT_LONG;
            most = now > most ? now : most;
        }
        assert_true(most <= allowed);
        assert_true(h[3].first_at < h[0].first_at);
        for (uint32_t i = 0; i < 4; i++)
            heard_free(&h[i]);
        kit_close(&k);
    }
}

// S = 0 fills prompts whole, in the order of arrival.
static void does_no_share_fill_prompts_in_order(void **state) {
    (void)state;
    struct kit k = {.closed = true};
    struct heard h[3];
    uint32_t slot[32];
    kit_open(&k, timed(3, 64), (struct lf_engine_options){.decode_share = 0}, true);
    for (uint32_t i = 0; i < 3; i++) {
        struct lf_request r = kit_request(text, 640 - 100 * i, 3);
        kit_submit(&k, 1 + i, &r, &h[i]);
    }
    kit_gate_open(&k);
    for (uint32_t i = 0; i < 3; i++) {
        heard_wait(&h[i]);
        heard_expect(&h[i], text, 640 - 100 * i, 3);
        heard_free(&h[i]);
    }
    uint32_t n = chunk_order(&k, slot, 25);
    assert_in_range(n, 24, 25);
    for (uint32_t i = 1; i < n; i++)
        assert_true(slot[i] >= slot[i - 1]);
    kit_close(&k);
}

int main(void) {
    kit_prompt(text, CONTEXT, 3);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(does_debt_follow_the_share),
        cmocka_unit_test(do_chunks_fit_the_gap),
        cmocka_unit_test(does_a_long_prompt_leave_replies_their_share_and_gap),
        cmocka_unit_test(do_short_prompts_go_first_and_long_ones_not_last_for_ever),
        cmocka_unit_test(do_several_short_prompts_share_one_launch),
        cmocka_unit_test(do_long_prompts_wait_for_each_other_but_not_short_ones),
        cmocka_unit_test(does_no_share_fill_prompts_in_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
