// The prompt cache and its disk thread: what is written ahead, what is read back, who waits.
#include <stdlib.h>
#include "base/clock.h"
#include "base/log.h"
#include "lane/cache_store.h"

// Shorter states stay in memory; a mark is waited for where it saves so many rows.
enum { SPILL_ROWS = 1024, AWAITED_ROWS = 256 };

enum lf_status lf_cache_spill(struct lf_cache *cache, const struct lf_cache_disk *disk,
                              struct lf_error *err) {
    cache->keep_shared = disk->keep_shared;
    cache->disk_wait_s = disk->wait_s;
    cache->spill_rows = disk->rows_min ? disk->rows_min : SPILL_ROWS;
    return lf_spill_open(&cache->spill, cache->target, &disk->spill, err);
}

static bool may_spill(const struct lf_cache *cache, const struct lf_entry *e) {
    return cache->spill && !e->too_large &&
           (e->keys.n >= cache->spill_rows || (cache->keep_shared && e->marks & LF_MARK_SHARED));
}

bool lf_cache_unspilled(struct lf_cache *cache, const struct lf_entry *e) {
    return may_spill(cache, e) && !lf_spill_dir_holds(lf_spill_folder(cache->spill), e->keys.n,
                                                      e->hash, e->logits != NULL);
}

static uint64_t alone_bytes(const struct lf_cache *cache, const struct lf_entry *e) {
    const struct lf_target_ops *ops = cache->target->ops;
    return e->bytes + ops->save_bytes(cache->target, e->keys.n, LF_SAVE_STATE) +
           (e->logits ? ops->save_bytes(cache->target, e->keys.n, LF_SAVE_LOGITS) : 0);
}

// Half of the cap shall be free or on the disk, to be evicted at once; all: the best goes first.
static struct lf_entry *next_to_write(struct lf_cache *cache, bool all) {
    struct lf_entry *first = NULL;
    uint64_t unspilled_bytes = 0;
    for (struct lf_entry *e = cache->first; e; e = e->next) {
        if (e->pins || e->broken || !lf_cache_unspilled(cache, e))
            continue;
        if (cache->keep_shared && e->marks & LF_MARK_SHARED)
            return e;
        unspilled_bytes += alone_bytes(cache, e);
        if (!first || lf_cache_goes_before(cache, all ? first : e, all ? e : first))
            first = e;
    }
    return all || unspilled_bytes > cache->cap_bytes / 2 ? first : NULL;
}

// The entry stays and counts until it is written: nothing of it is copied.
static bool write(struct lf_cache *cache, struct lf_entry *e) {
    const struct lf_target_ops *ops = cache->target->ops;
    uint64_t rows = e->keys.n;
    e->job = (struct lf_spill_job){
        .head = {.rows = rows, .hash = e->hash, .born = e->born, .images = e->keys.n_images,
                 .marks = e->marks,
                 .state_bytes = ops->file_bytes(cache->target, rows, LF_SAVE_STATE)},
        .parts = {.token = lf_entry_tokens(e), .image = lf_entry_images(e), .state = e->state,
                  .logits = e->logits},
        .owner = e};
    if (e->logits)
        e->job.head.logits_bytes = ops->file_bytes(cache->target, rows, LF_SAVE_LOGITS);
    if (!lf_spill_submit(cache->spill, &e->job))
        return false;
    e->pins++;
    cache->writing++;
    return true;
}

static void written(struct lf_cache *cache, struct lf_entry *e) {
    e->pins--;
    cache->writing--;
    cache->look = true;
    e->too_large = e->job.status == LF_E_TOO_LARGE;
    if (e->broken && !e->pins)
        lf_cache_drop(cache, e);
}

// What was read joins the store, or all of it goes and its bytes are free again.
static void was_read(struct lf_cache *cache, struct lf_entry *e) {
    const struct lf_target_ops *ops = cache->target->ops;
    struct lf_entry **link = &cache->reading;
    uint64_t bytes = e->charged_bytes;
    while (*link != e)
        link = &(*link)->next;
    *link = e->next;
    e->state = e->job.parts.state;
    e->logits = e->job.parts.logits;
    if (e->state)
        ops->adopt(cache->target, e->state);
    if (e->logits)
        ops->adopt(cache->target, e->logits);
    cache->epoch++;
    if (e->job.status == LF_OK && !lf_cache_find(cache, &e->keys)) {
        e->conversation = ++cache->last_conversation;
        e->used = ++cache->clock;
        lf_cache_insert(cache, e);
        return;
    }
    ops->drop(cache->target, e->state);
    ops->drop(cache->target, e->logits);
    free(e);
    lf_cache_give(cache, bytes);
}

static bool collect(struct lf_cache *cache) {
    bool any = false;
    for (struct lf_spill_job *job; (job = lf_spill_take(cache->spill)); any = true) {
        if (job->read)
            was_read(cache, job->owner);
        else
            written(cache, job->owner);
    }
    return any;
}

bool lf_cache_disk(struct lf_cache *cache) {
    if (!cache || !cache->spill)
        return false;
    bool any = collect(cache);
    if (!cache->look || cache->writing || lf_spill_dir_paused(lf_spill_folder(cache->spill)))
        return any;
    struct lf_entry *e = next_to_write(cache, false);
    cache->look = e && !write(cache, e);
    return any;
}

void lf_cache_disk_stats(const struct lf_cache *cache, struct lf_cache_stats *out) {
    struct lf_spill_stats disk;
    lf_spill_dir_stats(lf_spill_folder(cache->spill), &disk);
    out->disk_files = disk.files;
    out->disk_held_bytes = disk.held_bytes;
    out->disk_cap_bytes = disk.cap_bytes;
    out->spilled = disk.spilled;
    out->returned = disk.returned;
    out->damaged = disk.damaged;
    out->disk_removed = disk.removed;
    out->disk_paused = disk.paused;
}

