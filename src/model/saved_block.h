// The block of a saved state, shared by what saves it and what writes it to a file.
#pragma once
#include "model/page.h"
#include "model/v41.h"

// One block: this, the page table, the logits, the copied parts.
struct lf_saved {
    uint64_t at, draft_from;
    uint64_t bytes; // of the block
    uint32_t what;
    struct lf_page **page; // [lf_saved_pages]: entries then keys of each source
    float *logits;   // [vocab], with LF_SAVE_LOGITS
    uint8_t *copied; // window rows, cut pages, open rows, then ids of the newest rows
};

// A block with its parts laid out and nothing in them; NULL: no memory.
struct lf_saved *lf_saved_new(const struct lf_v41 *m, uint64_t at, uint32_t what);
// Entries of a source that at rows complete; whole pages of all sources, entries and keys.
uint64_t lf_saved_entries(const struct lf_v41 *m, uint32_t source, uint64_t at);
uint64_t lf_saved_pages(const struct lf_v41 *m, uint64_t at);
// Bytes of the copied parts; the newest rows whose ids stand at their end.
uint64_t lf_saved_copied_bytes(const struct lf_v41 *m, uint64_t at);
uint64_t lf_saved_ids(const struct lf_v41 *m, uint64_t at);
