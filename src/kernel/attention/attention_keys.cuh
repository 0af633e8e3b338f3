// A row's list of keys on the device, and pieces of packed keys as numbers.
#pragma once
#include "kernel/attention/attention.h"
#include "kernel/packed_row.cuh"

// Window positions first .. first+window-1, then n - window selected entries.
struct key_list {
    uint64_t first;
    uint32_t window, n;
};

__device__ static inline struct key_list list_keys(const struct lf_attention_args &a, uint32_t r) {
    const struct lf_span *span = &a.span[a.row[r].lane];
    uint64_t end = a.row[r].position + 1, width = a.window;
    LF_CONTROL(2, width--;) // 2: the oldest key of the window lost
    LF_CONTROL(4, end += !a.whole_span; width += !a.whole_span;) // 4: a key of the future read
    if (a.whole_span) {
        end = span->pos0 + span->rows;
        width += span->rows;
        LF_CONTROL(16, width -= end - a.row[r].position - 1; end = a.row[r].position + 1;)
    }
    struct key_list list = {end > width ? end - width : 0, 0, 0};
    list.window = (uint32_t)(end - list.first);
    list.n = list.window + (a.entries ? a.n_selected[r] : 0);
    LF_CONTROL(3, list.n = list.window;) // 3: the selected entries ignored
    return list;
}

__device__ static inline const uint8_t *packed_key(const struct lf_attention_args &a, uint32_t r,
                                                   const struct key_list &list, uint32_t at) {
    uint32_t lane = a.row[r].lane;
    LF_CONTROL(15, if (at >= list.window) lane = 0;) // 15: the first lane's entries for every row
    if (at >= list.window) {
        uint32_t entry = a.selected[(size_t)r * a.topk + (at - list.window)];
        LF_CONTROL(11, entry -= entry % LF_PAGE_ROWS == LF_PAGE_ROWS - 1;)
        return lf_paged_row(&a.entries[lane], entry, lf_qf4s_row_bytes(a.head_dim));
    }
    const struct lf_span *span = &a.span[lane];
    uint64_t position = list.first + at;
    size_t row_bytes = lf_qa8_row_bytes(a.head_dim);
    uint64_t called = span->pos0;
    LF_CONTROL(5, called++;) // 5: a stale ring entry for the call's first key
    if (position >= called)
        return a.call_keys + (size_t)(span->first + (position - span->pos0)) * row_bytes;
    return a.ring[lane] + (size_t)(position & (a.ring_rows - 1)) * row_bytes;
}

// Neighbouring elements of a packed key, still codes: the lower half for 4-bit codes.
enum { PIECE = 8 };
struct piece {
    uint2 code;
    uint32_t scale;
    bool windowed;
};

// Elements at .. at+PIECE-1; zeros where there is no key or no element.
__device__ static inline struct piece fetch_piece(const uint8_t *row, bool windowed, uint32_t dim,
                                                  uint32_t at) {
    struct piece piece = {{0, 0}, 127, true};
    if (!row || at >= dim)
        return piece;
    piece.windowed = windowed;
    const uint8_t *codes = row + (windowed ? at : at / 2);
    if (!windowed) {
        piece.code.x = lf_load_word(codes);
        piece.scale = row[dim / 2 + at / 16];
        return piece;
    }
    if ((uintptr_t)codes % PIECE == 0)
        piece.code = *(const uint2 *)codes;
    else
        piece.code = {lf_load_word(codes), lf_load_word(codes + 4)};
    piece.scale = row[dim + at / 32];
    return piece;
}

__device__ static inline void place_piece(const struct piece &piece, float out[PIECE]) {
    if (piece.windowed) {
        float scale = lf_ue8m0_to_f32((uint8_t)piece.scale);
        lf_e4m3_four(piece.code.x, scale, out);
        lf_e4m3_four(piece.code.y, scale, out + 4);
    } else {
        lf_e2m1_eight(piece.code.x, lf_cache_e4m3((uint8_t)piece.scale), out);
    }
}
