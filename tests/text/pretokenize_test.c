// Are texts cut where the reference library cuts them (checkpoint.md 3.2)?
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>
#include "data.h"
#include "base/utf8.h"
#include "text/pretokenize.h"

static void vectors_give_the_same_pieces(void **state) {
    (void)state;
    json_t *vectors = load_json("LF_SOURCE_ROOT", "tests/data/tokenizer_vectors.json");
    const json_t *plain = json_object_get(vectors, "plain");
    assert_true(json_array_size(plain) >= 300);
    for (size_t i = 0; i < json_array_size(plain); i++) {
        const json_t *entry = json_array_get(plain, i);
        const json_t *pieces = json_object_get(entry, "piece_bytes");
        const char *text = json_string_value(json_object_get(entry, "text"));
        size_t at = 0, n = 0, len = json_string_length(json_object_get(entry, "text"));
        for (; at < len; n++) {
            size_t end = lf_pretokenize_next(text, at, len);
            if ((json_int_t)(end - at) != json_integer_value(json_array_get(pieces, n)))
                fail_msg("piece %zu of text %zu has %zu bytes: %s", n, i, end - at, text);
            at = end;
        }
        assert_int_equal(n, json_array_size(pieces));
    }
    json_decref(vectors);
}

// Each case is its pieces with a bar between; no case holds a bar itself.
static void rules_cut_at_the_bars(void **state) {
    static const char *const cases[] = {
        "abc| def",       // B with its blank
        " | a",           // E: all but the last blank
        "  |1",           // the piece's end counts as the text's
        "123|456|7",      // pass 1 from the left
        "a|1|b",          // digits never join letters
        "x|日本語|y",     // pass 2
        "日本カタ",       // pass 2 takes both ranges in one run
        "!abc|!def",      // A: one sign and the ASCII letters after it
        "_abc|é",         // A ends before a letter that is not ASCII
        " !?\n\r|\t|!",   // C: a blank, signs, line breaks
        "\t|\tx",         // E then B with a tab
        "  \n \n| | x",   // D up to the last line break
        "\u200d\u200d|!", // unmatched characters stay together
        "\u0301a",        // B begins with a mark
        "a\u0301\u0301",  // and takes marks
        " \u0301",        // a blank before a mark
        "\u00a0x",        // any space may stand before a word
        "\u00a0|!",       // but only U+0020 before signs
        "\x7f\x7f|\x7f"
        "a",                         // an unmatched stretch ends where B matches
        "\u0661\u0662\u0663|\u0664", // digits of any script
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[128], cut[256];
        size_t len = 0, at = 0, used = 0;
        for (const char *c = cases[i]; *c; c++)
            if (*c != '|')
                text[len++] = *c;
        while (at < len) {
            size_t end = lf_pretokenize_next(text, at, len);
            memcpy(cut + used, text + at, end - at);
            used += end - at;
            cut[used++] = '|';
            at = end;
        }
        cut[used - 1] = 0;
        assert_string_equal(cut, cases[i]);
    }
}

static void every_character_alone_and_between_words_is_cut_into_whole_characters(void **state) {
    (void)state;
    for (uint32_t code = 1; code <= 0x10FFFF; code++) {
        if (code >= 0xD800 && code <= 0xDFFF)
            continue;
        struct lf_buffer text = {0};
        lf_buffer_add_text(&text, "a ");
        lf_utf8_add(&text, code);
        lf_utf8_add(&text, code);
        lf_buffer_add_text(&text, "\na");
        for (size_t at = 0; at < text.len;) {
            size_t end = lf_pretokenize_next(text.data, at, text.len);
            assert_true(end > at && end <= text.len);
            assert_int_equal(lf_utf8_valid(text.data + at, end - at), end - at);
            at = end;
        }
        lf_buffer_free(&text);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(vectors_give_the_same_pieces),
        cmocka_unit_test(rules_cut_at_the_bars),
        cmocka_unit_test(every_character_alone_and_between_words_is_cut_into_whole_characters),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
