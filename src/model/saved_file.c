// The file form of a saved state: where drafts can start, whole pages, copied parts; or the logits.
#include <stdlib.h>
#include <string.h>
#include "model/saved.h"
#include "model/saved_block.h"

static struct lf_v41 *model_of(struct lf_target *t) {
    return (struct lf_v41 *)t;
}

// Calls visit for each whole page in the order of the page table, with the bytes of its rows.
static enum lf_status each_page(const struct lf_v41 *m, struct lf_saved *saved,
                                enum lf_status (*visit)(void *ctx, struct lf_page **page,
                                                        uint64_t row_bytes, struct lf_error *err),
                                void *ctx, struct lf_error *err) {
    struct lf_page **page = saved->page;
    for (uint32_t s = 0; s < m->t->n_kv_sources; s++) {
        uint64_t whole = lf_saved_entries(m, s, saved->at) / LF_PAGE_ROWS;
        for (uint64_t i = 0; i < whole; i++)
            LF_TRY(visit(ctx, page++, m->shape.entry_bytes, err));
        for (uint64_t i = 0; i < whole; i++)
            LF_TRY(visit(ctx, page++, m->shape.key_bytes, err));
    }
    return LF_OK;
}

uint64_t lf_model_file_bytes(struct lf_target *target, uint64_t at, uint32_t what) {
    const struct lf_v41 *m = model_of(target);
    uint64_t bytes = what & LF_SAVE_LOGITS ? m->info.vocab * sizeof(float) : 0;
    if (!(what & LF_SAVE_STATE))
        return bytes;
    return bytes + sizeof(uint64_t) + lf_saved_copied_bytes(m, at) +
           lf_saved_pages(m, at) / 2 * LF_PAGE_ROWS *
               ((uint64_t)m->shape.entry_bytes + m->shape.key_bytes);
}

enum { BOUNCE_BYTES = 16384 };

// Bytes of a page that are moved at once: all of them where the host reads and writes pages.
static uint64_t piece(const struct lf_mem *memory, uint64_t left) {
    return memory && left > BOUNCE_BYTES ? BOUNCE_BYTES : left;
}

struct sink {
    lf_bytes_out *out;
    void *ctx;
    struct lf_mem *aside; // of the pages, for this thread
};

static enum lf_status write_page(void *ctx, struct lf_page **page, uint64_t row_bytes,
                                 struct lf_error *err) {
    const struct sink *sink = ctx;
    const uint8_t *rows = (*page)->rows;
    uint8_t bounce[BOUNCE_BYTES];
    for (uint64_t at = 0, n, bytes = LF_PAGE_ROWS * row_bytes; at < bytes; at += n) {
        n = piece(sink->aside, bytes - at);
        const void *piece_bytes = lf_mem_read(sink->aside, rows + at, n, bounce);
        LF_TRY(lf_mem_wait(sink->aside, err));
        LF_TRY(sink->out(sink->ctx, piece_bytes, n, err));
    }
    return LF_OK;
}

enum lf_status lf_model_saved_write(struct lf_target *target, const struct lf_saved *saved,
                                    lf_bytes_out *out, void *ctx, struct lf_error *err) {
    const struct lf_v41 *m = model_of(target);
    struct sink sink = {out, ctx, m->aside};
    if (saved->what & LF_SAVE_STATE) {
        LF_TRY(out(ctx, &saved->draft_from, sizeof saved->draft_from, err));
        LF_TRY(each_page(m, (struct lf_saved *)(uintptr_t)saved, write_page, &sink, err));
        LF_TRY(out(ctx, saved->copied, lf_saved_copied_bytes(m, saved->at), err));
    }
    if (saved->what & LF_SAVE_LOGITS)
        LF_TRY(out(ctx, saved->logits, m->info.vocab * sizeof *saved->logits, err));
    return LF_OK;
}

struct source {
    lf_bytes_in *in;
    void *ctx;
    struct lf_mem *aside; // of the pages, for this thread
};

