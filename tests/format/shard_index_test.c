#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>
#include "format/shard_index.h"

static enum lf_status parse(struct lf_shard_index *index, struct lf_arena *arena, const char *text,
                            struct lf_error *err) {
    *err = (struct lf_error)LF_ERROR_INIT;
    return lf_shard_index_parse(index, arena, text, strlen(text), "i.json", err);
}

// checkpoint.md 8.2: plain names only, duplicates refused.
static void is_every_bad_index_refused(void **state) {
    (void)state;
    static const struct {
        const char *text, *expected;
    } bad[] = {
        {"", "i.json"},
        {"[]", "expected a JSON object"},
        {"{}", "weight_map is missing"},
        {"{\"weight_map\":[]}", "weight_map must be an object"},
        {"{\"weight_map\":{\"a\":1}}", "weight_map.a must be a string"},
        {"{\"weight_map\":{\"a\":\"x.safetensors\",\"a\":\"x.safetensors\"}}", "duplicate"},
        {"{\"weight_map\":{},\"weight_map\":{}}", "duplicate"},
        {"{\"weight_map\":{\"a\":\"../x.safetensors\"}}", "not a plain file name"},
        {"{\"weight_map\":{\"a\":\"/x.safetensors\"}}", "not a plain file name"},
        {"{\"weight_map\":{\"a\":\"d\\\\x.safetensors\"}}", "not a plain file name"},
        {"{\"weight_map\":{\"a\":\"..\"}}", "a in .., which is not NAME.safetensors"},
        {"{\"weight_map\":{\"a\":\".\"}}", "is not NAME.safetensors"},
        {"{\"weight_map\":{\"a\":\"\"}}", "is not NAME.safetensors"},
        {"{\"weight_map\":{\"a\":\".safetensors\"}}", "is not NAME.safetensors"},
        {"{\"weight_map\":{\"a\":\"x.safetensors.exe\"}}", "is not NAME.safetensors"},
        {"{\"weight_map\":{\"a\":\"x\\u0000.safetensors\"}}", "not JSON"},
        {"{\"weight_map\":{\"a\":\"x\\n.safetensors\"}}", "control characters"},
        {"{\"weight_map\":{\"a\":\"x\\n\"}}", "tensor a in x?, which"},
        {"{\"weight_map\":{\"\":\"x.safetensors\"}}", "a tensor name has 0 bytes"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct lf_arena arena = {0};
        struct lf_shard_index index;
        struct lf_error err;
        assert_int_not_equal(parse(&index, &arena, bad[i].text, &err), LF_OK);
        if (!strstr(err.text, bad[i].expected))
            fail_msg("%s: expected \"%s\", got \"%s\"", bad[i].text, bad[i].expected, err.text);
        lf_arena_free(&arena);
    }
}

static void is_a_file_name_over_255_bytes_refused(void **state) {
    (void)state;
    for (size_t len = 255; len <= 256; len++) {
        struct lf_arena arena = {0};
        struct lf_shard_index index;
        struct lf_error err;
        char text[600] = "{\"weight_map\":{\"a\":\"";
        size_t at = strlen(text);
        memset(text + at, 'x', len - 12);
        memcpy(text + at + len - 12, ".safetensors\"}}", 16);
        assert_int_equal(parse(&index, &arena, text, &err), len == 255 ? LF_OK : LF_E_FORMAT);
        lf_arena_free(&arena);
    }
}

static void are_files_numbered_whatever_the_key_order(void **state) {
    (void)state;
    struct lf_arena arena = {0};
    struct lf_shard_index index;
    struct lf_error err;
    assert_int_equal(parse(&index, &arena,
                           "{\"weight_map\":{\"c\":\"2.safetensors\",\"a\":\"1.safetensors\","
                           "\"b\":\"2.safetensors\"},\"metadata\":{\"total_size\":12}}",
                           &err),
                     LF_OK);
    assert_int_equal(index.files, 2);
    assert_int_equal(index.entries, 3);
    assert_string_equal(index.file[1], "2.safetensors");
    assert_int_equal(lf_shard_index_find(&index, "a")->file, 0);
    assert_int_equal(lf_shard_index_find(&index, "b")->file, 1);
    assert_string_equal(lf_shard_index_find(&index, "c")->file_name, "2.safetensors");
    assert_null(lf_shard_index_find(&index, "d"));
    assert_true(index.has_total && index.total_bytes == 12);
    lf_arena_free(&arena);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(is_every_bad_index_refused),
        cmocka_unit_test(is_a_file_name_over_255_bytes_refused),
        cmocka_unit_test(are_files_numbered_whatever_the_key_order),
    };
    return cmocka_run_group_tests_name("shard_index", tests, NULL, NULL);
}
