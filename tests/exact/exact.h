// Passes of the demo model whose bits are compared: logits of the last row, and the state's digest.
#pragma once
#include "golden.h"
#include "model/v41.h"

enum { LF_EXACT_CONTEXT = 1536, LF_EXACT_VOCAB = 2304 };

// The model's folder and a long prompt: the filler of the golden prompt recall.
struct lf_exact {
    struct lf_demo demo;
    struct lf_golden prompt;
    const uint32_t *ids; // [n_ids]
    uint32_t n_ids;
};
void lf_exact_open(struct lf_exact *exact);
void lf_exact_close(struct lf_exact *exact);
// A target with that many slots and threads (0: the default) and storage for the whole context.
struct lf_target *lf_exact_target(struct lf_exact *exact, const struct lf_model_options *options);

// What must not differ by a bit.
struct lf_outcome {
    float logits[LF_EXACT_VOCAB]; // of the last row
    uint8_t digest[32];
};
// Compares all words; the test fails naming what and how many words differ.
void lf_outcome_same(const char *what, const struct lf_outcome *got,
                     const struct lf_outcome *want);
// The slot as it is: after a prefill that wanted logits, or before the keep of a one-row window.
void lf_outcome_read(struct lf_target *target, uint32_t slot, struct lf_outcome *out);

// Chunk sizes of a pass: all of `rows` rows, or between 1 and `most` by a seed.
struct lf_cut {
    uint32_t rows;
    uint32_t most;
    uint64_t seed;
};
// Resets the slot and prefills ids[0 .. rows-1]; the plan is the end with logits unless given.
void lf_exact_prefill(struct lf_target *target, uint32_t slot, const uint32_t *ids, uint32_t rows,
                      struct lf_cut cut, const struct lf_bound *plan, uint32_t n_plan);
// One round of one row: its logits, then kept.
void lf_exact_round(struct lf_target *target, uint32_t slot, uint64_t position, uint32_t token,
                    float logits[LF_EXACT_VOCAB]);
void lf_exact_must(enum lf_status status, const struct lf_error *err);
