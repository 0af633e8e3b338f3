#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "format/safetensors.h"

struct parsed {
    struct lf_arena arena;
    struct lf_safetensors header;
    struct lf_error err;
    uint8_t *bytes;
};

// A file of the given header text and as many bytes of data, in memory of exactly its size.
static struct parsed parse(const char *header, size_t data_bytes) {
    struct parsed p = {.err = LF_ERROR_INIT};
    uint64_t len = strlen(header);
    p.bytes = malloc(8 + len + data_bytes);
    assert_non_null(p.bytes);
    memcpy(p.bytes, &len, 8);
    memcpy(p.bytes + 8, header, len);
    memset(p.bytes + 8 + len, 7, data_bytes);
    if (lf_safetensors_parse(&p.header, &p.arena, p.bytes, 8 + len + data_bytes, "f", &p.err))
        assert_int_not_equal(p.err.status, LF_OK);
    return p;
}

static void release(struct parsed *p) {
    lf_arena_free(&p->arena);
    free(p->bytes);
}

#define ENTRY(name, dtype, shape, begin, end)                                                      \
    "\"" name "\":{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":[" begin "," end   \
    "]}"

static const struct refusal {
    const char *header;
    size_t data_bytes;
    const char *expected;
} refusals[] = {
    // Rule 3.
    {"", 0, "must start with {"},
    {" {}", 0, "must start with {"},
    {"[]", 0, "must start with {"},
    {"{}\n", 0, "must end with }"},
    {"{} x", 0, "must end with }"},
    {"{}{}", 0, "not JSON"},
    {"{\"a\xff\":1}", 0, "not UTF-8"},
    {"{\"a\":", 0, "must end with }"},
    {"{" ENTRY("a", "U8", "[[1]]", "0", "1") "}", 1, "tensor a: shape[0]"},
    {"{\"a\":{\"dtype\":\"U8\",\"shape\":{},\"data_offsets\":[0,1]}}", 1, "exactly dtype"},
    // Rule 4.
    {"{" ENTRY("a", "U8", "[1]", "0", "1") "," ENTRY("a", "U8", "[1]", "0", "1") "}", 1,
     "duplicate"},
    {"{" ENTRY("", "U8", "[1]", "0", "1") "}", 1, "a tensor name has 0 bytes"},
    {"{" ENTRY("a\\nb", "U8", "[1]", "0", "1") "}", 1, "control character at its byte 1"},
    {"{" ENTRY("a\\u0085", "U8", "[1]", "0", "1") "}", 1, "control character"},
    {"{" ENTRY("a\\u0000", "U8", "[1]", "0", "1") "}", 1, "not JSON"},
    // Rule 5.
    {"{\"__metadata__\":{\"a\":1}}", 0, "__metadata__.a must be a string"},
    {"{\"__metadata__\":[]}", 0, "__metadata__ must be an object"},
    // Rule 6.
    {"{\"a\":{\"dtype\":\"U8\",\"shape\":[1]}}", 1, "tensor a: an entry must have exactly"},
    {"{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1],\"x\":1}}", 1, "exactly"},
    {"{\"a\":{\"dtype\":8,\"shape\":[1],\"data_offsets\":[0,1]}}", 1, "exactly"},
    {"{\"a\":7}", 0, "exactly"},
    {"{" ENTRY("a", "U8", "[-1]", "0", "1") "}", 1, "shape[0]"},
    {"{" ENTRY("a", "U8", "[1.0]", "0", "1") "}", 1, "shape[0]"},
    {"{" ENTRY("a", "U8", "[1e0]", "0", "1") "}", 1, "shape[0]"},
    {"{" ENTRY("a", "U8", "[true]", "0", "1") "}", 1, "shape[0]"},
    {"{" ENTRY("a", "U8", "[9223372036854775808]", "0", "1") "}", 1, "not JSON"},
    {"{" ENTRY("a", "U8", "[1]", "0", "1e0") "}", 1, "data_offsets must be two integers"},
    {"{" ENTRY("a", "U8", "[1]", "0,0", "1") "}", 1, "data_offsets must be two integers"},
    {"{" ENTRY("a", "U8", "[1,1,1,1,1,1,1,1,1]", "0", "1") "}", 1, "rank 9, at most 8"},
    // Rule 7.
    {"{" ENTRY("a", "U8", "[4294967296,4294967296]", "0", "0") "}", 0, "overflows"},
    {"{" ENTRY("a", "F32", "[4611686018427387904]", "0", "0") "}", 0, "overflows"},
    {"{" ENTRY("a", "F4", "[3]", "0", "2") "}", 2, "12 bits are not a whole number"},
    {"{" ENTRY("a", "F6_E2M3", "[2]", "0", "2") "}", 2, "12 bits are not a whole number"},
    {"{" ENTRY("a", "F7", "[1]", "0", "1") "}", 1, "unknown dtype F7"},
    // Rule 8.
    {"{" ENTRY("a", "U8", "[1]", "1", "0") "}", 1, "must span the 1 bytes"},
    {"{" ENTRY("a", "U8", "[2]", "0", "1") "}", 1, "must span the 2 bytes"},
    {"{" ENTRY("a", "U8", "[4]", "0", "4") "}", 3, "ends at byte 4 of the data, which has 3"},
    {"{" ENTRY("a", "U8", "[1]", "9223372036854775806", "9223372036854775807") "}", 1, "ends at"},
    // Rule 9.
    {"{" ENTRY("a", "U8", "[2]", "0", "2") "," ENTRY("b", "U8", "[2]", "1", "3") "}", 3, "overlap"},
    {"{" ENTRY("a", "U8", "[1]", "0", "1") "," ENTRY("b", "U8", "[1]", "2", "3") "}", 3, "a hole"},
    {"{" ENTRY("a", "U8", "[1]", "1", "2") "}", 2, "a hole"},
    {"{" ENTRY("a", "U8", "[1]", "0", "1") "}", 2, "the tensors end at byte 1"},
    {"{" ENTRY("a", "U8", "[0]", "1", "1") "," ENTRY("b", "U8", "[2]", "0", "2") "}", 2, "overlap"},
    {"{}", 1, "the tensors end at byte 0"},
};

