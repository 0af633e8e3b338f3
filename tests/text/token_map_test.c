// Does the Engram token map follow the rule to the published digest (model.md 6.1)?
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>
#include "base/sha256.h"
#include "data.h"
#include "text/token_map.h"
#include "text/tokenizer_table.h"

static const char *const vocab_sha256 =
    "ec513c917f65d06b78f6de0663a798140ea5928dad1b17754a5242585275fd2c";
static const char *const merges_sha256 =
    "9587de97d6aea419b9effb17c68019bcf42b228a57e5b71a1e3b3463d61b0985";
static const char *const map_sha256 =
    "c60a86322ec17b4142bfef3c57a8d81fb428550cdf487f88a4320cb59fe46481";

// Of the release's added tokens in id order, a newline after each, as checkpoint.md 3.5 lists them.
static void digest_added(char hex[65]) {
    json_t *added = load_json("LF_SOURCE_ROOT", "tests/data/added_tokens.json");
    struct lf_sha256 sha;
    uint8_t digest[32];
    json_int_t before = -1;
    assert_int_equal(json_array_size(added), 1283);
    lf_sha256_init(&sha);
    for (size_t i = 0; i < json_array_size(added); i++) {
        const json_t *entry = json_array_get(added, i);
        const char *content = json_string_value(json_object_get(entry, "content"));
        assert_true(json_integer_value(json_object_get(entry, "id")) > before);
        before = json_integer_value(json_object_get(entry, "id"));
        lf_sha256_add(&sha, content, strlen(content));
        lf_sha256_add(&sha, "\n", 1);
    }
    lf_sha256_finish(&sha, digest);
    lf_sha256_hex(digest, hex);
    json_decref(added);
}

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

static void the_release_vocabulary_with_another_map_is_refused(void **state) {
    struct lf_error err = LF_ERROR_INIT;
    struct lf_token_map map;
    (void)state;
    struct lf_tokenizer *t = open_tokenizer("LF_SOURCE_ROOT", "models/demo/tokenizer.json", &err);
    assert_non_null(t);
    // The demo's tables under the release's fingerprints stand for other Unicode tables.
    memcpy(t->vocab_sha256, vocab_sha256, 65);
    memcpy(t->merges_sha256, merges_sha256, 65);
    assert_int_equal(lf_token_map_build(&map, t, 1561, &err), LF_OK);
    lf_token_map_free(&map);
    digest_added(t->added_sha256);
    assert_int_equal(lf_token_map_build(&map, t, 1561, &err), LF_E_FORMAT);
    assert_non_null(strstr(err.text, map_sha256));
    assert_null(map.class_of);
    lf_tokenizer_close(t);
}

static void release_map_has_the_published_digest(void **state) {
    struct lf_error err = LF_ERROR_INIT;
    struct lf_token_map map;
    (void)state;
    struct lf_tokenizer *t = open_tokenizer("LF_SHARED", "data/v41-tokenizer/tokenizer.json", &err);
    if (!t) {
        print_message("skipped, the release's vocabulary is not at hand: %s\n", err.text);
        skip();
    }
    if (lf_token_map_build(&map, t, 99092, &err) != LF_OK)
        fail_msg("%s", err.text);
    assert_string_equal(t->vocab_sha256, vocab_sha256);
    assert_string_equal(t->merges_sha256, merges_sha256);
    assert_string_equal(map.sha256, map_sha256);
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
        cmocka_unit_test(the_release_vocabulary_with_another_map_is_refused),
        cmocka_unit_test(release_map_has_the_published_digest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
