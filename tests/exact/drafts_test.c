#include "exact.h"

#include <stdlib.h>
#include <string.h>

enum { BLOCK = 5, FIRST = 3, STEPS = 816, SLOTS = 14 };

// What a pass gives, its logits included.
struct pass {
    struct lf_draft draft;
    float logits[BLOCK][LF_EXACT_VOCAB];
};

static struct lf_exact exact;
static const struct lf_sampling greedy = {0};
static const struct lf_sampling warm = {.temperature = 1.0, .top_p = 1.0, .seed = 7};

static int open_all(void **state) {
    (void)state;
    lf_exact_open(&exact);
    assert_int_equal(lf_checkpoint_topology(exact.demo.checkpoint)->draft_block, BLOCK);
    return 0;
}

static int close_all(void **state) {
    (void)state;
    lf_exact_close(&exact);
    return 0;
}

static void propose(struct lf_target *target, uint32_t slot, uint32_t pending,
                    const struct lf_sampling *rule, struct pass *out) {
    struct lf_error err = LF_ERROR_INIT;
    struct lf_draft_ask ask = {.slot = slot, .pending = pending, .rule = rule};
    memset(&out->draft, 0, sizeof out->draft);
    lf_exact_must(target->drafter->propose(target, &ask, 1, &out->draft, &err), &err);
    if (out->draft.n != BLOCK)
        lf_exact_differ("drafts", "slot %u: %u drafts, expected %d", slot, out->draft.n, BLOCK);
    lf_exact_read(target, out->logits, ((struct lf_v41 *)target)->work.logits,
                  sizeof out->logits);
}

static void same(const struct pass *got, const struct pass *want, const char *what, uint64_t at) {
    if (memcmp(&got->draft, &want->draft, sizeof got->draft) ||
        memcmp(got->logits, want->logits, sizeof got->logits))
        lf_exact_differ("drafts", "%s at %u: the drafts differ", what, (uint32_t)at);
}

// Taps and context rows of NaN codes: what a pass reads without its being made shows.
static void poison(struct lf_target *target, uint32_t slot) {
    struct lf_v41 *m = (struct lf_v41 *)target;
    lf_exact_spoil(target, m->state[slot].taps,
                   sizeof(uint16_t) * m->shape.ring_rows * (size_t)m->shape.tap_size);
    for (uint32_t l = m->t->layers; l < m->shape.rings; l++)
        lf_exact_spoil(target, m->state[slot].ring[l],
                       (size_t)m->shape.ring_rows * m->shape.window_bytes);
}

static void advance(struct lf_target *target, uint32_t slot, uint32_t at, uint32_t rows,
                    uint32_t kept) {
    struct lf_error err = LF_ERROR_INIT;
    uint32_t token[LF_WINDOW_MAX], drawn[LF_WINDOW_MAX];
    for (uint32_t i = 0; i < rows; i++)
        token[i] = i < kept ? exact.ids[at + i] : (at + 97 * i) % LF_EXACT_VOCAB;
    struct lf_window w = {.slot = slot, .rows = rows, .pos0 = at, .tok = token, .rule = &greedy};
    lf_exact_must(target->ops->verify(target, &w, 1, drawn, &err), &err);
    lf_exact_must(target->ops->keep(target, &w, &kept, 1, &err), &err);
}

// model.md 12.3: drafting does not widen the cone, and cuts do not show.
static void drafts_do_not_depend_on_cuts_or_the_cone(void **state) {
    static const uint32_t lengths[] = {1, 2, 31, 32, 33, 62, 63, 64, 65, 95, 130, 260};
    struct lf_target *cone = lf_exact_target(&exact, &(struct lf_model_options){.slots = 1});
    struct lf_target *full =
        lf_exact_target(&exact, &(struct lf_model_options){.slots = 1, .no_cone = true});
    static struct pass got, want;
    (void)state;
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++)
        for (uint32_t most = 0; most <= 80; most += 40) {
            uint32_t n = lengths[i];
            struct lf_cut cut = {.rows = n, .most = most, .seed = n + most};
            poison(cone, 0);
            lf_exact_prefill(cone, 0, exact.ids, n, cut, NULL, 0);
            lf_exact_prefill(full, 0, exact.ids, n, (struct lf_cut){.rows = n}, NULL, 0);
            for (uint32_t at = n; at < n + 36; at += 12) {
                propose(cone, 0, exact.ids[at], &greedy, &got);
                propose(full, 0, exact.ids[at], &greedy, &want);
                same(&got, &want, "the cone against all rows", at);
                advance(cone, 0, at, 12, 12);
                advance(full, 0, at, 12, 12);
            }
        }
    cone->ops->close(cone);
    full->ops->close(full);
}

