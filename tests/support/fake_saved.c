#include "support/fake_saved.h"

#include <stdlib.h>
#include <string.h>

// Rows and bytes of a page, bytes of a snapshot and of logits: the proportions of a real state.
enum { PAGE_ROWS = 16, PAGE_BYTES = 1000, SNAPSHOT_BYTES = 700, CUT_ROW_BYTES = 60,
       LOGITS_BYTES = 400 };

struct lf_fake_page {
    uint32_t held, slots;
};

struct lf_saved {
    uint64_t at, bytes;
    uint32_t what;
    struct lf_fake_page **page;
    uint32_t *token;
};

void lf_fake_table_open(struct lf_fake_table *table, uint64_t context) {
    table->pages = context / PAGE_ROWS + 1;
    table->page = calloc(table->pages, sizeof *table->page);
    LF_ASSERT(table->page);
}

static void page_free(struct lf_fake_page *page) {
    if (!page->held && !page->slots)
        free(page);
}

void lf_fake_table_clear(struct lf_fake_table *table) {
    for (uint64_t i = 0; i < table->pages && table->page[i]; i++) {
        table->page[i]->slots--;
        page_free(table->page[i]);
        table->page[i] = NULL;
    }
}

void lf_fake_table_close(struct lf_fake_table *table) {
    lf_fake_table_clear(table);
    free(table->page);
}

static uint64_t own_bytes(uint64_t at, uint32_t what) {
    uint64_t bytes = 0;
    if (what & LF_SAVE_STATE)
        bytes += SNAPSHOT_BYTES + at % PAGE_ROWS * CUT_ROW_BYTES;
    if (what & LF_SAVE_LOGITS)
        bytes += LOGITS_BYTES;
    return bytes;
}

uint64_t lf_fake_save_bytes(uint64_t at, uint32_t what) {
    bool pages = what & (LF_SAVE_STATE | LF_SAVE_PAGES);
    return own_bytes(at, what) + (pages ? at / PAGE_ROWS * PAGE_BYTES : 0);
}

uint64_t lf_fake_save_need(const struct lf_fake_table *table, uint64_t at, uint32_t what) {
    uint64_t bytes = own_bytes(at, what);
    for (uint64_t i = 0; what & LF_SAVE_STATE && i < at / PAGE_ROWS; i++)
        bytes += !table->page[i] || !table->page[i]->held ? PAGE_BYTES : 0;
    return bytes;
}

enum lf_status lf_fake_save(struct lf_fake_saves *saves, struct lf_fake_table *table,
                            const uint32_t *token, uint64_t at, uint32_t what,
                            struct lf_saved **out, struct lf_error *err) {
    uint64_t pages = what & LF_SAVE_STATE ? at / PAGE_ROWS : 0;
    *out = NULL;
    if (saves->fail_saves) {
        saves->fail_saves--;
        return lf_fail(err, LF_E_MEM, "the fake save failed");
    }
    uint64_t total = saves->total_bytes + lf_fake_save_need(table, at, what);
    LF_ASSERT(!saves->cap_bytes || total <= saves->cap_bytes);
    saves->total_bytes = total;
    saves->saves++;
    struct lf_saved *saved = calloc(1, sizeof *saved);
    LF_ASSERT(saved);
    *saved = (struct lf_saved){.at = at, .what = what, .bytes = own_bytes(at, what),
                               .page = calloc(pages + 1, sizeof *saved->page),
                               .token = calloc(at + 1, sizeof *saved->token)};
    LF_ASSERT(saved->page && saved->token);
    memcpy(saved->token, token, at * sizeof *token);
    for (uint64_t i = 0; i < pages; i++) {
        if (!table->page[i]) {
            table->page[i] = calloc(1, sizeof *table->page[i]);
            LF_ASSERT(table->page[i]);
            table->page[i]->slots = 1;
        }
        saved->page[i] = table->page[i];
        saved->page[i]->held++;
    }
    *out = saved;
    return LF_OK;
}

enum lf_status lf_fake_restore(struct lf_fake_saves *saves, struct lf_fake_table *table,
                               const struct lf_saved *saved, uint32_t *token, uint64_t *length,
                               uint32_t *what, struct lf_error *err) {
    if (saves->fail_restores) {
        saves->fail_restores--;
        return lf_fail(err, LF_E_MEM, "the fake restore failed");
    }
    *what = saved->what;
    saves->restores++;
    if (!(saved->what & LF_SAVE_STATE)) {
        // Logits of another prefix would be drawn from unnoticed.
        LF_ASSERT(*length == saved->at);
        LF_ASSERT(!memcmp(token, saved->token, saved->at * sizeof *token));
        return LF_OK;
    }
    lf_fake_table_clear(table);
    for (uint64_t i = 0; i < saved->at / PAGE_ROWS; i++) {
        table->page[i] = saved->page[i];
        table->page[i]->slots++;
    }
    memcpy(token, saved->token, saved->at * sizeof *token);
    *length = saved->at;
    return LF_OK;
}

void lf_fake_drop(struct lf_fake_saves *saves, struct lf_saved *saved) {
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