bool lf_cache_busy(const struct lf_cache *cache) {
    return cache && (cache->writing || cache->reading);
}

bool lf_cache_disk_ready(const struct lf_cache *cache) {
    return lf_spill_ready(cache->spill);
}

void lf_cache_flush(struct lf_cache *cache, double seconds) {
    double end = lf_clock_s() + seconds;
    if (!cache || !cache->spill)
        return;
    while (lf_clock_s() < end && !lf_spill_dir_paused(lf_spill_folder(cache->spill))) {
        collect(cache);
        struct lf_entry *e = cache->writing ? NULL : next_to_write(cache, true);
        if (!cache->writing && (!e || !write(cache, e)))
            break;
        lf_spill_wait(cache->spill, end - lf_clock_s());
    }
    lf_cache_settle(cache);
}

void lf_cache_settle(struct lf_cache *cache) {
    while (lf_cache_busy(cache)) {
        lf_spill_wait(cache->spill, 1);
        collect(cache);
    }
}

// An entry of the size that the file tells, charged before it is asked for (C-6).
static struct lf_entry *entry_to_read(struct lf_cache *cache, const struct lf_spill_head *head) {
    const struct lf_target_ops *ops = cache->target->ops;
    uint64_t bytes = lf_entry_bytes(head->rows, head->images) +
                     ops->save_bytes(cache->target, head->rows, LF_SAVE_STATE);
    if (head->logits_bytes)
        bytes += ops->save_bytes(cache->target, head->rows, LF_SAVE_LOGITS);
    if (!lf_cache_take(cache, bytes))
        return NULL;
    struct lf_entry *e = lf_entry_new(head->rows, head->images);
    if (!e) {
        lf_cache_give(cache, bytes);
        return NULL;
    }
    e->hash = head->hash;
    e->born = head->born;
    e->marks = head->marks;
    e->charged_bytes = bytes;
    e->job = (struct lf_spill_job){.read = true, .head = *head, .owner = e,
                                   .parts = {.token = lf_entry_tokens(e),
                                             .image = lf_entry_images(e)}};
    return e;
}

static const struct lf_entry *being_read(const struct lf_cache *cache,
                                         const struct lf_spill_head *head) {
    for (const struct lf_entry *e = cache->reading; e; e = e->next)
        if (e->hash == head->hash && e->keys.n == head->rows)
            return e;
    return NULL;
}

static bool is_late(const struct lf_entry *e) {
    return lf_clock_s() > e->read_until;
}

static bool any_read_late(const struct lf_cache *cache) {
    for (const struct lf_entry *e = cache->reading; e; e = e->next)
        if (is_late(e))
            return true;
    return false;
}

static bool in_time(const struct lf_cache *cache, const struct lf_entry *e) {
    if (!is_late(e))
        return true;
    lf_log(LF_LOG_WARN, "the disk thread did not read a saved state of %llu tokens within %g s: "
                        "a prompt goes on without it",
           (unsigned long long)e->job.head.rows, cache->disk_wait_s);
    return false;
}

static bool read_back(struct lf_cache *cache, const struct lf_spill_head *head) {
    struct lf_entry *e = entry_to_read(cache, head);
    if (!e)
        return false;
    if (!lf_spill_submit(cache->spill, &e->job)) {
        lf_cache_give(cache, e->charged_bytes);
        free(e);
        return false;
    }
    e->read_until = lf_clock_s() + cache->disk_wait_s;
    e->next = cache->reading;
    cache->reading = e;
    return true;
}

// A longer prefix on the disk is waited for where reading it is sooner than running its rows.
static bool awaits_read(struct lf_cache *cache, const struct lf_rowkeys *keys, uint64_t rows,
                        struct lf_cache_wait *wait, double row_s) {
    struct lf_spill_head head;
    if (!cache->spill || !lf_spill_dir_find(lf_spill_folder(cache->spill), keys, rows, &head))
        return false;
    const struct lf_entry *e = being_read(cache, &head);
    if (e)
        return in_time(cache, e);
    double seconds = lf_spill_read_seconds(cache->spill, lf_spill_file_bytes(&head));
    if (wait->read || (row_s > 0 && seconds > row_s * (double)(head.rows - rows)))
        return false;
    wait->read = read_back(cache, &head);
    return wait->read;
}

// Whether a pass will save more of this prompt than rows, and has come as far itself (C-16).
static bool awaits_mark(const struct lf_cache *cache, const struct lf_rowkeys *keys,
                        uint64_t rows) {
    for (const struct lf_cache_pass *p = cache->passes; p; p = p->next) {
        uint64_t at = p->at, agree = 0;
        for (uint32_t i = 0; i < p->n_plan && at >= rows; i++) {
            uint64_t mark = p->plan[i].at;
            if (mark <= at || mark < rows + AWAITED_ROWS || !p->kind[i])
                continue;
            if (!agree)
                agree = lf_rowkeys_agree(&p->prompt.keys, keys);
            if (mark <= agree && (mark < keys->n || p->kind[i] & LF_MARK_END))
                return true;
            if (mark > agree)
                break;
        }
    }
    return false;
}

bool lf_cache_waits(struct lf_cache *cache, const struct lf_rowkeys *keys,
                    struct lf_cache_wait *wait, double row_s) {
    if (wait->epoch == cache->epoch && !any_read_late(cache))
        return true;
    uint64_t rows = lf_cache_leading(cache, keys);
    bool waits = awaits_read(cache, keys, rows, wait, row_s) || awaits_mark(cache, keys, rows);
    wait->epoch = waits ? cache->epoch : 0;
    return waits;
}
