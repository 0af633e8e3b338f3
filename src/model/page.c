#include "model/page.h"

#include <stdlib.h>
#include "base/error.h"
#include "kernel/row.h"

uint64_t lf_page_bytes(uint64_t row_bytes) {
    return sizeof(struct lf_page) + lf_mem_taken(LF_PAGE_ROWS * row_bytes);
}

struct lf_page *lf_page_new(struct lf_mem *memory, uint64_t row_bytes) {
    struct lf_page *page = malloc(sizeof *page);
    if (!page)
        return NULL;
    *page = (struct lf_page){.references = 1, .memory = memory, .bytes = lf_page_bytes(row_bytes),
                             .rows = lf_mem_alloc(memory, LF_PAGE_ROWS * row_bytes)};
    if (!page->rows) {
        free(page);
        return NULL;
    }
    return page;
}

void lf_page_share(struct lf_page *page) {
    page->references++;
}

void lf_page_release(struct lf_page *page) {
    if (!page)
        return;
    LF_ASSERT(page->references > page->held);
    if (!--page->references) {
        lf_mem_free(page->memory, page->rows);
        free(page);
    }
}

void lf_page_hold(struct lf_page *page, uint64_t *total) {
    lf_page_share(page);
    if (!page->held++)
        *total += page->bytes;
}

void lf_page_unhold(struct lf_page *page, uint64_t *total) {
    LF_ASSERT(page->held);
    if (!--page->held)
        *total -= page->bytes;
    lf_page_release(page);
}

bool lf_page_held(const struct lf_page *page) {
    return page->held > 0;
}
