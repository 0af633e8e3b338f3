// The target interface: all that lane/ knows of a model (engine.md 1.2, rules L-12 .. L-20).
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/error.h"
#include "kernel/sample/sample.h"

// A boundary of model.md 12.3: at rows come before it; logits: those of row at-1 are wanted.
struct lf_bound {
    uint64_t at;
    bool logits;
};

// The rows one slot sends into a decode launch: tok[0] is the pending token, the rest are drafts.
struct lf_window {
    uint32_t slot;
    uint32_t rows;             // 1 .. window_max
    uint64_t pos0;             // equals the slot's committed length
    const uint32_t *tok;       // [rows]
    const struct lf_sampling *rule; // row i draws at position pos0 + i + 1
    const uint32_t *mask;      // [rows][ceil(vocab/32)] allowed ids, or NULL
};

// One prompt chunk of one slot.
struct lf_chunk {
    uint32_t slot;
    uint32_t rows;
    uint64_t pos0;
    const uint32_t *tok;
    const struct lf_bound *plan; // all boundaries of the pass, ascending, in every chunk
    uint32_t n_plan;
};

struct lf_target_info {
    uint32_t slots, vocab, window_max, launch_rows_max, chunk_rows_max;
    uint64_t context; // positions a slot
};

struct lf_target;
// Arguments are checked first: a refusal (LF_E_SLOT .. LF_E_PLAN, LF_E_MEM) leaves all state alone.
struct lf_target_ops {
    const struct lf_target_info *(*info)(struct lf_target *t);
    // Commits the rows of n chunks of different slots.
    enum lf_status (*prefill)(struct lf_target *t, const struct lf_chunk *chunk, uint32_t n,
                              struct lf_error *err);
    // drawn: one id a row, windows in order; a row of non-finite logits gives LF_SAMPLE_NONE.
    enum lf_status (*verify)(struct lf_target *t, const struct lf_window *w, uint32_t n,
                             uint32_t *drawn, struct lf_error *err);
    // Commits the first kept[i] rows of each window of the last verify.
    enum lf_status (*keep)(struct lf_target *t, const struct lf_window *w, const uint32_t *kept,
                           uint32_t n, struct lf_error *err);
    // Draws at pos0 (= length) from the logits that prefill left; w has 0 rows and no tok.
    enum lf_status (*draw_last)(struct lf_target *t, const struct lf_window *w, uint32_t *drawn,
                                struct lf_error *err);
    enum lf_status (*grow)(struct lf_target *t, uint32_t slot, uint64_t positions,
                           struct lf_error *err); // storage for positions, before use
    enum lf_status (*reset)(struct lf_target *t, uint32_t slot, struct lf_error *err); // length 0
    // Canonical state hash of engine.md 9.3.
    enum lf_status (*digest)(struct lf_target *t, uint32_t slot, uint8_t out[32],
                             struct lf_error *err);
    void (*close)(struct lf_target *t);
};
struct lf_target {
    const struct lf_target_ops *ops;
};
