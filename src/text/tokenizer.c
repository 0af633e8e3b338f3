#include "text/tokenizer.h"

#include <string.h>
#include "base/utf8.h"
#include "text/pretokenize.h"
#include "text/tokenizer_table.h"

size_t lf_tokenizer_held_bytes(const struct lf_tokenizer *tokenizer) {
    return sizeof *tokenizer + tokenizer->arena.bytes;
}

uint32_t lf_tokenizer_size(const struct lf_tokenizer *tokenizer) {
    return tokenizer->size;
}

const char *lf_tokenizer_bytes(const struct lf_tokenizer *tokenizer, uint32_t id, size_t *len) {
    LF_ASSERT(id < tokenizer->size);
    return lf_token_bytes(tokenizer, id, len);
}

bool lf_tokenizer_is_added(const struct lf_tokenizer *tokenizer, uint32_t id) {
    LF_ASSERT(id < tokenizer->size);
    return tokenizer->added[id];
}

// The byte of an added token at depth, or -1 past its end: shorter contents sort first.
static int added_byte(const struct lf_tokenizer *t, uint32_t i, size_t depth) {
    size_t len;
    const char *bytes = lf_token_bytes(t, t->added_id[i], &len);
    return depth < len ? (unsigned char)bytes[depth] : -1;
}

// The first of the sorted added tokens low .. high - 1 whose byte at depth is at least wanted.
static uint32_t added_bound(const struct lf_tokenizer *t, uint32_t low, uint32_t high, size_t depth,
                            int wanted) {
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (added_byte(t, middle, depth) < wanted)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

// The longest added token that text begins with, or LF_TOKEN_NONE.
static uint32_t added_match(const struct lf_tokenizer *t, const char *text, size_t len) {
    uint32_t low = 0, high = t->n_added, found = LF_TOKEN_NONE;
    for (size_t depth = 0; low < high; depth++) {
        if (added_byte(t, low, depth) < 0)
            found = t->added_id[low++];
        if (depth == len)
            break;
        int byte = (unsigned char)text[depth];
        low = added_bound(t, low, high, depth, byte);
        high = added_bound(t, low, high, depth, byte + 1);
    }
    return found;
}

int64_t lf_tokenizer_added_id(const struct lf_tokenizer *tokenizer, const char *content) {
    size_t len = strlen(content), len_found;
    uint32_t id = added_match(tokenizer, content, len);
    if (id == LF_TOKEN_NONE)
        return -1;
    lf_token_bytes(tokenizer, id, &len_found);
    return len_found == len ? (int64_t)id : -1;
}

static enum lf_status encode_stretch(const struct lf_tokenizer *t, const char *text, size_t len,
                                     struct lf_merge_scratch *scratch, struct lf_ids *out,
                                     struct lf_error *err) {
    for (size_t at = 0; at < len;) {
        size_t end = lf_pretokenize_next(text, at, len);
        uint32_t id = lf_word_whole(t, text + at, end - at);
        if (id != LF_TOKEN_NONE)
            lf_ids_add(out, id);
        else
            LF_TRY(lf_merge_piece(t, text + at, end - at, scratch, out, err));
        at = end;
    }
    return LF_OK;
}

static enum lf_status encode_all(const struct lf_tokenizer *t, const char *text, size_t len,
                                 bool match_added, struct lf_merge_scratch *scratch,
                                 struct lf_ids *out, struct lf_error *err) {
    size_t from = 0;
    for (size_t at = 0; match_added && at < len;) {
        uint32_t id = LF_TOKEN_NONE;
        if (t->added_first[(unsigned char)text[at]])
            id = added_match(t, text + at, len - at);
        if (id == LF_TOKEN_NONE) {
            at++;
            continue;
        }
        size_t len_added;
        lf_token_bytes(t, id, &len_added);
        LF_TRY(encode_stretch(t, text + from, at - from, scratch, out, err));
        lf_ids_add(out, id);
        from = at += len_added;
    }
    return encode_stretch(t, text + from, len - from, scratch, out, err);
}

enum lf_status lf_tokenizer_encode(const struct lf_tokenizer *tokenizer, const char *text,
                                   size_t len, bool match_added, struct lf_ids *out,
                                   struct lf_error *err) {
    struct lf_merge_scratch scratch = {0};
    size_t len_before = out->len, valid = lf_utf8_valid(text, len);
    if (len == 0)
        return LF_OK;
    if (valid < len)
        return lf_fail_byte(err, LF_E_FORMAT, (int64_t)valid, "text is not valid UTF-8 at byte %zu",
                            valid);
    if (len >= UINT32_MAX)
        return lf_fail(err, LF_E_TOO_LARGE, "text has %zu bytes, the limit is %u", len,
                       UINT32_MAX - 1);
    enum lf_status status = encode_all(tokenizer, text, len, match_added, &scratch, out, err);
    lf_merge_scratch_free(&scratch);
    if (status == LF_OK && out->failed)
        status = lf_fail(err, LF_E_MEM, "out of memory for the ids of %zu bytes", len);
    if (status != LF_OK)
        out->len = len_before;
    return status;
}