// engine.md D-2, L-21: taps of rejected rows leave nothing, whenever the kept ones are taken in.
static void drafts_follow_the_kept_rows_alone(void **state) {
    struct lf_target *target = lf_exact_target(&exact, &(struct lf_model_options){.slots = 1});
    struct pass *serial = malloc(STEPS * sizeof *serial);
    static struct pass got;
    (void)state;
    assert_non_null(serial);
    lf_exact_prefill(target, 0, exact.ids, FIRST, (struct lf_cut){.rows = FIRST}, NULL, 0);
    for (uint32_t i = 0; i < STEPS; i++) {
        propose(target, 0, exact.ids[FIRST + i], &warm, &serial[i]);
        advance(target, 0, FIRST + i, 1, 1);
    }
    for (uint32_t every = 1; every <= 40; every += 13) {
        uint32_t at = 0, window = 0;
        poison(target, 0);
        lf_exact_prefill(target, 0, exact.ids, FIRST, (struct lf_cut){.rows = FIRST}, NULL, 0);
        for (uint32_t rows = LF_WINDOW_MAX; rows >= 1; rows--)
            for (uint32_t kept = 1; kept <= rows; at += kept, kept++) {
                if (window++ % every == 0) {
                    propose(target, 0, exact.ids[FIRST + at], &warm, &got);
                    same(&got, &serial[at], "after windows of many rows", FIRST + at);
                }
                advance(target, 0, FIRST + at, rows, kept);
            }
        assert_int_equal(at, STEPS);
    }
    free(serial);
    target->ops->close(target);
}

static void verify_six_keep_two_drafts_as_a_fresh_run(void **state) {
    struct lf_target *target = lf_exact_target(&exact, &(struct lf_model_options){.slots = 2});
    static struct pass got, want;
    struct lf_error err = LF_ERROR_INIT;
    uint32_t slot = 0;
    (void)state;
    for (uint32_t n = 1; n <= 200; n += 29) {
        lf_exact_prefill(target, 0, exact.ids, n, (struct lf_cut){.rows = n}, NULL, 0);
        advance(target, 0, n, 6, 2);
        lf_exact_must(target->drafter->ingest(target, &slot, 1, &err), &err);
        poison(target, 1);
        lf_exact_prefill(target, 1, exact.ids, n + 2, (struct lf_cut){.rows = n + 2}, NULL, 0);
        propose(target, 0, exact.ids[n + 2], &greedy, &got);
        propose(target, 1, exact.ids[n + 2], &greedy, &want);
        same(&got, &want, "two rows of six kept", n);
    }
    target->ops->close(target);
}

static uint32_t lane_rows(uint32_t slot) {
    return 1 + slot * 17 % 120;
}

// engine.md D-4: more streams than one pass takes, in any order, with rules of their own.
static void streams_of_one_call_draft_as_each_alone(void **state) {
    struct lf_target *target = lf_exact_target(&exact, &(struct lf_model_options){.slots = SLOTS});
    struct lf_error err = LF_ERROR_INIT;
    struct pass *alone = calloc(SLOTS, sizeof *alone);
    static const uint32_t counts[] = {3, 2, SLOTS, 13, 1};
    (void)state;
    assert_non_null(alone);
    for (uint32_t s = 0; s < SLOTS; s++) {
        uint32_t n = lane_rows(s);
        lf_exact_prefill(target, s, exact.ids + s, n, (struct lf_cut){.rows = n}, NULL, 0);
        propose(target, s, exact.ids[s + n], s % 2 ? &warm : &greedy, &alone[s]);
    }
    for (uint32_t turn = 0; turn < 10; turn++) {
        uint32_t n = counts[turn % 5], slot[SLOTS];
        struct lf_draft_ask ask[SLOTS];
        struct lf_draft out[SLOTS];
        memset(out, 0, sizeof out);
        for (uint32_t i = 0; i < n; i++) {
            uint32_t s = (i * 5 + turn) % SLOTS, rows = lane_rows(s);
            slot[i] = s;
            ask[i] = (struct lf_draft_ask){.slot = s, .pending = exact.ids[s + rows],
                                           .rule = s % 2 ? &warm : &greedy};
            // Context rows made in one batch too.
            poison(target, s);
            lf_exact_prefill(target, s, exact.ids + s, rows, (struct lf_cut){.rows = rows}, NULL,
                             0);
        }
        if (turn % 2)
            lf_exact_must(target->drafter->ingest(target, slot, n, &err), &err);
        lf_exact_must(target->drafter->propose(target, ask, n, out, &err), &err);
        for (uint32_t i = 0; i < n; i++)
            if (memcmp(&out[i], &alone[slot[i]].draft, sizeof out[i]))
                lf_exact_differ("drafts", "slot %u, place %u of %u: other drafts", slot[i], i, n);
    }
    free(alone);
    target->ops->close(target);
}

