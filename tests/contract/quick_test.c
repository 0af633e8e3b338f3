// Every record through gates and limits with little work a shape; make contract does the rest.
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include "contract/contract.h"

static void every_record_passes_its_gates_with_little_work(void **state) {
    (void)state;
    static struct lf_entry entry[LF_ENTRIES_MAX];
    struct lf_contract_table table;
    struct lf_contract_result result;
    struct lf_contract_options options = lf_contract_defaults();
    struct lf_error err = LF_ERROR_INIT;
    lf_contract_table_fill(&table, entry);
    options.effort = LF_EFFORT_QUICK;
    assert_int_equal(lf_contract_run(&table, &options, &result, &err), LF_OK);
    assert_int_equal(result.failed, 0);
    assert_int_equal(result.passed, table.records);
    // What is left is kernels without a record.
    assert_int_equal(result.limit_problems, table.entries - table.records);
    lf_contract_free(&result);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_record_passes_its_gates_with_little_work),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
