// Is every tokenizer.json that would give other ids refused by name (checkpoint.md 3.1-3.5)?
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>
#include "data.h"

enum { MERGES = 40, FIRST_MERGE = 259, FIRST_ADDED = FIRST_MERGE + MERGES };

static json_t *small; // the demo's file with its first merges and added tokens only

static void cut_to(json_t *array, size_t count) {
    while (json_array_size(array) > count)
        json_array_remove(array, json_array_size(array) - 1);
}

static int make_small(void **state) {
    const char *text;
    json_t *id;
    void *next;
    (void)state;
    small = load_json("LF_SOURCE_ROOT", "models/demo/tokenizer.json");
    json_t *model = json_object_get(small, "model");
    json_t *added = json_object_get(small, "added_tokens");
    json_object_foreach_safe(json_object_get(model, "vocab"), next, text,
                             id) if (json_integer_value(id) >= FIRST_ADDED)
        json_object_del(json_object_get(model, "vocab"), text);
    cut_to(json_object_get(model, "merges"), MERGES);
    cut_to(added, 8);
    for (size_t i = 3; i < 8; i++)
        json_object_set_new(json_array_get(added, i), "id",
                            json_integer(FIRST_ADDED + (json_int_t)i - 3));
    return 0;
}

static int free_small(void **state) {
    (void)state;
    json_decref(small);
    return 0;
}

// Replaces what the path of keys and indices leads to; "" takes it away, "+" ends add to arrays.
static void edit(json_t *root, const char *path, const char *value) {
    char keys[128], *rest = keys;
    json_t *at = root;
    snprintf(keys, sizeof keys, "%s", path);
    for (char *key = strsep(&rest, "/"); rest; key = strsep(&rest, "/"))
        at = json_is_array(at) ? json_array_get(at, (size_t)strtoul(key, NULL, 10))
                               : json_object_get(at, key);
    const char *last = strrchr(path, '/') ? strrchr(path, '/') + 1 : path;
    json_t *set = *value ? json_loads(value, JSON_DECODE_ANY, NULL) : NULL;
    assert_true(at && (set || !*value));
    int failed;
    if (json_is_array(at) && *last == '+')
        failed = json_array_append_new(at, set);
    else if (json_is_array(at))
        failed = set ? json_array_set_new(at, (size_t)strtoul(last, NULL, 10), set)
                     : json_array_remove(at, (size_t)strtoul(last, NULL, 10));
    else
        failed = set ? json_object_set_new(at, last, set) : json_object_del(at, last);
    assert_int_equal(failed, 0);
}

struct change {
    const char *path, *value;
};

static enum lf_status parse_changed(struct lf_tokenizer **out, const struct change *change,
                                    size_t n, struct lf_error *err) {
    json_t *copy = json_deep_copy(small);
    for (size_t i = 0; i < n && change[i].path; i++)
        edit(copy, change[i].path, change[i].value);
    char *text = json_dumps(copy, JSON_COMPACT);
    enum lf_status status = lf_tokenizer_parse(out, text, strlen(text), "small.json", err);
    free(text);
    json_decref(copy);
    return status;
}

#define PRE "pre_tokenizer/pretokenizers/"

