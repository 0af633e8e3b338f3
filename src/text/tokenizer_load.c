// Reads tokenizer.json into the tables and refuses what does not fit together (checkpoint.md 3).
#include <stdlib.h>
#include <string.h>
#include "base/file.h"
#include "base/sha256.h"
#include "base/utf8.h"
#include "text/tokenizer_table.h"

enum { FILE_BYTES_MAX = 64 << 20, SHOWN_BYTES_MAX = 60 };

struct load {
    struct lf_tokenizer *t;
    const char *origin;
    struct lf_error *err;
    const json_t *vocab, *merges, *added;
    const char **text; // [size]: what the file calls each id, NULL: not named so far
};

// How much of a name an error shows: never half a character.
static int shown_part(const char *text, size_t len) {
    if (len <= SHOWN_BYTES_MAX)
        return (int)len;
    for (len = SHOWN_BYTES_MAX; len > 0 && ((unsigned char)text[len] & 0xC0) == 0x80; len--)
        ;
    return (int)len;
}

static int shown(const char *text) {
    return shown_part(text, strlen(text));
}

static enum lf_status out_of_memory(const struct load *load) {
    return lf_fail(load->err, LF_E_MEM, "out of memory reading %s", load->origin);
}

static enum lf_status find_parts(struct load *load, const json_t *root) {
    const json_t *model = json_object_get(root, "model");
    load->vocab = json_object_get(model, "vocab");
    load->merges = json_object_get(model, "merges");
    load->added = json_object_get(root, "added_tokens");
    if (!load->vocab || !load->merges || !load->added)
        return lf_fail(load->err, LF_E_MISSING, "%s: %s is missing", load->origin,
                       !load->vocab    ? "model.vocab"
                       : !load->merges ? "model.merges"
                                       : "added_tokens");
    if (!json_is_object(load->vocab))
        return lf_fail(load->err, LF_E_TYPE, "%s: model.vocab must be an object", load->origin);
    if (!json_is_array(load->merges) || !json_is_array(load->added))
        return lf_fail(load->err, LF_E_TYPE, "%s: %s must be an array", load->origin,
                       json_is_array(load->merges) ? "added_tokens" : "model.merges");
    size_t most = json_object_size(load->vocab) + json_array_size(load->added);
    if (most >= LF_TOKENS_MAX)
        return lf_fail(load->err, LF_E_TOO_LARGE, "%s: %zu tokens, the limit is %d", load->origin,
                       most, LF_TOKENS_MAX - 1);
    if (json_array_size(load->merges) > json_object_size(load->vocab))
        return lf_fail(load->err, LF_E_FORMAT, "%s: model.merges has %zu entries for %zu tokens",
                       load->origin, json_array_size(load->merges), json_object_size(load->vocab));
    load->t->vocab = (uint32_t)json_object_size(load->vocab);
    load->text = calloc(most + 1, sizeof *load->text);
    load->t->added = lf_arena_alloc(&load->t->arena, most + 1, 1);
    load->t->added_id =
        lf_arena_alloc(&load->t->arena, json_array_size(load->added), sizeof *load->t->added_id);
    return load->text && load->t->added && load->t->added_id ? LF_OK : out_of_memory(load);
}

// Unique ids below the count of entries leave no hole.
static enum lf_status read_vocab(struct load *load) {
    const char *text;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)load->vocab, text, value) {
        json_int_t id = json_integer_value(value);
        if (!json_is_integer(value))
            return lf_fail(load->err, LF_E_TYPE,
                           "%s: the id of \"%.*s\" in model.vocab must be an "
                           "integer",
                           load->origin, shown(text), text);
        if (id < 0 || id >= load->t->vocab)
            return lf_fail(load->err, LF_E_VALUE,
                           "%s: \"%.*s\" in model.vocab has id %lld, expected "
                           "0 to %lld without holes",
                           load->origin, shown(text), text, (long long)id,
                           (long long)load->t->vocab - 1);
        if (load->text[id])
            return lf_fail(load->err, LF_E_FORMAT,
                           "%s: \"%.*s\" and \"%.*s\" in model.vocab have "
                           "the same id %lld",
                           load->origin, shown(load->text[id]), load->text[id], shown(text), text,
                           (long long)id);
        load->text[id] = text;
    }
    return LF_OK;
}

static enum lf_status check_added_flags(const struct load *load, const json_t *entry, size_t i) {
    static const char *const flags[] = {"single_word", "lstrip", "rstrip"};
    for (size_t f = 0; f < 3; f++) {
        const json_t *flag = json_object_get(entry, flags[f]);
        if (flag && !json_is_false(flag))
            return lf_fail(load->err, LF_E_UNSUPPORTED,
                           "%s: added_tokens[%zu].%s is not supported, "
                           "expected false",
                           load->origin, i, flags[f]);
    }
    return LF_OK;
}

