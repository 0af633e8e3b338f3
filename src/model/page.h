// Pages of cache rows, shared by slots and saved states through counts; one thread owns them all.
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include "device/memory.h"

struct lf_page {
    uint8_t *rows; // LF_PAGE_ROWS of them, where kernels work
    struct lf_mem *memory;
    uint32_t references, held;
    uint64_t bytes;
};

// Zeroed memory for rows with one reference, or NULL.
struct lf_page *lf_page_new(struct lf_mem *memory, uint64_t row_bytes);
// What a page of these rows takes, its counts included.
uint64_t lf_page_bytes(uint64_t row_bytes);
void lf_page_share(struct lf_page *page);
void lf_page_release(struct lf_page *page); // NULL is ignored
// References of saved states: *total counts the bytes of every page that has one, once.
void lf_page_hold(struct lf_page *page, uint64_t *total);
void lf_page_unhold(struct lf_page *page, uint64_t *total);
bool lf_page_held(const struct lf_page *page);
