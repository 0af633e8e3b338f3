#include "replies.h"

#include <stdio.h>
#include <string.h>
#include "forced_drafter.h"

enum { PROMPTS = 50, ROWS_MAX = 60, RULES = 4 };

static struct lf_exact exact;
static struct lf_eval_prompt prompt[PROMPTS];
static struct lf_reply plain[PROMPTS][RULES];
static const struct lf_sampling rule[RULES] = {{.temperature = 0, .top_p = 1},
                                               {.temperature = 0.7, .top_p = 1, .seed = 1},
                                               {.temperature = 0.7, .top_p = 1, .seed = 2},
                                               {.temperature = 0.7, .top_p = 1, .seed = 3}};

static struct lf_target *new_target(void) {
    return lf_exact_target(&exact, &(struct lf_model_options){.slots = RULES, .threads = 1});
}

// The replies without drafts, each request in a slot alone.
static int open_all(void **state) {
    (void)state;
    lf_exact_open(&exact);
    if (lf_eval_read(prompt, PROMPTS, ROWS_MAX) != PROMPTS)
        return -1;
    struct lf_engine *engine =
        lf_reply_engine(new_target(), &(struct lf_engine_options){.drafts = LF_DRAFTS_OFF});
    for (uint32_t p = 0; p < PROMPTS; p++)
        for (uint32_t r = 0; r < RULES; r++)
            lf_reply_all(engine, &prompt[p], &rule[r], 1, &plain[p][r]);
    lf_engine_close(engine, 0);
    return 0;
}

static int close_all(void **state) {
    (void)state;
    lf_eval_free(prompt, PROMPTS);
    lf_exact_close(&exact);
    return 0;
}

static void give_replies(struct lf_forced *forced, uint32_t p,
                         struct lf_forced_reply reply[RULES]) {
    for (uint32_t r = 0; r < RULES; r++)
        reply[r] = (struct lf_forced_reply){.rule = &rule[r], .id = plain[p][r].id,
                                            .n = plain[p][r].n};
    forced->prompt_len = prompt[p].n;
    forced->reply = reply;
    forced->n_replies = RULES;
    forced->windows = forced->others = forced->accepted = 0;
}

// Whether every window of the four replies carried forced drafts; then the counts are exact.
static bool run_prompt(struct lf_engine *engine, struct lf_forced *forced, uint32_t p) {
    struct lf_forced_reply reply[RULES];
    struct lf_reply got[RULES];
    uint64_t accepted = 0;
    give_replies(forced, p, reply);
    lf_reply_all(engine, &prompt[p], rule, RULES, got);
    for (uint32_t r = 0; r < RULES; r++) {
        char what[96];
        snprintf(what, sizeof what, "prompt %u, T %g, seed %llu, %u of %d drafts right", p,
                 rule[r].temperature, (unsigned long long)rule[r].seed, forced->right,
                 LF_FORCED_DRAFTS);
        lf_reply_same(what, &got[r], &plain[p][r]);
        accepted += got[r].stats.accepted;
    }
    assert_true(accepted >= forced->accepted);
    if (forced->others)
        return false;
    assert_int_equal(accepted, forced->accepted);
    return true;
}

// engine.md X-1 drafted == plain: 50 prompts, two temperatures, every number of right drafts
static void replies_do_not_depend_on_how_many_drafts_are_right(void **state) {
    static struct lf_forced forced;
    (void)state;
    for (uint32_t right = 0; right <= LF_FORCED_DRAFTS; right++) {
        struct lf_target *target = new_target();
        uint64_t windows = 0, others = 0;
        uint32_t pure = 0;
        forced = (struct lf_forced){.right = right};
        lf_forced_install(&forced, target);
        struct lf_engine *engine = lf_reply_engine(
            target, &(struct lf_engine_options){.drafts = LF_DRAFTS_ON,
                                                .draft_depth = LF_FORCED_DRAFTS});
        for (uint32_t p = 0; p < PROMPTS; p++) {
            pure += run_prompt(engine, &forced, p);
            windows += forced.windows;
            others += forced.others;
        }
        lf_engine_close(engine, 0);
        print_message("%u right: %llu windows of forced drafts, %llu others, %u prompts without\n",
                      right, (unsigned long long)windows, (unsigned long long)others, pure);
        assert_int_equal(forced.surprises, 0);
        assert_true(windows > 2 * others);
    }
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(replies_do_not_depend_on_how_many_drafts_are_right),
    };
    return lf_exact_main(argc, argv, tests, sizeof tests / sizeof *tests, open_all, close_all);
}
