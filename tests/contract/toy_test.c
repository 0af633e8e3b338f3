// Does the tool see what it must: every fault class red, blind limits missed, crashes not red?
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "contract/contract.h"
#include "toy.h"

enum { X, W, Y, OPERANDS };

static void ragged(struct lf_shapes *shapes) {
    struct lf_toy_args args = {.pairs = 9};
    lf_shapes_add(shapes, 64, &args, sizeof args, "toy %u", args.pairs);
}

static void describe(const void *args, struct lf_operand *o) {
    const struct lf_toy_args *a = args;
    o[X] = lf_operand("x", LF_IN, LF_F32, 2 * (size_t)a->pairs);
    o[W] = lf_operand("w", LF_WEIGHT, LF_F32, 2 * (size_t)a->pairs);
    o[Y] = lf_operand("y", LF_OUT, LF_BF16, a->pairs);
}

static void bind(const struct lf_call *call, void *args) {
    struct lf_toy_args *a = args;
    a->rows = call->rows, a->x = call->data[X], a->w = call->data[W], a->y = call->data[Y];
}

static void call_toy(lf_any_fn *fn, struct lf_device *device, const void *args) {
    ((void (*)(struct lf_device *, const struct lf_toy_args *))fn)(device, args);
}

static void reference(const void *args, double *out) {
    const struct lf_toy_args *a = args;
    for (size_t i = 0; i < (size_t)a->rows * a->pairs; i++)
        out[i] = (double)a->x[2 * i] * (double)a->w[2 * (i % a->pairs)] +
                 (double)a->x[2 * i + 1] * (double)a->w[2 * (i % a->pairs) + 1];
}

static void add_error(const struct lf_toy_args *a, double times, const double *ref, double *error) {
    for (size_t i = 0; i < (size_t)a->rows * a->pairs; i++) {
        double sum = fabs((double)a->x[2 * i] * (double)a->w[2 * (i % a->pairs)]) +
                     fabs((double)a->x[2 * i + 1] * (double)a->w[2 * (i % a->pairs) + 1]);
        error[i] = lf_check_gamma(2) * sum + 0x1p-148;
        error[i] = times * error[i] + (times - 1) * lf_check_half_bf16(fabs(ref[i]));
    }
}

static void bound(const void *args, const double *ref, double *error) {
    add_error(args, 1, ref, error);
}

static void wide_bound(const void *args, const double *ref, double *error) {
    add_error(args, 10, ref, error);
}

static const struct lf_control all[] = {
    {1, "a term lost", LF_GATE_BOUND, 0},
    {2, "the row at place 5 doubled", LF_GATE_ROWS, 0},
    {3, "a write past the end", LF_GATE_MEMORY, 0},
    {4, "a NaN becomes 0", LF_GATE_EDGES, 0},
    {8, "the last output left", LF_GATE_MEMORY, 0},
    {9, "an input changed", LF_GATE_MEMORY, 0},
    {10, "a weight changed", LF_GATE_MEMORY, 0},
    {11, "one spacing too much", LF_GATE_BOUND, 0},
};

static struct lf_record toy_record(const struct lf_control *controls, uint32_t n) {
    return (struct lf_record){
        .name = "toy", .file = "tests/contract/toy_cpu.c", .contract = "y = bf(x . w)",
        .operands = OPERANDS, .ragged = ragged, .describe = describe, .bind = bind,
        .bound = bound, .hostile = 1, .stack_bytes = 4096, .controls = controls, .n_controls = n};
}

// What the tool said and found; text is the caller's to free.
struct said {
    struct lf_contract_result result;
    enum lf_status status;
    struct lf_error err;
    char *text;
};

static struct said run(const struct lf_contract_table *table,
                       const struct lf_contract_options *options) {
    struct said said = {.err = LF_ERROR_INIT};
    struct lf_contract_options own = *options;
    size_t bytes;
    own.out = open_memstream(&said.text, &bytes);
    assert_non_null(own.out);
    said.status = lf_contract_run(table, &own, &said.result, &said.err);
    fclose(own.out);
    return said;
}

static void close_said(struct said *said) {
    lf_contract_free(&said->result);
    free(said->text);
}

// One function serves every set of this processor.
static struct lf_entry toy_entry(void) {
    struct lf_entry entry = {.name = "toy", .call = call_toy, .reference = reference};
    for (enum lf_isa isa = LF_ISA_PORTABLE; isa < LF_ISAS; isa++)
        entry.fn[isa] = lf_isa_present(isa) ? (lf_any_fn *)lf_toy_portable : NULL;
    return entry;
}

static struct said run_record(const struct lf_record *record,
                              const struct lf_contract_options *options) {
    struct lf_entry entry = toy_entry();
    return run(&(struct lf_contract_table){&entry, 1, &record, 1}, options);
}

static struct lf_contract_options toy_options(void) {
    struct lf_contract_options options = lf_contract_defaults();
    options.faults = TOY_FAULTS;
    options.sets = 1u << LF_ISA_PORTABLE;
    options.effort = LF_EFFORT_QUICK;
    options.control_limit_s = 2;
    return options;
}

