#include "lane/cache_store.h"

#include <stdlib.h>
#include <string.h>

uint64_t lf_entry_bytes(uint64_t rows, uint32_t images) {
    return sizeof(struct lf_entry) + images * sizeof(struct lf_image_span) +
           rows * sizeof(uint32_t);
}

static uint64_t hash_of(const struct lf_rowkeys *keys) {
    struct lf_rowkeys_hash hash = {0};
    lf_rowkeys_hash_to(&hash, keys, keys->n);
    return hash.value;
}

struct lf_entry *lf_cache_find(struct lf_cache *cache, const struct lf_rowkeys *keys) {
    uint64_t hash = hash_of(keys);
    for (struct lf_entry *e = cache->first; e && e->keys.n <= keys->n; e = e->next)
        if (!e->broken && e->keys.n == keys->n && e->hash == hash &&
            lf_rowkeys_lead(&e->keys, keys))
            return e;
    return NULL;
}

struct lf_entry *lf_cache_find_id(struct lf_cache *cache, uint64_t id) {
    for (struct lf_entry *e = cache->first; id && e; e = e->next)
        if (e->id == id)
            return e;
    return NULL;
}

// The only places that move the account; the cap is checked before memory is asked for (C-6).
static void charge(struct lf_cache *cache, uint64_t bytes) {
    cache->held_bytes += bytes;
    LF_ASSERT(cache->held_bytes + cache->promised_bytes <= cache->cap_bytes);
}

void lf_cache_give(struct lf_cache *cache, uint64_t bytes) {
    LF_ASSERT(bytes <= cache->held_bytes);
    cache->held_bytes -= bytes;
}

// What the target's saved states freed since before.
static void drop_saved(struct lf_cache *cache, struct lf_saved *saved) {
    const struct lf_target_ops *ops = cache->target->ops;
    uint64_t before = ops->saved_total(cache->target);
    ops->drop(cache->target, saved);
    lf_cache_give(cache, before - ops->saved_total(cache->target));
}

static bool supersedes(const struct lf_entry *newer, const struct lf_entry *e) {
    return newer->id > e->id && newer->conversation == e->conversation &&
           newer->keys.n > e->keys.n && !(e->marks & LF_MARK_SHARED) &&
           lf_rowkeys_lead(&e->keys, &newer->keys);
}

static void note_newer(struct lf_cache *cache, const struct lf_entry *newer) {
    for (struct lf_entry *e = cache->first; e && e->keys.n < newer->keys.n; e = e->next)
        if (supersedes(newer, e))
            e->superseded_by = newer->id;
}

// Entries that the gone one superseded may be continued by another.
static void note_gone(struct lf_cache *cache, uint64_t id) {
    for (struct lf_entry *e = cache->first; e; e = e->next) {
        if (e->superseded_by != id)
            continue;
        e->superseded_by = 0;
        for (struct lf_entry *f = e->next; f && !e->superseded_by; f = f->next)
            if (supersedes(f, e))
                e->superseded_by = f->id;
    }
}

void lf_cache_drop(struct lf_cache *cache, struct lf_entry *entry) {
    struct lf_entry **link = &cache->first;
    LF_ASSERT(!entry->pins);
    while (*link != entry)
        link = &(*link)->next;
    *link = entry->next;
    drop_saved(cache, entry->state);
    if (entry->logits)
        drop_saved(cache, entry->logits);
    uint64_t id = entry->id, bytes = entry->bytes;
    free(entry);
    lf_cache_give(cache, bytes);
    cache->stats.entries--;
    cache->epoch++;
    note_gone(cache, id);
}

// Where an edit or a regenerate of a request under way would go on.
static bool rewinds_live(const struct lf_cache *cache, const struct lf_entry *e) {
    for (const struct lf_cache_pass *p = cache->passes; p; p = p->next)
        if (p->conversation == e->conversation && p->prompt.rewind_len == e->keys.n)
            return true;
    return false;
}

// Smaller goes first: superseded, then the rest, the live conversation's rewind point last.
static uint32_t worth(const struct lf_cache *cache, const struct lf_entry *e) {
    if (rewinds_live(cache, e))
        return 2;
    return e->superseded_by && !(e->marks & LF_MARK_SHARED) ? 0 : 1;
}

bool lf_cache_goes_before(const struct lf_cache *cache, const struct lf_entry *a,
                          const struct lf_entry *b) {
    uint32_t worth_a = worth(cache, a), worth_b = worth(cache, b);
    return worth_a < worth_b || (worth_a == worth_b && a->used < b->used);
}

struct lf_entry *lf_cache_victim(struct lf_cache *cache) {
    struct lf_entry *victim = NULL;
    for (struct lf_entry *e = cache->first; e; e = e->next)
        if (!e->pins && (!victim || lf_cache_goes_before(cache, e, victim)))
            victim = e;
    return victim;
}

bool lf_cache_take(struct lf_cache *cache, uint64_t bytes) {
    uint64_t free_bytes = cache->cap_bytes - cache->promised_bytes;
    bool fits = bytes <= free_bytes;
    while (fits && cache->held_bytes > free_bytes - bytes)
        fits = lf_cache_evict(cache);
    if (fits)
        charge(cache, bytes);
    else
        cache->stats.refused++;
    return fits;
}

