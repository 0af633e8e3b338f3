// Is UTF-8 decoded, checked and repaired as the Unicode standard says (tables 3-6 to 3-11)?
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>
#include "base/utf8.h"

// Bit by bit by table 3-6; 0 for codes that are no scalar value.
static size_t spell(uint32_t code, unsigned char s[4]) {
    size_t more = code < 0x80 ? 0 : code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
    if (code > 0x10FFFF || (code >= 0xD800 && code < 0xE000))
        return 0;
    for (size_t i = more; i > 0; i--, code >>= 6)
        s[i] = (unsigned char)(0x80 | code % 64);
    static const unsigned char lead[] = {0, 0xC0, 0xE0, 0xF0};
    s[0] = (unsigned char)(lead[more] | code);
    return more + 1;
}

static void every_character_is_written_and_read_back(void **state) {
    struct lf_buffer buffer = {0};
    (void)state;
    for (uint32_t code = 0; code <= 0x10FFFF; code++) {
        unsigned char s[4];
        size_t len = spell(code, s);
        if (!len)
            continue;
        lf_buffer_clear(&buffer);
        lf_utf8_add(&buffer, code);
        assert_true(buffer.len == len && memcmp(buffer.data, s, len) == 0);
        struct lf_utf8 c = lf_utf8_next(buffer.data, len);
        assert_true(c.valid && !c.cut && c.code == code && c.len == len);
        for (size_t cut = 1; cut < len; cut++) {
            c = lf_utf8_next(buffer.data, cut);
            assert_true(!c.valid && c.cut && c.len == cut);
        }
    }
    lf_buffer_free(&buffer);
}

// Valid exactly when the bits read back to the same bytes.
static void check_sequence(const unsigned char *s, size_t len) {
    unsigned char again[4];
    struct lf_utf8 c = lf_utf8_next((const char *)s, len);
    assert_true(c.len >= 1 && c.len <= len);
    if (c.valid) {
        assert_true(spell(c.code, again) == c.len && memcmp(s, again, c.len) == 0);
        return;
    }
    for (size_t n = 1; n <= len; n++) {
        uint32_t code = n == 1 ? s[0] : s[0] & (0x7Fu >> n);
        for (size_t i = 1; i < n; i++)
            code = code << 6 | (s[i] & 0x3Fu);
        assert_false(spell(code, again) == n && memcmp(s, again, n) == 0);
    }
}

static void short_sequences_are_valid_only_when_they_spell_a_character(void **state) {
    static const unsigned char tails[] = {0x00, 0x41, 0x7F, 0x80, 0x8F, 0x90, 0x9F,
                                          0xA0, 0xBF, 0xC0, 0xC2, 0xE1, 0xFF};
    (void)state;
    for (unsigned lead = 0; lead < 256; lead++)
        for (unsigned second = 0; second < 256; second++)
            for (size_t k = 0; k < sizeof tails * sizeof tails; k++) {
                unsigned char s[4] = {(unsigned char)lead, (unsigned char)second,
                                      tails[k / sizeof tails], tails[k % sizeof tails]};
                check_sequence(s, 4);
            }
}

static void bad_sequences_are_repaired_by_maximal_subparts(void **state) {
    static const struct {
        const char *bytes, *repaired;
    } cases[] = {
        {"\xC0\xAF\xE0\x80\xBF\xF0\x81\x82\x41",
         "\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\x41"},
        {"\xED\xA0\x80\xED\xBF\xBF\xED\xAF\x41",
         "\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\x41"},
        {"\xF4\x91\x92\x93\xFF\x41\x80\xBF\x42",
         "\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\x41\uFFFD\uFFFD\x42"},
        {"\xE1\x80\xE2\xF0\x91\x92\xF1\xBF\x41", "\uFFFD\uFFFD\uFFFD\uFFFD\x41"},
        {"caf\xC3\xA9 \xE2\x82", "caf\u00e9 \uFFFD"},
        {"", ""},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct lf_buffer out = {0};
        lf_buffer_add_text(&out, "");
        lf_utf8_repair(&out, cases[i].bytes, strlen(cases[i].bytes));
        assert_string_equal(out.data, cases[i].repaired);
        lf_buffer_free(&out);
    }
}

static void the_first_bad_byte_is_named_wherever_it_lies(void **state) {
    (void)state;
    for (size_t len = 0; len < 40; len++)
        for (size_t at = 0; at <= len; at++) {
            char text[40];
            memset(text, 'x', sizeof text);
            assert_int_equal(lf_utf8_valid(text, len), len);
            if (at < len)
                text[at] = '\x80';
            assert_int_equal(lf_utf8_valid(text, len), at);
            if (at + 1 < len) {
                text[at] = '\xC3';
                text[at + 1] = '\xA9';
                assert_int_equal(lf_utf8_valid(text, len), len);
            }
        }
}

static void an_empty_input_consumes_nothing(void **state) {
    (void)state;
    struct lf_utf8 c = lf_utf8_next("", 0);
    assert_true(c.len == 0 && !c.valid && !c.cut);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_character_is_written_and_read_back),
        cmocka_unit_test(short_sequences_are_valid_only_when_they_spell_a_character),
        cmocka_unit_test(bad_sequences_are_repaired_by_maximal_subparts),
        cmocka_unit_test(the_first_bad_byte_is_named_wherever_it_lies),
        cmocka_unit_test(an_empty_input_consumes_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
