// The target interface: all that lane/ knows of a model (engine.md 1.2, rules L-12 .. L-20).
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/error.h"
#include "kernel/logprobs/logprobs.h"
#include "kernel/sample/sample.h"

// A boundary of model.md 12.3: at rows come before it; logits: those of row at-1 are wanted.
struct lf_bound {
    uint64_t at;
    bool logits;
};

// LF_PLAN_MAX: boundaries of one pass.
enum { LF_PLAN_MAX = 64, LF_DRAFTS_MAX = 15 };

// The rows one slot sends into a decode launch: tok[0] is the pending token, the rest are drafts.
struct lf_window {
    uint32_t slot;
    uint32_t rows;             // 1 .. window_max
    uint64_t pos0;             // equals the slot's committed length
    const uint32_t *tok;       // [rows]
    const struct lf_sampling *rule; // row i draws at position pos0 + i + 1
    const uint32_t *mask;      // [rows][ceil(vocab/32)] allowed ids, or NULL
    uint32_t top_logprobs;     // alternatives a row, at most LF_LOGPROBS_MAX
    struct lf_logprob_row *logprobs; // [rows] filled in; NULL: not wanted
};

// What a draft pass is asked for one stream; the pending token sits at the slot's length.
struct lf_draft_ask {
    uint32_t slot, pending;
    const struct lf_sampling *rule;
};

struct lf_draft {
    uint32_t n;
    uint32_t tok[LF_DRAFTS_MAX];
    float confidence[LF_DRAFTS_MAX]; // raw logit that the draft is kept if those before it were
};

// A saved state of one exact prefix; opaque to lane/, its pages shared by reference.
struct lf_saved;
// LF_SAVE_PAGES, in save_bytes alone: the part of LF_SAVE_STATE that longer saves share.
enum { LF_SAVE_STATE = 1, LF_SAVE_LOGITS = 2, LF_SAVE_PAGES = 4 };

// Where the file form of a saved state goes, and where it comes from: all of len or a failure.
typedef enum lf_status lf_bytes_out(void *ctx, const void *bytes, uint64_t len,
                                    struct lf_error *err);
typedef enum lf_status lf_bytes_in(void *ctx, void *bytes, uint64_t len, struct lf_error *err);

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
    uint32_t pass_drafts; // of a stream, at most; unused without a drafter
    char name[64]; // weights, arithmetic, device, threads: equal names take equal times; "": none
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
    // Bytes of storage for positions of one slot.
    uint64_t (*grow_bytes)(struct lf_target *t, uint64_t positions);
    // Bytes that the workspace has when no chunk has more than rows.
    uint64_t (*chunk_bytes)(struct lf_target *t, uint32_t rows);
    // Gives back what only chunks of more rows use. They may still run, and take it again.
    void (*chunk_trim)(struct lf_target *t, uint32_t rows);
    // Canonical state hash of engine.md 9.3.
    enum lf_status (*digest)(struct lf_target *t, uint32_t slot, uint8_t out[32],
                             struct lf_error *err);
    // Bytes that a save of the first at rows would hold by itself; what: LF_SAVE_* bits.
    uint64_t (*save_bytes)(struct lf_target *t, uint64_t at, uint32_t what);
    // Bytes it would add to saved_total; at is at most the slot's length.
    uint64_t (*save_need)(struct lf_target *t, uint32_t slot, uint64_t at, uint32_t what);
    // All saved states together, pages that several share counted once.
    uint64_t (*saved_total)(struct lf_target *t);
    // at is the slot's length and a boundary.
    enum lf_status (*save)(struct lf_target *t, uint32_t slot, uint64_t at, uint32_t what,
                           struct lf_saved **out, struct lf_error *err);
    // The slot starts over first: after LF_E_MEM its length is 0. Logits alone need its length.
    enum lf_status (*restore)(struct lf_target *t, uint32_t slot, const struct lf_saved *saved,
                              struct lf_error *err);
    void (*drop)(struct lf_target *t, struct lf_saved *saved);
    // The file form of a saved state; these three on any thread, for at within the context.
    uint64_t (*file_bytes)(struct lf_target *t, uint64_t at, uint32_t what);
    // While nobody drops saved.
    enum lf_status (*write)(struct lf_target *t, const struct lf_saved *saved, lf_bytes_out *out,
                            void *ctx, struct lf_error *err);
    // Bytes nobody vouches for. Takes save_bytes(at, what), outside saved_total until adopted.
    enum lf_status (*read)(struct lf_target *t, uint64_t at, uint32_t what, lf_bytes_in *in,
                           void *ctx, struct lf_saved **saved, struct lf_error *err);
    // From here on a state that was read is one that was saved.
    void (*adopt)(struct lf_target *t, struct lf_saved *saved);
    void (*close)(struct lf_target *t);
};

// The drafter of a target, called between keeps and verifies only (engine.md L-7).
struct lf_drafter_ops {
    // Taps of the rows kept since the last call into the slots' draft rings.
    enum lf_status (*ingest)(struct lf_target *t, const uint32_t *slot, uint32_t n,
                             struct lf_error *err);
    // One batched pass for n slots (D-4).
    enum lf_status (*propose)(struct lf_target *t, const struct lf_draft_ask *ask, uint32_t n,
                              struct lf_draft *out, struct lf_error *err);
};

struct lf_target {
    const struct lf_target_ops *ops;
    const struct lf_drafter_ops *drafter; // NULL: none
    char fingerprint[24]; // of all that states depend on besides their keys (C-3)
};
