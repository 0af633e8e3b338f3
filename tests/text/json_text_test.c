// Does JSON keep its order, its numbers and its characters (prompts.md 7, api.md 1)?
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>
#include "text/json_text.h"

static struct lf_json_span parse(const char *text) {
    struct lf_error err = LF_ERROR_INIT;
    struct lf_json_span span;
    if (lf_json_check(&span, text, strlen(text), 128, &err) != LF_OK)
        fail_msg("%s: %s", text, err.text);
    return span;
}

static void printed_is(const char *text, const char *expected) {
    struct lf_buffer out = {0};
    lf_json_print(&out, parse(text));
    assert_false(out.failed);
    assert_string_equal(out.data, expected);
    lf_buffer_free(&out);
}

static void numbers_print_as_pythons_printer_does(void **state) {
    (void)state;
    static const char *const cases[][2] = {
        {"0", "0"}, {"-0", "0"}, {"12345678901234567890123", "12345678901234567890123"},
        {"-7", "-7"}, {"1.0", "1.0"}, {"1e5", "100000.0"}, {"1E-7", "1e-07"}, {"1e16", "1e+16"},
        {"0.10", "0.1"}, {"2.50", "2.5"}, {"-0.0", "-0.0"}, {"1e-400", "0.0"},
        {"-1e-400", "-0.0"}, {"1e400", "Infinity"}, {"-1e400", "-Infinity"},
        {"123456789012345680.0", "1.2345678901234568e+17"}, {"0.0001", "0.0001"},
        {"0.00001", "1e-05"}, {"0.00012345", "0.00012345"}, {"9999999999999998.0",
        "9999999999999998.0"}, {"1e15", "1000000000000000.0"}, {"1.5e300", "1.5e+300"},
        {"5e-324", "5e-324"}, {"2.2250738585072014e-308", "2.2250738585072014e-308"},
        {"2.225073858507201e-308", "2.225073858507201e-308"}, {"1e23", "1e+23"},
        {"5.6843418860808015e-14", "5.684341886080802e-14"},
        {"1.7976931348623157e308", "1.7976931348623157e+308"}, {"3.141592653589793",
        "3.141592653589793"}, {"0.1000000000000000055511151231257827", "0.1"},
        {"9007199254740993.0", "9007199254740992.0"}, {"1e22", "1e+22"}, {"12.0e1", "120.0"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        printed_is(cases[i][0], cases[i][1]);
}

static void strings_escape_only_what_python_escapes(void **state) {
    (void)state;
    printed_is("\"\\u0000\\u001f\\b\\t\\n\\f\\r\\\"\\\\\\/\"",
               "\"\\u0000\\u001f\\b\\t\\n\\f\\r\\\"\\\\/\"");
    printed_is("\"\\u00e9\\u2028\\ud83d\\ude42\\u007f\"", "\"é\xE2\x80\xA8🙂\x7F\"");
    printed_is("\"\"", "\"\"");
}

static void a_repeated_key_keeps_its_place_and_takes_its_last_value(void **state) {
    (void)state;
    printed_is("{\"b\":1.0,\"a\":2,\"b\":[1,{\"x\":1,\"x\":2}]}",
               "{\"b\": [1, {\"x\": 2}], \"a\": 2}");
    printed_is("{\"a\":1,\"\\u0061\":2,\"c\":3,\"a\":4}", "{\"a\": 4, \"c\": 3}");
    printed_is("{\"\":1,\"\":{}}", "{\"\": {}}");
    printed_is("[{\"k\":{\"k\":1,\"k\":2},\"k\":{\"k\":3,\"j\":4,\"k\":5}},{\"k\":6}]",
               "[{\"k\": {\"k\": 5, \"j\": 4}}, {\"k\": 6}]");
}

static void white_space_goes_and_order_stays(void **state) {
    (void)state;
    printed_is(" { \"z\" :\t[ ] , \"a\" : { } ,\"m\":[ 1 ,true , null,false ]\r\n} ",
               "{\"z\": [], \"a\": {}, \"m\": [1, true, null, false]}");
}

static void what_is_not_json_is_refused_at_its_byte(void **state) {
    (void)state;
    static const struct {
        const char *text;
        int64_t byte;
    } cases[] = {
        {"", 0}, {"  ", 2}, {"{", 1}, {"[1,]", 3}, {"{\"a\":1,}", 7}, {"{\"a\" 1}", 5},
        {"{a:1}", 1}, {"[1 2]", 3}, {"[1}", 2}, {"NaN", 0}, {"Infinity", 0}, {"-Infinity", 1},
        {"01", 1}, {"1.", 2}, {".5", 0}, {"1e", 2}, {"+1", 0}, {"- 1", 1}, {"tru", 0},
        {"truex", 4}, {"\"a", 2}, {"\"\x01\"", 1}, {"\"\\x\"", 2}, {"\"\\u12g4\"", 5},
        {"\"\\ud800\"", 1}, {"\"\\ud800\\u0041\"", 1}, {"\"\\udc00\"", 1},
        {"\"\\ud800\\ud800\"", 1}, {"\"\xFF\"", 1}, {"\"\xC3\"", 1}, {"\"\xED\xA0\x80\"", 1},
        {"1 2", 2}, {"[] // x", 3}, {"/**/1", 0}, {"\xEF\xBB\xBF{}", 0}, {"{\"a\":}", 5},
        {"[", 1}, {"[[]", 3}, {"]", 0}, {"{\"a\":1", 6}, {"\"\\", 2}, {"\"\\u", 3},
        {"'a'", 0}, {"{1:2}", 1}, {"[,1]", 1}, {"nul", 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct lf_error err = LF_ERROR_INIT;
        struct lf_json_span span;
        if (lf_json_check(&span, cases[i].text, strlen(cases[i].text), 128, &err) != LF_E_JSON)
            fail_msg("accepted: %s", cases[i].text);
        if (err.byte != cases[i].byte)
            fail_msg("%s: byte %d, expected %d", cases[i].text, (int)err.byte,
                     (int)cases[i].byte);
        assert_null(span.text);
    }
}

static void nul_bytes_are_no_white_space(void **state) {
    (void)state;
    struct lf_error err = LF_ERROR_INIT;
    struct lf_json_span span;
    assert_int_equal(lf_json_check(&span, "1\0", 2, 128, &err), LF_E_JSON);
    err = (struct lf_error)LF_ERROR_INIT;
    assert_int_equal(lf_json_check(&span, "\0001", 2, 128, &err), LF_E_JSON);
}

static void depth_is_bounded_at_the_limit_and_not_before(void **state) {
    (void)state;
    char text[600];
    for (unsigned depth = 1; depth <= 256; depth *= 2) {
        memset(text, '[', depth);
        memset(text + depth, ']', depth);
        struct lf_error err = LF_ERROR_INIT;
        struct lf_json_span span;
        assert_int_equal(lf_json_check(&span, text, 2 * depth, depth, &err), LF_OK);
        assert_int_equal(lf_json_check(&span, text, 2 * depth, depth - 1, &err), LF_E_JSON);
        assert_int_equal(err.byte, depth - 1);
    }
}

static void members_are_found_by_their_unescaped_name(void **state) {
    (void)state;
    struct lf_json_span object =
        parse("{\"a\":1,\"deep\":{\"a\":2,\"x\":\"}]\\\"\"},\"\\u0061\":[3,[4,5],\"s\"]}");
    struct lf_json_span a = lf_json_member(object, "a");
    assert_int_equal(lf_json_type(a), LF_JSON_ARRAY);
    assert_int_equal(a.len, strlen("[3,[4,5],\"s\"]"));
    assert_true(lf_json_string_is(lf_json_element(a, 2), "s"));
    assert_null(lf_json_element(a, 3).text);
    assert_null(lf_json_element(object, 0).text);
    assert_null(lf_json_member(object, "b").text);
    assert_null(lf_json_member(a, "a").text);
    struct lf_json_span deep = lf_json_member(object, "deep");
    assert_true(lf_json_string_is(lf_json_member(deep, "x"), "}]\""));
    assert_false(lf_json_string_is(lf_json_member(deep, "x"), "}]"));
    assert_int_equal(lf_json_type(lf_json_member(deep, "a")), LF_JSON_NUMBER);
}

static void walks_see_every_member_in_order(void **state) {
    (void)state;
    struct lf_json_span key, value;
    struct lf_json_walk walk = lf_json_walk_open(parse("[ 1, {\"a\" : 2} ,\"x,]\" , [ ] ]"));
    static const char *const elements[] = {"1", "{\"a\" : 2}", "\"x,]\"", "[ ]"};
    for (int i = 0; i < 4; i++) {
        assert_true(lf_json_walk_next(&walk, &key, &value));
        assert_null(key.text);
        assert_int_equal(value.len, strlen(elements[i]));
        assert_memory_equal(value.text, elements[i], value.len);
    }
    assert_false(lf_json_walk_next(&walk, &key, &value));
    walk = lf_json_walk_open(parse("{\"k\" : null , \"l\":-1.5e3}"));
    assert_true(lf_json_walk_next(&walk, &key, &value));
    assert_true(lf_json_string_is(key, "k"));
    assert_int_equal(lf_json_type(value), LF_JSON_NULL);
    assert_true(lf_json_walk_next(&walk, &key, &value));
    assert_int_equal(value.len, 6);
    assert_false(lf_json_walk_next(&walk, &key, &value));
    walk = lf_json_walk_open(parse("12"));
    assert_false(lf_json_walk_next(&walk, &key, &value));
}

static void whole_numbers_are_read_from_their_digits(void **state) {
    (void)state;
    static const struct {
        const char *text;
        bool whole, negative;
        uint64_t magnitude;
    } cases[] = {
        {"0", true, false, 0}, {"-0", true, true, 0}, {"3", true, false, 3},
        {"3.0", true, false, 3}, {"3.5", false, false, 0}, {"-17", true, true, 17},
        {"18446744073709551615", true, false, UINT64_MAX},
        {"18446744073709551616", false, false, 0}, {"1e3", true, false, 1000},
        {"1.25e2", true, false, 125}, {"1.25e1", false, false, 0}, {"1200e-2", true, false, 12},
        {"1250e-2", false, false, 0}, {"0.0001e4", true, false, 1}, {"1e19", true, false,
        10000000000000000000u}, {"1e20", false, false, 0}, {"0e999999999999", true, false, 0},
        {"1e999999999999", false, false, 0}, {"1e-999999999999", false, false, 0},
        {"0.000", true, false, 0}, {"\"3\"", false, false, 0}, {"true", false, false, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        bool negative = false;
        uint64_t magnitude = 0;
        bool whole = lf_json_whole(parse(cases[i].text), &negative, &magnitude);
        if (whole != cases[i].whole)
            fail_msg("%s: whole is %d", cases[i].text, whole);
        if (whole && (negative != cases[i].negative || magnitude != cases[i].magnitude))
            fail_msg("%s: another number", cases[i].text);
    }
}

static void doubles_beyond_the_range_are_refused(void **state) {
    (void)state;
    double value;
    assert_true(lf_json_double(parse("-2.5e-1"), &value));
    assert_true(value == -0.25);
    assert_false(lf_json_double(parse("1e999"), &value));
    assert_false(lf_json_double(parse("\"1\""), &value));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_print_as_pythons_printer_does),
        cmocka_unit_test(strings_escape_only_what_python_escapes),
        cmocka_unit_test(a_repeated_key_keeps_its_place_and_takes_its_last_value),
        cmocka_unit_test(white_space_goes_and_order_stays),
        cmocka_unit_test(what_is_not_json_is_refused_at_its_byte),
        cmocka_unit_test(nul_bytes_are_no_white_space),
        cmocka_unit_test(depth_is_bounded_at_the_limit_and_not_before),
        cmocka_unit_test(members_are_found_by_their_unescaped_name),
        cmocka_unit_test(walks_see_every_member_in_order),
        cmocka_unit_test(whole_numbers_are_read_from_their_digits),
        cmocka_unit_test(doubles_beyond_the_range_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
