#include "lane/cache.h"

#include <stdlib.h>
#include <string.h>
#include "lane/cache_store.h"

enum lf_status lf_cache_open(struct lf_cache **out, struct lf_target *target, uint64_t cap_bytes,
                             struct lf_error *err) {
    struct lf_cache *cache = calloc(1, sizeof *cache);
    *out = cache;
    if (!cache)
        return lf_fail(err, LF_E_MEM, "out of memory for the prompt cache");
    cache->target = target;
    cache->cap_bytes = cap_bytes;
    cache->epoch = 1;
    return LF_OK;
}

void lf_cache_close(struct lf_cache *cache) {
    if (!cache)
        return;
    lf_cache_settle(cache);
    while (cache->first)
        lf_cache_drop(cache, cache->first);
    lf_spill_close(cache->spill);
    LF_ASSERT(!cache->held_bytes && !cache->promised_bytes);
    free(cache);
}

void lf_cache_stats_read(const struct lf_cache *cache, struct lf_cache_stats *out) {
    *out = (struct lf_cache_stats){0};
    if (!cache)
        return;
    *out = cache->stats;
    out->held_bytes = cache->held_bytes;
    out->cap_bytes = cache->cap_bytes;
    if (cache->spill)
        lf_cache_disk_stats(cache, out);
}

static struct lf_entry *longest_candidate(struct lf_cache *cache, uint64_t rows) {
    struct lf_entry *longest = NULL;
    for (struct lf_entry *e = cache->first; e && e->keys.n <= rows; e = e->next)
        if (e->candidate)
            longest = e;
    return longest;
}

// The longest entry that leads the prompt and leaves a row to run, or has logits (C-12).
static struct lf_entry *look_up(struct lf_cache *cache, const struct lf_rowkeys *keys) {
    struct lf_rowkeys_hash hash = {0};
    struct lf_entry *found;
    for (struct lf_entry *e = cache->first; e && e->keys.n <= keys->n; e = e->next) {
        lf_rowkeys_hash_to(&hash, keys, e->keys.n);
        e->candidate = hash.value == e->hash && (e->keys.n < keys->n || e->logits) && !e->broken;
    }
    while ((found = longest_candidate(cache, keys->n)) && !lf_rowkeys_lead(&found->keys, keys))
        found->candidate = false;
    return found;
}

uint64_t lf_cache_leading(struct lf_cache *cache, const struct lf_rowkeys *keys) {
    struct lf_entry *e = look_up(cache, keys);
    return e ? e->keys.n : 0;
}

// The state, and at a prompt's end the logits; a failure drops the entry (C-15).
static bool resume(struct lf_cache *cache, struct lf_entry *e, uint32_t slot, bool whole) {
    const struct lf_target_ops *ops = cache->target->ops;
    struct lf_error err = LF_ERROR_INIT;
    e->pins++;
    enum lf_status status = ops->restore(cache->target, slot, e->state, &err);
    if (status == LF_OK && whole)
        status = ops->restore(cache->target, slot, e->logits, &err);
    e->pins--;
    if (status == LF_OK)
        return true;
    cache->stats.failed++;
    e->broken = true;
    if (!e->pins)
        lf_cache_drop(cache, e);
    struct lf_error again = LF_ERROR_INIT;
    // On a device that is lost this fails, and so will the slot's first launch.
    (void)!ops->reset(cache->target, slot, &again);
    return false;
}

static struct lf_entry *try_resume(struct lf_cache *cache, struct lf_cache_pass *pass) {
    uint64_t rows = pass->prompt.keys.n;
    struct lf_entry *e = look_up(cache, &pass->prompt.keys);
    pass->conversation = ++cache->last_conversation;
    if (!e || !resume(cache, e, pass->slot, e->keys.n == rows)) {
        cache->stats.misses++;
        return NULL;
    }
    cache->stats.hits++;
    cache->stats.restored_tokens += e->keys.n;
    e->used = ++cache->clock;
    pass->resumed = e->keys.n;
    pass->resumed_id = e->id;
    // Conversations that start with the same shared text part there.
    if (!(e->marks & LF_MARK_SHARED))
        pass->conversation = e->conversation;
    return e;
}

void lf_cache_begin(struct lf_cache *cache, struct lf_cache_pass *pass, uint32_t slot,
                    const struct lf_cache_prompt *prompt) {
    *pass = (struct lf_cache_pass){.prompt = *prompt, .slot = slot};
    struct lf_entry *resumed = cache ? try_resume(cache, pass) : NULL;
    if (cache) {
        pass->live = true;
        pass->at = pass->resumed;
        cache->epoch++;
        pass->next = cache->passes;
        cache->passes = pass;
    }
    if (pass->resumed == prompt->keys.n)
        return;
    if (cache)
        lf_cache_plan(cache, pass, resumed);
    if (!pass->n_plan || pass->plan[pass->n_plan - 1].at != prompt->keys.n)
        pass->plan[pass->n_plan++].at = prompt->keys.n;
    pass->plan[pass->n_plan - 1].logits = true;
}

uint64_t lf_cache_next(const struct lf_cache_pass *pass, uint64_t at) {
    for (uint32_t i = 0; i < pass->n_plan; i++)
        if (pass->plan[i].at > at)
            return pass->plan[i].at;
    return pass->prompt.keys.n;
}

static void release_promise(struct lf_cache *cache, struct lf_cache_pass *pass, uint32_t i) {
    cache->promised_bytes -= pass->promise[i];
    pass->promise[i] = 0;
}

void lf_cache_mark(struct lf_cache *cache, struct lf_cache_pass *pass, uint64_t at) {
    pass->at = at;
    for (uint32_t i = 0; cache && i < pass->n_plan; i++) {
        if (pass->plan[i].at != at || !pass->kind[i])
            continue;
        struct lf_rowkeys keys = lf_rowkeys_cut(&pass->prompt.keys, at);
        release_promise(cache, pass, i);
        cache->epoch++;
        lf_cache_keep(cache, pass, &keys, pass->kind[i]);
    }
}

void lf_cache_end(struct lf_cache *cache, struct lf_cache_pass *pass,
                  const struct lf_rowkeys *keys) {
    if (!cache || !pass->live)
        return;
    for (uint32_t i = 0; i < pass->n_plan; i++)
        release_promise(cache, pass, i);
    if (keys)
        lf_cache_keep(cache, pass, keys, LF_MARK_REPLY);
    struct lf_cache_pass **link = &cache->passes;
    while (*link != pass)
        link = &(*link)->next;
    *link = pass->next;
    pass->live = false;
    cache->epoch++;
}

bool lf_cache_evict(struct lf_cache *cache) {
    struct lf_entry *victim = cache ? lf_cache_victim(cache) : NULL;
    if (!victim)
        return false;
    cache->stats.evicted++;
    cache->stats.unspilled += lf_cache_unspilled(cache, victim);
    lf_cache_drop(cache, victim);
    return true;
}
