#include "exact.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Windows of 1 .. 16 rows with every keep length advance by 816 rows in all.
enum { FIRST = 3, STEPS = 816 };

static struct lf_exact exact;
static struct lf_target *target;
static struct lf_outcome *serial; // [STEPS]: row FIRST + i in a round of its own

static int open_all(void **state) {
    (void)state;
    lf_exact_open(&exact);
    target = lf_exact_target(&exact, &(struct lf_model_options){.slots = 1});
    serial = malloc(STEPS * sizeof *serial);
    assert_non_null(serial);
    lf_exact_prefill(target, 0, exact.ids, FIRST, (struct lf_cut){.rows = FIRST}, NULL, 0);
    for (uint32_t i = 0; i < STEPS; i++) {
        lf_exact_round(target, 0, FIRST + i, exact.ids[FIRST + i], serial[i].logits);
        lf_outcome_state(target, 0, &serial[i]);
    }
    return 0;
}

static int close_all(void **state) {
    (void)state;
    free(serial);
    target->ops->close(target);
    lf_exact_close(&exact);
    return 0;
}

// Rows past the kept ones hold tokens of no sense: they must leave nothing behind.
static void advance(uint32_t at, uint32_t rows, uint32_t kept) {
    struct lf_error err = LF_ERROR_INIT;
    struct lf_sampling greedy = {0};
    uint32_t token[LF_WINDOW_MAX], drawn[LF_WINDOW_MAX];
    static struct lf_outcome got;
    char what[96];
    for (uint32_t i = 0; i < rows; i++)
        token[i] = i < kept ? exact.ids[FIRST + at + i] : (at + 97 * i) % LF_EXACT_VOCAB;
    struct lf_window w = {.rows = rows, .pos0 = FIRST + at, .tok = token, .rule = &greedy};
    lf_exact_must(target->ops->verify(target, &w, 1, drawn, &err), &err);
    for (uint32_t i = 0; i < kept; i++)
        if (memcmp(lf_model_logits(target, 0, i), serial[at + i].logits, sizeof serial->logits))
            lf_exact_differ("logits", "position %u: row %u of a window of %u and its round alone",
                            FIRST + at, i, rows);
    memcpy(got.logits, lf_model_logits(target, 0, kept - 1), sizeof got.logits);
    lf_exact_must(target->ops->keep(target, &w, &kept, 1, &err), &err);
    lf_outcome_state(target, 0, &got);
    snprintf(what, sizeof what, "position %u, %u of %u rows kept", FIRST + at, kept, rows);
    lf_outcome_same(what, &got, &serial[at + kept - 1]);
}

static void start(void) {
    lf_exact_prefill(target, 0, exact.ids, FIRST, (struct lf_cut){.rows = FIRST}, NULL, 0);
}

// engine.md 9.3: drafted == plain
static void windows_of_every_size_and_keep_have_the_bits_of_one_row_rounds(void **state) {
    uint32_t at = 0;
    (void)state;
    start();
    for (uint32_t rows = 1; rows <= LF_WINDOW_MAX; rows++)
        for (uint32_t kept = 1; kept <= rows; at += kept, kept++)
            advance(at, rows, kept);
    assert_int_equal(at, STEPS);
}

// The same from the largest down: other parities, other places at the window and page edges.
static void the_same_in_falling_sizes(void **state) {
    uint32_t at = 0;
    (void)state;
    start();
    for (uint32_t rows = LF_WINDOW_MAX; rows >= 1; rows--)
        for (uint32_t kept = rows; kept >= 1; at += kept, kept--)
            advance(at, rows, kept);
    assert_int_equal(at, STEPS);
}

// The worst case for rings: always the whole window, always only its first row kept.
static void full_windows_that_keep_one_row(void **state) {
    (void)state;
    start();
    for (uint32_t at = 0; at < 80; at++)
        advance(at, LF_WINDOW_MAX, 1);
}

// lf_model_score gives every row's logits and commits the rows.
static void scored_rows_have_the_bits_of_one_row_rounds(void **state) {
    enum { ROWS = 64 };
    struct lf_error err = LF_ERROR_INIT;
    static struct lf_outcome got;
    float *logits = malloc(sizeof *logits * ROWS * LF_EXACT_VOCAB);
    (void)state;
    assert_non_null(logits);
    start();
    for (uint32_t at = 0; at < 3 * ROWS; at += ROWS) {
        struct lf_chunk chunk = {.rows = ROWS, .pos0 = FIRST + at, .tok = exact.ids + FIRST + at};
        lf_exact_must(lf_model_score(target, &chunk, logits, &err), &err);
        for (uint32_t i = 0; i < ROWS; i++)
            if (memcmp(logits + (size_t)i * LF_EXACT_VOCAB, serial[at + i].logits,
                       sizeof serial->logits))
                lf_exact_differ("logits", "position %u: the scored logits", FIRST + at + i);
        memcpy(got.logits, serial[at + ROWS - 1].logits, sizeof got.logits);
        lf_outcome_state(target, 0, &got);
        lf_outcome_same("scored rows", &got, &serial[at + ROWS - 1]);
    }
    free(logits);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(windows_of_every_size_and_keep_have_the_bits_of_one_row_rounds),
        cmocka_unit_test(the_same_in_falling_sizes),
        cmocka_unit_test(full_windows_that_keep_one_row),
        cmocka_unit_test(scored_rows_have_the_bits_of_one_row_rounds),
    };
    return lf_exact_main(argc, argv, tests, sizeof tests / sizeof *tests, open_all, close_all);
}
