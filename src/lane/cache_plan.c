#include "lane/cache_store.h"

// A shorter state than LEAST_ROWS is the first token alone: resuming it saves nothing.
enum { STEP_ROWS = 16384, APART_ROWS = 256, LEAST_ROWS = 2 };

// Marks chosen so far, ascending; plan, kind and promise of the pass stay side by side.
struct choice {
    struct lf_cache *cache;
    struct lf_cache_pass *pass;
    uint64_t budget_bytes;
};

static uint32_t parts_of(uint32_t marks) {
    return LF_SAVE_STATE | (marks & LF_MARK_END ? LF_SAVE_LOGITS : 0);
}

// Bytes of the mark's own: its keys, snapshot and logits; pages are those past before.
static uint64_t mark_bytes(const struct choice *c, uint64_t at, uint32_t marks, uint64_t before) {
    struct lf_target *t = c->cache->target;
    struct lf_rowkeys keys = lf_rowkeys_cut(&c->pass->prompt.keys, at);
    uint64_t bytes = lf_entry_bytes(keys.n, keys.n_images) - t->ops->save_bytes(t, before,
                                                                               LF_SAVE_PAGES);
    bytes += t->ops->save_bytes(t, at, LF_SAVE_STATE);
    // Logits are saved by themselves, so that they can join an entry that is there.
    if (parts_of(marks) & LF_SAVE_LOGITS)
        bytes += t->ops->save_bytes(t, at, LF_SAVE_LOGITS);
    return bytes;
}

static uint64_t total_bytes(const struct choice *c) {
    const struct lf_cache_pass *p = c->pass;
    uint64_t total = 0, before = p->resumed;
    for (uint32_t i = 0; i < p->n_plan; i++) {
        total += mark_bytes(c, p->plan[i].at, p->kind[i], before);
        before = p->plan[i].at;
    }
    return total;
}

static void put(struct lf_cache_pass *p, uint32_t i, uint64_t at, uint32_t marks) {
    for (uint32_t j = p->n_plan++; j > i; j--) {
        p->plan[j] = p->plan[j - 1];
        p->kind[j] = p->kind[j - 1];
    }
    p->plan[i] = (struct lf_bound){.at = at};
    p->kind[i] = marks;
}

static void take_out(struct lf_cache_pass *p, uint32_t i) {
    p->n_plan--;
    for (uint32_t j = i; j < p->n_plan; j++) {
        p->plan[j] = p->plan[j + 1];
        p->kind[j] = p->kind[j + 1];
    }
    p->kind[p->n_plan] = 0;
}

static uint64_t distance(uint64_t a, uint64_t b) {
    return a > b ? a - b : b - a;
}

// Marks after the first three keep their distance from each other and the resume point.
static bool too_close(const struct lf_cache_pass *p, uint64_t at) {
    uint32_t placed = LF_MARK_END | LF_MARK_HISTORY | LF_MARK_REWIND;
    if (at - p->resumed < APART_ROWS)
        return true;
    for (uint32_t i = 0; i < p->n_plan; i++)
        if (!(p->kind[i] & placed) && distance(p->plan[i].at, at) < APART_ROWS)
            return true;
    return false;
}

// Adds a mark where C-8 allows one and the budget holds it with those before it.
static void choose(struct choice *c, uint64_t at, enum lf_mark mark) {
    struct lf_cache_pass *p = c->pass;
    const struct lf_rowkeys *keys = &p->prompt.keys;
    uint32_t i = 0;
    if (at < LEAST_ROWS || at <= p->resumed || at > keys->n || lf_rowkeys_split_image(keys, at))
        return;
    while (i < p->n_plan && p->plan[i].at < at)
        i++;
    if (i < p->n_plan && p->plan[i].at == at) {
        p->kind[i] |= mark;
        return;
    }
    // The last place is for the prompt's end, which is a boundary whether it is saved or not.
    if (p->n_plan >= LF_PLAN_MAX - 1 && at != keys->n)
        return;
    if (mark > LF_MARK_REWIND && too_close(p, at))
        return;
    put(p, i, at, mark);
    if (total_bytes(c) <= c->budget_bytes)
        return;
    take_out(p, i);
    c->cache->stats.refused++;
}

static uint64_t stable_prefix(struct lf_cache *cache, const struct lf_cache_pass *pass,
                              const struct lf_entry *resumed) {
    uint64_t history = pass->prompt.history_len ? pass->prompt.history_len : pass->prompt.keys.n;
    struct lf_entry *last = resumed ? lf_cache_find_id(cache, resumed->last_prompt) : NULL;
    uint64_t agree = last ? lf_rowkeys_agree(&last->keys, &pass->prompt.keys) : 0;
    return 2 * agree >= history ? agree : 0;
}

static void choose_all(struct choice *c, const struct lf_entry *resumed) {
    const struct lf_cache_prompt *prompt = &c->pass->prompt;
    uint64_t rows = prompt->keys.n, stable = stable_prefix(c->cache, c->pass, resumed);
    if (rows >= APART_ROWS || c->cache->held_bytes < c->cache->cap_bytes / 2)
        choose(c, rows, LF_MARK_END);
    choose(c, prompt->history_len, LF_MARK_HISTORY);
    choose(c, prompt->rewind_len, LF_MARK_REWIND);
    for (uint32_t i = 0; i < prompt->n_shared; i++)
        choose(c, prompt->shared[i], LF_MARK_SHARED);
    choose(c, stable, LF_MARK_STABLE);
    for (uint64_t at = STEP_ROWS; at < rows; at += STEP_ROWS)
        choose(c, at, LF_MARK_STEP);
}

// Sets each mark's bytes aside, so that a later pass cannot take them.
static void promise(struct choice *c) {
    struct lf_cache_pass *p = c->pass;
    uint64_t before = p->resumed;
    for (uint32_t i = 0; i < p->n_plan; i++) {
        p->promise[i] = mark_bytes(c, p->plan[i].at, p->kind[i], before);
        c->cache->promised_bytes += p->promise[i];
        before = p->plan[i].at;
    }
}

void lf_cache_plan(struct lf_cache *cache, struct lf_cache_pass *pass,
                   const struct lf_entry *resumed) {
    struct choice c = {.cache = cache, .pass = pass,
                       .budget_bytes = cache->cap_bytes - cache->promised_bytes};
    struct lf_entry *kept = resumed ? lf_cache_find_id(cache, resumed->id) : NULL;
    if (kept) {
        uint64_t stays = kept->bytes + cache->target->ops->save_bytes(
                                           cache->target, kept->keys.n, LF_SAVE_STATE);
        if (kept->logits)
            stays += cache->target->ops->save_bytes(cache->target, kept->keys.n, LF_SAVE_LOGITS);
        c.budget_bytes -= stays < c.budget_bytes ? stays : c.budget_bytes;
        kept->pins++;
    }
    choose_all(&c, resumed);
    uint64_t total = total_bytes(&c);
    while (cache->held_bytes + cache->promised_bytes + total > cache->cap_bytes)
        if (!lf_cache_evict(cache))
            break;
    if (kept)
        kept->pins--;
    if (cache->held_bytes + cache->promised_bytes + total <= cache->cap_bytes)
        promise(&c);
}