static const struct {
    struct change change[2];
    enum lf_status status;
    const char *named; // what the sentence must name
} refused[] = {
    {{{"model", ""}}, LF_E_MISSING, "model"},
    {{{"model", "5"}}, LF_E_UNSUPPORTED, "model.type"},
    {{{"model/type", "\"WordPiece\""}}, LF_E_UNSUPPORTED, "model.type"},
    {{{"model/dropout", "0.1"}}, LF_E_UNSUPPORTED, "model.dropout"},
    {{{"model/unk_token", "\"x\""}}, LF_E_UNSUPPORTED, "model.unk_token"},
    {{{"model/continuing_subword_prefix", "\"##\""}}, LF_E_UNSUPPORTED, "continuing_subword"},
    {{{"model/end_of_word_suffix", "\"</w>\""}}, LF_E_UNSUPPORTED, "end_of_word_suffix"},
    {{{"model/fuse_unk", "true"}}, LF_E_UNSUPPORTED, "model.fuse_unk"},
    {{{"model/byte_fallback", "true"}}, LF_E_UNSUPPORTED, "model.byte_fallback"},
    {{{"model/ignore_merges", "true"}}, LF_E_UNSUPPORTED, "model.ignore_merges"},
    {{{"version", "\"2.0\""}}, LF_E_UNSUPPORTED, "version"},
    {{{"version", "1"}}, LF_E_UNSUPPORTED, "version"},
    {{{"truncation", "{\"max_length\": 5}"}}, LF_E_UNSUPPORTED, "truncation"},
    {{{"padding", "{}"}}, LF_E_UNSUPPORTED, "padding"},
    {{{"normalizer", "{\"type\": \"NFC\"}"}}, LF_E_UNSUPPORTED, "normalizer"},
    {{{"normalizer/normalizers/+", "{\"type\": \"NFC\"}"}}, LF_E_UNSUPPORTED, "normalizer"},
    {{{"post_processor", "{\"type\": \"TemplateProcessing\"}"}}, LF_E_UNSUPPORTED, "post_proc"},
    {{{"decoder", "null"}}, LF_E_UNSUPPORTED, "decoder"},
    {{{"pre_tokenizer", ""}}, LF_E_UNSUPPORTED, "pre_tokenizer"},
    {{{"pre_tokenizer/type", "\"ByteLevel\""}}, LF_E_UNSUPPORTED, "pre_tokenizer"},
    {{{PRE "3", ""}}, LF_E_UNSUPPORTED, "pre_tokenizer"},
    {{{PRE "0/pattern/Regex", "\"\\\\p{N}{1,4}\""}}, LF_E_UNSUPPORTED, "pretokenizers[0]"},
    {{{PRE "0/pattern/Regex", "\"\\\\p{N}{1,3}+\""}}, LF_E_UNSUPPORTED, "pretokenizers[0]"},
    {{{PRE "0/pattern/Regex", "\"\\\\\""}}, LF_E_UNSUPPORTED, "pretokenizers[0]"},
    {{{PRE "0/pattern", "{\"String\": \" \"}"}}, LF_E_UNSUPPORTED, "pretokenizers[0]"},
    {{{PRE "0/behavior", "\"Removed\""}}, LF_E_UNSUPPORTED, "pretokenizers[0]"},
    {{{PRE "0/invert", "true"}}, LF_E_UNSUPPORTED, "pretokenizers[0]"},
    {{{PRE "1/pattern/Regex", "\"[一-龥]+\""}}, LF_E_UNSUPPORTED, "pretokenizers[1]"},
    {{{PRE "2/pattern/Regex", "\"\\\\s+\""}}, LF_E_UNSUPPORTED, "pretokenizers[2]"},
    {{{PRE "3/type", "\"Metaspace\""}}, LF_E_UNSUPPORTED, "pretokenizers[3]"},
    {{{PRE "3/use_regex", "true"}}, LF_E_UNSUPPORTED, "pretokenizers[3]"},
    {{{PRE "3/use_regex", ""}}, LF_E_UNSUPPORTED, "pretokenizers[3]"},
    {{{PRE "3/add_prefix_space", "true"}}, LF_E_UNSUPPORTED, "pretokenizers[3]"},
    {{{"model/vocab", ""}}, LF_E_MISSING, "model.vocab"},
    {{{"model/vocab", "[]"}}, LF_E_TYPE, "model.vocab"},
    {{{"model/vocab/he", "\"259\""}}, LF_E_TYPE, "\"he\""},
    {{{"model/vocab/he", "259.0"}}, LF_E_TYPE, "\"he\""},
    {{{"model/vocab/he", "260"}}, LF_E_FORMAT, "260"},
    {{{"model/vocab/he", "-1"}}, LF_E_VALUE, "\"he\""},
    {{{"model/vocab/he", "299"}}, LF_E_VALUE, "\"he\""},
    {{{"model/vocab/he", ""}}, LF_E_VALUE, "without holes"},
    {{{"model/vocab/!", ""}, {"model/vocab/zz", "3"}}, LF_E_FORMAT, "0x21"},
    {{{"model/vocab/he", ""}, {"model/vocab/zz", "259"}}, LF_E_FORMAT, "model.merges[0]"},
    {{{"model/vocab/he", ""}, {"model/vocab/語", "259"}}, LF_E_FORMAT, "語"},
    {{{"model/vocab/he", ""}, {"model/vocab/", "259"}}, LF_E_FORMAT, "id 259"},
    {{{"model/merges", ""}}, LF_E_MISSING, "model.merges"},
    {{{"model/merges", "{}"}}, LF_E_TYPE, "model.merges"},
    {{{"model/vocab", "{\"!\": 0}"}}, LF_E_FORMAT, "40 entries for 1 tokens"},
    {{{"model/merges/3", "5"}}, LF_E_TYPE, "model.merges[3]"},
    {{{"model/merges/3", "\"in\""}}, LF_E_TYPE, "model.merges[3]"},
    {{{"model/merges/3", "\"i \""}}, LF_E_TYPE, "model.merges[3]"},
    {{{"model/merges/3", "\" n\""}}, LF_E_TYPE, "model.merges[3]"},
    {{{"model/merges/3", "\"i n n\""}}, LF_E_TYPE, "model.merges[3]"},
    {{{"model/merges/3", "[\"i\"]"}}, LF_E_TYPE, "model.merges[3]"},
    {{{"model/merges/3", "[\"i\", 5]"}}, LF_E_TYPE, "model.merges[3]"},
    {{{"model/merges/3", "[\"i\", \"n\", \"n\"]"}}, LF_E_TYPE, "model.merges[3]"},
    {{{"model/merges/3", "\"i nq\""}}, LF_E_FORMAT, "\"nq\""},
    {{{"model/merges/3", "\"語 n\""}}, LF_E_FORMAT, "\"語\""},
    {{{"model/merges/3", "\"q n\""}}, LF_E_FORMAT, "\"q\" and \"n\""},
    {{{"model/merges/3", "\"h e\""}}, LF_E_UNSUPPORTED, "model.merges[3]"},
    {{{"model/merges/0", "\"i n\""}}, LF_E_UNSUPPORTED, "model.merges[1]"},
    {{{"added_tokens", ""}}, LF_E_MISSING, "added_tokens"},
    {{{"added_tokens", "{}"}}, LF_E_TYPE, "added_tokens"},
    {{{"added_tokens/4", "5"}}, LF_E_TYPE, "added_tokens[4]"},
    {{{"added_tokens/4/id", "\"300\""}}, LF_E_TYPE, "added_tokens[4]"},
    {{{"added_tokens/4/id", ""}}, LF_E_TYPE, "added_tokens[4]"},
    {{{"added_tokens/4/content", "\"\""}}, LF_E_TYPE, "added_tokens[4]"},
    {{{"added_tokens/4/content", ""}}, LF_E_TYPE, "added_tokens[4]"},
    {{{"added_tokens/4/lstrip", "true"}}, LF_E_UNSUPPORTED, "added_tokens[4].lstrip"},
    {{{"added_tokens/4/rstrip", "true"}}, LF_E_UNSUPPORTED, "added_tokens[4].rstrip"},
    {{{"added_tokens/4/single_word", "1"}}, LF_E_UNSUPPORTED, "added_tokens[4].single_word"},
    {{{"added_tokens/4/id", "-1"}}, LF_E_VALUE, "added_tokens[4]"},
    {{{"added_tokens/4/id", "9000000000000000000"}}, LF_E_VALUE, "added_tokens[4]"},
    {{{"added_tokens/4/id", "299"}}, LF_E_FORMAT, "added_tokens[4]"},
    {{{"added_tokens/4/id", "306"}}, LF_E_FORMAT, "300"},
    {{{"added_tokens/4/id", "0"}}, LF_E_FORMAT, "added_tokens[4]"},
    {{{"added_tokens/1/content", "\"<s>\""}}, LF_E_FORMAT, "added_tokens[1]"},
    {{{"added_tokens/4/content", "\"he\""}}, LF_E_FORMAT, "\"he\""},
    {{{"added_tokens/4/content", "\"<think>\""}}, LF_E_FORMAT, "twice"},
    {{{"model/merges/0", "\"! he\""}, {"model/vocab/!", ""}}, LF_E_VALUE, "without holes"},
};

