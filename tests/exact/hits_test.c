#include "replies.h"

#include <stdio.h>
#include <string.h>

enum { PROMPTS = 8, ROWS_MAX = 400, PASSES = 3 };

static struct lf_exact exact;
static struct lf_eval_prompt prompt[PROMPTS];
static const struct lf_sampling greedy = {.top_p = 1};
static const struct lf_sampling warm = {.temperature = 0.7, .top_p = 1, .seed = 5};

static int open_all(void **state) {
    (void)state;
    lf_exact_open(&exact);
    return lf_eval_read(prompt, PROMPTS, ROWS_MAX) == PROMPTS ? 0 : -1;
}

static int close_all(void **state) {
    (void)state;
    lf_eval_free(prompt, PROMPTS);
    lf_exact_close(&exact);
    return 0;
}

// A prompt, the same, its next turn; between them another stream writes over the slot.
static void chat(struct lf_engine *engine, uint32_t which, const struct lf_sampling *rule,
                 struct lf_reply out[PASSES]) {
    const struct lf_eval_prompt *p = &prompt[which], *other = &prompt[(which + 1) % PROMPTS];
    uint32_t ids[ROWS_MAX + LF_REPLY_MAX + 9];
    struct lf_eval_prompt next = {.id = ids, .n = p->n};
    struct lf_reply between;
    lf_reply_all(engine, p, rule, 1, &out[0]);
    lf_reply_all(engine, other, rule, 1, &between);
    lf_reply_all(engine, p, rule, 1, &out[1]);
    lf_reply_all(engine, other, rule, 1, &between);
    memcpy(ids, p->id, p->n * sizeof *ids);
    memcpy(ids + next.n, out[0].id, out[0].n * sizeof *ids);
    next.n += out[0].n;
    for (uint32_t i = 0; i < 9; i++)
        ids[next.n++] = p->id[(i + 1) % p->n];
    lf_reply_all(engine, &next, rule, 1, &out[2]);
}

// One engine with the cache and one without see the same requests, so both learn the same.
static void drafts_after_a_hit_are_those_of_a_cold_run(void **state) {
    static const char *const pass[PASSES] = {"cold", "whole hit", "prefix hit"};
    struct lf_engine_options options = {.drafts = LF_DRAFTS_ON, .draft_depth = 5};
    struct lf_engine *cold = lf_reply_engine(
        lf_exact_target(&exact, &(struct lf_model_options){.slots = 1}), &options);
    options.prompt_cache_bytes = 64 << 20;
    struct lf_engine *cached = lf_reply_engine(
        lf_exact_target(&exact, &(struct lf_model_options){.slots = 1}), &options);
    uint64_t accepted[PASSES] = {0}, rounds[PASSES] = {0};
    (void)state;
    for (uint32_t i = 0; i < 2 * PROMPTS; i++) {
        struct lf_reply got[PASSES], want[PASSES];
        const struct lf_eval_prompt *p = &prompt[i / 2];
        chat(cold, i / 2, i % 2 ? &warm : &greedy, want);
        chat(cached, i / 2, i % 2 ? &warm : &greedy, got);
        assert_int_equal(want[1].stats.cached_tokens, 0);
        assert_int_equal(got[1].stats.cached_tokens, p->n);
        assert_true(got[2].stats.cached_tokens >= p->n);
        for (uint32_t k = 0; k < PASSES; k++) {
            lf_reply_same(pass[k], &got[k], &want[k]);
            const struct lf_stats *a = &got[k].stats, *b = &want[k].stats;
            if (a->rounds != b->rounds || a->drafted != b->drafted || a->accepted != b->accepted)
                lf_exact_differ("drafts", "%s: %u of %u drafts accepted, cold %u of %u", pass[k],
                                a->accepted, a->drafted, b->accepted, b->drafted);
            accepted[k] += got[k].stats.accepted;
            rounds[k] += got[k].stats.rounds;
        }
    }
    for (uint32_t k = 0; k < PASSES; k++)
        print_message("%s: %llu drafts accepted in %llu rounds\n", pass[k],
                      (unsigned long long)accepted[k], (unsigned long long)rounds[k]);
    assert_true(accepted[1] && accepted[2]);
    lf_engine_close(cold, 0);
    lf_engine_close(cached, 0);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(drafts_after_a_hit_are_those_of_a_cold_run),
    };
    return lf_exact_main(argc, argv, tests, sizeof tests / sizeof *tests, open_all, close_all);
}