static enum lf_status read_page(void *ctx, struct lf_page **page, uint64_t row_bytes,
                                struct lf_error *err) {
    const struct source *source = ctx;
    struct lf_page *p = *page = lf_page_new(source->aside, row_bytes);
    uint8_t bounce[BOUNCE_BYTES];
    if (!p)
        return lf_fail(err, LF_E_MEM, "out of memory for a page of a saved state");
    for (uint64_t at = 0, n, bytes = LF_PAGE_ROWS * row_bytes; at < bytes; at += n) {
        uint8_t *to = p->memory ? bounce : p->rows + at;
        n = piece(p->memory, bytes - at);
        LF_TRY(source->in(source->ctx, to, n, err));
        lf_mem_upload(p->memory, p->rows + at, to, n);
    }
    return LF_OK;
}

static enum lf_status free_page(void *ctx, struct lf_page **page, uint64_t row_bytes,
                                struct lf_error *err) {
    (void)ctx;
    (void)row_bytes;
    (void)err;
    lf_page_release(*page);
    return LF_OK;
}

// Ids index tables: one that is out of range must not reach a launch.
static enum lf_status check_ids(const struct lf_v41 *m, const struct lf_saved *saved,
                                uint64_t copied_bytes, struct lf_error *err) {
    uint64_t n = lf_saved_ids(m, saved->at);
    const uint8_t *ids = saved->copied + copied_bytes - n * sizeof(uint32_t);
    for (uint64_t i = 0; i < n; i++) {
        uint32_t id;
        memcpy(&id, ids + i * sizeof id, sizeof id);
        if (id >= m->info.vocab)
            return lf_fail(err, LF_E_FORMAT, "a saved state has token id %u, expected below %u", id,
                           m->info.vocab);
    }
    return LF_OK;
}

static enum lf_status fill(const struct lf_v41 *m, struct lf_saved *saved, struct source *source,
                           struct lf_error *err) {
    lf_bytes_in *in = source->in;
    if (saved->what & LF_SAVE_STATE) {
        uint64_t copied_bytes = lf_saved_copied_bytes(m, saved->at);
        LF_TRY(in(source->ctx, &saved->draft_from, sizeof saved->draft_from, err));
        if (saved->draft_from > saved->at)
            return lf_fail(err, LF_E_FORMAT,
                           "a saved state of %llu rows has drafts from row %llu",
                           (unsigned long long)saved->at, (unsigned long long)saved->draft_from);
        LF_TRY(each_page(m, saved, read_page, source, err));
        LF_TRY(in(source->ctx, saved->copied, copied_bytes, err));
        LF_TRY(check_ids(m, saved, copied_bytes, err));
    }
    if (saved->what & LF_SAVE_LOGITS)
        LF_TRY(in(source->ctx, saved->logits, m->info.vocab * sizeof *saved->logits, err));
    return lf_mem_wait(source->aside, err);
}

enum lf_status lf_model_saved_read(struct lf_target *target, uint64_t at, uint32_t what,
                                   lf_bytes_in *in, void *ctx, struct lf_saved **out,
                                   struct lf_error *err) {
    const struct lf_v41 *m = model_of(target);
    struct source source = {in, ctx, m->aside};
    *out = NULL;
    if (!at || at > m->info.context)
        return lf_fail(err, LF_E_POS, "a saved state of %llu rows: expected 1 to %llu",
                       (unsigned long long)at, (unsigned long long)m->info.context);
    struct lf_saved *saved = lf_saved_new(m, at, what);
    if (!saved)
        return lf_fail(err, LF_E_MEM, "out of memory for a saved state of %llu rows",
                       (unsigned long long)at);
    uint64_t pages = what & LF_SAVE_STATE ? lf_saved_pages(m, at) : 0;
    memset(saved->page, 0, pages * sizeof *saved->page);
    if (fill(m, saved, &source, err) == LF_OK) {
        *out = saved;
        return LF_OK;
    }
    if (pages)
        (void)!each_page(m, saved, free_page, NULL, err);
    free(saved);
    return err->status;
}

void lf_model_adopt(struct lf_target *target, struct lf_saved *saved) {
    struct lf_v41 *m = model_of(target);
    uint64_t pages = saved->what & LF_SAVE_STATE ? lf_saved_pages(m, saved->at) : 0;
    m->saved_bytes += saved->bytes;
    for (uint64_t i = 0; i < pages; i++) {
        saved->page[i]->memory = m->device.memory;
        lf_page_hold(saved->page[i], &m->saved_bytes);
        lf_page_release(saved->page[i]);
    }
}
