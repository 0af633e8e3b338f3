// The memory plan of an engine: budget, what fits, the table, the check after load (engine.md 13).
#pragma once
#include "device/placement.h"
#include "format/checkpoint.h"
#include "lane/budget.h"
#include "lane/place.h"
#include "lanefold.h"
#include "model/plan.h"
#include "text/tokenizer.h"

struct lf_target;

struct lf_memory {
    struct lf_plan_ask ask;
    struct lf_plan plan;
    struct lf_budget budget;      // of the memory where kernels work
    struct lf_budget host_budget; // beside a device
    const struct lf_place *place;
    struct lf_placement placement; // of the plan's threads
    uint64_t spill_bytes; // cap of the cache on disk, 0: none
    uint64_t cache_bytes; // cap of the prompt cache that was asked for
    bool cache_named;
    bool context_chosen; // nobody named one
    bool parallel_chosen; // as many as fit
    bool drafter_left;   // there is one, but it does not fit (D-14)
    bool fits;
    bool weights_in_memory; // made up, not mapped from files
    struct lf_budget_watch watch; // for lf_memory_free
};

// Before anything is loaded, so that the machine is seen as it is. place outlives the memory.
LF_CHECKED enum lf_status lf_memory_budget(struct lf_memory *memory, const struct lf_place *place,
                                           const struct lf_engine_options *options,
                                           struct lf_error *err);
// Sets what options leave open: the largest context, whether drafts fit (D-14), the prompt cache.
LF_CHECKED enum lf_status lf_memory_plan(struct lf_memory *memory,
                                         const struct lf_checkpoint *checkpoint,
                                         const struct lf_tokenizer *tokenizer,
                                         const struct lf_engine_options *options,
                                         struct lf_error *err);
// What is free while the planned model is served; memory: struct lf_memory.
int64_t lf_memory_free(void *memory, uint64_t wanted);
// The plan as lines of a table, and ways out when it does not fit.
void lf_memory_print(struct lf_buffer *out, const struct lf_memory *memory);
// LF_E_MEM naming need, budget and shortfall, unless it fits.
LF_CHECKED enum lf_status lf_memory_require(const struct lf_memory *memory, struct lf_error *err);
// M-6: warms the target and warns about every line that took more than planned.
LF_CHECKED enum lf_status lf_memory_check(const struct lf_memory *memory, struct lf_target *target,
                                          struct lf_error *err);
// The plan for people outside; target NULL: nothing is held yet.
void lf_memory_report(struct lf_memory_report *out, const struct lf_memory *memory,
                      struct lf_target *target);
