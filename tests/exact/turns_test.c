#include "exact.h"

#include <stdio.h>
#include <string.h>

enum { TURNS = 4 };

static struct lf_exact exact;
static struct lf_target *target, *fresh;

static int open_all(void **state) {
    (void)state;
    lf_exact_open(&exact);
    target = lf_exact_target(&exact, &(struct lf_model_options){.slots = 1});
    fresh = lf_exact_target(&exact, &(struct lf_model_options){.slots = 1});
    return 0;
}

static int close_all(void **state) {
    (void)state;
    target->ops->close(target);
    fresh->ops->close(fresh);
    lf_exact_close(&exact);
    return 0;
}

// A turn's rows in chunks; the last gives logits.
static uint32_t read_turn(uint32_t at, uint32_t rows, uint32_t cut) {
    struct lf_error err = LF_ERROR_INIT;
    struct lf_bound end = {.at = at + rows, .logits = true};
    for (uint32_t n; at < end.at; at += n) {
        n = (uint32_t)end.at - at < cut ? (uint32_t)end.at - at : cut;
        struct lf_chunk chunk = {.rows = n, .pos0 = at, .tok = exact.ids + at, .plan = &end,
                                 .n_plan = 1};
        lf_exact_must(target->ops->prefill(target, &chunk, 1, &err), &err);
    }
    return at;
}

// A reply of windows, each with rejected rows behind those kept.
static uint32_t reply(uint32_t at, uint32_t windows) {
    struct lf_error err = LF_ERROR_INIT;
    struct lf_sampling greedy = {0};
    for (uint32_t i = 0; i < windows; i++) {
        uint32_t token[LF_WINDOW_MAX], drawn[LF_WINDOW_MAX], kept = 1 + (i * 5 + at) % 7;
        for (uint32_t r = 0; r < LF_WINDOW_MAX; r++)
            token[r] = r < kept ? exact.ids[at + r] : (at + 97 * r) % LF_EXACT_VOCAB;
        struct lf_window w = {.rows = LF_WINDOW_MAX, .pos0 = at, .tok = token, .rule = &greedy};
        lf_exact_must(target->ops->verify(target, &w, 1, drawn, &err), &err);
        lf_exact_must(target->ops->keep(target, &w, &kept, 1, &err), &err);
        at += kept;
    }
    return at;
}

// engine.md 9.3: turns appended after a reply, against one prompt of all rows
static void turns_after_replies_have_the_bits_of_one_prompt(void **state) {
    static const uint32_t turn[TURNS] = {1, 34, 129, 2}, cut[TURNS] = {9, 16, 900, 1};
    static struct lf_outcome got, want;
    struct lf_error err = LF_ERROR_INIT;
    (void)state;
    for (uint32_t first = 1; first <= 129; first += first < 4 ? 1 : 31) {
        uint32_t at = 0;
        lf_exact_must(target->ops->reset(target, 0, &err), &err);
        lf_exact_must(target->ops->grow(target, 0, LF_EXACT_CONTEXT, &err), &err);
        at = read_turn(at, first, 64);
        for (uint32_t i = 0; i < TURNS; i++) {
            char what[64];
            at = read_turn(reply(at, 5), turn[i], cut[i]);
            snprintf(what, sizeof what, "turn %u of a chat that began with %u rows", i, first);
            lf_exact_prefill(fresh, 0, exact.ids, at, (struct lf_cut){.rows = at}, NULL, 0);
            lf_outcome_read(target, 0, &got);
            lf_outcome_read(fresh, 0, &want);
            lf_outcome_same(what, &got, &want);
        }
    }
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(turns_after_replies_have_the_bits_of_one_prompt),
    };
    return lf_exact_main(argc, argv, tests, sizeof tests / sizeof *tests, open_all, close_all);
}