static void a_fault_of_every_class_turns_its_gate_red_and_the_toy_passes(void **state) {
    (void)state;
    enum { N = sizeof all / sizeof *all };
    struct lf_record record = toy_record(all, N);
    struct lf_contract_options options = toy_options();
    struct said said = run_record(&record, &options);
    assert_int_equal(said.status, LF_OK);
    assert_int_equal(said.result.passed, 1);
    assert_int_equal(said.result.controls, N);
    if (said.result.red != N)
        fail_msg("%s", said.text);
    assert_true(lf_contract_passed(&said.result));
    close_said(&said);
}

// Runs one control and expects that it is missed, with these words in its line.
static void expect_missed(uint32_t number, uint32_t red_in, const char *words, bool wide) {
    struct lf_control control = {number, "planted", red_in, 0};
    struct lf_record record = toy_record(&control, 1);
    struct lf_contract_options options = toy_options();
    if (wide)
        record.bound = wide_bound;
    struct said said = run_record(&record, &options);
    assert_int_equal(said.status, LF_OK);
    assert_int_equal(said.result.passed, 1);
    assert_int_equal(said.result.red, 0);
    assert_false(lf_contract_passed(&said.result));
    if (!strstr(said.text, "MISSED") || !strstr(said.text, words))
        fail_msg("%s", said.text);
    close_said(&said);
}

static void a_limit_ten_times_too_wide_misses_its_control(void **state) {
    (void)state;
    expect_missed(11, LF_GATE_BOUND, "passed", true);
}

static void a_fault_that_changes_nothing_is_missed(void **state) {
    (void)state;
    expect_missed(5, LF_GATE_BOUND, "passed", false);
}

static void a_fault_that_shows_in_another_gate_only_is_missed(void **state) {
    (void)state;
    expect_missed(3, LF_GATE_BOUND, "passed", false);
    expect_missed(1, LF_GATE_BOUND | LF_GATE_ROWS, "passed", false);
}

static void a_crash_or_a_hang_of_a_control_is_not_red(void **state) {
    (void)state;
    expect_missed(6, LF_GATE_BOUND, "it crashed", false);
    expect_missed(7, LF_GATE_BOUND, "it did not end in time", false);
}

static void a_module_that_is_not_there_is_missed(void **state) {
    (void)state;
    expect_missed(99, LF_GATE_BOUND, "no module", false);
}

static void a_kernel_without_a_record_and_a_record_without_a_kernel_are_reported(void **state) {
    (void)state;
    struct lf_record toy = toy_record(NULL, 0), other = toy;
    const struct lf_record *records[] = {&toy, &other};
    struct lf_contract_options options = toy_options();
    struct lf_entry entry = toy_entry();
    other.name = "stranger";
    struct said said = run(&(struct lf_contract_table){&entry, 1, records, 0}, &options);
    assert_non_null(strstr(said.text, "UNREGISTERED toy: no record"));
    assert_int_equal(said.result.limit_problems, 1);
    assert_false(lf_contract_passed(&said.result));
    close_said(&said);
    said = run(&(struct lf_contract_table){&entry, 1, records, 2}, &options);
    assert_non_null(strstr(said.text, "UNREGISTERED stranger: not in the launch table"));
    assert_int_equal(said.result.limit_problems, 1);
    assert_int_equal(said.result.records, 1);
    close_said(&said);
}

static void a_filter_that_selects_nothing_is_wrong_use(void **state) {
    (void)state;
    static const char *const only[] = {"toys"};
    struct lf_record record = toy_record(NULL, 0);
    struct lf_contract_options options = toy_options();
    options.only = only, options.n_only = 1;
    struct said said = run_record(&record, &options);
    assert_int_equal(said.status, LF_E_USAGE);
    assert_null(strstr(said.text, "SUMMARY"));
    close_said(&said);
}

// The last line by the documented form; the words of a partial run where one was asked.
static void check_summary(const struct lf_contract_options *options, const char *form) {
    struct lf_record record = toy_record(all, 1);
    struct said said = run_record(&record, options);
    char *last = strstr(said.text, "SUMMARY"), expected[300];
    double gates, limits;
    assert_non_null(last);
    assert_int_equal(strchr(last, '\n')[1], 0);
    char *times = strstr(last, "gates ");
    while (strstr(times + 1, "gates "))
        times = strstr(times + 1, "gates ");
    assert_int_equal(sscanf(times, "gates %lf ms, limits %lf ms", &gates, &limits), 2);
    snprintf(expected, sizeof expected,
             "SUMMARY cpu: 1 kernels: %s; gates %.0f ms, limits %.0f ms\n", form, gates, limits);
    assert_string_equal(last, expected);
    close_said(&said);
}

