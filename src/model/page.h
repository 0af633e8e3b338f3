// Pages of cache rows, shared by slots and saved states through counts; one thread owns them all.
#pragma once
#include <stdbool.h>
#include <stdint.h>

// Zeroed memory for rows with one reference, or NULL. The pointer is that of the first row.
uint8_t *lf_page_new(uint64_t row_bytes);
// What a page of these rows takes, its counts included.
uint64_t lf_page_bytes(uint64_t row_bytes);
void lf_page_share(uint8_t *page);
void lf_page_release(uint8_t *page); // NULL is ignored
// References of saved states: *total counts the bytes of every page that has one, once.
void lf_page_hold(uint8_t *page, uint64_t *total);
void lf_page_unhold(uint8_t *page, uint64_t *total);
bool lf_page_held(const uint8_t *page);