// Bytes that saving what and a block of own bytes adds; whole pages may be held already.
static uint64_t need_bytes(struct lf_cache *cache, uint32_t slot, uint64_t at, uint32_t what,
                           uint64_t own) {
    return own + cache->target->ops->save_need(cache->target, slot, at, what);
}

// Evicts until the need fits; nothing for what an empty store could not hold. Charges it (C-6).
static bool make_room(struct lf_cache *cache, uint32_t slot, uint64_t at, uint32_t what,
                      uint64_t own, uint64_t *need) {
    uint64_t alone = own + cache->target->ops->save_bytes(cache->target, at, what);
    if (alone + cache->promised_bytes > cache->cap_bytes) {
        cache->stats.refused++;
        return false;
    }
    while (*need = need_bytes(cache, slot, at, what, own),
           cache->held_bytes + cache->promised_bytes + *need > cache->cap_bytes)
        if (!lf_cache_evict(cache)) {
            cache->stats.refused++;
            return false;
        }
    charge(cache, *need);
    return true;
}

// One save whose need is charged already.
static struct lf_saved *save(struct lf_cache *cache, uint32_t slot, uint64_t at, uint32_t what) {
    const struct lf_target_ops *ops = cache->target->ops;
    struct lf_error err = LF_ERROR_INIT;
    struct lf_saved *saved = NULL;
    return ops->save(cache->target, slot, at, what, &saved, &err) == LF_OK ? saved : NULL;
}

struct lf_image_span *lf_entry_images(struct lf_entry *e) {
    return (struct lf_image_span *)(e + 1);
}

uint32_t *lf_entry_tokens(struct lf_entry *e) {
    return (uint32_t *)(lf_entry_images(e) + e->keys.n_images);
}

struct lf_entry *lf_entry_new(uint64_t rows, uint32_t images) {
    uint64_t bytes = lf_entry_bytes(rows, images);
    struct lf_entry *e = malloc(bytes);
    if (!e)
        return NULL;
    *e = (struct lf_entry){.bytes = bytes, .keys = {.n = rows, .n_images = images}};
    e->keys.image = lf_entry_images(e);
    e->keys.token = lf_entry_tokens(e);
    return e;
}

static struct lf_entry *entry_of(const struct lf_rowkeys *keys) {
    struct lf_entry *e = lf_entry_new(keys->n, keys->n_images);
    if (!e)
        return NULL;
    if (keys->n_images)
        memcpy(lf_entry_images(e), keys->image, keys->n_images * sizeof *keys->image);
    memcpy(lf_entry_tokens(e), keys->token, keys->n * sizeof *keys->token);
    e->hash = hash_of(keys);
    return e;
}

void lf_cache_insert(struct lf_cache *cache, struct lf_entry *e) {
    struct lf_entry **link = &cache->first;
    while (*link && (*link)->keys.n < e->keys.n)
        link = &(*link)->next;
    e->next = *link;
    *link = e;
    e->id = ++cache->last_id;
    cache->stats.entries++;
    cache->epoch++;
    cache->look = true;
    note_newer(cache, e);
}

static struct lf_entry *keep_state(struct lf_cache *cache, const struct lf_cache_pass *pass,
                                   const struct lf_rowkeys *keys, uint32_t marks) {
    uint64_t need;
    if (!make_room(cache, pass->slot, keys->n, LF_SAVE_STATE,
                   lf_entry_bytes(keys->n, keys->n_images), &need))
        return NULL;
    struct lf_entry *e = entry_of(keys);
    struct lf_saved *state = e ? save(cache, pass->slot, keys->n, LF_SAVE_STATE) : NULL;
    if (!state) {
        free(e);
        lf_cache_give(cache, need);
        cache->stats.failed++;
        return NULL;
    }
    e->state = state;
    e->marks = marks;
    e->born = pass->prompt.keys.n;
    e->conversation = pass->conversation;
    lf_cache_insert(cache, e);
    cache->stats.kept++;
    return e;
}

// The entry stays whatever goes for its logits.
static void keep_logits(struct lf_cache *cache, const struct lf_cache_pass *pass,
                        struct lf_entry *e) {
    uint64_t need;
    e->pins++;
    if (make_room(cache, pass->slot, e->keys.n, LF_SAVE_LOGITS, 0, &need)) {
        e->logits = save(cache, pass->slot, e->keys.n, LF_SAVE_LOGITS);
        if (!e->logits) {
            lf_cache_give(cache, need);
            cache->stats.failed++;
        }
    }
    e->pins--;
}

// The entry that the pass resumed and those that it made were last used by its prompt (C-8).
static void note_prompt(struct lf_cache *cache, const struct lf_cache_pass *pass, uint64_t end_id) {
    for (struct lf_entry *e = cache->first; e; e = e->next)
        if (e->id == pass->resumed_id ||
            (e->conversation == pass->conversation && e->born == pass->prompt.keys.n))
            e->last_prompt = end_id;
}

void lf_cache_keep(struct lf_cache *cache, const struct lf_cache_pass *pass,
                   const struct lf_rowkeys *keys, uint32_t marks) {
    struct lf_entry *e = lf_cache_find(cache, keys);
    if (e)
        e->marks |= marks;
    else
        e = keep_state(cache, pass, keys, marks);
    if (!e)
        return;
    e->used = ++cache->clock;
    cache->look = true;
    if (marks & LF_MARK_END && !e->logits)
        keep_logits(cache, pass, e);
    if (marks & LF_MARK_END)
        note_prompt(cache, pass, e->id);
}
