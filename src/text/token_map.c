#include "text/token_map.h"

#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>
#include "base/sha256.h"
#include "base/utf8.h"
#include "text/pretokenize.h"
#include "text/tokenizer_table.h"

// The release's vocabulary and the published digest of its map (checkpoint.md 3.1, model.md 6.1).
static const char *const release_vocab =
    "ec513c917f65d06b78f6de0663a798140ea5928dad1b17754a5242585275fd2c";
static const char *const release_merges =
    "9587de97d6aea419b9effb17c68019bcf42b228a57e5b71a1e3b3463d61b0985";
static const char *const release_added =
    "0b5f292abee7b842530c56b9f6b5c0743354f4bf9c7413f73193b18ac254c2ec";
static const char *const release_map =
    "c60a86322ec17b4142bfef3c57a8d81fb428550cdf487f88a4320cb59fe46481";

enum { RELEASE_CLASSES = 99092, PRIVATE_SPACE = 0xE000, REPLACEMENT = 0xFFFD };

struct builder {
    const struct lf_tokenizer *t;
    struct lf_token_map *map;
    struct lf_buffer key;  // of the token at hand
    struct lf_buffer keys; // every distinct key, in class order
    size_t *key_end;       // [classes]
    uint32_t *place;       // open addressing: class + 1, 0 when empty
    size_t mask;
    utf8proc_int32_t *code; // one token's characters
    size_t code_cap;
};

static bool is_mark(utf8proc_int32_t code) {
    utf8proc_category_t category = utf8proc_category(code);
    return category == UTF8PROC_CATEGORY_MN || category == UTF8PROC_CATEGORY_MC ||
           category == UTF8PROC_CATEGORY_ME;
}

// Text without U+FFFD and all valid is normalized; other tokens are keyed by their own string.
static bool is_text(const char *bytes, size_t len) {
    for (size_t i = 0; i < len;) {
        struct lf_utf8 c = lf_utf8_next(bytes + i, len - i);
        if (!c.valid || c.code == REPLACEMENT)
            return false;
        i += c.len;
    }
    return true;
}

static void raw_key(struct builder *b, uint32_t id, const char *bytes, size_t len) {
    if (b->t->added[id])
        lf_buffer_add(&b->key, bytes, len);
    else
        for (size_t i = 0; i < len; i++)
            lf_utf8_add(&b->key, lf_byte_char((uint8_t)bytes[i]));
}

// NFKC and then NFD is NFKD, which is one decomposition. Gives the count, or -1: out of memory.
static utf8proc_ssize_t decompose(struct builder *b, const char *bytes, size_t len) {
    const utf8proc_option_t options = UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT;
    for (;;) {
        utf8proc_ssize_t n =
            utf8proc_decompose((const utf8proc_uint8_t *)bytes, (utf8proc_ssize_t)len, b->code,
                               (utf8proc_ssize_t)b->code_cap, options);
        if (n < 0 || (size_t)n <= b->code_cap)
            return n;
        utf8proc_int32_t *grown = realloc(b->code, 2 * (size_t)n * sizeof *grown);
        if (!grown)
            return -1;
        b->code = grown;
        b->code_cap = 2 * (size_t)n;
    }
}

static bool text_key(struct builder *b, const char *bytes, size_t len) {
    utf8proc_ssize_t n = decompose(b, bytes, len);
    size_t from = 0, to = 0;
    for (utf8proc_ssize_t i = 0; i < n; i++) {
        utf8proc_int32_t c = b->code[i];
        bool gap = c == ' ' || c == '\t' || c == '\r' || c == '\n';
        if (is_mark(c) || (gap && to && b->code[to - 1] == ' '))
            continue;
        b->code[to++] = gap ? ' ' : utf8proc_tolower(c);
    }
    bool lone_space = to == 1 && b->code[0] == ' ';
    while (!lone_space && from < to && lf_code_is_space((uint32_t)b->code[from]))
        from++;
    while (!lone_space && from < to && lf_code_is_space((uint32_t)b->code[to - 1]))
        to--;
    for (size_t i = from; i < to; i++)
        lf_utf8_add(&b->key, b->code[i] == PRIVATE_SPACE ? ' ' : (uint32_t)b->code[i]);
    if (from == to)
        lf_buffer_add(&b->key, bytes, len);
    return n >= 0;
}

