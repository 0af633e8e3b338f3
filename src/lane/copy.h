// Drafts copied from a stream's own history: what followed the longest earlier match (11.4).
#pragma once
#include <stdint.h>
#include "base/buffer.h"

enum { LF_COPY_KEY = 3 }; // the shortest match

// Newest place after each run of LF_COPY_KEY ids; places of one hash are chained, newest first.
struct lf_copy {
    struct lf_ids history;
    uint32_t *head, *next; // places plus 1, 0: none
    uint32_t heads, cap;   // heads: a power of two
    uint64_t indexed;      // ids whose runs are in the table
    bool failed;           // out of memory: no drafts, nothing worse
};

void lf_copy_add(struct lf_copy *copy, const uint32_t *id, uint64_t n);
// Up to most ids that followed the longest earlier match of the history's end; match: its length.
uint32_t lf_copy_find(struct lf_copy *copy, uint32_t *id, uint32_t most, uint32_t *match);
void lf_copy_free(struct lf_copy *copy);
