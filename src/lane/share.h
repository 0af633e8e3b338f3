// How prompts and running replies share the time: the debt, and the rows of a chunk (L-27, L-32).
#pragma once
#include <stdbool.h>
#include <stdint.h>

enum { LF_PROMPT_SHORT = 512, LF_PROMPT_LONG = 32768, LF_PASSED_MAX = 8 };

struct lf_share {
    double share;      // of the time, for replies; 0: prompts fill whole
    double gap;        // seconds a chunk beside replies may take, 0: any
    double debt;       // seconds of rounds owed before the next chunk
    bool rounds_since; // a round ran since the last chunk
    uint32_t rows;     // that a chunk beside replies may have, 0: nothing was timed yet
    double row_s;      // seconds a prompt row took lately, 0: nothing was timed yet
};

// Whether a prompt with so many rows left may take a chunk now; replies: some are decoding.
bool lf_share_allows(const struct lf_share *share, uint64_t rows_left, bool replies);
uint32_t lf_share_rows(const struct lf_share *share, uint32_t most, bool replies);
void lf_share_chunk(struct lf_share *share, uint32_t rows, double seconds, bool replies);
void lf_share_round(struct lf_share *share, double seconds);
