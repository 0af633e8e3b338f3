// The DSpark drafter: taps of the backbone into context rows, one pass over blocks, drafts (11).
#pragma once
#include <stdint.h>
#include "kernel/row.h"
#include "model/target.h"

enum { LF_DRAFT_ASKS_MAX = 64 };

struct lf_layer;
struct lf_v41;

// The buffers of the drafter beside those of a forward call, which it uses too.
struct lf_draft_work {
    uint32_t rows_max;   // context rows made at once
    uint32_t asks_max;   // streams of one pass
    uint16_t *taps, *taps_q; // [rows_max][tap_size]
    uint16_t *hidden;    // [asks_max*block][hidden] collapsed, before the norm
    uint16_t *judged;    // [asks_max*block][hidden+rank] hidden, embedding of the token before
    float *bias;         // [asks_max][vocab]
    float *confidence;   // [asks_max*block]
    const uint32_t *pending; // [asks] of the pass, for kernels
};

// At a layer's input: the means of its live rows' streams, where the drafter reads them (11.2).
void lf_taps_store(struct lf_v41 *m, const struct lf_layer *layer);
// After a prompt chunk of a lane: from where on its taps have no gap (the cone skips rows).
void lf_taps_commit(struct lf_v41 *m, uint32_t lane);
// Committed taps in reach get their context rows in each block (11.3); lanes must differ.
void lf_draft_fill(struct lf_v41 *m, const uint32_t *lane, uint32_t n);

// The first position of the context rows that a fill would leave without a gap up to length.
uint64_t lf_draft_from(const struct lf_v41 *m, uint32_t lane);

// The steps of a pass over at most asks_max streams (11.4), in this order.
void lf_draft_start(struct lf_v41 *m, const struct lf_draft_ask *ask, uint32_t n);
void lf_draft_block(struct lf_v41 *m, const struct lf_layer *block); // each of them
void lf_draft_head(struct lf_v41 *m);                                // base logits: work.logits
// The chain: work.logits become the drafts' own, tokens and confidences go to out.
void lf_draft_choose(struct lf_v41 *m, const struct lf_draft_ask *ask, uint32_t n,
                     struct lf_draft *out);
