#include "text/tokenizer_table.h"

#include <string.h>

#define WORD_SPLIT 0x80000000u

uint32_t lf_byte_char(uint8_t byte) {
    if (byte < 33)
        return 0x100u + byte;
    if (byte >= 127 && byte <= 160)
        return 0x100u + 33 + (byte - 127u);
    return byte == 173 ? 0x100u + 67 : byte;
}

int lf_byte_of_char(uint32_t code) {
    if (code < 256)
        return code < 33 || (code >= 127 && code <= 160) || code == 173 ? -1 : (int)code;
    uint32_t n = code - 256;
    return n < 33 ? (int)n : n < 67 ? (int)n - 33 + 127 : n == 67 ? 173 : -1;
}

bool lf_word_table_init(struct lf_word_table *table, struct lf_arena *arena, size_t count) {
    size_t places = 16;
    for (table->shift = 60; places < 2 * count; places *= 2)
        table->shift--;
    table->place = lf_arena_alloc(arena, places, sizeof *table->place);
    if (table->place)
        memset(table->place, 0xFF, places * sizeof *table->place);
    return table->place != NULL;
}

void lf_pair_add(struct lf_tokenizer *t, uint32_t left, uint32_t right, uint32_t id) {
    uint64_t key = (uint64_t)left << LF_TOKEN_BITS | right;
    size_t mask = SIZE_MAX >> t->pair.shift;
    size_t at = (size_t)((key * 0x9E3779B97F4A7C15u) >> t->pair.shift);
    while (t->pair.place[at] != UINT64_MAX)
        at = (at + 1) & mask;
    t->pair.place[at] = key << (LF_TOKEN_BITS + 1) | id;
}

static inline uint64_t load(const char *s, size_t len) {
    uint64_t word = 0;
    memcpy(&word, s, len);
    return word;
}

uint64_t lf_word_hash(const char *s, size_t len) {
    const uint64_t k = 0x9E3779B97F4A7C15u;
    uint64_t hash = len * k, last;
    for (; len > 8; s += 8, len -= 8) {
        hash = (hash ^ load(s, 8)) * k;
        hash ^= hash >> 32;
    }
    if (len >= 4)
        last = load(s, 4) | load(s + len - 4, 4) << 32;
    else
        last = len ? (unsigned char)s[0] | (uint64_t)(unsigned char)s[len / 2] << 8 |
                         (uint64_t)(unsigned char)s[len - 1] << 16
                   : 0;
    hash = (hash ^ last) * k;
    hash ^= hash >> 32;
    return hash * k;
}

// The place that holds these bytes, or the empty place where they belong.
static inline size_t word_place(const struct lf_tokenizer *t, const char *bytes, size_t len,
                                uint64_t hash) {
    size_t mask = SIZE_MAX >> t->word.shift;
    size_t at = (size_t)(hash >> t->word.shift);
    for (;; at = (at + 1) & mask) {
        uint64_t place = t->word.place[at];
        if (place == UINT64_MAX)
            return at;
        if (place >> 32 != (uint32_t)hash)
            continue;
        size_t len_there;
        const char *there = lf_token_bytes(t, (uint32_t)place & (LF_TOKENS_MAX - 1), &len_there);
        if (len_there == len && memcmp(there, bytes, len) == 0)
            return at;
    }
}

void lf_word_add(struct lf_tokenizer *t, uint32_t id) {
    size_t len;
    const char *bytes = lf_token_bytes(t, id, &len);
    uint64_t hash = lf_word_hash(bytes, len);
    uint64_t *place = t->word.place + word_place(t, bytes, len, hash);
    LF_ASSERT(*place == UINT64_MAX);
    *place = hash << 32 | id;
}

uint32_t lf_word_find(const struct lf_tokenizer *t, const char *bytes, size_t len) {
    uint64_t place = t->word.place[word_place(t, bytes, len, lf_word_hash(bytes, len))];
    return place == UINT64_MAX ? LF_TOKEN_NONE : (uint32_t)place & (LF_TOKENS_MAX - 1);
}

void lf_word_split(struct lf_tokenizer *t, uint32_t id) {
    size_t len;
    const char *bytes = lf_token_bytes(t, id, &len);
    t->word.place[word_place(t, bytes, len, lf_word_hash(bytes, len))] |= WORD_SPLIT;
}

uint32_t lf_word_whole(const struct lf_tokenizer *t, const char *bytes, size_t len) {
    uint64_t place = t->word.place[word_place(t, bytes, len, lf_word_hash(bytes, len))];
    // An empty place has the split bit too.
    return place & WORD_SPLIT ? LF_TOKEN_NONE : (uint32_t)place;
}
