// The prompt cache: saved states under their exact row keys, within a byte cap (engine.md 12).
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include "base/error.h"
#include "lane/cache_keys.h"
#include "lane/spill_dir.h"
#include "lanefold.h"
#include "model/target.h"

// A prompt as the cache sees it; all of it stays valid until the pass ends.
struct lf_cache_prompt {
    struct lf_rowkeys keys;
    uint64_t history_len; // rows before the generation prompt, 0: unknown
    uint64_t rewind_len;  // rows before the latest user message, 0: none
    const uint32_t *shared; // ends of shared blocks
    uint32_t n_shared;
};

// One request in its slot, from its lookup to the end of its reply.
struct lf_cache_pass {
    struct lf_cache_prompt prompt;
    uint32_t slot;
    uint64_t resumed;                  // rows that the slot holds already: cached_tokens
    struct lf_bound plan[LF_PLAN_MAX]; // boundaries of the prompt pass; none after a whole hit
    uint32_t n_plan;
    // The rest is the cache's own.
    uint32_t kind[LF_PLAN_MAX];     // why a boundary is saved; 0: it is not
    uint64_t promise[LF_PLAN_MAX];  // bytes set aside for it
    uint64_t conversation, resumed_id;
    struct lf_cache_pass *next; // passes under way
    uint64_t at;                // rows it has run, the resumed ones among them
    bool live;
};

// The cache on disk (C-18).
struct lf_cache_disk {
    struct lf_spill_options spill;
    uint64_t rows_min; // shorter states are not written; 0: 1,024
    bool keep_shared;  // shared prefixes are written at once
    double wait_s;     // prompts give a read up after that (F-4)
};

// What a prompt that waits in line remembers between questions; zero at its start.
struct lf_cache_wait {
    uint64_t epoch; // of the store when it was told to wait
    bool read;      // it had a file read once
};

struct lf_cache;
// One thread uses it; it closes before its target does.
LF_CHECKED enum lf_status lf_cache_open(struct lf_cache **out, struct lf_target *target,
                                        uint64_t cap_bytes, struct lf_error *err);
void lf_cache_close(struct lf_cache *cache);
// Adds a disk. What is done there shows in the store when lf_cache_disk is called.
LF_CHECKED enum lf_status lf_cache_spill(struct lf_cache *cache, const struct lf_cache_disk *disk,
                                         struct lf_error *err);
// Takes in what the disk thread finished and gives it work; false: nothing was finished.
bool lf_cache_disk(struct lf_cache *cache);
bool lf_cache_disk_ready(const struct lf_cache *cache); // lf_cache_disk would take something in
bool lf_cache_busy(const struct lf_cache *cache);       // the disk thread holds entries
// At the end of a server: writes what is not on the disk, the most recent first, for so long.
void lf_cache_flush(struct lf_cache *cache, double seconds);
// Waits until the disk thread holds nothing, however long: an engine's close has the deadline.
void lf_cache_settle(struct lf_cache *cache);
// Whether a prompt does better to stay in line, for a file or for another pass's mark (C-16, C-18).
bool lf_cache_waits(struct lf_cache *cache, const struct lf_rowkeys *keys,
                    struct lf_cache_wait *wait, double row_s);
// Resumes in an empty slot, plans the marks; cache NULL: nothing but the end, and nothing is kept.
void lf_cache_begin(struct lf_cache *cache, struct lf_cache_pass *pass, uint32_t slot,
                    const struct lf_cache_prompt *prompt);
// The first boundary of the plan past at: a chunk may not pass it.
uint64_t lf_cache_next(const struct lf_cache_pass *pass, uint64_t at);
// After a chunk, before anything is drawn: saves the state where at is a mark.
void lf_cache_mark(struct lf_cache *cache, struct lf_cache_pass *pass, uint64_t at);
// keys: the rows of the slot, prompt and reply, to be saved; NULL: nothing more is.
void lf_cache_end(struct lf_cache *cache, struct lf_cache_pass *pass,
                  const struct lf_rowkeys *keys);
// Gives one entry up for a live stream that needs memory (C-11); false when none is left.
bool lf_cache_evict(struct lf_cache *cache);
void lf_cache_stats_read(const struct lf_cache *cache, struct lf_cache_stats *out);
