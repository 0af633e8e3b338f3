// All that a caller gets of a model: a prompt, rounds with drafts, states saved and read again.
#pragma once
#include "model/target.h"

enum { LF_TOLD_ROUNDS = 4, LF_TOLD_ROWS = 4, LF_TOLD_VOCAB = 4096, LF_TOLD_CONTEXT = 600 };

struct lf_told {
    uint32_t drawn[LF_TOLD_ROUNDS][LF_TOLD_ROWS];
    struct lf_logprob_row logprobs[LF_TOLD_ROUNDS][LF_TOLD_ROWS], scored;
    struct lf_draft draft[LF_TOLD_ROUNDS];
    uint8_t digest[3][32];
    float logits[2][LF_TOLD_VOCAB];
    uint64_t file_bytes;
};

// Of a new target with two slots of LF_TOLD_CONTEXT positions; prompt: rows of the prompt.
void lf_tell(struct lf_target *t, uint32_t prompt, struct lf_told *told);
// The test fails where two differ in a byte.
void lf_told_same(const struct lf_told *a, const struct lf_told *b);
