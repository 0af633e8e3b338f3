#include "model/page.h"

#include <stdlib.h>
#include "base/error.h"
#include "kernel/row.h"

// Stands before the rows; 16 bytes keep their alignment.
struct head {
    uint32_t references, held;
    uint64_t bytes;
};

static struct head *head_of(const uint8_t *page) {
    return (struct head *)(uintptr_t)(page - sizeof(struct head));
}

uint64_t lf_page_bytes(uint64_t row_bytes) {
    return sizeof(struct head) + LF_PAGE_ROWS * row_bytes;
}

uint8_t *lf_page_new(uint64_t row_bytes) {
    struct head *head = calloc(1, lf_page_bytes(row_bytes));
    if (!head)
        return NULL;
    *head = (struct head){.references = 1, .bytes = lf_page_bytes(row_bytes)};
    return (uint8_t *)(head + 1);
}

void lf_page_share(uint8_t *page) {
    head_of(page)->references++;
}

void lf_page_release(uint8_t *page) {
    if (!page)
        return;
    struct head *head = head_of(page);
    LF_ASSERT(head->references > head->held);
    if (!--head->references)
        free(head);
}

void lf_page_hold(uint8_t *page, uint64_t *total) {
    struct head *head = head_of(page);
    lf_page_share(page);
    if (!head->held++)
        *total += head->bytes;
}

void lf_page_unhold(uint8_t *page, uint64_t *total) {
    struct head *head = head_of(page);
    LF_ASSERT(head->held);
    if (!--head->held)
        *total -= head->bytes;
    lf_page_release(page);
}

bool lf_page_held(const uint8_t *page) {
    return head_of(page)->held > 0;
}
