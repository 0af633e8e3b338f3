// Does the tokenizer give the reference library's ids (checkpoint.md 3)?
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>
#include "demo_tokenizer.h"
#include "text/tokenizer.h"

static void check_ids(const struct lf_tokenizer *t, const json_t *entry, const char *key,
                      bool match_added) {
    const char *text = json_string_value(json_object_get(entry, "text"));
    size_t len = json_string_length(json_object_get(entry, "text"));
    const json_t *expected = json_object_get(entry, key);
    struct lf_ids ids = {0};
    struct lf_error err = LF_ERROR_INIT;
    assert_int_equal(lf_tokenizer_encode(t, text, len, match_added, &ids, &err), LF_OK);
    bool same = ids.len == json_array_size(expected);
    for (size_t i = 0; same && i < ids.len; i++)
        same = ids.id[i] == (uint32_t)json_integer_value(json_array_get(expected, i));
    if (!same)
        fail_msg("other ids than %s for: %s", key, text);
    lf_ids_free(&ids);
}

static void check_decoded(const struct lf_tokenizer *t, const json_t *entry) {
    const json_t *ids = json_object_get(entry, "ids");
    struct lf_utf8_stream stream = {0};
    struct lf_buffer out = {0};
    for (size_t i = 0; i < json_array_size(ids); i++) {
        size_t len;
        uint32_t id = (uint32_t)json_integer_value(json_array_get(ids, i));
        const char *bytes = lf_tokenizer_bytes(t, id, &len);
        lf_utf8_stream_push(&stream, bytes, len, &out);
    }
    lf_utf8_stream_end(&stream, &out);
    const json_t *expected = json_object_get(entry, "decoded");
    assert_int_equal(out.len, json_string_length(expected));
    if (out.len)
        assert_memory_equal(out.data, json_string_value(expected), out.len);
    lf_buffer_free(&out);
}

static void demo_goldens_give_the_same_ids_and_text(void **state) {
    (void)state;
    json_t *golden = load_json("LF_SOURCE_ROOT", "tests/data/demo-golden/tokenizer.json");
    json_t *strings = json_object_get(golden, "strings");
    assert_true(json_array_size(strings) >= 200);
    for (size_t i = 0; i < json_array_size(strings); i++) {
        const json_t *entry = json_array_get(strings, i);
        check_ids(demo, entry, "ids", true);
        check_ids(demo, entry, "ids_as_text", false);
        check_decoded(demo, entry);
    }
    json_decref(golden);
}

static void release_vectors_give_the_same_ids(void **state) {
    struct lf_error err = LF_ERROR_INIT;
    (void)state;
    struct lf_tokenizer *t = open_tokenizer("LF_SHARED", "data/v41-tokenizer/tokenizer.json", &err);
    if (!t) {
        print_message("skipped, the release's vocabulary is not at hand: %s\n", err.text);
        skip();
    }
    json_t *vectors = load_json("LF_SOURCE_ROOT", "tests/data/tokenizer_vectors.json");
    const json_t *plain = json_object_get(vectors, "plain");
    const json_t *added = json_object_get(vectors, "with_added_tokens");
    assert_true(json_array_size(plain) >= 300 && json_array_size(added) >= 29);
    for (size_t i = 0; i < json_array_size(plain); i++)
        check_ids(t, json_array_get(plain, i), "ids", false);
    for (size_t i = 0; i < json_array_size(added); i++)
        check_ids(t, json_array_get(added, i), "ids", true);
    assert_int_equal(lf_tokenizer_size(t), 129280);
    json_decref(vectors);
    lf_tokenizer_close(t);
}

static void control_strings_in_plain_text_give_no_added_id(void **state) {
    (void)state;
    unsigned tried = 0;
    for (uint32_t id = 0; id < lf_tokenizer_size(demo); id++) {
        if (!lf_tokenizer_is_added(demo, id))
            continue;
        struct lf_error err = LF_ERROR_INIT;
        struct lf_ids ids = {0};
        size_t len;
        const char *bytes = lf_tokenizer_bytes(demo, id, &len);
        assert_int_equal(lf_tokenizer_encode(demo, bytes, len, false, &ids, &err), LF_OK);
        for (size_t i = 0; i < ids.len; i++)
            assert_false(lf_tokenizer_is_added(demo, ids.id[i]));
        lf_ids_clear(&ids);
        assert_int_equal(lf_tokenizer_encode(demo, bytes, len, true, &ids, &err), LF_OK);
        assert_int_equal(ids.len, 1);
        assert_int_equal(ids.id[0], id);
        lf_ids_free(&ids);
        tried++;
    }
    assert_int_equal(tried, 22);
}

static void added_ids_are_found_by_their_whole_content_only(void **state) {
    (void)state;
    assert_int_equal(lf_tokenizer_added_id(demo, "<think>"), 2288);
    assert_int_equal(lf_tokenizer_added_id(demo, "</think>"), 2289);
    assert_int_equal(lf_tokenizer_added_id(demo, "<think>x"), -1);
    assert_int_equal(lf_tokenizer_added_id(demo, "<thin"), -1);
    assert_int_equal(lf_tokenizer_added_id(demo, ""), -1);
    assert_int_equal(lf_tokenizer_added_id(demo, "the"), -1);
}

static void invalid_utf8_is_refused_with_its_byte_and_adds_nothing(void **state) {
    (void)state;
    static const struct {
        const char *text;
        size_t len;
        int64_t byte;
    } cases[] = {
        {"\xFF", 1, 0},
        {"ab\x80", 3, 2},
        {"ab\xC3", 3, 2},
        {"\xC0\xAF", 2, 0},
        {"x\xED\xA0\x80", 4, 1},
        {"\xF4\x90\x80\x80", 4, 0},
        {"\xE2\x82\xAC\xE2\x82", 5, 3},
        {"0123456789\xFE", 11, 10},
    };
    struct lf_ids ids = {0};
    lf_ids_add(&ids, 7);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct lf_error err = LF_ERROR_INIT;
        assert_int_equal(lf_tokenizer_encode(demo, cases[i].text, cases[i].len, true, &ids, &err),
                         LF_E_FORMAT);
        assert_int_equal(err.byte, cases[i].byte);
        assert_int_equal(ids.len, 1);
    }
    lf_ids_free(&ids);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(demo_goldens_give_the_same_ids_and_text),
        cmocka_unit_test(release_vectors_give_the_same_ids),
        cmocka_unit_test(control_strings_in_plain_text_give_no_added_id),
        cmocka_unit_test(added_ids_are_found_by_their_whole_content_only),
        cmocka_unit_test(invalid_utf8_is_refused_with_its_byte_and_adds_nothing),
    };
    return cmocka_run_group_tests(tests, open_demo, close_demo);
}
