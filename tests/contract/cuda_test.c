// The records on the CUDA column, as the host plays it: what a device run asks, but for the device.
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>
#include "cuda_run.h"
#include "host_cuda.h"
#include "wrong_cuda.h"

enum {
#define LF_KERNEL(name) KERNEL_##name,
#include "kernel/registry.def"
#undef LF_KERNEL
    RECORDS
};

static void expect_passed(struct lf_contract_options options, uint32_t records) {
    struct lf_contract_result result;
    char *text = cuda_run(&options, &result, LF_OK);
    if (!lf_contract_passed(&result) || result.passed != records)
        fail_msg("%s", text);
    assert_non_null(strstr(text, "SUMMARY cuda: "));
    // A record without a shape would pass; index_score's are asked for on their own.
    for (uint32_t i = 0; i < result.records; i++)
        if (records == 1 || strcmp(result.record[i].record->name, "index_score") != 0)
            assert_true(result.record[i].shapes.n > 0);
    lf_contract_free(&result);
    free(text);
}

static void every_record_passes_its_gates_on_the_cuda_column(void **state) {
    (void)state;
    static const char *const costly[] = {"index_score"};
    struct lf_contract_options options = cuda_options(5000);
    options.only = costly, options.n_only = 1;
    expect_passed(options, 1);
    expect_passed(cuda_options(3900), RECORDS);
}

// Shapes of more than a part of K, in every format.
static void linear_has_the_bits_of_its_steps_and_keeps_their_bound(void **state) {
    (void)state;
    static const char *const only[] = {"linear"};
    struct lf_contract_options options = cuda_options(500000);
    options.only = only, options.n_only = 1;
    options.effort.bound = options.effort.rows = 500000;
    expect_passed(options, 1);
}

// Blocks that are used again, between guard bytes of their own.
static void records_pass_in_memory_that_a_device_shares(void **state) {
    (void)state;
    static const char *const only[] = {"rms_norm", "cache_pack", "rope", "attention"};
    struct lf_contract_options options = cuda_options(3900);
    options.only = only, options.n_only = 4;
    options.plain_memory = false;
    expect_passed(options, 4);
}

// The limits of one record over a wrapper that stands in for the served one; what must be said.
static void expect_breach(const char *kernel, lf_wrong_wrapper *wrong, const char *line) {
    static struct lf_entry entry[LF_ENTRIES_MAX];
    struct lf_contract_options options = cuda_options(0);
    struct lf_contract_table table;
    struct lf_contract_result result;
    lf_contract_table_fill(&table, entry);
    for (uint32_t i = 0; i < table.entries; i++)
        if (wrong && !strcmp(entry[i].name, kernel))
            entry[i].fn[LF_SET_CUDA] = (lf_any_fn *)wrong;
    options.only = &kernel, options.n_only = 1;
    options.gates = 0;
    char *text = cuda_run_table(&table, &options, &result, LF_OK);
    if (lf_contract_passed(&result) || !strstr(text, line))
        fail_msg("%s: not said in:\n%s", line, text);
    lf_contract_free(&result);
    free(text);
}

static void launches_that_no_device_could_make_are_limit_problems(void **state) {
    (void)state;
    expect_breach("rms_norm", lf_wrong_rows_y, "LIMIT rms_norm on CUDA 9.0: grid y of a launch of "
                                               "wrong 131072, limit 65535");
    expect_breach("rms_norm", lf_wrong_planes, "grid z of a launch of wrong 65536, limit 65535");
    expect_breach("rms_norm", lf_wrong_threads, "threads of a launch of wrong 2048, limit 1024");
    expect_breach("rms_norm", lf_wrong_shared, "shared bytes of a launch of wrong 232449, limit "
                                               "232448");
    host_cuda.registers = 72;
    expect_breach("index_select", NULL, "LIMIT index_select on CUDA 9.0: registers of a launch of "
                                        "index_select 73728, limit 65536");
    host_cuda.registers = 0;
}

static void a_wrapper_that_ends_the_process_is_a_limit_problem(void **state) {
    (void)state;
    expect_breach("rms_norm", lf_wrong_end, "LIMIT rms_norm: looking at its launches: it crashed");
}

static uint32_t wide_products(const void *args, uint32_t rows, struct lf_product *product) {
    const struct lf_rms_norm_args *a = args;
    product[0] = (struct lf_product){"elements", (uint64_t)rows * a->dim << 8, 32};
    return 1;
}

// At the longest chunk of the release.
static void an_address_product_past_its_bits_is_a_limit_problem(void **state) {
    (void)state;
    static struct lf_entry entry[LF_ENTRIES_MAX];
    struct lf_contract_options options = cuda_options(0);
    struct lf_contract_table table;
    struct lf_contract_result result;
    lf_contract_table_fill(&table, entry);
    struct lf_record record = *table.record[0];
    for (uint32_t i = 0; i < table.records; i++)
        if (!strcmp(table.record[i]->name, "rms_norm"))
            record = *table.record[i];
    const struct lf_record *records[] = {&record};
    record.cuda_products = wide_products;
    table = (struct lf_contract_table){lf_contract_entry(&table, "rms_norm"), 1, records, 1};
    options.gates = 0;
    char *text = cuda_run_table(&table, &options, &result, LF_OK);
    assert_false(lf_contract_passed(&result));
    assert_non_null(strstr(text, "LIMIT rms_norm on CUDA 9.0: elements 10737418240, limit "
                                 "4294967295"));
    lf_contract_free(&result);
    free(text);
}

// Refused before anything is printed.
static void expect_refused(enum lf_status status) {
    struct lf_contract_options options = cuda_options(0);
    struct lf_contract_result result;
    char *text = cuda_run(&options, &result, status);
    assert_string_equal(text, "");
    lf_contract_free(&result);
    free(text);
}

static void without_a_device_it_says_so_and_runs_nothing(void **state) {
    (void)state;
    host_cuda.devices = 0;
    expect_refused(LF_E_ABSENT);
    host_cuda.devices = 1;
}

static void a_device_of_another_capability_is_refused(void **state) {
    (void)state;
    host_cuda.major = 12;
    expect_refused(LF_E_UNSUPPORTED);
    host_cuda.major = 9;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_record_passes_its_gates_on_the_cuda_column),
        cmocka_unit_test(linear_has_the_bits_of_its_steps_and_keeps_their_bound),
        cmocka_unit_test(records_pass_in_memory_that_a_device_shares),
        cmocka_unit_test(launches_that_no_device_could_make_are_limit_problems),
        cmocka_unit_test(a_wrapper_that_ends_the_process_is_a_limit_problem),
        cmocka_unit_test(an_address_product_past_its_bits_is_a_limit_problem),
        cmocka_unit_test(without_a_device_it_says_so_and_runs_nothing),
        cmocka_unit_test(a_device_of_another_capability_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
