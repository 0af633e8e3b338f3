#include "cuda_run.h"

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>

char *cuda_run_table(const struct lf_contract_table *table, struct lf_contract_options *options,
                     struct lf_contract_result *result, enum lf_status want) {
    struct lf_error err = LF_ERROR_INIT;
    char *text;
    size_t bytes;
    options->out = open_memstream(&text, &bytes);
    assert_non_null(options->out);
    assert_int_equal(lf_contract_run(table, options, result, &err), want);
    fclose(options->out);
    return text;
}

char *cuda_run(struct lf_contract_options *options, struct lf_contract_result *result,
               enum lf_status want) {
    static struct lf_entry entry[LF_ENTRIES_MAX];
    struct lf_contract_table table;
    lf_contract_table_fill(&table, entry);
    return cuda_run_table(&table, options, result, want);
}

struct lf_contract_options cuda_options(uint64_t row_most) {
    struct lf_contract_options options = lf_contract_defaults();
    options.sets = 1u << LF_SET_CUDA;
    options.effort = (struct lf_effort){.bound = 2000, .rows = 3000, .row_most = row_most};
    options.plain_memory = true;
    return options;
}
