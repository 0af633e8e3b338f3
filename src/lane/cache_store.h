// What the parts of the prompt cache share: entries, the byte account, victims.
#pragma once
#include "lane/cache.h"
#include "lane/spill.h"

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
    bool broken;    // it did not restore, and goes when the disk thread lets it go
    bool too_large; // for the disk
    struct lf_spill_job job;
    uint64_t charged_bytes; // while it is read: all that it will hold
    double read_until;      // on lf_clock_s: then no prompt waits for it (F-4)
};

struct lf_cache {
    struct lf_target *target;
    struct lf_entry *first;
    struct lf_cache_pass *passes;
    uint64_t cap_bytes;
    uint64_t held_bytes;     // at most the cap, at every instant (C-5)
    uint64_t promised_bytes; // room made for marks that are still to come (C-9)
    uint64_t clock, last_id, last_conversation;
    uint64_t epoch;          // rises with all that may end a wait
    struct lf_spill *spill;  // NULL: no disk
    uint64_t spill_rows;
    double disk_wait_s;
    bool keep_shared, look;  // look: there may be something to write
    uint32_t writing;        // entries that are being written
    struct lf_entry *reading; // that are being read; in no list but this
    struct lf_cache_stats stats;
};

// Bytes of an entry's block.
uint64_t lf_entry_bytes(uint64_t rows, uint32_t images);
// One with room for its keys, not in the store; NULL: no memory.
struct lf_entry *lf_entry_new(uint64_t rows, uint32_t images);
struct lf_image_span *lf_entry_images(struct lf_entry *entry);
uint32_t *lf_entry_tokens(struct lf_entry *entry);
// Evicts until the bytes fit, then counts them (C-6); give: they are free again.
bool lf_cache_take(struct lf_cache *cache, uint64_t bytes);
void lf_cache_give(struct lf_cache *cache, uint64_t bytes);
void lf_cache_insert(struct lf_cache *cache, struct lf_entry *entry);
// Rows of the longest entry that could be resumed; 0: none.
uint64_t lf_cache_leading(struct lf_cache *cache, const struct lf_rowkeys *keys);
// Whether a goes before b in the order of C-10.
bool lf_cache_goes_before(const struct lf_cache *cache, const struct lf_entry *a,
                          const struct lf_entry *b);
// Whether evicting the entry would lose what should be on the disk.
bool lf_cache_unspilled(struct lf_cache *cache, const struct lf_entry *entry);
void lf_cache_disk_stats(const struct lf_cache *cache, struct lf_cache_stats *out);
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