// The class of the key at hand, a new one when it was not seen before.
static uint32_t class_of_key(struct builder *b) {
    size_t at = (size_t)lf_word_hash(b->key.data, b->key.len) & b->mask;
    for (; b->place[at]; at = (at + 1) & b->mask) {
        uint32_t class = b->place[at] - 1;
        size_t start = class ? b->key_end[class - 1] : 0;
        if (b->key_end[class] - start == b->key.len &&
            memcmp(b->keys.data + start, b->key.data, b->key.len) == 0)
            return class;
    }
    lf_buffer_add(&b->keys, b->key.data, b->key.len);
    b->key_end[b->map->classes] = b->keys.len;
    b->place[at] = ++b->map->classes;
    return b->map->classes - 1;
}

static bool build_all(struct builder *b) {
    size_t places = 16, size = b->t->size;
    while (places < 2 * size)
        places *= 2;
    b->mask = places - 1;
    b->place = calloc(places, sizeof *b->place);
    b->key_end = calloc(size, sizeof *b->key_end);
    b->code_cap = 256;
    b->code = calloc(b->code_cap, sizeof *b->code);
    b->map->class_of = calloc(size, sizeof *b->map->class_of);
    if (!b->place || !b->key_end || !b->code || !b->map->class_of)
        return false;
    for (uint32_t id = 0; id < size; id++) {
        size_t len;
        const char *bytes = lf_token_bytes(b->t, id, &len);
        lf_buffer_clear(&b->key);
        if (!is_text(bytes, len))
            raw_key(b, id, bytes, len);
        else if (!text_key(b, bytes, len))
            return false;
        if (b->key.failed || b->keys.failed)
            return false;
        b->map->class_of[id] = class_of_key(b);
    }
    b->map->size = (uint32_t)size;
    return !b->keys.failed;
}

static enum lf_status check(const struct lf_token_map *map, const struct lf_tokenizer *t,
                            uint32_t classes_expected, struct lf_error *err) {
    if (classes_expected && map->classes != classes_expected)
        return lf_fail(err, LF_E_VALUE,
                       "engram_compressed_vocab_size is %u, but the tokenizer's token map has %u "
                       "classes",
                       classes_expected, map->classes);
    bool release = strcmp(t->vocab_sha256, release_vocab) == 0 &&
                   strcmp(t->merges_sha256, release_merges) == 0 &&
                   strcmp(t->added_sha256, release_added) == 0;
    if (release && strcmp(map->sha256, release_map) != 0)
        return lf_fail(err, LF_E_FORMAT,
                       "the token map of the DeepSeek-V4.1-Flash tokenizer has digest %s and %u "
                       "classes, expected %s and %u: utf8proc %s has other Unicode tables",
                       map->sha256, map->classes, release_map, RELEASE_CLASSES, utf8proc_version());
    return LF_OK;
}

enum lf_status lf_token_map_build(struct lf_token_map *out, const struct lf_tokenizer *tokenizer,
                                  uint32_t classes_expected, struct lf_error *err) {
    *out = (struct lf_token_map){0};
    struct builder b = {.t = tokenizer, .map = out};
    if (build_all(&b)) {
        lf_sha256_ids(out->class_of, out->size, out->sha256);
        (void)!check(out, tokenizer, classes_expected, err);
    } else {
        lf_fail(err, LF_E_MEM, "out of memory for the token map of %u ids", tokenizer->size);
    }
    free(b.place);
    free(b.key_end);
    free(b.code);
    lf_buffer_free(&b.key);
    lf_buffer_free(&b.keys);
    if (err->status != LF_OK)
        lf_token_map_free(out);
    return err->status;
}

enum lf_status lf_token_map_made_up(struct lf_token_map *out, uint32_t size, uint32_t classes,
                                    struct lf_error *err) {
    *out = (struct lf_token_map){.size = size, .classes = classes ? classes : 1};
    out->class_of = malloc((size_t)size * sizeof *out->class_of);
    if (!out->class_of)
        return lf_fail(err, LF_E_MEM, "out of memory for the token map of %u ids", size);
    for (uint32_t id = 0; id < size; id++)
        out->class_of[id] = id % out->classes;
    return LF_OK;
}

void lf_token_map_free(struct lf_token_map *map) {
    free(map->class_of);
    *map = (struct lf_token_map){0};
}
