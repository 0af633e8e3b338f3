// Gate 2: rows do not see each other; nor threads, places, addresses, sets (kernel-contract.md 3).
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/error.h"
#include "contract/gates.h"
#include "contract/launch.h"

enum { SOURCES = 7, REPEATED_ROWS = 8 };

// What all launches of a shape are held against: each source row alone on the base set.
struct bench {
    struct lf_trial *trial;
    struct lf_problem *problem;
    struct lf_launch *alone[SOURCES];
    uint32_t sources, turn; // turn: launches so far
};

static void compare_row(struct bench *b, struct lf_launch *launch, uint32_t operand,
                        uint32_t place) {
    const struct lf_operand *o = &b->problem->operand[operand];
    const struct lf_launch *alone = b->alone[launch->source[place]];
    size_t each = lf_type_bytes(o->type), unlike = 0, first = 0;
    const uint8_t *got = lf_call_at(&launch->call, operand, place, 0);
    const uint8_t *want = lf_call_at(&alone->call, operand, 0, 0);
    b->trial->outcome->compared += o->n;
    if (!memcmp(got, want, o->n * each))
        return;
    for (size_t c = o->n; c-- > 0;)
        if (memcmp(got + c * each, want + c * each, each))
            unlike++, first = c;
    b->trial->outcome->differing += unlike;
    uint64_t wanted = 0;
    char why[80];
    memcpy(&wanted, want + first * each, each);
    snprintf(why, sizeof why, "the row alone (row %u of the problem) gives this",
             launch->source[place]);
    lf_expect_bits(&launch->call, operand, place, first, wanted, why);
}

static void compare(struct bench *b, struct lf_launch *launch) {
    for (uint32_t i = 0; i < b->trial->record->operands; i++)
        for (uint32_t place = 0; place < launch->call.rows; place++)
            if (lf_operand_is_result(&b->problem->operand[i]) &&
                launch->source[place] != LF_NO_ROW)
                compare_row(b, launch, i, place);
}

static void run(struct bench *b, uint32_t rows, const uint32_t *source, struct lf_layout layout) {
    struct lf_launch *launch = lf_launch_open(b->problem, rows, source, layout);
    b->trial->threads = b->turn++ % LF_TRIAL_THREADS;
    lf_launch_run(launch);
    compare(b, launch);
    lf_launch_close(launch);
}

// A permutation of the sources, repeated; beside hostile rows at every second place if asked.
static void run_count(struct bench *b, uint32_t rows, bool hostile) {
    struct lf_check_rng rng = {b->trial->seed ^ rows << 1 ^ hostile};
    uint32_t *source = malloc(rows * sizeof *source);
    LF_ASSERT(source);
    for (uint32_t place = 0; place < rows; place++)
        source[place] = (place + rows) % b->sources;
    for (uint32_t place = rows; place > 1; place--) {
        uint32_t other = lf_check_below(&rng, place), held = source[place - 1];
        source[place - 1] = source[other], source[other] = held;
    }
    for (uint32_t place = rows / 2 % 2; hostile && place < rows; place += 2)
        source[place] = LF_NO_ROW;
    struct lf_layout layout = LF_LAYOUT_PLAIN;
    layout.tail += 7 * b->turn % 64; // addresses move by bytes where the operand allows
    run(b, rows, source, layout);
    for (int again = 0; rows == REPEATED_ROWS && again < 2; again++)
        run(b, rows, source, layout);
    free(source);
}

static bool may_share(const struct lf_problem *p) {
    for (uint32_t i = 0; i < p->trial->record->operands; i++)
        if (p->operand[i].n && p->operand[i].may_be)
            return true;
    return false;
}

static void run_set(struct bench *b, const struct lf_shape *shape) {
    // The most telling ones first, for when there is little to spend.
    static const uint32_t counts[] = {1,  2,  3,  17, 8,  33, 5,  16,  64,  4,
                                      6,  7,  12, 24, 32, 48, 100, 512, 900, 2048};
    uint64_t left = b->trial->effort.rows / lf_shape_work(b->trial->record, shape);
    struct lf_layout shared = LF_LAYOUT_PLAIN;
    shared.shared = true;
    b->turn = 0;
    if (may_share(b->problem))
        run(b, 3 < shape->rows ? 3 : shape->rows, NULL, shared);
    for (uint32_t i = 0; i <= sizeof counts / sizeof *counts; i++) {
        uint32_t rows = i < sizeof counts / sizeof *counts ? counts[i] : shape->rows;
        bool few = rows <= 3; // visited whatever they cost
        if (lf_trial_failed(b->trial) || rows > shape->rows || (!few && 2 * rows > left))
            continue;
        run_count(b, rows, false);
        if (!lf_trial_failed(b->trial) && rows > 1)
            run_count(b, rows, true);
        left = 2 * rows < left ? left - 2 * rows : 0;
    }
}

// Portable, but for sums that CUDA has of its own.
static uint32_t base_set(const struct lf_trial *trial, const struct lf_shape *shape) {
    return lf_trial_own_sums(trial, shape) ? (uint32_t)LF_SET_CUDA : (uint32_t)LF_ISA_PORTABLE;
}

static void run_style(struct lf_trial *trial, const struct lf_shape *shape,
                      enum lf_check_style style) {
    uint64_t most = trial->effort.rows / lf_shape_work(trial->record, shape);
    struct bench b = {.trial = trial, .sources = most < 64 ? 3 : SOURCES};
    b.problem = lf_problem_open(trial, shape, b.sources, style);
    trial->threads = 0;
    trial->set = base_set(trial, shape);
    for (uint32_t row = 0; row < b.sources; row++) {
        b.alone[row] = lf_launch_open(b.problem, 1, &row, LF_LAYOUT_PLAIN);
        lf_launch_run(b.alone[row]);
    }
    for (uint32_t set = LF_ISA_PORTABLE; set < LF_SETS; set++)
        if (trial->sets >> set & 1 && !lf_trial_failed(trial)) {
            trial->set = set;
            // Weights of any alignment at an odd address for every second set.
            lf_problem_place(b.problem, (struct lf_layout){.tail = LF_CHECK_GUARD + 3 * set});
            run_set(&b, shape);
        }
    for (uint32_t row = 0; row < b.sources; row++)
        lf_launch_close(b.alone[row]);
    lf_problem_close(b.problem);
}

void lf_gate_rows(struct lf_trial *trial, const struct lf_shape *shape) {
    run_style(trial, shape, LF_STYLE_WIDE);
    for (uint32_t set = LF_ISA_PORTABLE; set < LF_SETS; set++)
        if (trial->record->windows && trial->sets >> set & 1 && !lf_trial_failed(trial)) {
            trial->set = set;
            trial->record->windows(trial, shape);
        }
}
