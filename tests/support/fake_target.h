// A target without a model: the next token is a hash of the history, or comes from a script.
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include "model/target.h"

enum lf_fake_kind { LF_FAKE_PREFILL, LF_FAKE_VERIFY, LF_FAKE_PASS };

// One launch, told before it has any effect.
struct lf_fake_launch {
    enum lf_fake_kind kind;
    uint32_t number; // from 1, draft passes not counted
    uint32_t n, rows;
    const uint32_t *slot, *slot_rows; // [n]
};

// The pretended drafter: a draft is right with this chance, and it says so in its confidence.
struct lf_fake_drafter {
    bool present;
    double right;   // 1: always, 0: never
    double claimed; // the chance its confidence claims; 0: the truth
    uint32_t depth; // drafts a pass; 0: 5
};

struct lf_fake_options {
    const char *name; // NULL: none
    uint32_t slots, vocab, chunk_rows;
    uint32_t window_max, launch_rows; // 0: 16 and 64
    uint64_t context;
    uint32_t launch_us;     // time each launch takes
    const uint32_t *script; // reply ids by number of reply tokens so far, or NULL
    uint32_t n_script;      // past its end the hash goes on
    uint32_t fail_launch;   // this launch (from 1) fails with LF_E_DEVICE; 0: none
    uint32_t dead_from;     // from this launch on every call fails with LF_E_DEVICE; 0: never
    uint32_t none_at;       // the draw at this position gives LF_SAMPLE_NONE; 0: none
    uint32_t moody_at;      // every second draw at this position gives another id; 0: none
    uint64_t storage;       // positions of all slots together; 0: no limit
    uint64_t position_bytes, row_bytes; // of storage, of the workspace
    struct lf_fake_drafter drafter;
    // Time of lf_fake_clock, which stands still but for launches.
    const double *launch_seconds; // [65] of decode launches by rows, or NULL
    double chunk_seconds, row_seconds, window_seconds, pass_seconds;
    void (*launched)(void *ctx, const struct lf_fake_launch *launch); // on the engine's thread
    void *launched_ctx;
};

// Aborts on a breach of the rules that lane/ owes a target. Close through ops.
struct lf_target *lf_fake_target_open(const struct lf_fake_options *options);
// The token a correct engine draws after history; seed: that of the rule, 0 at temperature 0.
uint32_t lf_fake_next(const uint32_t *history, uint64_t length, uint64_t seed, uint32_t vocab);
// Launches so far.
uint32_t lf_fake_launches(const struct lf_target *target);
// Bytes of workspace since the last trim and of committed positions. Engine thread.
uint64_t lf_fake_held(const struct lf_target *target);
double lf_fake_clock(void *target); // for struct lf_machine
