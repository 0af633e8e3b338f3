// index_select: its arguments and its contract (model.md 8.6).
#pragma once
#include <stddef.h>
#include <stdint.h>
#include "kernel/candidates.h"
#include "kernel/declare.h"

#define LF_INDEX_SELECT_CONTRACT                                                                   \
    "the topk visible entries of greatest score, ties to the lower index, listed ascending "       \
    "(model.md 8.6), and the candidate blocks (8.7). Rows with visible <= topk list all "          \
    "entries and read no score, whatever the mode. PUBLISH lists the best topk_blocks "            \
    "blocks of block_size entries by the greatest score of a block's visible entries, ties "       \
    "to the lower block, the newest block forced in; all blocks, reading no score, while "         \
    "they fit. RESTRICT chooses among the visible entries of the row's blocks only, and "          \
    "lists all of them if there are no more than topk; its scores are those of these "          \
    "entries alone, in order (kernel/candidates.h). Order of values is IEEE with both "         \
    "zeros equal; NaN orders below every number, so it is taken only when numbers run out."

enum lf_candidate_mode {
    LF_CANDIDATES_NONE,     // below the candidate source
    LF_CANDIDATES_PUBLISH,  // the candidate source: writes blocks; its own choice is not restricted
    LF_CANDIDATES_RESTRICT, // index sources above it: only entries of the row's published blocks
};

struct lf_index_select_args {
    uint32_t rows, topk;
    enum lf_candidate_mode mode;
    uint32_t block_size, topk_blocks;
    const uint32_t *visible; // [rows]
    const float *score;      // [rows][score_stride], by item of kernel/candidates.h
    size_t score_stride;
    uint32_t *blocks;   // [rows][topk_blocks] ascending; written by PUBLISH, read by RESTRICT
    uint32_t *n_blocks; // [rows]
    uint32_t *selected; // [rows][topk] ascending
    uint32_t *n_selected;
};

// CPU: what a worker holds beside the best items, and items beyond twice those that are wanted.
enum { LF_INDEX_SELECT_HELD_BYTES = 64, LF_INDEX_SELECT_SPARE = 1024 };

// What one worker needs of lf_pool_scratch: a key and an item of all that are held.
static inline size_t lf_index_select_scratch_bytes(uint32_t topk, uint32_t topk_blocks) {
    size_t items = 2 * ((size_t)topk + topk_blocks + LF_INDEX_SELECT_SPARE);
    return LF_INDEX_SELECT_HELD_BYTES + items * (sizeof(int32_t) + sizeof(uint32_t));
}

LF_DECLARE_KERNEL(index_select);
