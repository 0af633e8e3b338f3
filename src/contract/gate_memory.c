// Gate 3: guards, outputs written in full, inputs kept, scratch and stack as declared (4).
#include <string.h>
#include "base/error.h"
#include "contract/gates.h"
#include "contract/launch.h"

enum { PATTERN_A = 0x5A, PATTERN_B = 0xC3, NAN_BYTE = 0xFF };

// Bytes of a result that were not written: as the pattern or the input was.
static const uint8_t *untouched(const struct lf_launch *launch, uint32_t operand, uint32_t row,
                                size_t column, uint8_t *pattern) {
    const struct lf_operand *o = &launch->problem->operand[operand];
    size_t each = lf_type_bytes(o->type);
    memset(pattern, launch->layout.pattern, each);
    if (o->role == LF_OUT)
        return pattern;
    return launch->before[operand] + (row * lf_operand_pitch(o) + column) * each;
}

// a and b hold different patterns: a declared element came out the same, no other one changed.
static void check_written(struct lf_launch *a, struct lf_launch *b, uint32_t operand) {
    const struct lf_record *record = a->call.trial->record;
    const struct lf_operand *o = &a->problem->operand[operand];
    size_t each = lf_type_bytes(o->type);
    uint8_t pattern[8];
    for (uint32_t row = 0; row < a->call.rows; row++)
        for (size_t c = 0; c < o->n && !lf_trial_failed(a->call.trial); c++) {
            const void *in_a = lf_call_at(&a->call, operand, row, c);
            const void *in_b = lf_call_at(&b->call, operand, row, c);
            if (record->written && !record->written(a->call.args, operand, row, c))
                lf_expect(&a->call, !memcmp(in_a, untouched(a, operand, row, c, pattern), each),
                          operand, row, c, "an element that is not an output was written");
            else
                lf_expect(&a->call, !memcmp(in_a, in_b, each), operand, row, c,
                          "it depends on what the output held before");
        }
}

static void check_same(struct lf_launch *a, struct lf_launch *b, const char *why) {
    for (uint32_t i = 0; i < a->call.trial->record->operands; i++) {
        const struct lf_operand *o = &a->problem->operand[i];
        size_t each = lf_type_bytes(o->type);
        for (uint32_t row = 0; lf_operand_is_result(o) && row < a->call.rows; row++)
            for (size_t c = 0; c < o->n && !lf_trial_failed(a->call.trial); c++)
                lf_expect(&b->call, !memcmp(lf_call_at(&a->call, i, row, c),
                                            lf_call_at(&b->call, i, row, c), each),
                          i, row, c, why);
    }
}

static struct lf_launch *run(struct lf_problem *problem, uint32_t rows, struct lf_layout layout) {
    struct lf_launch *launch = lf_launch_open(problem, rows, NULL, layout);
    lf_launch_run(launch);
    lf_launch_check_memory(launch);
    return launch;
}

// Guard bands first, so that a stray write shows as a value; then ends at unreadable pages or NaN.
static void run_rows(struct lf_problem *problem, uint32_t rows) {
    struct lf_trial *trial = problem->trial;
    struct lf_layout a = LF_LAYOUT_PLAIN, b = a, end = a, front = a;
    a.pattern = PATTERN_A, b.pattern = PATTERN_B;
    end.tail = 0, front.tail = 0, front.front = true;
    end.guard = front.guard = NAN_BYTE;
    lf_problem_place(problem, a);
    struct lf_launch *with_a = run(problem, rows, a), *with_b = run(problem, rows, b);
    for (uint32_t i = 0; i < trial->record->operands && !lf_trial_failed(trial); i++)
        if (lf_operand_is_result(&problem->operand[i]))
            check_written(with_a, with_b, i);
    for (int i = 0; i < 2 && !lf_trial_failed(trial); i++) {
        struct lf_layout layout = i ? front : end;
        lf_problem_place(problem, layout);
        struct lf_launch *launch = run(problem, rows, layout);
        check_same(with_a, launch, i ? "it depends on what lies before an operand"
                                     : "it depends on what lies past an operand");
        lf_launch_close(launch);
    }
    lf_launch_close(with_a);
    lf_launch_close(with_b);
}

// A sanitizer's frames are larger than those that are served, and it watches its stacks itself.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { STACK_COUNTS = 0 };
#else
enum { STACK_COUNTS = 1 };
#endif

static void check_stack(struct lf_problem *problem, uint32_t rows) {
    struct lf_trial *trial = problem->trial;
    struct lf_launch *launch = lf_launch_open(problem, rows, NULL, LF_LAYOUT_PLAIN);
    size_t bytes = lf_stack_measure(launch);
    if (bytes > trial->outcome->stack_bytes)
        trial->outcome->stack_bytes = bytes;
    if (bytes > trial->record->stack_bytes)
        lf_trial_fail(trial, "%zu bytes of stack, %zu are declared", bytes,
                      trial->record->stack_bytes);
    lf_launch_close(launch);
}

void lf_gate_memory(struct lf_trial *trial, const struct lf_shape *shape) {
    static const uint32_t counts[] = {1, 3, 17};
    uint64_t most = trial->effort.bound / lf_shape_work(trial->record, shape);
    struct lf_problem *problem = lf_problem_open(trial, shape, 3, LF_STYLE_NORMAL);
    for (uint32_t set = LF_ISA_PORTABLE; set < LF_SETS; set++) {
        if (!(trial->sets >> set & 1))
            continue;
        trial->set = set;
        for (uint32_t i = 0; i < sizeof counts / sizeof *counts; i++) {
            bool cheap = i == 0 || counts[i] <= most;
            if (lf_trial_failed(trial) || counts[i] > shape->rows || !cheap)
                continue;
            trial->threads = i % LF_TRIAL_THREADS;
            run_rows(problem, counts[i]);
        }
        if (STACK_COUNTS && set != LF_SET_CUDA && !lf_trial_failed(trial))
            check_stack(problem, 1);
    }
    lf_problem_close(problem);
}
