#include "support/fake_saver.h"

#include <stdlib.h>
#include <string.h>
#include "support/fake_target.h"

// Rows and bytes of a page, bytes of a snapshot and of logits: the proportions of a real state.
enum { PAGE_ROWS = 16, PAGE_BYTES = 1000, SNAPSHOT_BYTES = 700, CUT_ROW_BYTES = 60,
       LOGITS_BYTES = 400 };

struct page {
    uint32_t held, slots;
};

// A page is made when a save first shares it.
struct slot {
    uint32_t *token; // [context]
    uint64_t length;
    bool complete, logits;
    struct page **page; // [context / PAGE_ROWS + 2], NULL at the end
};

struct saver {
    struct lf_target target;
    struct lf_fake_saves saves;
    struct slot *slot;
    uint32_t slots;
    uint64_t context;
};

struct lf_saved {
    uint64_t at, bytes;
    uint32_t what;
    struct page **page;
    uint32_t *token;
};

static struct saver *saver_of(struct lf_target *t) {
    return (struct saver *)t;
}

static void page_free(struct page *page) {
    if (!page->held && !page->slots)
        free(page);
}

static enum lf_status reset(struct lf_target *t, uint32_t slot, struct lf_error *err) {
    struct slot *s = &saver_of(t)->slot[slot];
    (void)err;
    for (uint64_t i = 0; s->page[i]; i++) {
        s->page[i]->slots--;
        page_free(s->page[i]);
        s->page[i] = NULL;
    }
    s->length = 0;
    s->complete = true;
    s->logits = false;
    return LF_OK;
}

static enum lf_status prefill(struct lf_target *t, const struct lf_chunk *c, uint32_t n,
                              struct lf_error *err) {
    struct slot *s = &saver_of(t)->slot[c->slot];
    (void)err;
    LF_ASSERT(n == 1 && c->pos0 == s->length && c->pos0 + c->rows <= saver_of(t)->context);
    memcpy(s->token + s->length, c->tok, c->rows * sizeof *c->tok);
    s->length += c->rows;
    s->complete = s->logits = false;
    for (uint32_t i = 0; i < c->n_plan; i++) {
        LF_ASSERT(!i || c->plan[i].at > c->plan[i - 1].at);
        if (c->plan[i].at != s->length)
            continue;
        s->complete = true;
        s->logits = c->plan[i].logits;
    }
    return LF_OK;
}

static enum lf_status draw_last(struct lf_target *t, const struct lf_window *w, uint32_t *drawn,
                                struct lf_error *err) {
    struct slot *s = &saver_of(t)->slot[w->slot];
    (void)err;
    LF_ASSERT(s->logits && w->pos0 == s->length);
    *drawn = lf_fake_next(s->token, s->length, 0, LF_SAVER_VOCAB);
    return LF_OK;
}

static enum lf_status digest(struct lf_target *t, uint32_t slot, uint8_t out[32],
                             struct lf_error *err) {
    struct slot *s = &saver_of(t)->slot[slot];
    (void)err;
    uint64_t hash = lf_fake_next(s->token, s->length, 0, UINT32_MAX);
    memset(out, 0, 32);
    memcpy(out, &hash, sizeof hash);
    return LF_OK;
}

static uint64_t own_bytes(uint64_t at, uint32_t what) {
    uint64_t bytes = 0;
    if (what & LF_SAVE_STATE)
        bytes += SNAPSHOT_BYTES + at % PAGE_ROWS * CUT_ROW_BYTES;
    if (what & LF_SAVE_LOGITS)
        bytes += LOGITS_BYTES;
    return bytes;
}

static uint64_t save_bytes(struct lf_target *t, uint64_t at, uint32_t what) {
    bool pages = what & (LF_SAVE_STATE | LF_SAVE_PAGES);
    (void)t;
    return own_bytes(at, what) + (pages ? at / PAGE_ROWS * PAGE_BYTES : 0);
}

