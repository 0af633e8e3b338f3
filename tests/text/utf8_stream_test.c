// Does streaming decode give whole characters and the whole text at every cut (checkpoint.md 3.6)?
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>
#include "data.h"
#include "base/utf8.h"

static void push(struct lf_utf8_stream *stream, const char *bytes, size_t len,
                 struct lf_buffer *out) {
    lf_utf8_stream_push(stream, bytes, len, out);
    assert_int_equal(lf_utf8_valid(out->data ? out->data : "", out->len), out->len);
    assert_true(stream->tail_len <= 3);
}

static void check_all_cuts(const char *text, size_t len) {
    struct lf_buffer whole = {0}, out = {0};
    lf_utf8_repair(&whole, text, len);
    for (size_t first = 0; first <= len; first++)
        for (size_t second = first; second <= len; second++) {
            struct lf_utf8_stream stream = {0};
            lf_buffer_clear(&out);
            push(&stream, text, first, &out);
            push(&stream, text + first, second - first, &out);
            push(&stream, text + second, len - second, &out);
            lf_utf8_stream_end(&stream, &out);
            assert_int_equal(stream.tail_len, 0);
            assert_int_equal(out.len, whole.len);
            if (out.len)
                assert_memory_equal(out.data, whole.data, out.len);
        }
    lf_buffer_free(&whole);
    lf_buffer_free(&out);
}

static void golden_texts_survive_every_cut(void **state) {
    (void)state;
    json_t *golden = load_json("LF_SOURCE_ROOT", "tests/data/demo-golden/tokenizer.json");
    const json_t *strings = json_object_get(golden, "strings");
    for (size_t i = 0; i < json_array_size(strings); i++) {
        const json_t *text = json_object_get(json_array_get(strings, i), "text");
        size_t len = json_string_length(text);
        if (len <= 120)
            check_all_cuts(json_string_value(text), len);
    }
    json_decref(golden);
}

static void broken_bytes_become_the_same_marks_at_every_cut(void **state) {
    static const char *const cases[] = {
        "\xFF",
        "\x80\x80",
        "a\xC3",
        "\xC3(",
        "\xE2\x82",
        "\xE2\x82\xE2\x82\xAC",
        "\xE2\x28\xA1",
        "\xF0\x9F\x98",
        "\xF0\x9F\x98\x80\xF0\x9F",
        "\xF0\x9F\x41",
        "\xED\xA0\x80",
        "\xC0\xAF",
        "\xF4\x90\x80\x80",
        "\xF0\x80\x80\x80",
        "\xF1\x80\xF1\x80\x80\xF1\x80\x80\x80x",
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        check_all_cuts(cases[i], strlen(cases[i]));
}

static void maximal_subparts_give_one_mark_each(void **state) {
    // The example of the Unicode standard, table 3-11.
    static const char text[] = "\x61\xF1\x80\x80\xE1\x80\xC2\x62\x80\x63\x80\xBF\x64";
    struct lf_utf8_stream stream = {0};
    struct lf_buffer out = {0};
    (void)state;
    push(&stream, text, sizeof text - 1, &out);
    lf_utf8_stream_end(&stream, &out);
    assert_string_equal(out.data, "a\uFFFD\uFFFD\uFFFDb\uFFFDc\uFFFD\uFFFDd");
    lf_buffer_free(&out);
}

static void an_unfinished_character_is_held_back(void **state) {
    struct lf_utf8_stream stream = {0};
    struct lf_buffer out = {0};
    (void)state;
    push(&stream, "ok \xF0\x9F\x98", 6, &out);
    assert_string_equal(out.data, "ok ");
    assert_int_equal(stream.tail_len, 3);
    push(&stream, "\x80", 1, &out);
    assert_string_equal(out.data, "ok \xF0\x9F\x98\x80");
    lf_buffer_free(&out);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(golden_texts_survive_every_cut),
        cmocka_unit_test(broken_bytes_become_the_same_marks_at_every_cut),
        cmocka_unit_test(maximal_subparts_give_one_mark_each),
        cmocka_unit_test(an_unfinished_character_is_held_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
