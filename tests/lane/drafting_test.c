// When drafts run, in simulated time: never slower, full windows, probes (engine.md 11.2, 11.3).
#include "kit.h"

#include <math.h>
#include <stdlib.h>

enum { CONTEXT = 12000, MOST = 4 };

static double launch_seconds[65];

static struct lf_fake_options timed(uint32_t slots, struct lf_fake_drafter drafter) {
    return (struct lf_fake_options){.slots = slots, .chunk_rows = 64, .context = CONTEXT,
                                    .launch_seconds = launch_seconds, .chunk_seconds = 0.01,
                                    .pass_seconds = 0.002, .drafter = drafter};
}

// Simulated seconds from the first reply's start to the last's end.
static double decode_all(struct kit *k, uint32_t streams, uint32_t tokens, bool plain,
                         struct lf_stats *stats) {
    struct heard h[MOST];
    uint32_t prompt[MOST][8];
    double seconds = 0;
    for (uint32_t i = 0; i < streams; i++) {
        kit_prompt(prompt[i], 8, i);
        struct lf_request r = kit_request(prompt[i], 8, tokens);
        r.no_drafts = plain;
        kit_submit(k, i + 1, &r, &h[i]);
    }
    kit_gate_open(k);
    for (uint32_t i = 0; i < streams; i++) {
        heard_wait(&h[i]);
        assert_int_equal(h[i].why, LF_DONE_LENGTH);
        heard_expect(&h[i], prompt[i], 8, tokens);
        seconds = fmax(seconds, h[i].stats.decode_seconds);
        *stats = h[i].stats;
        heard_free(&h[i]);
    }
    return seconds;
}

static uint32_t count_passes(const struct kit *k) {
    uint32_t passes = 0;
    for (uint32_t i = 0; i < k->n_log; i++)
        passes += k->log[i].kind == LF_FAKE_PASS;
    return passes;
}

// D-11: a drafter that is always wrong and always sure costs 1 % and six rounds at most.
static void does_a_wrong_drafter_cost_next_to_nothing(void **state) {
    (void)state;
    for (uint32_t streams = 1; streams <= MOST; streams += 3) {
        for (uint32_t tokens = 5; tokens <= 1500; tokens *= 6) {
            struct kit k = {.closed = true};
            struct lf_stats stats;
            kit_open(&k, timed(streams, (struct lf_fake_drafter){.present = true, .claimed = 0.99}),
                     (struct lf_engine_options){.drafts = LF_DRAFTS_AUTO}, true);
            double drafted = decode_all(&k, streams, tokens, false, &stats);
            double plain = (tokens - 1) * launch_seconds[streams];
            assert_true(drafted <= plain * 1.01 + 6 * launch_seconds[streams]);
            assert_true(tokens < 100 || stats.drafted > 0);
            kit_close(&k);
        }
    }
}

// D-10: where even good drafts would lose, no pass is run to find that out.
static void is_a_pass_that_cannot_pay_never_run(void **state) {
    (void)state;
    struct kit k = {.closed = true};
    struct lf_stats stats;
    struct lf_fake_drafter right = {.present = true, .right = 1};
    struct lf_fake_options dear = timed(MOST, right);
    dear.pass_seconds = 0.2;
    kit_open(&k, dear, (struct lf_engine_options){.drafts = LF_DRAFTS_AUTO}, true);
    uint32_t passes = count_passes(&k);
    double seconds = decode_all(&k, MOST, 100, false, &stats);
    assert_true(fabs(seconds - 99 * launch_seconds[MOST]) < launch_seconds[MOST] + 0.02);
    assert_true(passes > 0);
    assert_int_equal(count_passes(&k), passes); // those of the startup's measurement
    assert_int_equal(stats.drafted, 0);
    kit_close(&k);
}

