// What a row's indexer scores and chooses among: all visible entries, or those of its blocks.
#pragma once
#include <stddef.h>
#include <stdint.h>
#include "base/number.h"

// Blocks that an index source published for rows above it (model.md 8.7).
struct lf_candidates {
    const uint32_t *blocks;   // NULL: all visible entries; else [rows][topk_blocks] ascending
    const uint32_t *n_blocks; // [rows]
    uint32_t block_size, topk_blocks;
};

// One row's part. Item i is entry i, or the i-th visible entry of its blocks.
struct lf_items {
    const uint32_t *blocks; // NULL: items are entries
    uint32_t block_size, n;
};

// Blocks that hold every visible entry leave items what entries are.
LF_HOST_DEVICE static inline struct lf_items lf_items_of(const struct lf_candidates *candidates,
                                                         uint32_t row, uint32_t visible) {
    struct lf_items all = {NULL, 1, visible}, items;
    if (candidates->blocks == NULL)
        return all;
    uint32_t n = candidates->n_blocks[row], size = candidates->block_size;
    items.blocks = candidates->blocks + (size_t)row * candidates->topk_blocks;
    items.block_size = size;
    items.n = n * size;
    // Of the newest block only what is visible counts.
    if (n && visible - items.blocks[n - 1] * size < size)
        items.n -= size - (visible - items.blocks[n - 1] * size);
    return items.n < visible ? items : all;
}

LF_HOST_DEVICE static inline uint32_t lf_item_entry(const struct lf_items *items, uint32_t item) {
    uint32_t size = items->block_size;
    return items->blocks ? items->blocks[item / size] * size + item % size : item;
}
