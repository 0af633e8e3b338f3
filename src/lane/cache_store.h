// What the parts of the prompt cache share: entries, the byte account, victims.
#pragma once
#include "lane/cache.h"

// Why a position is saved, in the order of C-8.
enum lf_mark {
    LF_MARK_END = 1,
    LF_MARK_HISTORY = 2,
    LF_MARK_REWIND = 4,
    LF_MARK_SHARED = 8,
    LF_MARK_STABLE = 16,
    LF_MARK_STEP = 32,
    LF_MARK_REPLY = 64,
};

struct lf_entry {
    struct lf_entry *next; // ascending lengths
    struct lf_rowkeys keys; // in this block
    uint64_t hash;
    struct lf_saved *state, *logits; // logits NULL: none
    uint64_t bytes; // of this block
    uint64_t id;    // rises: a newer entry has a larger one
    uint64_t used;  // clock of the last keep or hit
    uint64_t born;  // rows of the prompt that made it
    uint64_t conversation;
    uint64_t superseded_by; // id of a newer entry of the conversation that continues this one
    uint64_t last_prompt;   // id of the end of the last prompt that made or resumed it
    uint32_t marks;         // LF_MARK_* bits
    uint32_t pins;
    bool candidate; // in the lookup at hand
};

struct lf_cache {
    struct lf_target *target;
    struct lf_entry *first;
    struct lf_cache_pass *passes;
    uint64_t cap_bytes;
    uint64_t held_bytes;     // at most the cap, at every instant (C-5)
    uint64_t promised_bytes; // room made for marks that are still to come (C-9)
    uint64_t clock, last_id, last_conversation;
    struct lf_cache_stats stats;
};

// Bytes of an entry's block.
uint64_t lf_entry_bytes(uint64_t rows, uint32_t images);
// The entry with exactly these keys, or that id; NULL when there is none.
struct lf_entry *lf_cache_find(struct lf_cache *cache, const struct lf_rowkeys *keys);
struct lf_entry *lf_cache_find_id(struct lf_cache *cache, uint64_t id);
// Saves the slot's state at the end of keys, unless it is there; adds logits where marked an end.
void lf_cache_keep(struct lf_cache *cache, const struct lf_cache_pass *pass,
                   const struct lf_rowkeys *keys, uint32_t marks);
// The next entry to go: C-10, never a pinned one; NULL when there is none.
struct lf_entry *lf_cache_victim(struct lf_cache *cache);
void lf_cache_drop(struct lf_cache *cache, struct lf_entry *entry);
// Chooses the marks of a pass and makes their room (C-8, C-9).
void lf_cache_plan(struct lf_cache *cache, struct lf_cache_pass *pass,
                   const struct lf_entry *resumed);