static uint64_t save_need(struct lf_target *t, uint32_t slot, uint64_t at, uint32_t what) {
    struct page **page = saver_of(t)->slot[slot].page;
    uint64_t bytes = own_bytes(at, what);
    for (uint64_t i = 0; what & LF_SAVE_STATE && i < at / PAGE_ROWS; i++)
        bytes += !page[i] || !page[i]->held ? PAGE_BYTES : 0;
    return bytes;
}

static uint64_t saved_total(struct lf_target *t) {
    return saver_of(t)->saves.total_bytes;
}

static void hold(struct lf_saved *saved, struct slot *s, uint64_t pages) {
    for (uint64_t i = 0; i < pages; i++) {
        if (!s->page[i]) {
            s->page[i] = calloc(1, sizeof *s->page[i]);
            LF_ASSERT(s->page[i]);
            s->page[i]->slots = 1;
        }
        saved->page[i] = s->page[i];
        saved->page[i]->held++;
    }
}

static enum lf_status save(struct lf_target *t, uint32_t slot, uint64_t at, uint32_t what,
                           struct lf_saved **out, struct lf_error *err) {
    struct lf_fake_saves *saves = &saver_of(t)->saves;
    struct slot *s = &saver_of(t)->slot[slot];
    uint64_t pages = what & LF_SAVE_STATE ? at / PAGE_ROWS : 0;
    *out = NULL;
    LF_ASSERT(at == s->length && s->complete && (s->logits || !(what & LF_SAVE_LOGITS)));
    if (saves->fail_saves) {
        saves->fail_saves--;
        return lf_fail(err, LF_E_MEM, "the fake save failed");
    }
    uint64_t total = saves->total_bytes + save_need(t, slot, at, what);
    LF_ASSERT(!saves->cap_bytes || total <= saves->cap_bytes);
    saves->total_bytes = total;
    struct lf_saved *saved = calloc(1, sizeof *saved);
    LF_ASSERT(saved);
    *saved = (struct lf_saved){.at = at, .what = what, .bytes = own_bytes(at, what),
                               .page = calloc(pages + 1, sizeof *saved->page),
                               .token = calloc(at + 1, sizeof *saved->token)};
    LF_ASSERT(saved->page && saved->token);
    memcpy(saved->token, s->token, at * sizeof *s->token);
    hold(saved, s, pages);
    *out = saved;
    return LF_OK;
}

static enum lf_status restore(struct lf_target *t, uint32_t slot, const struct lf_saved *saved,
                              struct lf_error *err) {
    struct lf_fake_saves *saves = &saver_of(t)->saves;
    struct slot *s = &saver_of(t)->slot[slot];
    if (saves->fail_restores) {
        saves->fail_restores--;
        return lf_fail(err, LF_E_MEM, "the fake restore failed");
    }
    s->logits = saved->what & LF_SAVE_LOGITS;
    if (!(saved->what & LF_SAVE_STATE)) {
        // Logits of another prefix would be drawn from unnoticed.
        LF_ASSERT(s->length == saved->at);
        LF_ASSERT(!memcmp(s->token, saved->token, saved->at * sizeof *s->token));
        return LF_OK;
    }
    LF_TRY(reset(t, slot, err));
    for (uint64_t i = 0; i < saved->at / PAGE_ROWS; i++) {
        s->page[i] = saved->page[i];
        s->page[i]->slots++;
    }
    memcpy(s->token, saved->token, saved->at * sizeof *s->token);
    s->length = saved->at;
    s->logits = saved->what & LF_SAVE_LOGITS;
    return LF_OK;
}

static void drop(struct lf_target *t, struct lf_saved *saved) {
    struct lf_fake_saves *saves = &saver_of(t)->saves;
    if (!saved)
        return;
    uint64_t pages = saved->what & LF_SAVE_STATE ? saved->at / PAGE_ROWS : 0;
    for (uint64_t i = 0; i < pages; i++) {
        if (!--saved->page[i]->held)
            saves->total_bytes -= PAGE_BYTES;
        page_free(saved->page[i]);
    }
    saves->total_bytes -= saved->bytes;
    free(saved->page);
    free(saved->token);
    free(saved);
}

