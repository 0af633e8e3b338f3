// The k items of greatest key among items that come in ascending order, ties to the lower item.
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include "kernel/index_select/index_select.h"
#include "kernel/isa.h"

// Keys are above INT32_MIN, so that every item is greater than the first floor.
enum { BEST_GROUP = 32, BIN_BITS = 11, BINS = 1 << BIN_BITS };

// Held: all items so far that may be among the k best, ascending.
struct best {
    uint32_t k, n, room;
    int32_t floor; // k held keys are no less: only a greater one may come in
    int32_t *key;
    uint32_t *item;
};

static inline uint32_t best_room(uint32_t k) {
    return 2 * k + LF_INDEX_SELECT_SPARE;
}

// An empty one in memory of best_room(k) keys and as many items; returns where that ends.
static void *best_at(struct best *b, uint32_t k, void *memory) {
    uint32_t room = best_room(k);
    int32_t *key = memory;
    *b = (struct best){.k = k, .room = room, .floor = INT32_MIN, .key = key,
                       .item = (uint32_t *)(key + room)};
    return b->item + room;
}

// Keys as they lie above low, in the order of the keys.
static inline uint32_t above(int32_t key, int32_t low) {
    return (uint32_t)key - (uint32_t)low;
}

// How many held keys up to span above low have each value of the bits from shift on.
static void best_count(const struct best *b, int32_t low, uint32_t span, uint32_t shift,
                       uint32_t bins[BINS]) {
    memset(bins, 0, BINS * sizeof *bins);
    for (uint32_t i = 0; i < b->n; i++)
        if (above(b->key[i], low) <= span)
            bins[above(b->key[i], low) >> shift]++;
}

// The k-th greatest held key, by ever narrower bins; *ties: how many items with it stay.
static int32_t best_threshold(const struct best *b, uint32_t *ties) {
    uint32_t bins[BINS], k = b->k, shift = 0;
    int32_t low = INT32_MAX, high = INT32_MIN;
    for (uint32_t i = 0; i < b->n; i++) {
        low = b->key[i] < low ? b->key[i] : low;
        high = b->key[i] > high ? b->key[i] : high;
    }
    uint32_t span = above(high, low);
    while (span >> shift >= BINS)
        shift++;
    for (;;) {
        uint32_t bin = span >> shift;
        best_count(b, low, span, shift, bins);
        for (; k > bins[bin]; bin--)
            k -= bins[bin];
        *ties = k;
#if LF_FAULT == 3
        *ties = bins[bin] - k; // 3: how many are passed over
#endif
        low = (int32_t)((uint32_t)low + (bin << shift));
        if (shift == 0)
            return low;
        span = (1u << shift) - 1;
        shift = shift > BIN_BITS ? shift - BIN_BITS : 0;
    }
}

// Keeps the k best of what is held.
static void best_cut(struct best *b) {
    uint32_t ties, found = 0;
    if (b->n <= b->k)
        return;
    b->floor = best_threshold(b, &ties);
    for (uint32_t i = 0; i < b->n; i++) {
        bool keep = b->key[i] > b->floor, tied = b->key[i] == b->floor;
#if LF_FAULT == 3
        keep |= tied && !(ties && ties--); // 3: ties to the higher index
#else
        keep |= tied && ties && ties--;
#endif
        b->key[found] = b->key[i];
        b->item[found] = b->item[i];
        found += keep;
    }
    b->n = found;
}

// Lets go of all items; the k best of others may be no greater than these were.
static inline void best_restart(struct best *b) {
    if (b->n == b->k)
        b->floor -= b->floor > INT32_MIN;
    b->n = 0;
}

static inline bool any_above(const int32_t key[BEST_GROUP], int32_t floor) {
    int32_t any = 0;
    for (uint32_t i = 0; i < BEST_GROUP; i++)
        any |= key[i] > floor;
    return any != 0;
}

// Takes in a group of items, those of list or first .. where that is NULL.
static inline void best_take(struct best *b, const int32_t key[BEST_GROUP], uint32_t first,
                             const uint32_t *list) {
    if (!any_above(key, b->floor))
        return;
    if (b->n + BEST_GROUP > b->room)
        best_cut(b);
    int32_t *key_to = b->key, floor = b->floor;
    uint32_t *item_to = b->item, n = b->n;
    for (uint32_t i = 0; i < BEST_GROUP; i++) {
        key_to[n] = key[i];
        item_to[n] = list ? list[i] : first + i;
        n += key[i] > floor;
    }
    b->n = n;
}

// Fills the last group up to whole ones: no floor lets these keys in.
static inline void pad_keys(int32_t *key, uint32_t n) {
    for (; n % BEST_GROUP; n++)
        key[n] = INT32_MIN;
}

// Takes in what a later part of the stream held when it was cut.
static void best_join(struct best *b, const struct best *later) {
    pad_keys(later->key, later->n);
    for (uint32_t i = 0; i < later->n; i += BEST_GROUP)
        best_take(b, later->key + i, 0, later->item + i);
}