static void every_broken_part_is_refused_by_name(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        struct lf_error err = LF_ERROR_INIT;
        struct lf_tokenizer *t;
        enum lf_status status = parse_changed(&t, refused[i].change, 2, &err);
        if (status != refused[i].status || !strstr(err.text, refused[i].named))
            fail_msg("case %zu (%s %s): %s, %s", i, refused[i].change[0].path,
                     refused[i].change[0].value, lf_status_name(status), err.text);
        assert_null(t);
        assert_non_null(strstr(err.text, "small.json"));
    }
}

static const struct change accepted[] = {
    {NULL, NULL},
    {"normalizer", "null"},
    {"normalizer", ""},
    {"post_processor", ""},
    {"truncation", ""},
    {"model/ignore_merges", ""},
    {"model/end_of_word_suffix", "\"\""},
    {"model/merges/0", "[\"h\", \"e\"]"},
    {"model/merges/1", "[\"Ġ\", \"t\"]"},
    {PRE "2/pattern/Regex",
     "\"[!\\\"#$%&'()*+,\\\\-./:;<=>?@\\\\[\\\\\\\\\\\\]^_`{|}~][A-Za-z]+|"
     "[^\\r\\n\\\\p{L}\\\\p{P}\\\\p{S}]?[\\\\p{L}\\\\p{M}]+| ?[\\\\p{P}\\\\p{S}]+[\\r\\n]*|"
     "\\\\s*[\\r\\n]+|\\\\s+(?!\\\\S)|\\\\s+\""},
};

