// The memory that may be used (engine.md 13, M-2), and ways out when a plan does not fit (M-4).
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include "base/buffer.h"
#include "base/error.h"
#include "model/plan.h"

// Bytes that the operator named, 0: not given. Only one of the two may be given.
struct lf_budget_flags {
    uint64_t limit_bytes, reserve_bytes;
};

struct lf_budget {
    uint64_t total, available; // of the machine or the control group, whichever has less
    uint64_t reserve;          // kept free of the available
    uint64_t bytes;            // the budget
    bool named;                // the operator's limit, whatever is available
};

// root: "" for this machine; its proc/ and sys/fs/cgroup are read.
LF_CHECKED enum lf_status lf_budget_read(struct lf_budget *out, const char *root,
                                         const struct lf_budget_flags *flags,
                                         struct lf_error *err);

// The same of a device that has so much; the flags are of a device where there is one.
LF_CHECKED enum lf_status lf_budget_of_device(struct lf_budget *out, uint64_t total,
                                              uint64_t available,
                                              const struct lf_budget_flags *flags,
                                              struct lf_error *err);

// Asked for while serving: the flags of the start, and bytes of files that must stay mapped.
struct lf_budget_watch {
    const char *root; // as of lf_budget_read
    struct lf_budget_flags flags;
    uint64_t mapped_bytes;
};
// Bytes free now beyond a quarter of the reserve, or of a named limit; below 0: missing.
int64_t lf_budget_free(const struct lf_budget_watch *watch, uint64_t wanted);

// The most of one number that fits with the others as asked; 0: not even the least does.
uint64_t lf_budget_context(const struct lf_plan_ask *ask, uint64_t bytes); // up to the model's
uint32_t lf_budget_parallel(const struct lf_plan_ask *ask, uint64_t bytes); // up to the asked
// The largest half, quarter ... of the asked chunk, at least LF_CHUNK_ROWS_MIN.
uint32_t lf_budget_chunk_rows(const struct lf_plan_ask *ask, uint64_t bytes);
// Up to the asked; false when the plan does not fit without a cache either.
bool lf_budget_cache(uint64_t *cache_bytes, const struct lf_plan_ask *ask, uint64_t bytes);

enum { LF_CHUNK_ROWS_MIN = 256 };

// One line a way out, computed: context, parallel, chunk, cache, all of them, a larger limit.
void lf_budget_print_ways(struct lf_buffer *out, const struct lf_plan_ask *ask, uint64_t bytes);
