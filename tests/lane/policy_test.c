// Draft policy without an engine: joint depths, chances, costs, loss budget, copies (engine.md 11).
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <string.h>
#include "lane/copy.h"
#include "lane/cost.h"
#include "lane/loss.h"
#include "lane/policy.h"
#include "support/fake_target.h"
#include "support/vectors.h"

static uint64_t noise_state;

static double noise(void) {
    noise_state = noise_state * 6364136223846793005u + 1442695040888963407u;
    return (double)(noise_state >> 11) * 0x1p-53;
}

static void chain_of(struct lf_chain *c, const double *chance, uint32_t n) {
    static const struct lf_calibration fresh;
    *c = (struct lf_chain){.n = n};
    memcpy(c->raw, chance, n * sizeof *chance);
    lf_calibration_apply(&fresh, c);
}

static void do_depths_equal_the_vectors(void **state) {
    (void)state;
    json_t *file = vectors_load("sampling"), *cases = vectors_get(file, "depth"), *one;
    size_t at;
    assert_true(json_array_size(cases) > 10);
    json_array_foreach(cases, at, one) {
        json_t *q = vectors_get(one, "q"), *c = vectors_get(one, "c");
        struct lf_chain chain[8];
        double cost[65] = {0};
        uint32_t depth[8], n = (uint32_t)json_array_size(q);
        for (uint32_t i = 0; i < n; i++) {
            json_t *row = json_array_get(q, i);
            double chance[5];
            for (size_t j = 0; j < 5; j++)
                chance[j] = vectors_number(row, j);
            chain_of(&chain[i], chance, 5);
        }
        uint32_t limit = (uint32_t)json_integer_value(vectors_get(one, "row_limit"));
        for (size_t r = 0; r < json_array_size(c) && r < 64; r++)
            cost[r + 1] = vectors_number(c, r);
        struct lf_choice_input in = {.chain = chain, .streams = n, .row_limit = limit,
                                     .cost = cost,
                                     .pass = json_number_value(vectors_get(one, "d")),
                                     .window = json_number_value(vectors_get(one, "o"))};
        double rate = lf_policy_choose(&in, depth);
        json_t *wanted = vectors_get(one, "depths");
        for (uint32_t i = 0; i < n; i++)
            assert_int_equal(depth[i], json_integer_value(json_array_get(wanted, i)));
        assert_true(fabs(rate - json_number_value(vectors_get(one, "tokens_per_ms"))) < 1e-9);
    }
    json_decref(file);
}

// The best rate over every combination of depths.
static double brute(const struct lf_choice_input *in, uint32_t i, uint32_t rows, double gains) {
    double best = -1;
    if (i == in->streams)
        return (in->streams + gains) /
               (in->cost[in->streams + rows] + (in->streams - 1) * in->window + in->pass);
    for (uint32_t d = 0; d <= in->chain[i].n && in->streams + rows + d <= in->row_limit; d++) {
        if (d)
            gains += in->chain[i].gain[d - 1];
        best = fmax(best, brute(in, i + 1, rows + d, gains));
    }
    return best;
}

static void is_the_joint_choice_the_best_of_all(void **state) {
    (void)state;
    noise_state = 5;
    for (int round = 0; round < 3000; round++) {
        struct lf_chain chain[4];
        double cost[65] = {0};
        uint32_t depth[4], n = 1 + round % 4;
        for (uint32_t i = 0; i < n; i++) {
            double chance[5];
            for (int j = 0; j < 5; j++)
                chance[j] = noise();
            chain_of(&chain[i], chance, (uint32_t)(noise() * 6));
        }
        for (int r = 1; r <= 64; r++)
            cost[r] = cost[r - 1] + (noise() < 0.3 ? 10 * noise() : 0.2) + (r == 1 ? 5 : 0);
        struct lf_choice_input in = {.chain = chain, .streams = n,
                                     .row_limit = n + (uint32_t)(noise() * 22), .cost = cost,
                                     .pass = 3 * noise(), .window = noise()};
        double rate = lf_policy_choose(&in, depth), gains = 0;
        uint32_t rows = 0;
        for (uint32_t i = 0; i < n; i++) {
            assert_true(depth[i] <= chain[i].n);
            for (uint32_t j = 0; j < depth[i]; j++)
                gains += chain[i].gain[j];
            rows += depth[i];
        }
        assert_true(n + rows <= in.row_limit);
        assert_true(fabs(rate - brute(&in, 0, 0, 0)) < 1e-12);
        double own = (n + gains) / (cost[n + rows] + (n - 1) * in.window + in.pass);
        assert_true(fabs(own - rate) < 1e-12);
    }
}

