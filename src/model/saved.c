#include "model/saved.h"

#include <stdlib.h>
#include "model/saved_block.h"

static struct lf_v41 *model_of(struct lf_target *t) {
    return (struct lf_v41 *)t;
}

// A page and where it stands in its slot.
struct page_place {
    struct lf_v41 *m;
    struct lf_state *state;
    struct lf_page *page;
    uint32_t source;
    uint64_t i;
    int which; // 0 entries, 1 keys
};

uint64_t lf_saved_entries(const struct lf_v41 *m, uint32_t source, uint64_t at) {
    return at / m->t->ratio[m->t->kv_sources[source]];
}

uint64_t lf_saved_pages(const struct lf_v41 *m, uint64_t at) {
    uint64_t pages = 0;
    for (uint32_t s = 0; s < m->t->n_kv_sources; s++)
        pages += 2 * (lf_saved_entries(m, s, at) / LF_PAGE_ROWS);
    return pages;
}

// Calls visit for each whole page of rows before at, in the order of the page table.
static void whole_pages(struct lf_v41 *m, struct lf_state *state, uint64_t at,
                        void (*visit)(void *ctx, const struct page_place *place), void *ctx) {
    for (uint32_t s = 0; s < m->t->n_kv_sources; s++) {
        uint64_t whole = lf_saved_entries(m, s, at) / LF_PAGE_ROWS;
        for (int which = 0; which < 2; which++) {
            struct lf_page **list = lf_state_pages_of(state, which, s);
            for (uint64_t i = 0; i < whole; i++)
                visit(ctx, &(struct page_place){m, state, list[i], s, i, which});
        }
    }
}

// A walk over the parts of a state that are copied: counts them, or moves them in or out.
struct walk {
    enum { COUNT, SAVE, LOAD } mode;
    struct lf_mem *memory; // of the parts; NULL: the host's
    uint8_t *block;
    uint64_t bytes;
};

static void part(struct walk *walk, void *data, uint64_t bytes) {
    if (walk->mode == SAVE)
        lf_mem_download(walk->memory, walk->block + walk->bytes, data, bytes);
    else if (walk->mode == LOAD)
        lf_mem_upload(walk->memory, data, walk->block + walk->bytes, bytes);
    walk->bytes += bytes;
}

// The rows of a window ring that rows from at on can read; a pass of drafts may start there too.
static void ring_part(struct walk *walk, const struct lf_v41 *m, uint8_t *ring, uint64_t at,
                      bool drafts) {
    uint64_t span = m->t->window - (drafts ? 0 : 1), bytes = m->shape.window_bytes;
    uint64_t first = at > span ? at - span : 0;
    if (walk->mode == COUNT) {
        walk->bytes += (at - first) * bytes;
        return;
    }
    // In one run, or in two where the ring's end lies between.
    for (uint64_t p = first, rows; p < at; p += rows) {
        uint64_t place = p % m->shape.ring_rows, left = m->shape.ring_rows - place;
        rows = at - p < left ? at - p : left;
        part(walk, ring + place * bytes, rows * bytes);
    }
}

// The rows of the page that at cuts; a walk that moves bytes needs the page to be there.
static void cut_page_part(struct walk *walk, struct lf_page *const *page, uint64_t rows,
                          uint64_t row_bytes) {
    uint64_t bytes = rows % LF_PAGE_ROWS * row_bytes;
    if (bytes)
        part(walk, walk->mode == COUNT ? NULL : page[rows / LF_PAGE_ROWS]->rows, bytes);
}

uint64_t lf_saved_ids(const struct lf_v41 *m, uint64_t at) {
    uint64_t back = m->t->engram_ngram - 1;
    return back < at ? back : at;
}

static void copied_parts(struct walk *walk, const struct lf_v41 *m, const struct lf_state *state,
                         uint64_t at) {
    const struct lf_topology *t = m->t;
    uint64_t back = lf_saved_ids(m, at);
    uint64_t raw = 2 * (uint64_t)t->head_dim;
    bool half = at % 2;
#if LF_FAULT == 1
    half = false; // 1: the open half of a pair is not saved
#endif
    uint32_t rings = m->shape.rings;
#if LF_FAULT == 2
    rings = t->layers; // 2: context rows of the drafter are not saved
#endif
    for (uint32_t l = 0; l < rings; l++)
        ring_part(walk, m, state->ring[l], at, l >= t->layers);
    for (uint32_t s = 0; s < t->n_kv_sources; s++) {
        cut_page_part(walk, state->entry_page[s], lf_saved_entries(m, s, at),
                      m->shape.entry_bytes);
        cut_page_part(walk, state->key_page[s], lf_saved_entries(m, s, at), m->shape.key_bytes);
        if (state->open[s] && half)
            part(walk, state->open[s] + (at - 1) % m->shape.open_rows * raw, raw * sizeof(float));
    }
    walk->memory = NULL; // ids are the host's
    part(walk, state->history + at - back, back * sizeof *state->history);
}

