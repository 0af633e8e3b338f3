// Planted faults of the CUDA column, in the module that tools/contract makes with nvcc: all show.
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>
#include "cuda_run.h"

static void expect_red(const char *const *only, size_t n, struct lf_effort effort,
                       uint32_t controls) {
    struct lf_contract_options options = cuda_options(effort.row_most);
    struct lf_contract_result result;
    options.only = only, options.n_only = n;
    options.effort = effort;
    options.faults = CUDA_FAULTS;
    options.limits = false;
    char *text = cuda_run(&options, &result, LF_OK);
    if (!lf_contract_passed(&result) || result.controls < controls)
        fail_msg("%s", text);
    lf_contract_free(&result);
    free(text);
}

static void faults_that_small_sizes_show_turn_their_gates_red(void **state) {
    (void)state;
    static const char *const only[] = {"stream_mean", "rms_norm", "cache_pack", "hc_collapse",
                                       "hc_expand", "hc_mix", "router", "sample"};
    expect_red(only, sizeof only / sizeof *only,
               (struct lf_effort){.bound = 2000, .rows = 10000, .row_most = 3900}, 80);
}

// Two parts of K, and launches of more rows than stream.
static void faults_of_linear_turn_their_gates_red(void **state) {
    (void)state;
    static const char *const only[] = {"linear"};
    expect_red(only, 1, (struct lf_effort){.bound = 500000, .rows = 2500000, .row_most = 500000},
               10);
}

// One a term of the contract, at shapes with windows, entries and drafts.
static void faults_of_attention_turn_their_gates_red(void **state) {
    (void)state;
    static const char *const only[] = {"attention"};
    expect_red(only, 1, (struct lf_effort){.bound = 2000, .rows = 10000, .row_most = 15000}, 20);
}

static void a_module_that_is_not_there_is_a_missed_control(void **state) {
    (void)state;
    static const char *const only[] = {"stream_mean"};
    struct lf_contract_options options = cuda_options(3900);
    options.only = only, options.n_only = 1;
    options.faults = "/";
    struct lf_contract_result result;
    char *text = cuda_run(&options, &result, LF_OK);
    assert_int_equal(result.red, 0);
    assert_false(lf_contract_passed(&result));
    assert_non_null(strstr(text, "no module"));
    lf_contract_free(&result);
    free(text);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(faults_that_small_sizes_show_turn_their_gates_red),
        cmocka_unit_test(faults_of_linear_turn_their_gates_red),
        cmocka_unit_test(faults_of_attention_turn_their_gates_red),
        cmocka_unit_test(a_module_that_is_not_there_is_a_missed_control),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