static void do_chances_follow_what_was_kept(void **state) {
    (void)state;
    struct lf_calibration c = {0};
    struct lf_chain chain = {.n = 3, .raw = {0.9, 0.9, 0.9}};
    lf_calibration_apply(&c, &chain);
    assert_true(fabs(chain.gain[0] - 0.9) < 1e-12 && fabs(chain.gain[2] - 0.729) < 1e-12);
    for (int i = 0; i < 500; i++)
        lf_calibration_learn(&c, &chain, 3, 0);
    lf_calibration_apply(&c, &chain);
    assert_true(fabs(chain.gain[0] - 0.9 * 0.2) < 1e-9); // D-7: the factor is clamped to 0.2
    assert_true(fabs(chain.gain[1] / chain.gain[0] - 0.9) < 1e-9); // never reached: not learned
    chain.raw[0] = chain.raw[1] = chain.raw[2] = 0.3;
    for (int i = 0; i < 500; i++)
        lf_calibration_learn(&c, &chain, 3, 3);
    lf_calibration_apply(&c, &chain);
    assert_true(fabs(chain.gain[0] - 0.9) < 0.08); // clamped to 3
    chain.raw[0] = 0.9;
    lf_calibration_apply(&c, &chain);
    assert_true(fabs(chain.gain[0] - 0.995) < 1e-12);
}

static void is_the_cost_table_filled_and_corrected(void **state) {
    (void)state;
    static const uint32_t size[] = {1, 2, 4, 8};
    static const double seconds[] = {10, 9, 14, 30};
    struct lf_cost c = {.measured = true};
    lf_cost_fill(c.rows[0], size, seconds, 4);
    c.used[0] = true;
    assert_true(c.rows[0][1] == 10 && c.rows[0][2] == 10); // D-8: non-decreasing
    assert_true(c.rows[0][3] == 11.5 && c.rows[0][6] == 22 && c.rows[0][16] == 60);
    assert_int_equal(lf_cost_bucket(0), 0);
    assert_int_equal(lf_cost_bucket(2047), 0);
    assert_int_equal(lf_cost_bucket(2048), 1);
    assert_int_equal(lf_cost_bucket(1 << 30), LF_COST_BUCKETS - 1);
    for (int i = 0; i < 200; i++)
        lf_cost_launch(&c, 3, 4, 1, 28);
    assert_true(fabs(c.rows[3][4] - 28) < 0.1);
    assert_true(c.rows[0][4] == 14); // another bucket
    for (int r = 1; r <= LF_COST_ROWS; r++)
        assert_true(c.rows[3][r] >= c.rows[3][r - 1]);
}

static void does_measuring_find_the_times_of_the_target(void **state) {
    (void)state;
    double launch[65] = {0};
    struct lf_error err = LF_ERROR_INIT;
    struct lf_cost c;
    for (int r = 1; r <= 64; r++)
        launch[r] = 0.010 + 0.001 * r + (r > 8 ? 0.005 : 0);
    struct lf_target *t = lf_fake_target_open(&(struct lf_fake_options){
        .slots = 4, .vocab = 50, .chunk_rows = 16, .context = 100, .launch_seconds = launch,
        .window_seconds = 0.002, .pass_seconds = 0.004, .drafter = {.present = true}});
    assert_int_equal(lf_cost_measure(&c, t, lf_fake_clock, t, &err), LF_OK);
    assert_true(c.measured);
    for (int r = 1; r <= 16; r++)
        assert_true(fabs(c.rows[0][r] - launch[r]) < 1e-8);
    assert_true(fabs(c.window - 0.002) < 1e-8);
    assert_true(fabs(c.pass[1] - 0.004) < 1e-8 && fabs(c.pass[4] - 0.004) < 1e-8);
    t->ops->close(t);
}

