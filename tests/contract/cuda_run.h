// The contract tool over the CUDA column that the host plays.
#pragma once
#include "contract/contract.h"

// The host takes turns for threads: only small shapes, and few rows of them.
struct lf_contract_options cuda_options(uint64_t row_most);
// What the tool said; the text is the caller's to free.
char *cuda_run_table(const struct lf_contract_table *table, struct lf_contract_options *options,
                     struct lf_contract_result *result, enum lf_status want);
// The same over the served kernels.
char *cuda_run(struct lf_contract_options *options, struct lf_contract_result *result,
               enum lf_status want);