static enum lf_status read_added_one(struct load *load, size_t i) {
    struct lf_tokenizer *t = load->t;
    const json_t *entry = json_array_get(load->added, i);
    const json_t *number = json_object_get(entry, "id");
    const char *content = json_string_value(json_object_get(entry, "content"));
    if (!json_is_integer(number) || !content || !*content)
        return lf_fail(load->err, LF_E_TYPE,
                       "%s: added_tokens[%zu] must have an integer id and a "
                       "content that is not empty",
                       load->origin, i);
    LF_TRY(check_added_flags(load, entry, i));
    json_int_t id = json_integer_value(number);
    if (id < 0 || id >= (json_int_t)(t->vocab + json_array_size(load->added)))
        return lf_fail(load->err, LF_E_VALUE,
                       "%s: added_tokens[%zu] has id %lld, which leaves a "
                       "hole in the ids",
                       load->origin, i, (long long)id);
    if (t->added[id] || (load->text[id] && strcmp(load->text[id], content) != 0))
        return lf_fail(load->err, LF_E_FORMAT,
                       "%s: added_tokens[%zu] (\"%.*s\") has id %lld, which "
                       "\"%.*s\" has already",
                       load->origin, i, shown(content), content, (long long)id,
                       shown(load->text[id]), load->text[id]);
    const json_t *same = json_object_get(load->vocab, content);
    if (same && json_integer_value(same) != id)
        return lf_fail(load->err, LF_E_FORMAT,
                       "%s: added_tokens[%zu] (\"%.*s\") has id %lld, in "
                       "model.vocab it has %lld",
                       load->origin, i, shown(content), content, (long long)id,
                       (long long)json_integer_value(same));
    load->text[id] = content;
    t->added[id] = 1;
    t->added_id[t->n_added++] = (uint32_t)id;
    return LF_OK;
}

static enum lf_status read_added(struct load *load) {
    struct lf_tokenizer *t = load->t;
    for (size_t i = 0; i < json_array_size(load->added); i++)
        LF_TRY(read_added_one(load, i));
    t->size = t->vocab;
    for (uint32_t i = 0; i < t->n_added; i++)
        t->size += t->added_id[i] >= t->vocab;
    for (uint32_t id = t->vocab; id < t->size; id++)
        if (!load->text[id])
            return lf_fail(load->err, LF_E_FORMAT, "%s: no token has id %u, ids must have no holes",
                           load->origin, id);
    return LF_OK;
}

// Writes the bytes that a name in the file stands for; false: not made of byte characters.
static bool spelled_bytes(const char *text, size_t len, char *out, size_t *out_len) {
    *out_len = 0;
    for (size_t i = 0; i < len;) {
        struct lf_utf8 c = lf_utf8_next(text + i, len - i);
        int byte = c.valid ? lf_byte_of_char(c.code) : -1;
        if (byte < 0)
            return false;
        out[(*out_len)++] = (char)byte;
        i += c.len;
    }
    return true;
}

static enum lf_status lay_bytes(struct load *load) {
    struct lf_tokenizer *t = load->t;
    size_t bytes = 0, at = 0;
    for (uint32_t id = 0; id < t->size; id++)
        bytes += strlen(load->text[id]);
    t->pool = lf_arena_alloc(&t->arena, bytes + 1, 1);
    t->start = lf_arena_alloc(&t->arena, (size_t)t->size + 1, sizeof *t->start);
    if (!t->pool || !t->start)
        return out_of_memory(load);
    for (uint32_t id = 0; id < t->size; id++) {
        const char *text = load->text[id];
        size_t len = strlen(text);
        t->start[id] = (uint32_t)at;
        if (t->added[id])
            memcpy(t->pool + at, text, len);
        else if (len == 0 || !spelled_bytes(text, len, t->pool + at, &len))
            return lf_fail(load->err, LF_E_FORMAT,
                           "%s: \"%.*s\" in model.vocab (id %u) is not made "
                           "of byte characters",
                           load->origin, shown(text), text, id);
        at += len;
    }
    t->start[t->size] = (uint32_t)at;
    return LF_OK;
}

static enum lf_status fill_words(struct load *load) {
    struct lf_tokenizer *t = load->t;
    if (!lf_word_table_init(&t->word, &t->arena, t->vocab))
        return out_of_memory(load);
    // JSON keys are distinct here, and distinct names spell distinct bytes.
    for (uint32_t id = 0; id < t->vocab; id++)
        if (!t->added[id])
            lf_word_add(t, id);
    for (unsigned byte = 0; byte < 256; byte++) {
        char c = (char)byte;
        t->byte_id[byte] = lf_word_find(t, &c, 1);
        if (t->byte_id[byte] == LF_TOKEN_NONE)
            return lf_fail(load->err, LF_E_FORMAT,
                           "%s: model.vocab has no token for the byte 0x%02X", load->origin, byte);
    }
    return LF_OK;
}