static void does_a_right_drafter_get_its_full_windows(void **state) {
    (void)state;
    struct kit k = {.closed = true};
    struct lf_stats stats;
    kit_open(&k, timed(1, (struct lf_fake_drafter){.present = true, .right = 1}),
             (struct lf_engine_options){.drafts = LF_DRAFTS_AUTO}, true);
    double drafted = decode_all(&k, 1, 601, false, &stats);
    assert_int_equal(stats.rounds, 100);
    assert_int_equal(stats.drafted, 500);
    assert_int_equal(stats.accepted, 500);
    assert_true(fabs(drafted - 100 * (launch_seconds[6] + 0.002)) < 1e-6);
    struct lf_engine_status status;
    lf_engine_status_read(k.engine, &status);
    assert_int_equal(status.drafted, 500); // D-15: totals
    assert_int_equal(status.rounds, 100);
    kit_close(&k);
}

// Drafters of every quality: equal replies, never slower than plain beyond the budget.
static void do_drafts_of_any_quality_pay_or_stop(void **state) {
    (void)state;
    static const double right[] = {0, 0.1, 0.3, 0.5, 0.7, 0.9};
    double last = 1e9;
    for (size_t i = 0; i < sizeof right / sizeof *right; i++) {
        struct kit k = {.closed = true};
        struct lf_stats stats;
        kit_open(&k, timed(2, (struct lf_fake_drafter){.present = true, .right = right[i]}),
                 (struct lf_engine_options){.drafts = LF_DRAFTS_AUTO}, true);
        double drafted = decode_all(&k, 2, 400, false, &stats);
        assert_true(drafted <= 399 * launch_seconds[2] * 1.01 + 6 * launch_seconds[2]);
        assert_true(right[i] < 0.5 || drafted < last);
        last = drafted;
        kit_close(&k);
    }
    assert_true(last < 0.5 * 399 * launch_seconds[2]);
}

// D-12: a request that asked for no drafts has no pass run for it.
static void is_a_plain_request_left_alone(void **state) {
    (void)state;
    struct kit k = {.closed = true};
    struct lf_stats stats;
    kit_open(&k, timed(2, (struct lf_fake_drafter){.present = true, .right = 1}),
             (struct lf_engine_options){.drafts = LF_DRAFTS_AUTO}, true);
    double seconds = decode_all(&k, 2, 50, true, &stats);
    assert_true(fabs(seconds - 49 * launch_seconds[2]) < launch_seconds[2] + 0.02);
    assert_int_equal(count_passes(&k), 16); // of the startup's measurement
    assert_int_equal(stats.plain_rounds, stats.rounds);
    kit_close(&k);
}

// 11.4: a reply that repeats itself drafts from its own history, without any drafter.
static void do_repeats_draft_themselves(void **state) {
    (void)state;
    uint32_t script[400];
    struct kit k = {0};
    struct heard h;
    uint32_t prompt[8];
    for (uint32_t i = 0; i < 400; i++)
        script[i] = 20 + i % 37;
    struct lf_fake_options fake = timed(1, (struct lf_fake_drafter){0});
    fake.script = script;
    fake.n_script = 400;
    kit_open(&k, fake, (struct lf_engine_options){.drafts = LF_DRAFTS_AUTO}, true);
    assert_true(lf_engine_info(k.engine)->drafts);
    kit_prompt(prompt, 8, 3);
    struct lf_request r = kit_request(prompt, 8, 400);
    kit_submit(&k, 1, &r, &h);
    heard_wait(&h);
    assert_int_equal(h.ids.len, 400);
    assert_memory_equal(h.ids.id, script, sizeof script);
    assert_true(h.stats.accepted > 250);
    assert_true(h.stats.decode_seconds < 0.6 * 399 * launch_seconds[1]);
    heard_free(&h);
    kit_close(&k);
}

int main(void) {
    for (uint32_t r = 1; r <= 64; r++)
        launch_seconds[r] = 0.010 + 0.0008 * r + (r > 8 ? 0.004 : 0);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(does_a_wrong_drafter_cost_next_to_nothing),
        cmocka_unit_test(is_a_pass_that_cannot_pay_never_run),
        cmocka_unit_test(does_a_right_drafter_get_its_full_windows),
        cmocka_unit_test(do_drafts_of_any_quality_pay_or_stop),
        cmocka_unit_test(is_a_plain_request_left_alone),
        cmocka_unit_test(do_repeats_draft_themselves),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
