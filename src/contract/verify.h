// Real layers against float64, stage by stage (kernel-contract.md 8).
#pragma once
#include <stdio.h>
#include "base/error.h"
#include "format/topology.h"
#include "model/target.h"

enum { LF_VERIFY_ROWS = 4 };

struct lf_verify_options {
    const uint32_t *layer; // [n_layers] ascending; NULL: the first of each kind
    uint32_t n_layers;
    const uint32_t *name;  // [layers of the model] ids to print; NULL: their own
    const uint32_t *ids;   // [n_ids] a prompt of LF_VERIFY_ROWS + 1 rows or more, storage grown
    uint32_t n_ids;
    FILE *out; // a line a stage, a line a layer
};

// Added up over layers.
struct lf_verify_result {
    uint32_t layers, draft_blocks;
    uint32_t stages, over;         // over: stages with an element past its limit
    uint32_t missing;              // stages that a layer of its kind has and that were not judged
    uint64_t differing;            // words: mapped and copied weights, one row and four
    double worst;                  // |out - ref| / limit
    char unregistered[256];        // kernels without a record, a space after each
};

// The target is one of lf_model_open with an empty slot 0; a drafter that it has is run as well.
LF_CHECKED enum lf_status lf_verify_run(struct lf_target *target,
                                        const struct lf_verify_options *options,
                                        struct lf_verify_result *result, struct lf_error *err);
// The least prompt in which every layer's indexer has to score.
uint32_t lf_verify_prompt_rows(const struct lf_topology *topology);