static void drafts_do_not_depend_on_threads_or_instruction_sets(void **state) {
    const struct lf_model_options options[] = {
        {.slots = 1, .threads = 1}, {.slots = 1, .threads = 3},
        {.slots = 1, .threads = 2, .isa = LF_ISA_PORTABLE}};
    static struct pass want[2], got;
    (void)state;
    for (size_t i = 0; i < sizeof options / sizeof *options; i++) {
        struct lf_target *target = lf_exact_target(&exact, &options[i]);
        lf_exact_prefill(target, 0, exact.ids, 150, (struct lf_cut){.rows = 150}, NULL, 0);
        for (int round = 0; round < 2; round++) {
            propose(target, 0, exact.ids[150], round ? &warm : &greedy, i ? &got : &want[round]);
            if (i)
                same(&got, &want[round], "threads or instruction set", i);
        }
        target->ops->close(target);
    }
}

// engine.md L-18a: a saved state drafts as the one it was taken from, at its mark or a row later.
static void a_restored_state_drafts_as_the_one_saved(void **state) {
    static const uint32_t lengths[] = {1, 31, 32, 33, 64, 200};
    struct lf_target *target = lf_exact_target(&exact, &(struct lf_model_options){.slots = 2});
    struct lf_error err = LF_ERROR_INIT;
    static struct pass got, want;
    (void)state;
    for (size_t i = 0; i < 2 * sizeof lengths / sizeof *lengths; i++) {
        uint32_t n = lengths[i / 2], what = LF_SAVE_STATE;
        struct lf_bound end = {.at = n, .logits = i % 2};
        struct lf_saved *saved;
        if (end.logits)
            what |= LF_SAVE_LOGITS;
        lf_exact_prefill(target, 0, exact.ids, n, (struct lf_cut){.rows = n}, &end, 1);
        lf_exact_must(target->ops->save(target, 0, n, what, &saved, &err), &err);
        poison(target, 1);
        lf_exact_must(target->ops->restore(target, 1, saved, &err), &err);
        lf_exact_must(target->ops->grow(target, 1, LF_EXACT_CONTEXT, &err), &err);
        for (uint32_t slot = 0; !end.logits && slot < 2; slot++)
            advance(target, slot, n, 1, 1);
        propose(target, 0, exact.ids[n + 1], &greedy, &want);
        propose(target, 1, exact.ids[n + 1], &greedy, &got);
        same(&got, &want, "a restored state", n);
        // Its pages are slot 0's alone again.
        target->ops->drop(target, saved);
        lf_exact_must(target->ops->reset(target, 1, &err), &err);
    }
    target->ops->close(target);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(drafts_do_not_depend_on_cuts_or_the_cone),
        cmocka_unit_test(drafts_follow_the_kept_rows_alone),
        cmocka_unit_test(verify_six_keep_two_drafts_as_a_fresh_run),
        cmocka_unit_test(streams_of_one_call_draft_as_each_alone),
        cmocka_unit_test(drafts_do_not_depend_on_threads_or_instruction_sets),
        cmocka_unit_test(a_restored_state_drafts_as_the_one_saved),
    };
    return lf_exact_main(argc, argv, tests, sizeof tests / sizeof *tests, open_all, close_all);
}