static void other_spellings_of_the_same_tokenizer_give_the_same_ids(void **state) {
    static const char text[] = "the other\n<think>heather</think>";
    struct lf_ids expected = {0};
    (void)state;
    for (size_t i = 0; i < sizeof accepted / sizeof *accepted; i++) {
        struct lf_error err = LF_ERROR_INIT;
        struct lf_ids ids = {0};
        struct lf_tokenizer *t;
        if (parse_changed(&t, accepted + i, 1, &err) != LF_OK)
            fail_msg("case %zu: %s", i, err.text);
        assert_int_equal(lf_tokenizer_size(t), FIRST_ADDED + 5);
        struct lf_ids *out = i ? &ids : &expected;
        assert_int_equal(lf_tokenizer_encode(t, text, sizeof text - 1, true, out, &err), LF_OK);
        assert_int_equal(out->len, expected.len);
        assert_memory_equal(out->id, expected.id, expected.len * sizeof *expected.id);
        lf_ids_free(&ids);
        lf_tokenizer_close(t);
    }
    lf_ids_free(&expected);
}

static void cut_json_is_refused_with_its_byte(void **state) {
    char *text = json_dumps(small, JSON_COMPACT);
    size_t len = strlen(text);
    (void)state;
    for (size_t cut = 0; cut < len; cut += cut < 400 || cut + 400 > len ? 1 : 61) {
        struct lf_error err = LF_ERROR_INIT;
        struct lf_tokenizer *t;
        char *exact = malloc(cut + 1); // a sanitizer sees a read past the cut
        assert_non_null(exact);
        memcpy(exact, text, cut);
        assert_int_equal(lf_tokenizer_parse(&t, exact, cut, "cut.json", &err), LF_E_JSON);
        assert_true(err.byte >= 0 && (size_t)err.byte <= cut);
        assert_null(t);
        free(exact);
    }
    free(text);
}

static void texts_that_are_not_a_json_object_are_refused(void **state) {
    static const struct {
        const char *text;
        enum lf_status status;
    } cases[] = {{"", LF_E_JSON},
                 {"5", LF_E_JSON},
                 {"[]", LF_E_TYPE},
                 {"{}", LF_E_MISSING},
                 {"{}x", LF_E_JSON},
                 {"{\"a\": \"\xFF\"}", LF_E_JSON},
                 {"{\"model\": 1, \"model\": 1}", LF_E_JSON},
                 {"{\"\\u0000\": 1}", LF_E_JSON}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct lf_error err = LF_ERROR_INIT;
        struct lf_tokenizer *t;
        assert_int_equal(lf_tokenizer_parse(&t, cases[i].text, strlen(cases[i].text), "text", &err),
                         cases[i].status);
        assert_null(t);
    }
}

static void a_missing_file_is_refused_by_its_path(void **state) {
    struct lf_error err = LF_ERROR_INIT;
    (void)state;
    assert_null(open_tokenizer("LF_SOURCE_ROOT", "models/demo/no-such.json", &err));
    assert_int_equal(err.status, LF_E_IO);
    assert_non_null(strstr(err.text, "no-such.json"));
}

static void overlapping_added_tokens_are_matched_leftmost_longest(void **state) {
    static const struct change contents[] = {{"added_tokens/3/content", "\"<a>\""},
                                             {"added_tokens/4/content", "\"<a>b<\""},
                                             {"added_tokens/5/content", "\"b<\""},
                                             {"added_tokens/6/content", "\"<a>b<a>c\""}};
    static const struct {
        const char *text;
        uint32_t id[4];
        size_t n;
    } cases[] = {
        {"<a>", {299}, 1},         {"<a>b<", {300}, 1}, {"<a>b<a>c", {302}, 1},
        {"<a><a>", {299, 299}, 2}, {"b<", {301}, 1},    {"<a>b<a><a>", {300, 67, 32, 299}, 4},
    };
    struct lf_error err = LF_ERROR_INIT;
    struct lf_tokenizer *t;
    (void)state;
    assert_int_equal(parse_changed(&t, contents, 4, &err), LF_OK);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct lf_ids ids = {0};
        assert_int_equal(
            lf_tokenizer_encode(t, cases[i].text, strlen(cases[i].text), true, &ids, &err), LF_OK);
        assert_int_equal(ids.len, cases[i].n);
        assert_memory_equal(ids.id, cases[i].id, ids.len * sizeof *ids.id);
        lf_ids_free(&ids);
    }
    lf_tokenizer_close(t);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_broken_part_is_refused_by_name),
        cmocka_unit_test(other_spellings_of_the_same_tokenizer_give_the_same_ids),
        cmocka_unit_test(cut_json_is_refused_with_its_byte),
        cmocka_unit_test(texts_that_are_not_a_json_object_are_refused),
        cmocka_unit_test(a_missing_file_is_refused_by_its_path),
        cmocka_unit_test(overlapping_added_tokens_are_matched_leftmost_longest),
    };
    return cmocka_run_group_tests(tests, make_small, free_small);
}