// A stream alone: plain rounds take 1; a drafted round takes cost and gains tokens.
static uint32_t drafted_rounds(struct lf_loss *l, int rounds, double cost, uint32_t tokens,
                               double *time, double *gained) {
    uint32_t drafted = 0;
    for (int i = 0; i < rounds; i++) {
        bool own = lf_loss_allows(l);
        lf_loss_round(l, own ? cost : 1, own ? cost - 1 : 0, own ? tokens : 1, 1, own);
        *time += own ? cost : 1;
        *gained += own ? tokens : 1;
        drafted += own;
    }
    return drafted;
}

static void does_the_budget_bound_what_wrong_drafts_cost(void **state) {
    (void)state;
    static const double costs[] = {1.05, 1.5, 3, 5};
    for (size_t i = 0; i < 4; i++) {
        for (int rounds = 10; rounds < 20000; rounds *= 3) {
            struct lf_loss l = lf_loss_start(&(struct lf_loss){0});
            double time = 0, gained = 0;
            drafted_rounds(&l, rounds, costs[i], 1, &time, &gained);
            assert_true(time <= gained * 1.01 + 6); // D-11
        }
    }
}

static void do_short_replies_share_one_budget(void **state) {
    (void)state;
    struct lf_loss ended = {0};
    double time = 0, gained = 0;
    for (int reply = 0; reply < 500; reply++) {
        struct lf_loss l = lf_loss_start(&ended);
        drafted_rounds(&l, 7, 1.5, 1, &time, &gained);
        ended = l;
    }
    assert_true(time <= gained * 1.02 + 12); // D-12: a new stream starts as the last ones ended
}

static void do_gains_keep_a_stream_drafting_and_probes_bring_it_back(void **state) {
    (void)state;
    struct lf_loss l = lf_loss_start(&(struct lf_loss){0});
    double time = 0, gained = 0;
    assert_int_equal(drafted_rounds(&l, 500, 1.5, 3, &time, &gained), 500);
    assert_true(l.lost >= -16 - 1e-9); // credit is bounded
    time = gained = 0;
    uint32_t wrong = drafted_rounds(&l, 3000, 1.5, 1, &time, &gained);
    assert_true(wrong < 120 && time <= gained * 1.01 + 16 + 6);
    assert_true(drafted_rounds(&l, 3000, 1.5, 3, &time, &gained) > 1500);
}

static void are_copies_what_followed_the_longest_match(void **state) {
    (void)state;
    noise_state = 9;
    for (int round = 0; round < 200; round++) {
        struct lf_copy c = {0};
        uint32_t id[400], out[8], match, n = 1 + (uint32_t)(noise() * 399);
        uint32_t kinds = 2 + (uint32_t)(noise() * 6);
        for (uint32_t i = 0; i < n; i++) {
            id[i] = (uint32_t)(noise() * kinds);
            lf_copy_add(&c, &id[i], 1);
        }
        uint32_t got = lf_copy_find(&c, out, 8, &match), longest = 0;
        for (uint32_t p = 1; p < n; p++) {
            uint32_t m = 0;
            while (m < p && m < 32 && id[p - 1 - m] == id[n - 1 - m])
                m++;
            longest = m > longest ? m : longest;
        }
        assert_int_equal(got > 0, longest >= LF_COPY_KEY);
        assert_true(match <= longest);
        if (kinds > 4)
            assert_int_equal(match, longest >= LF_COPY_KEY ? longest : 0);
        bool found = !got;
        for (uint32_t p = match; p < n && !found; p++)
            found = !memcmp(id + p - match, id + n - match, match * sizeof *id) &&
                    p + got <= n && !memcmp(id + p, out, got * sizeof *id);
        assert_true(found);
        lf_copy_free(&c);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(do_depths_equal_the_vectors),
        cmocka_unit_test(is_the_joint_choice_the_best_of_all),
        cmocka_unit_test(do_chances_follow_what_was_kept),
        cmocka_unit_test(is_the_cost_table_filled_and_corrected),
        cmocka_unit_test(does_measuring_find_the_times_of_the_target),
        cmocka_unit_test(does_the_budget_bound_what_wrong_drafts_cost),
        cmocka_unit_test(do_short_replies_share_one_budget),
        cmocka_unit_test(do_gains_keep_a_stream_drafting_and_probes_bring_it_back),
        cmocka_unit_test(are_copies_what_followed_the_longest_match),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
