#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>
#include "golden.h"
#include "model/v41.h"

enum { CONTEXT = 96, VOCAB = 2304, BLOCK = 5 };

static struct lf_demo demo;
static struct lf_target *target;
static struct lf_v41 *m;
static const struct lf_sampling greedy = {0};
static uint32_t ids[CONTEXT];

static void must(enum lf_status status, const struct lf_error *err) {
    if (status != LF_OK)
        fail_msg("%s", err->text);
}

static int open_all(void **state) {
    struct lf_error err = LF_ERROR_INIT;
    (void)state;
    lf_demo_open(&demo);
    target = lf_demo_target(&demo, &(struct lf_model_options){.slots = 2, .context = CONTEXT});
    m = (struct lf_v41 *)target;
    for (uint32_t i = 0; i < CONTEXT; i++)
        ids[i] = 5 + i * 11 % 2000;
    for (uint32_t slot = 0; slot < 2; slot++)
        must(target->ops->grow(target, slot, CONTEXT, &err), &err);
    return 0;
}

static int close_all(void **state) {
    (void)state;
    target->ops->close(target);
    lf_demo_close(&demo);
    return 0;
}

static void prefill(uint32_t slot, uint32_t rows, struct lf_bound end) {
    struct lf_error err = LF_ERROR_INIT;
    struct lf_chunk chunk = {.slot = slot, .rows = rows, .tok = ids, .plan = &end, .n_plan = 1};
    must(target->ops->reset(target, slot, &err), &err);
    must(target->ops->grow(target, slot, CONTEXT, &err), &err);
    must(target->ops->prefill(target, &chunk, 1, &err), &err);
}

static void refused(enum lf_status status, const struct lf_draft_ask *ask, uint32_t n,
                    const char *sentence) {
    struct lf_error err = LF_ERROR_INIT;
    struct lf_draft out[3];
    struct lf_state before = m->state[0];
    assert_int_equal(target->drafter->propose(target, ask, n, out, &err), status);
    if (!strstr(err.text, sentence))
        fail_msg("\"%s\" does not say \"%s\"", err.text, sentence);
    assert_memory_equal(&before, &m->state[0], sizeof before);
}

static void a_pass_that_has_nothing_to_read_is_refused(void **state) {
    struct lf_error err = LF_ERROR_INIT;
    struct lf_draft_ask ask[2] = {{.slot = 0, .pending = 7, .rule = &greedy},
                                  {.slot = 0, .pending = 7, .rule = &greedy}};
    struct lf_window w = {.rows = 2, .pos0 = 40, .tok = ids + 40, .rule = &greedy};
    uint32_t drawn[2], kept = 1, slot = 0, far = 2;
    (void)state;
    must(target->ops->reset(target, 0, &err), &err);
    refused(LF_E_POS, ask, 1, "no rows");
    prefill(0, 40, (struct lf_bound){.at = 60, .logits = true});
    refused(LF_E_PLAN, ask, 1, "no token was to be drawn at position 40");
    // Without logits the boundary has one tap too few for a pass straight after it (12.3).
    prefill(0, 40, (struct lf_bound){.at = 40, .logits = false});
    refused(LF_E_PLAN, ask, 1, "no token was to be drawn at position 40");
    prefill(0, 40, (struct lf_bound){.at = 40, .logits = true});
    refused(LF_E_SLOT, ask, 2, "slot 0 is named twice");
    ask[0].pending = VOCAB;
    refused(LF_E_TOKEN, ask, 1, "token 2304");
    ask[0].pending = 7;
    ask[0].slot = 2;
    refused(LF_E_SLOT, ask, 1, "slot 2: there are 2");
    must(target->ops->verify(target, &w, 1, drawn, &err), &err);
    ask[0].slot = 0;
    refused(LF_E_KEEP, ask, 1, "waits for its keep");
    assert_int_equal(target->drafter->ingest(target, &slot, 1, &err), LF_E_KEEP);
    must(target->ops->keep(target, &w, &kept, 1, &err), &err);
    struct lf_error fresh = LF_ERROR_INIT;
    assert_int_equal(target->drafter->ingest(target, &far, 1, &fresh), LF_E_SLOT);
    struct lf_error twice = LF_ERROR_INIT;
    assert_int_equal(target->drafter->ingest(target, (uint32_t[]){1, 1}, 2, &twice), LF_E_SLOT);
}

