// The contract tool: all records through gates, controls and limits, a line each and a SUMMARY.
#pragma once
#include <stdio.h>
#include "contract/child.h"
#include "contract/shapes.h"
#include "contract/table.h"

enum { LF_CONTRACT_SEED = 20260, LF_CONTROL_LIMIT_S = 60 };

struct lf_contract_options {
    const char *const *only; // names, prefixes or globs; n_only 0: all
    size_t n_only;
    uint32_t gates;     // bits; 0: none
    bool limits;
    const char *faults; // folder of modules; NULL: controls are not run
    uint32_t sets;      // bits: those of the CPU, or 1 << LF_SET_CUDA alone
    bool plain_memory;  // CUDA is played on the host
    uint64_t seed;
    uint32_t jobs;      // children at once
    bool verbose;
    struct lf_effort effort;
    uint32_t gates_limit_s, control_limit_s;
    FILE *out; // lines and the SUMMARY
};
// Everything, on every set of this processor, with the default seed, without modules.
struct lf_contract_options lf_contract_defaults(void);
// "cpu" or "cuda"
const char *lf_contract_backend(const struct lf_contract_options *options);

struct lf_control_result {
    const struct lf_control *control;
    enum lf_child_end end;
    bool red;
    struct lf_outcome outcome;
};
struct lf_record_result {
    const struct lf_record *record;
    struct lf_shapes shapes;
    bool done, passed;
    enum lf_child_end end;
    struct lf_outcome outcome;
    struct lf_control_result *control; // [controls] those that can run here
    uint32_t controls, red;
};
struct lf_contract_result {
    struct lf_record_result *record; // [records]
    uint32_t records, passed, failed, findings, controls, red, limit_problems;
    double gates_ms, limits_ms;
};

// LF_OK also when kernels fail: result says so. LF_E_USAGE: no kernel selected; or lf_cuda_open's.
LF_CHECKED enum lf_status lf_contract_run(const struct lf_contract_table *table,
                                          const struct lf_contract_options *options,
                                          struct lf_contract_result *result, struct lf_error *err);
bool lf_contract_passed(const struct lf_contract_result *result);
void lf_contract_free(struct lf_contract_result *result);
// Names, files, contracts and controls of the selected records, nothing run.
LF_CHECKED enum lf_status lf_contract_list(const struct lf_contract_table *table,
                                           const struct lf_contract_options *options,
                                           struct lf_error *err);
// The result as JSON, written beside and renamed.
LF_CHECKED enum lf_status lf_contract_write_json(const struct lf_contract_result *result,
                                                 const struct lf_contract_options *options,
                                                 const char *path, struct lf_error *err);
// One line a record and the last line.
void lf_contract_print_record(const struct lf_record_result *r,
                              const struct lf_contract_options *options);
void lf_contract_print_summary(const struct lf_contract_result *result,
                               const struct lf_contract_options *options);
