#include "exact.h"

#include <stdio.h>
#include <string.h>

static struct lf_exact exact;

static int open_all(void **state) {
    (void)state;
    lf_exact_open(&exact);
    return 0;
}

static int close_all(void **state) {
    (void)state;
    lf_exact_close(&exact);
    return 0;
}

// A prompt, then a window: many rows and few rows, which threads share out differently.
static void run(const struct lf_model_options *options, uint32_t rows, struct lf_outcome out[4]) {
    struct lf_error err = LF_ERROR_INIT;
    struct lf_sampling greedy = {0};
    struct lf_target *target = lf_exact_target(&exact, options);
    uint32_t drawn[3], kept = 3;
    lf_exact_prefill(target, 0, exact.ids, rows, (struct lf_cut){.rows = rows}, NULL, 0);
    lf_outcome_read(target, 0, &out[0]);
    struct lf_window w = {.rows = 3, .pos0 = rows, .tok = exact.ids + rows, .rule = &greedy};
    lf_exact_must(target->ops->verify(target, &w, 1, drawn, &err), &err);
    for (uint32_t i = 0; i < 3; i++) {
        out[i + 1] = out[0];
        memcpy(out[i + 1].logits, lf_model_logits(target, 0, i), sizeof out->logits);
    }
    lf_exact_must(target->ops->keep(target, &w, &kept, 1, &err), &err);
    lf_outcome_state(target, 0, &out[3]);
    target->ops->close(target);
}

static void compare(const char *what, const struct lf_outcome *got,
                    const struct lf_outcome *want) {
    for (int i = 0; i < 4; i++)
        lf_outcome_same(what, &got[i], &want[i]);
}

// engine.md X-7: --threads must not change bits
static void any_number_of_threads_gives_the_same_bits(void **state) {
    static const uint32_t lengths[] = {1, 34, 263};
    static struct lf_outcome want[4], got[4];
    (void)state;
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        run(&(struct lf_model_options){.slots = 1, .threads = 1}, lengths[i], want);
        for (uint32_t threads = 2; threads <= 7; threads += threads == 3 ? 4 : 1) {
            char what[64];
            snprintf(what, sizeof what, "%u rows, %u threads", lengths[i], threads);
            run(&(struct lf_model_options){.slots = 1, .threads = threads}, lengths[i], got);
            compare(what, got, want);
        }
    }
}

// all sets agree
static void every_instruction_set_gives_the_same_bits(void **state) {
    static const uint32_t lengths[] = {1, 33, 150};
    static struct lf_outcome want[4], got[4];
    (void)state;
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        struct lf_model_options options = {.slots = 1, .isa = LF_ISA_PORTABLE};
        run(&options, lengths[i], want);
        for (enum lf_isa isa = LF_ISA_PORTABLE + 1; isa < LF_ISAS; isa++) {
            char what[64];
            if (!lf_isa_present(isa))
                continue;
            options.isa = isa;
            run(&options, lengths[i], got);
            snprintf(what, sizeof what, "%u rows, portable and %s", lengths[i], lf_isa_name(isa));
            compare(what, got, want);
        }
    }
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_number_of_threads_gives_the_same_bits),
        cmocka_unit_test(every_instruction_set_gives_the_same_bits),
    };
    return lf_exact_main(argc, argv, tests, sizeof tests / sizeof *tests, open_all, close_all);
}
