#include "exact.h"

#include <stdarg.h>
#include <setjmp.h>
#include <cmocka.h>
#include <string.h>
#include "kernel_check.h"

void lf_exact_must(enum lf_status status, const struct lf_error *err) {
    if (status != LF_OK)
        fail_msg("%s", err->text);
}

void lf_exact_open(struct lf_exact *exact) {
    lf_demo_open(&exact->demo);
    lf_golden_open(&exact->prompt, "recall");
    exact->ids = (const uint32_t *)exact->prompt.ids;
    exact->n_ids = exact->prompt.rows;
    assert_int_equal(lf_checkpoint_topology(exact->demo.checkpoint)->vocab, LF_EXACT_VOCAB);
}

void lf_exact_close(struct lf_exact *exact) {
    lf_golden_close(&exact->prompt);
    lf_demo_close(&exact->demo);
}

struct lf_target *lf_exact_target(struct lf_exact *exact, const struct lf_model_options *options) {
    struct lf_model_options all = *options;
    struct lf_error err = LF_ERROR_INIT;
    all.context = LF_EXACT_CONTEXT;
    all.chunk_rows = LF_EXACT_CONTEXT;
    struct lf_target *target = lf_demo_target(&exact->demo, &all);
    for (uint32_t s = 0; s < target->ops->info(target)->slots; s++)
        lf_exact_must(target->ops->grow(target, s, LF_EXACT_CONTEXT, &err), &err);
    return target;
}

void lf_outcome_same(const char *what, const struct lf_outcome *got,
                     const struct lf_outcome *want) {
    uint32_t words = 0, first = 0;
    for (uint32_t i = LF_EXACT_VOCAB; i-- > 0;)
        if (memcmp(&got->logits[i], &want->logits[i], sizeof got->logits[i])) {
            words++;
            first = i;
        }
    if (words)
        fail_msg("%s: %u of %d logits differ, the first at %u: %.9g and %.9g", what, words,
                 LF_EXACT_VOCAB, first, (double)got->logits[first], (double)want->logits[first]);
    if (memcmp(got->digest, want->digest, sizeof got->digest))
        fail_msg("%s: the state digests differ", what);
}

void lf_outcome_read(struct lf_target *target, uint32_t slot, struct lf_outcome *out) {
    struct lf_error err = LF_ERROR_INIT;
    memcpy(out->logits, lf_model_logits(target, slot, 0), sizeof out->logits);
    lf_exact_must(target->ops->digest(target, slot, out->digest, &err), &err);
}

void lf_exact_prefill(struct lf_target *target, uint32_t slot, const uint32_t *ids, uint32_t rows,
                      struct lf_cut cut, const struct lf_bound *plan, uint32_t n_plan) {
    struct lf_error err = LF_ERROR_INIT;
    struct lf_check_rng rng = {cut.seed};
    struct lf_bound end = {.at = rows, .logits = true};
    lf_exact_must(target->ops->reset(target, slot, &err), &err);
    lf_exact_must(target->ops->grow(target, slot, LF_EXACT_CONTEXT, &err), &err);
    for (uint32_t at = 0, n; at < rows; at += n) {
        n = cut.most ? 1 + lf_check_below(&rng, cut.most) : cut.rows;
        n = n > rows - at ? rows - at : n;
        struct lf_chunk chunk = {.slot = slot, .rows = n, .pos0 = at, .tok = ids + at,
                                 .plan = plan ? plan : &end, .n_plan = plan ? n_plan : 1};
        lf_exact_must(target->ops->prefill(target, &chunk, 1, &err), &err);
    }
}

void lf_exact_round(struct lf_target *target, uint32_t slot, uint64_t position, uint32_t token,
                    float logits[LF_EXACT_VOCAB]) {
    struct lf_error err = LF_ERROR_INIT;
    struct lf_sampling greedy = {0};
    struct lf_window w = {.slot = slot, .rows = 1, .pos0 = position, .tok = &token,
                          .rule = &greedy};
    uint32_t drawn, kept = 1;
    lf_exact_must(target->ops->verify(target, &w, 1, &drawn, &err), &err);
    memcpy(logits, lf_model_logits(target, slot, 0), sizeof(float) * LF_EXACT_VOCAB);
    lf_exact_must(target->ops->keep(target, &w, &kept, 1, &err), &err);
}