static void is_every_bad_header_refused_by_its_rule(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++) {
        struct parsed p = parse(refusals[i].header, refusals[i].data_bytes);
        if (p.err.status == LF_OK || !strstr(p.err.text, refusals[i].expected))
            fail_msg("%s: expected \"%s\", got \"%s\"", refusals[i].header, refusals[i].expected,
                     p.err.text);
        assert_int_equal(strncmp(p.err.text, "f", 1), 0);
        release(&p);
    }
}

static void is_deep_nesting_refused(void **state) {
    (void)state;
    char text[5000] = "{\"__metadata__\":{\"a\":";
    size_t at = strlen(text);
    memset(text + at, '[', 2000);
    memset(text + at + 2000, ']', 2000);
    memcpy(text + at + 4000, "}}", 3);
    struct parsed p = parse(text, 0);
    assert_int_not_equal(p.err.status, LF_OK);
    release(&p);
}

// Rules 1 and 2: the length prefix against the file.
static void is_every_bad_length_refused(void **state) {
    (void)state;
    static const struct {
        uint64_t header;
        size_t len;
    } bad[] = {{2, 0}, {2, 7}, {0, 8}, {2, 9}, {1ull << 63, 64}, {UINT64_MAX, 64},
               {UINT64_MAX - 7, 64}, {100000001, 64}, {57, 64}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct lf_arena arena = {0};
        struct lf_safetensors header;
        struct lf_error err = LF_ERROR_INIT;
        uint8_t *bytes = malloc(bad[i].len + 1);
        assert_non_null(bytes);
        memset(bytes, ' ', bad[i].len);
        memcpy(bytes, &bad[i].header, bad[i].len < 8 ? bad[i].len : 8);
        uint8_t *exact = bad[i].len ? realloc(bytes, bad[i].len) : bytes;
        assert_int_equal(lf_safetensors_parse(&header, &arena, exact, bad[i].len, "f", &err),
                         LF_E_FORMAT);
        free(exact);
        lf_arena_free(&arena);
    }
}

static void is_every_cut_of_a_file_refused(void **state) {
    (void)state;
    static const char text[] = "{" ENTRY("a", "U8", "[3]", "0", "3") "}  ";
    struct parsed whole = parse(text, 3);
    assert_int_equal(whole.err.status, LF_OK);
    for (size_t len = 0; len < 8 + sizeof text - 1 + 3; len++) {
        struct lf_arena arena = {0};
        struct lf_safetensors header;
        struct lf_error err = LF_ERROR_INIT;
        assert_int_not_equal(lf_safetensors_parse(&header, &arena, whole.bytes, len, "f", &err),
                             LF_OK);
        lf_arena_free(&arena);
    }
    release(&whole);
}

static void do_rank_zero_empty_and_unwanted_tensors_parse(void **state) {
    (void)state;
    static const char text[] = "{\"__metadata__\":{\"format\":\"pt\"},"
                               ENTRY("z", "I32", "[]", "0", "4") ","
                               ENTRY("b", "F64", "[0,7]", "4", "4") ","
                               ENTRY("a", "F4", "[2,2]", "4", "6") "}   ";
    struct parsed p = parse(text, 6);
    if (p.err.status != LF_OK)
        fail_msg("%s", p.err.text);
    assert_int_equal(p.header.tensors, 3);
    const struct lf_tensor *z = lf_safetensors_find(&p.header, "z");
    const struct lf_tensor *a = lf_safetensors_find(&p.header, "a");
    assert_true(z && z->rank == 0 && z->bytes == 4 && z->dtype == LF_DTYPE_I32);
    assert_true(a && a->bytes == 2 && a->dtype == LF_DTYPE_F4 && a->data == z->data + 4);
    const struct lf_tensor *b = lf_safetensors_find(&p.header, "b");
    assert_true(b && b->dtype == LF_DTYPE_OTHER && b->bytes == 0);
    assert_string_equal(b->dtype_name, "F64");
    assert_null(lf_safetensors_find(&p.header, "__metadata__"));
    assert_ptr_equal(z->data, p.bytes + p.header.header_bytes);
    release(&p);
}

static void is_a_name_of_512_bytes_the_longest(void **state) {
    (void)state;
    for (int len = 512; len <= 513; len++) {
        char text[1024];
        snprintf(text, sizeof text, "{\"%0*d\":{\"dtype\":\"U8\",\"shape\":[1],"
                 "\"data_offsets\":[0,1]}}", len, 7);
        struct parsed p = parse(text, 1);
        assert_int_equal(p.err.status, len == 512 ? LF_OK : LF_E_FORMAT);
        release(&p);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(is_every_bad_header_refused_by_its_rule),
        cmocka_unit_test(is_deep_nesting_refused),
        cmocka_unit_test(is_every_bad_length_refused),
        cmocka_unit_test(is_every_cut_of_a_file_refused),
        cmocka_unit_test(do_rank_zero_empty_and_unwanted_tensors_parse),
        cmocka_unit_test(is_a_name_of_512_bytes_the_longest),
    };
    return cmocka_run_group_tests_name("safetensors", tests, NULL, NULL);
}
