// A target without a model: the next token is a hash of the history, or comes from a script.
#pragma once
#include <stdint.h>
#include "model/target.h"

struct lf_fake_options {
    uint32_t slots, vocab, chunk_rows;
    uint64_t context;
    uint32_t launch_us;     // time each launch takes
    const uint32_t *script; // reply ids by number of reply tokens so far, or NULL
    uint32_t n_script;      // past its end the hash goes on
    uint32_t fail_launch;   // this launch (from 1) fails with LF_E_DEVICE; 0: none
    uint32_t none_at;       // the draw at this position gives LF_SAMPLE_NONE; 0: none
};

// Aborts on a breach of the rules that lane/ owes a target. Close through ops.
struct lf_target *lf_fake_target_open(const struct lf_fake_options *options);
// The token a correct engine draws after history at temperature 0.
uint32_t lf_fake_next(const uint32_t *history, uint64_t length, uint64_t seed, uint32_t vocab);
// Launches so far.
uint32_t lf_fake_launches(const struct lf_target *target);