// After one more row such a boundary drafts like any other.
static void a_boundary_without_logits_drafts_a_row_later(void **state) {
    struct lf_error err = LF_ERROR_INIT;
    struct lf_draft got = {0}, want = {0};
    (void)state;
    for (uint32_t slot = 0; slot < 2; slot++) {
        struct lf_window w = {.slot = slot, .rows = 1, .pos0 = 50, .tok = ids + 50,
                              .rule = &greedy};
        struct lf_draft_ask ask = {.slot = slot, .pending = 9, .rule = &greedy};
        uint32_t drawn, kept = 1;
        prefill(slot, 50, (struct lf_bound){.at = 50, .logits = slot});
        must(target->ops->verify(target, &w, 1, &drawn, &err), &err);
        must(target->ops->keep(target, &w, &kept, 1, &err), &err);
        must(target->drafter->propose(target, &ask, 1, slot ? &want : &got, &err), &err);
    }
    assert_int_equal(got.n, BLOCK);
    assert_memory_equal(&got, &want, sizeof got);
}

// engine.md D-3: the race of the stream's own rule at the position the draft is for
static void drafts_are_drawn_by_the_targets_rule_at_their_positions(void **state) {
    struct lf_error err = LF_ERROR_INIT;
    uint32_t differ = 0;
    (void)state;
    for (uint64_t seed = 1; seed <= 6; seed++) {
        struct lf_sampling rule = {.temperature = 1.5, .top_p = 0.95, .top_k = 40, .seed = seed};
        struct lf_draft_ask ask = {.slot = 1, .pending = 9, .rule = &rule};
        struct lf_draft out;
        uint32_t rows = 20 + (uint32_t)seed;
        prefill(1, rows, (struct lf_bound){.at = rows, .logits = true});
        must(target->drafter->propose(target, &ask, 1, &out, &err), &err);
        assert_int_equal(out.n, BLOCK);
        for (uint32_t j = 0; j < BLOCK; j++) {
            const float *logits = m->work.logits + (size_t)j * VOCAB;
            struct lf_sample_row row = {.rule = &rule, .position = rows + 1 + j};
            uint32_t drawn, best = 0;
            m->k.sample(&m->device, &(struct lf_sample_args){.rows = 1, .vocab = VOCAB,
                                                             .logits = logits,
                                                             .logits_stride = VOCAB, .row = &row,
                                                             .drawn = &drawn});
            assert_int_equal(out.tok[j], drawn);
            for (uint32_t i = 1; i < VOCAB; i++)
                if (logits[i] > logits[best])
                    best = i;
            differ += drawn != best;
        }
    }
    // Otherwise greedy drafts would pass as well.
    assert_true(differ > 0);
}

// model.md 11.3: what is kept of a row are its context rows; taps are read once
static void each_kept_row_is_taken_in_once(void **state) {
    struct lf_error err = LF_ERROR_INIT;
    struct lf_draft_ask ask = {.slot = 0, .pending = 9, .rule = &greedy};
    struct lf_draft got = {0}, want = {0};
    uint32_t slot = 0;
    (void)state;
    prefill(0, 70, (struct lf_bound){.at = 70, .logits = true});
    must(target->drafter->propose(target, &ask, 1, &want, &err), &err);
    prefill(0, 70, (struct lf_bound){.at = 70, .logits = true});
    must(target->drafter->ingest(target, &slot, 1, &err), &err);
    assert_int_equal(m->state[0].draft_end, 70);
    assert_int_equal(m->state[0].draft_from, 70 - m->t->window);
    memset(m->state[0].taps, 0xFF,
           sizeof(uint16_t) * m->shape.ring_rows * (size_t)m->shape.tap_size);
    must(target->drafter->propose(target, &ask, 1, &got, &err), &err);
    assert_memory_equal(&got, &want, sizeof got);
}

static void without_drafts_nothing_of_the_drafter_is_there(void **state) {
    struct lf_error err = LF_ERROR_INIT;
    static float want[VOCAB];
    struct lf_bound end = {.at = 60, .logits = true};
    struct lf_chunk chunk = {.rows = 60, .tok = ids, .plan = &end, .n_plan = 1};
    (void)state;
    prefill(0, 60, end);
    memcpy(want, lf_model_logits(target, 0, 0), sizeof want);
    struct lf_target *plain = lf_demo_target(
        &demo, &(struct lf_model_options){.slots = 1, .context = CONTEXT, .no_drafts = true});
    assert_null(plain->drafter);
    assert_non_null(target->drafter);
    assert_true(((struct lf_v41 *)plain)->state[0].bounded_bytes < m->state[0].bounded_bytes);
    must(plain->ops->grow(plain, 0, CONTEXT, &err), &err);
    must(plain->ops->prefill(plain, &chunk, 1, &err), &err);
    assert_memory_equal(want, lf_model_logits(plain, 0, 0), sizeof want);
    plain->ops->close(plain);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_pass_that_has_nothing_to_read_is_refused),
        cmocka_unit_test(a_boundary_without_logits_drafts_a_row_later),
        cmocka_unit_test(drafts_are_drawn_by_the_targets_rule_at_their_positions),
        cmocka_unit_test(each_kept_row_is_taken_in_once),
        cmocka_unit_test(without_drafts_nothing_of_the_drafter_is_there),
    };
    return cmocka_run_group_tests(tests, open_all, close_all);
}
