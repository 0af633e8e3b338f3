// A drafter over the demo model whose drafts are right as often as a test says (engine.md L-4).
#pragma once
#include <stdint.h>
#include "model/target.h"

enum { LF_FORCED_DRAFTS = 5, LF_FORCED_SLOTS = 4 };

// What the stream of this rule is known to reply.
struct lf_forced_reply {
    const struct lf_sampling *rule;
    const uint32_t *id; // [n]
    uint32_t n;
};

struct lf_forced {
    uint32_t right; // drafts of a pass that are the reply's next tokens; those after are not
    uint32_t prompt_len;
    const struct lf_forced_reply *reply; // [n_replies]
    uint32_t n_replies;
    uint64_t windows, others; // of these drafts; of others: no drafts, or copies of the history
    uint64_t accepted;        // drafts kept of the former
    uint64_t surprises;       // windows of which not the forced number of rows was kept
    // Of the target.
    const struct lf_target_ops *real;
    const struct lf_drafter_ops *real_drafter;
    struct lf_target_ops ops;
    struct lf_drafter_ops drafter;
    struct lf_draft last[LF_FORCED_SLOTS];
    uint32_t at[LF_FORCED_SLOTS]; // reply index of the pending token of the last pass
    const struct lf_forced_reply *of[LF_FORCED_SLOTS];
};

// Puts itself between the target and its caller; one at a time, alive as long as the target.
void lf_forced_install(struct lf_forced *forced, struct lf_target *target);