// The halves of merge i as the file spells them; false when it is neither "a b" nor ["a", "b"].
static bool merge_halves(const json_t *merge, const char *half[2], size_t len[2]) {
    if (json_is_string(merge)) {
        half[0] = json_string_value(merge);
        const char *space = strchr(half[0], ' ');
        if (!space || strchr(space + 1, ' '))
            return false;
        half[1] = space + 1;
        len[0] = (size_t)(space - half[0]);
    } else {
        half[0] = json_string_value(json_array_get(merge, 0));
        half[1] = json_string_value(json_array_get(merge, 1));
        if (json_array_size(merge) != 2 || !half[0] || !half[1])
            return false;
        len[0] = strlen(half[0]);
    }
    len[1] = strlen(half[1]);
    return len[0] && len[1];
}

// Ids that rise with the rank let the merger compare ids (3.4).
static enum lf_status read_merge(struct load *load, size_t i, char *bytes, uint32_t *id_before) {
    struct lf_tokenizer *t = load->t;
    const char *half[2];
    size_t len[2], used[2] = {0, 0};
    uint32_t part[2];
    if (!merge_halves(json_array_get(load->merges, i), half, len))
        return lf_fail(load->err, LF_E_TYPE,
                       "%s: model.merges[%zu] must be two halves with one "
                       "space between, or a pair of strings",
                       load->origin, i);
    for (int h = 0; h < 2; h++) {
        char *to = bytes + used[0];
        bool known = spelled_bytes(half[h], len[h], to, &used[h]);
        part[h] = known ? lf_word_find(t, to, used[h]) : LF_TOKEN_NONE;
        if (part[h] == LF_TOKEN_NONE)
            return lf_fail(load->err, LF_E_FORMAT,
                           "%s: model.merges[%zu]: \"%.*s\" is not in "
                           "model.vocab",
                           load->origin, i, shown_part(half[h], len[h]), half[h]);
    }
    uint32_t id = lf_word_find(t, bytes, used[0] + used[1]);
    if (id == LF_TOKEN_NONE)
        return lf_fail(load->err, LF_E_FORMAT,
                       "%s: model.merges[%zu]: the result of \"%.*s\" and "
                       "\"%.*s\" is not in model.vocab",
                       load->origin, i, shown_part(half[0], len[0]), half[0],
                       shown_part(half[1], len[1]), half[1]);
    if (i > 0 && id <= *id_before)
        return lf_fail(load->err, LF_E_UNSUPPORTED,
                       "%s: model.merges[%zu] gives id %u, expected one "
                       "above %u: ids must rise with the merges",
                       load->origin, i, id, *id_before);
    *id_before = id;
    lf_pair_add(t, part[0], part[1], id);
    return LF_OK;
}

static size_t longest_text(const json_t *merges) {
    size_t longest = 0;
    for (size_t i = 0; i < json_array_size(merges); i++) {
        const json_t *merge = json_array_get(merges, i);
        size_t len = json_string_length(merge) + json_string_length(json_array_get(merge, 0)) +
                     json_string_length(json_array_get(merge, 1));
        longest = len > longest ? len : longest;
    }
    return longest;
}

static enum lf_status read_merges(struct load *load) {
    size_t count = json_array_size(load->merges);
    uint32_t id_before = 0;
    if (!lf_word_table_init(&load->t->pair, &load->t->arena, count))
        return out_of_memory(load);
    char *bytes = malloc(longest_text(load->merges) + 1);
    if (!bytes)
        return out_of_memory(load);
    for (size_t i = 0; i < count && load->err->status == LF_OK; i++)
        (void)!read_merge(load, i, bytes, &id_before);
    free(bytes);
    return load->err->status;
}

// A piece may take a token whole only when merging its bytes gives that token (3.4).
static enum lf_status find_split_words(struct load *load) {
    struct lf_tokenizer *t = load->t;
    struct lf_merge_scratch scratch = {0};
    struct lf_ids ids = {0};
    for (uint32_t id = 0; id < t->vocab && load->err->status == LF_OK; id++) {
        size_t len;
        const char *bytes = lf_token_bytes(t, id, &len);
        if (t->added[id])
            continue;
        lf_ids_clear(&ids);
        if (lf_merge_piece(t, bytes, len, &scratch, &ids, load->err) != LF_OK)
            break;
        if (ids.failed)
            out_of_memory(load);
        else if (ids.len != 1 || ids.id[0] != id)
            lf_word_split(t, id);
    }
    lf_merge_scratch_free(&scratch);
    lf_ids_free(&ids);
    return load->err->status;
}