// The file form: the tokens, whatever is saved; pages and sizes follow from their number.
static uint64_t file_bytes(struct lf_target *t, uint64_t at, uint32_t what) {
    (void)t;
    (void)what;
    return at * sizeof(uint32_t);
}

static enum lf_status write_saved(struct lf_target *t, const struct lf_saved *saved,
                                  lf_bytes_out *out, void *ctx, struct lf_error *err) {
    (void)t;
    return out(ctx, saved->token, saved->at * sizeof *saved->token, err);
}

static enum lf_status read_saved(struct lf_target *t, uint64_t at, uint32_t what, lf_bytes_in *in,
                                 void *ctx, struct lf_saved **out, struct lf_error *err) {
    uint64_t pages = what & LF_SAVE_STATE ? at / PAGE_ROWS : 0;
    *out = NULL;
    if (!at || at > saver_of(t)->context)
        return lf_fail(err, LF_E_POS, "a saved state of %llu rows", (unsigned long long)at);
    uint32_t *token = calloc(at, sizeof *token);
    LF_ASSERT(token);
    if (in(ctx, token, at * sizeof *token, err) != LF_OK) {
        free(token);
        return err->status;
    }
    struct lf_saved *saved = calloc(1, sizeof *saved);
    LF_ASSERT(saved);
    *saved = (struct lf_saved){.at = at, .what = what, .bytes = own_bytes(at, what),
                               .token = token, .page = calloc(pages + 1, sizeof *saved->page)};
    LF_ASSERT(saved->page);
    for (uint64_t i = 0; i < pages; i++) {
        saved->page[i] = calloc(1, sizeof *saved->page[i]);
        LF_ASSERT(saved->page[i]);
        saved->page[i]->held = 1;
    }
    *out = saved;
    return LF_OK;
}

static void adopt(struct lf_target *t, struct lf_saved *saved) {
    struct lf_fake_saves *saves = &saver_of(t)->saves;
    saves->total_bytes += save_bytes(t, saved->at, saved->what);
    LF_ASSERT(!saves->cap_bytes || saves->total_bytes <= saves->cap_bytes);
}

static void close_saver(struct lf_target *t) {
    struct saver *f = saver_of(t);
    struct lf_error err = LF_ERROR_INIT;
    for (uint32_t i = 0; i < f->slots; i++) {
        LF_ASSERT(reset(t, i, &err) == LF_OK);
        free(f->slot[i].token);
        free(f->slot[i].page);
    }
    free(f->slot);
    free(f);
}

struct lf_target *lf_fake_saver_open(uint32_t slots, uint64_t context) {
    static const struct lf_target_ops ops = {
        .prefill = prefill, .draw_last = draw_last, .reset = reset, .digest = digest,
        .save_bytes = save_bytes, .save_need = save_need, .saved_total = saved_total,
        .save = save, .restore = restore, .drop = drop,
        .file_bytes = file_bytes, .write = write_saved, .read = read_saved, .adopt = adopt,
        .close = close_saver,
    };
    struct saver *f = calloc(1, sizeof *f);
    LF_ASSERT(f);
    *f = (struct saver){.target.ops = &ops, .slots = slots, .context = context,
                        .slot = calloc(slots, sizeof *f->slot)};
    LF_ASSERT(f->slot);
    for (uint32_t i = 0; i < slots; i++) {
        f->slot[i] = (struct slot){.token = calloc(context, sizeof *f->slot->token),
                                   .page = calloc(context / PAGE_ROWS + 2, sizeof *f->slot->page),
                                   .complete = true};
        LF_ASSERT(f->slot[i].token && f->slot[i].page);
    }
    return &f->target;
}

struct lf_fake_saves *lf_fake_saves(struct lf_target *target) {
    return &saver_of(target)->saves;
}