uint64_t lf_saved_copied_bytes(const struct lf_v41 *m, uint64_t at) {
    struct walk walk = {.mode = COUNT};
    copied_parts(&walk, m, &m->state[0], at);
    return walk.bytes;
}

static uint64_t block_bytes(const struct lf_v41 *m, uint64_t at, uint32_t what) {
    uint64_t bytes = sizeof(struct lf_saved);
    if (what & LF_SAVE_STATE)
        bytes += lf_saved_pages(m, at) * sizeof(struct lf_page *) + lf_saved_copied_bytes(m, at);
    if (what & LF_SAVE_LOGITS)
        bytes += m->info.vocab * sizeof(float);
    return bytes;
}

struct lf_saved *lf_saved_new(const struct lf_v41 *m, uint64_t at, uint32_t what) {
    uint64_t bytes = block_bytes(m, at, what);
    struct lf_saved *saved = malloc(bytes);
    if (!saved)
        return NULL;
    *saved = (struct lf_saved){.at = at, .bytes = bytes, .what = what};
    saved->page = (struct lf_page **)(saved + 1);
    saved->logits = (float *)(saved->page + (what & LF_SAVE_STATE ? lf_saved_pages(m, at) : 0));
    saved->copied = (uint8_t *)(saved->logits + (what & LF_SAVE_LOGITS ? m->info.vocab : 0));
    return saved;
}

static uint64_t page_bytes(const struct lf_v41 *m, uint64_t at) {
    return lf_saved_pages(m, at) / 2 *
           (lf_page_bytes(m->shape.entry_bytes) + lf_page_bytes(m->shape.key_bytes));
}

uint64_t lf_model_save_bytes(struct lf_target *target, uint64_t at, uint32_t what) {
    const struct lf_v41 *m = model_of(target);
    if (what == LF_SAVE_PAGES)
        return page_bytes(m, at);
    return block_bytes(m, at, what) + (what & LF_SAVE_STATE ? page_bytes(m, at) : 0);
}

static void count_unheld(void *ctx, const struct page_place *place) {
    uint64_t *unheld = ctx;
    *unheld += !lf_page_held(place->page);
}

uint64_t lf_model_save_need(struct lf_target *target, uint32_t slot, uint64_t at, uint32_t what) {
    struct lf_v41 *m = model_of(target);
    uint64_t unheld = 0;
    LF_ASSERT(slot < m->info.slots && at <= m->state[slot].length);
    if (what & LF_SAVE_STATE)
        whole_pages(m, &m->state[slot], at, count_unheld, &unheld);
    // Entry and key pages are always held in pairs.
    return block_bytes(m, at, what) +
           unheld / 2 * (lf_page_bytes(m->shape.entry_bytes) + lf_page_bytes(m->shape.key_bytes));
}

uint64_t lf_model_saved_total(struct lf_target *target) {
    return model_of(target)->saved_bytes;
}

static enum lf_status check_slot(const struct lf_v41 *m, uint32_t slot, struct lf_error *err) {
    if (slot >= m->info.slots)
        return lf_fail(err, LF_E_SLOT, "slot %u: there are %u", slot, m->info.slots);
    if (m->state[slot].pending_rows)
        return lf_fail(err, LF_E_KEEP, "slot %u: the last verify still waits for its keep", slot);
    return LF_OK;
}

static enum lf_status check_save(const struct lf_v41 *m, uint32_t slot, uint64_t at, uint32_t what,
                                 struct lf_error *err) {
    LF_TRY(check_slot(m, slot, err));
    const struct lf_state *state = &m->state[slot];
    if (!(what & (LF_SAVE_STATE | LF_SAVE_LOGITS)) || what & ~3u)
        return lf_fail(err, LF_E_VALUE, "a save of parts %u: expected state, logits or both", what);
    if (at != state->length)
        return lf_fail(err, LF_E_PLAN, "slot %u: a save at %llu, its length is %llu", slot,
                       (unsigned long long)at, (unsigned long long)state->length);
    if (!state->complete)
        return lf_fail(err, LF_E_PLAN, "slot %u: position %llu was no boundary of its pass", slot,
                       (unsigned long long)at);
    if (what & LF_SAVE_LOGITS && !state->logits_ready)
        return lf_fail(err, LF_E_PLAN, "slot %u: no logits were asked for at position %llu", slot,
                       (unsigned long long)at);
    return LF_OK;
}

struct filling {
    struct lf_saved *saved;
    uint64_t *total;
    uint64_t n;
};