static void the_summary_has_the_documented_form_and_says_what_was_not_run(void **state) {
    (void)state;
    struct lf_contract_options options = toy_options();
    check_summary(&options, "1 pass gates 1-4, 0 fail, 0 known findings; 1 controls: 1 red as "
                            "planted, 0 missed; 0 limit problems");
    options.faults = NULL;
    check_summary(&options, "1 pass gates 1-4, 0 fail, 0 known findings; controls not run; 0 limit "
                            "problems");
    options.gates = LF_GATE_BOUND | LF_GATE_ROWS, options.limits = false;
    check_summary(&options, "1 pass gates 1,2 only, 0 fail, 0 known findings; controls not run; "
                            "limits not run");
    options.gates = 0, options.limits = true;
    check_summary(&options, "gates not run; controls not run; 0 limit problems");
}

static size_t much_scratch(const void *args) {
    (void)args;
    return 1 << 30;
}

static uint32_t wide_products(const void *args, uint32_t rows, struct lf_product *product) {
    (void)args;
    product[0] = (struct lf_product){"rows in a byte", rows, 8};
    product[1] = (struct lf_product){"elements", (uint64_t)rows << 27, 32};
    return 2;
}

static void what_passes_a_device_is_a_limit_problem_with_both_numbers(void **state) {
    (void)state;
    struct lf_record record = toy_record(NULL, 0);
    struct lf_contract_options options = toy_options();
    options.gates = 0;
    record.stack_bytes = 1 << 20, record.scratch = much_scratch, record.products = wide_products;
    struct said said = run_record(&record, &options);
    assert_false(lf_contract_passed(&said.result));
    assert_non_null(strstr(said.text, "LIMIT toy on x86-64: stack bytes 1048576, limit 131072"));
    assert_non_null(strstr(said.text, "LIMIT toy on x86-64 AVX2: elements 8589934592, limit "
                                      "4294967295"));
    assert_non_null(strstr(said.text, "scratch bytes a thread 1073741824, limit "));
    assert_null(strstr(said.text, "rows in a byte"));
    close_said(&said);
}

static bool covers_last(const void *args, uint32_t operand, uint32_t row, size_t column) {
    (void)row;
    return operand == Y && column + 1 == ((const struct lf_toy_args *)args)->pairs;
}

// A kernel that is wrong in the last column only.
static void wrong_last(struct lf_device *device, const struct lf_toy_args *a) {
    lf_toy_portable(device, a);
    for (uint32_t row = 0; row < a->rows; row++)
        a->y[(size_t)(row + 1) * a->pairs - 1] = 0x4200;
}

static void a_known_finding_is_counted_apart_and_covers_its_elements_only(void **state) {
    (void)state;
    static const struct lf_finding finding = {"F-1", "the last column", covers_last};
    struct lf_record record = toy_record(NULL, 0);
    const struct lf_record *records[] = {&record};
    struct lf_entry entry = toy_entry();
    struct lf_contract_options options = toy_options();
    options.gates = LF_GATE_BOUND;
    entry.fn[LF_ISA_PORTABLE] = (lf_any_fn *)wrong_last;
    struct said said = run(&(struct lf_contract_table){&entry, 1, records, 1}, &options);
    assert_int_equal(said.result.failed, 1);
    close_said(&said);
    record.findings = &finding, record.n_findings = 1;
    said = run(&(struct lf_contract_table){&entry, 1, records, 1}, &options);
    assert_int_equal(said.result.failed, 0);
    assert_int_equal(said.result.findings, 1);
    assert_int_equal(said.result.passed, 0);
    assert_non_null(strstr(said.text, "FINDING F-1"));
    close_said(&said);
}

static void the_same_seed_gives_the_same_operands(void **state) {
    (void)state;
    struct lf_record record = toy_record(NULL, 0);
    struct lf_contract_options options = toy_options();
    struct said a = run_record(&record, &options), b = run_record(&record, &options);
    assert_true(a.result.record->outcome.worst == b.result.record->outcome.worst);
    close_said(&b);
    options.seed++;
    b = run_record(&record, &options);
    assert_true(a.result.record->outcome.worst != b.result.record->outcome.worst);
    close_said(&a);
    close_said(&b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_fault_of_every_class_turns_its_gate_red_and_the_toy_passes),
        cmocka_unit_test(a_limit_ten_times_too_wide_misses_its_control),
        cmocka_unit_test(a_fault_that_changes_nothing_is_missed),
        cmocka_unit_test(a_fault_that_shows_in_another_gate_only_is_missed),
        cmocka_unit_test(a_crash_or_a_hang_of_a_control_is_not_red),
        cmocka_unit_test(a_module_that_is_not_there_is_missed),
        cmocka_unit_test(a_kernel_without_a_record_and_a_record_without_a_kernel_are_reported),
        cmocka_unit_test(a_filter_that_selects_nothing_is_wrong_use),
        cmocka_unit_test(the_summary_has_the_documented_form_and_says_what_was_not_run),
        cmocka_unit_test(what_passes_a_device_is_a_limit_problem_with_both_numbers),
        cmocka_unit_test(a_known_finding_is_counted_apart_and_covers_its_elements_only),
        cmocka_unit_test(the_same_seed_gives_the_same_operands),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
