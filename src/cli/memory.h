// The memory plan of a command: flags, budget, what fits, the table, the check after load.
#pragma once
#include "cli/session.h"
#include "lane/budget.h"
#include "model/plan.h"

struct lf_memory_flags {
    double limit_gib, reserve_gib; // 0: not given
    double cache_gib;              // below 0: not given
};

// The flag rows of lf_memory_flags.
#define LF_MEMORY_FLAG_ROWS(f)                                                                     \
    {.name = "memory-limit-gib", .kind = LF_FLAG_REAL, .out = &(f).limit_gib, .min = 1.0 / 1024,   \
     .max = 1048576, .help = "memory that may be used; default: the available less a reserve"},    \
        {.name = "reserve-gib", .kind = LF_FLAG_REAL, .out = &(f).reserve_gib, .min = 1.0 / 1024,  \
         .max = 1048576, .help = "memory to leave free; default: the greater of 1 and 3 percent"}, \
        {.name = "prompt-cache-gib", .kind = LF_FLAG_REAL, .out = &(f).cache_gib, .min = 0,        \
         .max = 1048576, .help = "prompt cache, 0: off; default: an eighth of the budget, up to 16"}

struct lf_memory {
    struct lf_plan_ask ask;
    struct lf_plan plan;
    struct lf_budget budget;
    uint64_t cache_bytes; // cap of the prompt cache that was asked for
    bool cache_named;
    bool context_chosen; // --context was not given
    bool drafter_left;   // there is one, but it does not fit (D-14)
    bool fits;
};

// Before anything is loaded, so that the machine is seen as it is.
LF_CHECKED enum lf_status lf_memory_budget(struct lf_memory *memory,
                                           const struct lf_memory_flags *flags,
                                           struct lf_error *err);
// Sets what flags leave open: the largest context, whether drafts fit (D-14), the prompt cache.
LF_CHECKED enum lf_status lf_memory_plan(struct lf_memory *memory, const struct lf_session *session,
                                         struct lf_session_flags *flags, const char *drafts,
                                         struct lf_error *err);
// The plan as lines of a table, and ways out when it does not fit.
void lf_memory_print(struct lf_buffer *out, const struct lf_memory *memory);
// LF_E_MEM naming need, budget and shortfall, unless it fits.
LF_CHECKED enum lf_status lf_memory_require(const struct lf_memory *memory, struct lf_error *err);
// M-6: warms the target and warns about every line that took more than planned.
LF_CHECKED enum lf_status lf_memory_check(const struct lf_memory *memory, struct lf_target *target,
                                          struct lf_error *err);
