#include "exact.h"

#include <stdio.h>

static struct lf_exact exact;
static struct lf_target *target;

static int open_all(void **state) {
    (void)state;
    lf_exact_open(&exact);
    target = lf_exact_target(&exact, &(struct lf_model_options){.slots = 1});
    return 0;
}

static int close_all(void **state) {
    (void)state;
    target->ops->close(target);
    lf_exact_close(&exact);
    return 0;
}

// The pass, and one more row after it, which reads the state that the pass left.
static void run(uint32_t rows, struct lf_cut cut, struct lf_outcome out[2]) {
    lf_exact_prefill(target, 0, exact.ids, rows, cut, NULL, 0);
    lf_outcome_read(target, 0, &out[0]);
    lf_exact_round(target, 0, rows, exact.ids[rows], out[1].logits);
    lf_outcome_state(target, 0, &out[1]);
}

static void compare(uint32_t rows, struct lf_cut cut, const struct lf_outcome want[2]) {
    struct lf_outcome got[2];
    char what[96];
    if (cut.most)
        snprintf(what, sizeof what, "%u rows cut at random up to %u, seed %llu", rows, cut.most,
                 (unsigned long long)cut.seed);
    else
        snprintf(what, sizeof what, "%u rows in chunks of %u", rows, cut.rows);
    run(rows, cut, got);
    lf_outcome_same(what, &got[0], &want[0]);
    lf_outcome_same(what, &got[1], &want[1]);
}

// engine.md 9.3: lengths around the window (32), the budgets (64, 128) and pages (128, 256)
static void a_short_prompt_gives_the_same_bits_however_it_is_cut(void **state) {
    static const uint32_t lengths[] = {1,  2,  3,   30,  31,  32,  33,  47,  48,  63,  64,
                                       65, 66, 127, 128, 129, 130, 131, 256, 257, 258};
    static struct lf_outcome want[2];
    (void)state;
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        uint32_t rows = lengths[i];
        run(rows, (struct lf_cut){.rows = rows}, want);
        compare(rows, (struct lf_cut){.rows = 1}, want);
        compare(rows, (struct lf_cut){.rows = 7}, want);
        compare(rows, (struct lf_cut){.rows = 64}, want);
        for (uint64_t seed = 1; seed <= 2; seed++)
            compare(rows, (struct lf_cut){.most = 1 + rows / 2, .seed = seed * 1000 + rows}, want);
    }
}

// More than two chunks of every size.
static void a_long_prompt_gives_the_same_bits_however_it_is_cut(void **state) {
    uint32_t rows = 1811;
    static struct lf_outcome want[2];
    (void)state;
    run(rows, (struct lf_cut){.rows = rows}, want);
    compare(rows, (struct lf_cut){.rows = 1}, want);
    compare(rows, (struct lf_cut){.rows = 7}, want);
    compare(rows, (struct lf_cut){.rows = 64}, want);
    compare(rows, (struct lf_cut){.rows = 512}, want);
    compare(rows, (struct lf_cut){.rows = 900}, want);
    compare(rows, (struct lf_cut){.most = 300, .seed = 1}, want);
}

// engine.md X-1 repeatable: the history of a slot leaves no trace
static void a_slot_that_was_used_before_gives_the_same_bits(void **state) {
    struct lf_outcome fresh[2], again[2];
    (void)state;
    struct lf_target *new = lf_exact_target(&exact, &(struct lf_model_options){.slots = 1});
    struct lf_target *used = target;
    lf_exact_prefill(used, 0, exact.ids + 50, 700, (struct lf_cut){.rows = 700}, NULL, 0);
    target = new;
    run(201, (struct lf_cut){.rows = 201}, fresh);
    target = used;
    run(201, (struct lf_cut){.rows = 201}, again);
    new->ops->close(new);
    lf_outcome_same("a used slot", &again[0], &fresh[0]);
    lf_outcome_same("a used slot's next row", &again[1], &fresh[1]);
}

// engine.md M-9: memory that was given back is taken again, by chunks of any size
static void a_workspace_that_was_trimmed_gives_the_same_bits(void **state) {
    static struct lf_outcome want[2], got[2];
    uint32_t most = target->ops->info(target)->chunk_rows_max;
    (void)state;
    run(1301, (struct lf_cut){.rows = 1301}, want);
    for (uint32_t rows = most; rows >= 1; rows /= 3) {
        target->ops->chunk_trim(target, rows);
        run(1301, (struct lf_cut){.most = 900, .seed = rows}, got);
        lf_outcome_same("a trimmed workspace", &got[0], &want[0]);
        lf_outcome_same("a trimmed workspace's next row", &got[1], &want[1]);
    }
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_short_prompt_gives_the_same_bits_however_it_is_cut),
        cmocka_unit_test(a_long_prompt_gives_the_same_bits_however_it_is_cut),
        cmocka_unit_test(a_slot_that_was_used_before_gives_the_same_bits),
        cmocka_unit_test(a_workspace_that_was_trimmed_gives_the_same_bits),
    };
    return lf_exact_main(argc, argv, tests, sizeof tests / sizeof *tests, open_all, close_all);
}