static int compare_added(const void *a, const void *b, void *context) {
    const struct lf_tokenizer *t = context;
    size_t len[2];
    const char *bytes[2] = {lf_token_bytes(t, *(const uint32_t *)a, &len[0]),
                            lf_token_bytes(t, *(const uint32_t *)b, &len[1])};
    int order = memcmp(bytes[0], bytes[1], len[0] < len[1] ? len[0] : len[1]);
    return order ? order : (len[0] > len[1]) - (len[0] < len[1]);
}

static enum lf_status sort_added(struct load *load) {
    struct lf_tokenizer *t = load->t;
    qsort_r(t->added_id, t->n_added, sizeof *t->added_id, compare_added, t);
    for (uint32_t i = 0; i < t->n_added; i++) {
        const char *content = load->text[t->added_id[i]];
        if (i > 0 && strcmp(content, load->text[t->added_id[i - 1]]) == 0)
            return lf_fail(load->err, LF_E_FORMAT,
                           "%s: added_tokens names \"%.*s\" twice, as %u and "
                           "%u",
                           load->origin, shown(content), content, t->added_id[i - 1],
                           t->added_id[i]);
        t->added_first[(unsigned char)content[0]] = true;
    }
    return LF_OK;
}

static void finish_hex(struct lf_sha256 *sha, char hex[65]) {
    uint8_t digest[32];
    lf_sha256_finish(sha, digest);
    lf_sha256_hex(digest, hex);
}

static void digest_line(struct lf_sha256 *sha, const char *text) {
    lf_sha256_add(sha, text, strlen(text));
    lf_sha256_add(sha, "\n", 1);
}

static void take_digests(struct load *load) {
    struct lf_tokenizer *t = load->t;
    struct lf_sha256 vocab, merges, added;
    lf_sha256_init(&vocab);
    lf_sha256_init(&merges);
    lf_sha256_init(&added);
    for (uint32_t id = 0; id < t->size; id++) {
        if (id < t->vocab)
            digest_line(&vocab, load->text[id]);
        if (t->added[id])
            digest_line(&added, load->text[id]);
    }
    for (size_t i = 0; i < json_array_size(load->merges); i++) {
        const char *half[2];
        size_t len[2];
        bool well_formed = merge_halves(json_array_get(load->merges, i), half, len);
        LF_ASSERT(well_formed);
        lf_sha256_add(&merges, half[0], len[0]);
        lf_sha256_add(&merges, " ", 1);
        lf_sha256_add(&merges, half[1], len[1]);
        lf_sha256_add(&merges, "\n", 1);
    }
    finish_hex(&vocab, t->vocab_sha256);
    finish_hex(&merges, t->merges_sha256);
    finish_hex(&added, t->added_sha256);
}

static enum lf_status load_all(struct load *load, const json_t *root) {
    LF_TRY(lf_tokenizer_check_form(root, load->origin, load->err));
    LF_TRY(find_parts(load, root));
    LF_TRY(read_vocab(load));
    LF_TRY(read_added(load));
    LF_TRY(lay_bytes(load));
    LF_TRY(fill_words(load));
    LF_TRY(read_merges(load));
    LF_TRY(find_split_words(load));
    LF_TRY(sort_added(load));
    take_digests(load);
    return LF_OK;
}

enum lf_status lf_tokenizer_parse(struct lf_tokenizer **out, const char *json, size_t len,
                                  const char *origin, struct lf_error *err) {
    *out = NULL;
    if (len > FILE_BYTES_MAX)
        return lf_fail(err, LF_E_TOO_LARGE, "%s has %zu bytes, the limit is %d", origin, len,
                       FILE_BYTES_MAX);
    json_error_t wrong;
    json_t *root = json_loadb(json, len, JSON_REJECT_DUPLICATES, &wrong);
    if (!root)
        return lf_fail_byte(err, LF_E_JSON, wrong.position, "%s: not JSON at byte %d: %s", origin,
                            wrong.position, wrong.text);
    struct load load = {.origin = origin, .err = err, .t = calloc(1, sizeof *load.t)};
    if (!load.t)
        out_of_memory(&load);
    else if (load_all(&load, root) == LF_OK)
        *out = load.t;
    else
        lf_tokenizer_close(load.t);
    free(load.text);
    json_decref(root);
    return err->status;
}

enum lf_status lf_tokenizer_open(struct lf_tokenizer **out, const char *path,
                                 struct lf_error *err) {
    struct lf_buffer text = {0};
    *out = NULL;
    if (lf_file_read(&text, path, FILE_BYTES_MAX, err) == LF_OK)
        (void)!lf_tokenizer_parse(out, text.data, text.len, path, err);
    lf_buffer_free(&text);
    return err->status;
}

void lf_tokenizer_close(struct lf_tokenizer *tokenizer) {
    if (tokenizer)
        lf_arena_free(&tokenizer->arena);
    free(tokenizer);
}