static void hold_page(void *ctx, const struct page_place *place) {
    struct filling *f = ctx;
    lf_page_hold(place->page, f->total);
    f->saved->page[f->n++] = place->page;
}

enum lf_status lf_model_save(struct lf_target *target, uint32_t slot, uint64_t at, uint32_t what,
                             struct lf_saved **out, struct lf_error *err) {
    struct lf_v41 *m = model_of(target);
    *out = NULL;
    LF_TRY(check_save(m, slot, at, what, err));
    lf_draft_fill(m, &slot, 1);
    struct lf_state *state = &m->state[slot];
    struct lf_saved *saved = lf_saved_new(m, at, what);
    if (!saved)
        return lf_fail(err, LF_E_MEM, "out of memory for a saved state of %llu bytes",
                       (unsigned long long)block_bytes(m, at, what));
    m->saved_bytes += saved->bytes;
    if (what & LF_SAVE_LOGITS)
        lf_mem_download(m->device.memory, saved->logits, state->last,
                           m->info.vocab * sizeof *saved->logits);
    if (what & LF_SAVE_STATE) {
        saved->draft_from = state->draft_from;
        struct walk walk = {.mode = SAVE, .memory = m->device.memory, .block = saved->copied};
        struct filling filling = {.saved = saved, .total = &m->saved_bytes};
        whole_pages(m, state, at, hold_page, &filling);
        copied_parts(&walk, m, state, at);
    }
    if (lf_mem_wait(m->device.memory, err) != LF_OK)
        lf_model_drop(target, saved);
    else
        *out = saved;
    return err->status;
}

static void take_page(void *ctx, const struct page_place *place) {
    struct filling *f = ctx;
    struct lf_page *page = f->saved->page[f->n++];
    lf_page_release(place->page);
    lf_page_share(page);
    lf_state_pages_of(place->state, place->which, place->source)[place->i] = page;
}

static void show_whole_pages(struct lf_v41 *m, struct lf_state *state, uint64_t at) {
    for (uint32_t s = 0; s < m->t->n_kv_sources; s++)
        for (int which = 0; which < 2; which++)
            lf_state_show_pages(state, &m->shape, which, s, 0,
                                lf_saved_entries(m, s, at) / LF_PAGE_ROWS);
}

static enum lf_status restore_state(struct lf_v41 *m, struct lf_state *state,
                                    const struct lf_saved *saved, struct lf_error *err) {
    struct filling filling = {.saved = (struct lf_saved *)(uintptr_t)saved};
    struct walk walk = {.mode = LOAD, .memory = m->device.memory, .block = saved->copied};
    lf_state_reset(state, &m->shape);
    whole_pages(m, state, saved->at, take_page, &filling);
    show_whole_pages(m, state, saved->at);
    // The cut pages are the slot's own: what a saved state shares is never written.
    enum lf_status status = lf_state_grow(state, &m->shape, saved->at, err);
    if (status != LF_OK) {
        lf_state_reset(state, &m->shape);
        return status;
    }
    copied_parts(&walk, m, state, saved->at);
    state->length = state->taps_from = state->draft_end = saved->at;
    state->draft_from = saved->draft_from;
    return LF_OK;
}

enum lf_status lf_model_restore(struct lf_target *target, uint32_t slot,
                                const struct lf_saved *saved, struct lf_error *err) {
    struct lf_v41 *m = model_of(target);
    LF_TRY(check_slot(m, slot, err));
    struct lf_state *state = &m->state[slot];
    if (saved->what & LF_SAVE_STATE)
        LF_TRY(restore_state(m, state, saved, err));
    else if (state->length != saved->at || !state->complete)
        return lf_fail(err, LF_E_POS, "slot %u: logits of position %llu, its length is %llu", slot,
                       (unsigned long long)saved->at, (unsigned long long)state->length);
    if (saved->what & LF_SAVE_LOGITS) {
        lf_mem_upload(m->device.memory, state->last, saved->logits,
                         m->info.vocab * sizeof *state->last);
        state->logits_ready = true;
    }
    if (lf_mem_wait(m->device.memory, err) != LF_OK)
        lf_state_reset(state, &m->shape);
    lf_model_tell_pages(m, slot);
    return err->status;
}

void lf_model_drop(struct lf_target *target, struct lf_saved *saved) {
    struct lf_v41 *m = model_of(target);
    if (!saved)
        return;
    uint64_t pages = saved->what & LF_SAVE_STATE ? lf_saved_pages(m, saved->at) : 0;
    for (uint64_t i = 0; i < pages; i++)
        lf_page_unhold(saved->page[i], &m->saved_bytes);
    m->saved_bytes -= saved->bytes;
    free(saved);
}
