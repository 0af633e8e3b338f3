// The tokenizer's tables, shared by its loader, its merger and the token map.
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <jansson.h>
#include "base/arena.h"
#include "base/error.h"
#include "text/tokenizer.h"

// Ids fit in 21 bits, so that a merge is one 64-bit word: left, right, result.
enum { LF_TOKEN_BITS = 21, LF_TOKENS_MAX = 1 << LF_TOKEN_BITS };
#define LF_TOKEN_NONE UINT32_MAX

// Open addressing by linear probing, at most half full; an empty place is all ones.
struct lf_word_table {
    uint64_t *place;
    unsigned shift; // 64 - log2 of the places
};

struct lf_tokenizer {
    struct lf_arena arena;
    uint32_t size;   // ids
    uint32_t vocab;  // ids that model.vocab names; the added tokens past it follow
    char *pool;      // the bytes of id: pool[start[id] .. start[id + 1])
    uint32_t *start; // [size + 1]
    uint8_t *added;  // [size], 1: an added token
    uint32_t byte_id[256];
    struct lf_word_table pair; // left << 43 | right << 22 | result
    struct lf_word_table word; // half a hash << 32 | split << 31 | id of those bytes
    uint32_t *added_id;        // [n_added], sorted by content
    uint32_t n_added;
    bool added_first[256]; // some added token begins with this byte
    // Of what the file calls them, in id order or rank order, a newline after each (3.1).
    char vocab_sha256[65], merges_sha256[65], added_sha256[65];
};

// The token's bytes without a check of id.
static inline const char *lf_token_bytes(const struct lf_tokenizer *t, uint32_t id, size_t *len) {
    *len = t->start[id + 1] - t->start[id];
    return t->pool + t->start[id];
}

// The code point that stands for a byte in vocab and merges (3.3), and back: -1 for others.
uint32_t lf_byte_char(uint8_t byte);
int lf_byte_of_char(uint32_t code);

// Places for count entries; false when memory ran out.
bool lf_word_table_init(struct lf_word_table *table, struct lf_arena *arena, size_t count);
void lf_pair_add(struct lf_tokenizer *t, uint32_t left, uint32_t right, uint32_t id);
// Well mixed in its high and in its low half.
uint64_t lf_word_hash(const char *bytes, size_t len);
// Adds id under its bytes, which no other token may have.
void lf_word_add(struct lf_tokenizer *t, uint32_t id);
// The token with these bytes, or LF_TOKEN_NONE.
uint32_t lf_word_find(const struct lf_tokenizer *t, const char *bytes, size_t len);
// Notes that merging the token's bytes does not give the token: pieces may not take it whole.
void lf_word_split(struct lf_tokenizer *t, uint32_t id);
// The token that merging these bytes gives alone, or LF_TOKEN_NONE when that is not known.
uint32_t lf_word_whole(const struct lf_tokenizer *t, const char *bytes, size_t len);

static inline uint32_t lf_pair_find(const struct lf_tokenizer *t, uint32_t left, uint32_t right) {
    uint64_t key = (uint64_t)left << LF_TOKEN_BITS | right;
    size_t mask = SIZE_MAX >> t->pair.shift;
    size_t at = (size_t)((key * 0x9E3779B97F4A7C15u) >> t->pair.shift);
    for (;; at = (at + 1) & mask) {
        uint64_t place = t->pair.place[at];
        if (place >> (LF_TOKEN_BITS + 1) == key)
            return (uint32_t)place & (LF_TOKENS_MAX - 1);
        if (place == UINT64_MAX)
            return LF_TOKEN_NONE;
    }
}

// Working memory for pieces that do not fit on the stack; zeroed before first use.
struct lf_merge_scratch {
    uint32_t *words;
    size_t cap;
};
void lf_merge_scratch_free(struct lf_merge_scratch *scratch);
// Appends the tokens of one piece: merges of lowest rank first, leftmost on a tie (3.4).
LF_CHECKED enum lf_status lf_merge_piece(const struct lf_tokenizer *t, const char *bytes,
                                         size_t len, struct lf_merge_scratch *scratch,
                                         struct lf_ids *out, struct lf_error *err);

// The parts of a tokenizer.json that have one form only (3.1, 3.2): LF_E_UNSUPPORTED for others.
LF_CHECKED enum lf_status lf_tokenizer_check_form(const json_t *root, const char *origin,
                                                  struct lf_error *err);
