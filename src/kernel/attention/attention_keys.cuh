// A row's list of keys on the device, and packed keys as bf16 in the order in which products read.
#pragma once
#include "kernel/attention/attention.h"
#include "kernel/linear/mma.cuh"
#include "kernel/linear/stream.cuh"
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

// Which entry a key of the list is; 0 where it is none.
__device__ static inline uint32_t listed_entry(const struct lf_attention_args &a, uint32_t r,
                                               const struct key_list &list, uint32_t at) {
    bool is_entry = at >= list.window && at < list.n;
    return is_entry ? a.selected[(size_t)r * a.topk + (at - list.window)] : 0;
}

// NULL past the list's end.
__device__ static inline const uint8_t *packed_key(const struct lf_attention_args &a, uint32_t r,
                                                   const struct key_list &list, uint32_t at,
                                                   uint32_t entry) {
    if (at >= list.n)
        return NULL;
    uint32_t lane = a.row[r].lane;
    LF_CONTROL(15, if (at >= list.window) lane = 0;) // 15: the first lane's entries for every row
    if (at >= list.window) {
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

// Sixteen neighbouring elements of a packed key, still codes: those of 4 bits in x and y alone.
enum { PIECE = 16 };
struct piece {
    uint4 code;
    uint32_t scale;
};

// Bytes of any alignment: words that hold some of them, shifted together.
template <uint32_t WORDS>
__device__ static inline void load_bytes(const uint8_t *at, uint32_t word[WORDS]) {
    const uint32_t *from = lf_word_of(at);
    uint32_t shift = (uintptr_t)at % 4 * 8, held = from[0];
#pragma unroll
    for (uint32_t i = 0; i < WORDS; i++) {
        uint32_t next = i + 1 < WORDS || shift ? from[i + 1] : 0;
        word[i] = __funnelshift_r(held, next, shift);
        held = next;
    }
}

// Sixteen bytes.
__device__ static inline uint4 load_16(const uint8_t *at) {
    if ((uintptr_t)at % 16 == 0)
        return lf_load_16(at);
    uint32_t word[4];
    load_bytes<4>(at, word);
    return {word[0], word[1], word[2], word[3]};
}

// Elements at .. at+PIECE-1 of a key. aligned: row to 16 bytes.
__device__ static inline void load_piece(const uint8_t *row, bool windowed, bool aligned,
                                         uint32_t dim, uint32_t at, struct piece *piece) {
    const uint8_t *scale = windowed ? row + dim + at / 32 : row + dim / 2 + at / 16;
    LF_CONTROL(24, scale = row + (windowed ? dim : dim / 2);) // 24: the first for all groups
    piece->scale = *scale;
    if (windowed && aligned) {
        piece->code = *(const uint4 *)(row + at);
    } else if (windowed) {
        piece->code = load_16(row + at);
    } else if (aligned || (uintptr_t)row % 8 == 0) {
        uint2 code = *(const uint2 *)(row + at / 2);
        piece->code.x = code.x, piece->code.y = code.y;
    } else {
        uint32_t word[2];
        load_bytes<2>(row + at / 2, word);
        piece->code.x = word[0], piece->code.y = word[1];
    }
}

// The same, zeros where there is no key or element.
__device__ static inline struct piece fetch_piece(const uint8_t *row, bool windowed, bool aligned,
                                                  uint32_t dim, uint32_t at) {
    struct piece piece = {{0, 0, 0, 0}, 0};
    if (row && at < dim)
        load_piece(row, windowed, aligned, dim, at, &piece);
    return piece;
}

// A number in both halves.
__device__ static inline uint32_t both_halves(uint32_t bf16) {
    return bf16 | bf16 << 16;
}

// Four e4m3 codes as pairs: moved into bf16's places a code is value * 2^-120.
__device__ static inline void e4m3_pairs(uint32_t codes, uint32_t pair[2]) {
    pair[0] = lf_e4m3_places(lf_signed_bytes<0>(codes));
    pair[1] = lf_e4m3_places(lf_signed_bytes<2>(codes));
}

// Eight e2m1 codes as pairs: bytes of bf16 looked up four at a time, then their signs.
__device__ static inline void e2m1_pairs(uint32_t codes, uint32_t pair[4]) {
    uint32_t even = codes << 4;
#pragma unroll
    for (uint32_t i = 0; i < 2; i++) {
        uint32_t size = (codes & 0x77777777u) >> 16 * i;
        uint32_t low = __byte_perm(0xC0800000u, 0xC0804000u, size);
        uint32_t high = __byte_perm(0x3F3F3F00u, 0x40404040u, size);
        high |= __byte_perm(even, codes, i ? 0x7362 : 0x5140) & 0x80808080u;
        LF_CONTROL(23, high &= 0x7F7F7F7Fu;) // 23: the sign of a 4-bit code lost
        pair[2 * i] = __byte_perm(low, high, 0x5140);
        pair[2 * i + 1] = __byte_perm(low, high, 0x7362);
    }
}

// An e4m3 scale in both halves.
__device__ static inline uint32_t e4m3_scale(uint32_t code) {
    const uint32_t power = both_halves((127 + 120) << 7);
    uint32_t scale = lf_mul_bf16x2(lf_e4m3_places(lf_signed_bytes<0>(code * 0x101)), power);
    return (code & 0x7F) == 0x7F ? both_halves(0x7FC0) : scale;
}

// QA8 as bf16: the codes' values, exact, times the scale, rounded once.
__device__ static inline void widen_window(const struct piece &piece, uint32_t pair[PIECE / 2]) {
    const uint32_t power = both_halves((127 + 120) << 7), minus_one = both_halves(0xBF80);
    // Times 448, the greatest value, finite; times 480, which NaN's code would be, infinite.
    const uint32_t guard = both_halves((127 + 119) << 7 | 9);
    // Scale 0 is subnormal, 255 is NaN.
    uint32_t odd = (uint32_t)(piece.scale == 0 || piece.scale == 255) << 6;
    uint32_t scale = both_halves(piece.scale << 7 | odd);
    e4m3_pairs(piece.code.x, pair), e4m3_pairs(piece.code.y, pair + 2);
    e4m3_pairs(piece.code.z, pair + 4), e4m3_pairs(piece.code.w, pair + 6);
#pragma unroll
    for (uint32_t i = 0; i < PIECE / 2; i++) {
        uint32_t value = lf_mul_bf16x2(pair[i], power), large = lf_mul_bf16x2(value, guard);
        uint32_t nan = lf_fma_bf16x2(large, minus_one, large);
        LF_CONTROL(22, nan = 0;) // 22: an e4m3 NaN read as a number
        pair[i] = lf_fma_bf16x2(value, scale, nan);
    }
}

// QF4s as bf16, exact.
__device__ static inline void widen_entry(const struct piece &piece, uint32_t pair[PIECE / 2]) {
    uint32_t scale = e4m3_scale(piece.scale);
    e2m1_pairs(piece.code.x, pair), e2m1_pairs(piece.code.y, pair + 4);
#pragma unroll
    for (uint32_t i = 0; i < PIECE / 2; i++)
        pair[i] = lf_mul_bf16x2(pair[i], scale);
}
