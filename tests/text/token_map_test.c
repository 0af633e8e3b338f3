// Does the Engram token map follow the rule to the published digest (model.md 6.1)?
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>
#include "data.h"
#include "text/token_map.h"

static void demo_classes_equal_the_golden(void **state) {
    struct lf_error err = LF_ERROR_INIT;
    struct lf_token_map map;
    (void)state;
    struct lf_tokenizer *t = open_tokenizer("LF_SOURCE_ROOT", "models/demo/tokenizer.json", &err);
    assert_non_null(t);
    json_t *golden = load_json("LF_SOURCE_ROOT", "tests/data/demo-golden/tokenizer.json");
    const json_t *classes = json_object_get(golden, "engram_classes");
    const json_t *expected = json_object_get(classes, "map");
    assert_int_equal(lf_token_map_build(&map, t, 1561, &err), LF_OK);
    assert_int_equal(map.classes, json_integer_value(json_object_get(classes, "count")));
    assert_int_equal(map.size, json_array_size(expected));
    for (uint32_t id = 0; id < map.size; id++)
        assert_int_equal(map.class_of[id], json_integer_value(json_array_get(expected, id)));
    lf_token_map_free(&map);
    json_decref(golden);
    lf_tokenizer_close(t);
}

static void another_class_count_is_refused_with_both_numbers(void **state) {
    struct lf_error err = LF_ERROR_INIT;
    struct lf_token_map map;
    (void)state;
    struct lf_tokenizer *t = open_tokenizer("LF_SOURCE_ROOT", "models/demo/tokenizer.json", &err);
    assert_non_null(t);
    assert_int_equal(lf_token_map_build(&map, t, 1560, &err), LF_E_VALUE);
    assert_non_null(strstr(err.text, "1560"));
    assert_non_null(strstr(err.text, "1561"));
    assert_null(map.class_of);
    lf_tokenizer_close(t);
}

static void release_map_has_the_published_digest(void **state) {
    struct lf_error err = LF_ERROR_INIT;
    struct lf_token_map map;
    (void)state;
    struct lf_tokenizer *t =
        open_tokenizer("LF_SHARED", "data/v41-tokenizer/tokenizer.json", &err);
    if (!t) {
        print_message("skipped, the release's vocabulary is not at hand: %s\n", err.text);
        skip();
    }
    if (lf_token_map_build(&map, t, 99092, &err) != LF_OK)
        fail_msg("%s", err.text);
    assert_string_equal(map.sha256,
                        "c60a86322ec17b4142bfef3c57a8d81fb428550cdf487f88a4320cb59fe46481");
    assert_int_equal(map.class_of[0], 0);
    assert_int_equal(map.class_of[2], 2);
    assert_int_equal(map.class_of[3], 3);
    lf_token_map_free(&map);
    lf_tokenizer_close(t);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(demo_classes_equal_the_golden),
        cmocka_unit_test(another_class_count_is_refused_with_both_numbers),
        cmocka_unit_test(release_map_has_the_published_digest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
