#include "exact.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "kernel_check.h"

// Of a build with a planted fault: the part that must differ, and whether it did.
static const char *expected;
static bool differed;
// Where models run.
static const char *device = "cpu";

void lf_exact_must(enum lf_status status, const struct lf_error *err) {
    if (status != LF_OK)
        fail_msg("%s", err->text);
}

void lf_exact_open(struct lf_exact *exact) {
    struct lf_error err = LF_ERROR_INIT;
    lf_demo_open(&exact->demo);
    lf_exact_must(lf_place_open(&exact->place, device, 0, &err), &err);
    lf_golden_open(&exact->prompt, "recall");
    for (uint32_t i = 0; i < 2 * LF_EXACT_CONTEXT; i++)
        exact->ids[i] = (uint32_t)exact->prompt.ids[i % exact->prompt.rows];
    const struct lf_topology *t = lf_checkpoint_topology(exact->demo.checkpoint);
    assert_int_equal(t->vocab, LF_EXACT_VOCAB);
    assert_int_equal(t->window - 1, LF_EXACT_TAPS);
    assert_int_equal(t->n_draft_taps * t->hidden, LF_EXACT_TAP_SIZE);
}

void lf_exact_close(struct lf_exact *exact) {
    lf_golden_close(&exact->prompt);
    lf_place_close(&exact->place);
    lf_demo_close(&exact->demo);
}

struct lf_target *lf_exact_target(struct lf_exact *exact, const struct lf_model_options *options) {
    struct lf_model_options all = *options;
    struct lf_error err = LF_ERROR_INIT;
    all.context = LF_EXACT_CONTEXT;
    all.chunk_rows = LF_EXACT_CONTEXT;
    all.device = lf_place_model(&exact->place);
    struct lf_target *target = lf_demo_target(&exact->demo, &all);
    for (uint32_t s = 0; s < target->ops->info(target)->slots; s++)
        lf_exact_must(target->ops->grow(target, s, LF_EXACT_CONTEXT, &err), &err);
    return target;
}

static struct lf_mem *memory_of(struct lf_target *target) {
    return ((struct lf_v41 *)target)->device.memory;
}

void lf_exact_read(struct lf_target *target, void *to, const void *from, size_t bytes) {
    struct lf_error err = LF_ERROR_INIT;
    lf_mem_download(memory_of(target), to, from, bytes);
    lf_exact_must(lf_mem_wait(memory_of(target), &err), &err);
}

void lf_exact_write(struct lf_target *target, void *to, const void *from, size_t bytes) {
    struct lf_error err = LF_ERROR_INIT;
    lf_mem_upload(memory_of(target), to, from, bytes);
    lf_exact_must(lf_mem_wait(memory_of(target), &err), &err);
}

void lf_exact_spoil(struct lf_target *target, void *at, size_t bytes) {
    void *codes = malloc(bytes);
    assert_non_null(codes);
    memset(codes, 0xFF, bytes);
    lf_exact_write(target, at, codes, bytes);
    free(codes);
}

void lf_exact_differ(const char *part, const char *format, ...) {
    char text[256];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    differed |= expected && !strcmp(part, expected);
    fail_msg("%s", text);
}

const char *lf_outcome_differs(const struct lf_outcome *got, const struct lf_outcome *want) {
    if (memcmp(got->logits, want->logits, sizeof got->logits))
        return "logits";
    if (got->length != want->length || memcmp(got->tap, want->tap, sizeof got->tap))
        return "taps";
    return memcmp(got->digest, want->digest, sizeof got->digest) ? "state" : NULL;
}

static uint32_t words_that_differ(const void *got, const void *want, size_t n, size_t word_bytes) {
    uint32_t words = 0;
    for (size_t i = 0; i < n * word_bytes; i += word_bytes)
        words += memcmp((const char *)got + i, (const char *)want + i, word_bytes) != 0;
    return words;
}

void lf_outcome_same(const char *what, const struct lf_outcome *got,
                     const struct lf_outcome *want) {
    const char *part = lf_outcome_differs(got, want);
    if (part)
        lf_exact_differ(part, "%s: %s: %u of %d logits and %u of %d tap words differ, digests %s",
                        what, part,
                        words_that_differ(got->logits, want->logits, LF_EXACT_VOCAB, sizeof(float)),
                        LF_EXACT_VOCAB,
                        words_that_differ(got->tap, want->tap, sizeof got->tap / 2, 2),
                        LF_EXACT_TAPS * LF_EXACT_TAP_SIZE,
                        memcmp(got->digest, want->digest, sizeof got->digest) ? "too" : "do not");
}

void lf_outcome_state(struct lf_target *target, uint32_t slot, struct lf_outcome *out) {
    const struct lf_v41 *m = (const struct lf_v41 *)target;
    const struct lf_state *s = &m->state[slot];
    struct lf_error err = LF_ERROR_INIT;
    uint64_t ring = m->shape.ring_rows;
    out->length = s->length;
    memset(out->tap, 0, sizeof out->tap);
    // Rows before taps_from ran without taps: only a restored slot has such within reach.
    for (uint64_t i = 1; i <= LF_EXACT_TAPS && i <= s->length - s->taps_from; i++)
        lf_exact_read(target, out->tap[i - 1],
                      s->taps + (s->length - i) % ring * LF_EXACT_TAP_SIZE, sizeof out->tap[0]);
    lf_exact_must(target->ops->digest(target, slot, out->digest, &err), &err);
}

void lf_outcome_read(struct lf_target *target, uint32_t slot, struct lf_outcome *out) {
    memcpy(out->logits, lf_model_logits(target, slot, 0), sizeof out->logits);
    lf_outcome_state(target, slot, out);
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

int lf_exact_main(int argc, char **argv, const struct CMUnitTest *test, size_t n,
                  CMFixtureFunction open, CMFixtureFunction close) {
    for (int i = 1; i + 1 < argc; i += 2) {
        if (!strcmp(argv[i], "--test"))
            cmocka_set_test_filter(argv[i + 1]);
        else if (!strcmp(argv[i], "--expect-red"))
            expected = argv[i + 1];
        else if (!strcmp(argv[i], "--device"))
            device = argv[i + 1];
    }
    int failed = _cmocka_run_group_tests(argv[0], test, n, open, close);
    // A check that turns red leaves its test at once and frees nothing: no leak counts then.
    if (expected) {
        fflush(NULL);
        _Exit(differed ? 0 : 1);
    }
    return failed;
}
