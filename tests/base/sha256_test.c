// Are digests those of FIPS 180-4, and token digests those of engine.md 9.3?
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>
#include "base/sha256.h"

static void digest_in_steps(const char *text, size_t step, char hex[65]) {
    struct lf_sha256 sha;
    uint8_t digest[32];
    size_t len = strlen(text);
    lf_sha256_init(&sha);
    for (size_t at = 0; at < len; at += step)
        lf_sha256_add(&sha, text + at, len - at < step ? len - at : step);
    lf_sha256_finish(&sha, digest);
    lf_sha256_hex(digest, hex);
}

static void texts_have_the_published_digests_in_any_steps(void **state) {
    static const char *const cases[][2] = {
        {"", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
        {"abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
        {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
         "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (size_t step = 1; step <= 57; step += 7) {
            char hex[65];
            digest_in_steps(cases[i][0], step, hex);
            assert_string_equal(hex, cases[i][1]);
        }
}

static void token_digests_are_those_of_the_specification(void **state) {
    static const uint32_t first[] = {1, 2, 3}, second[] = {129279, 0};
    char hex[65];
    (void)state;
    lf_sha256_ids(NULL, 0, hex);
    assert_string_equal(hex, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    lf_sha256_ids(first, 3, hex);
    assert_string_equal(hex, "4636993d3e1da4e9d6b8f87b79e8f7c6d018580d52661950eabc3845c5897a4d");
    lf_sha256_ids(second, 2, hex);
    assert_string_equal(hex, "696f356061c10a0e190b805ba5828c8cbb9b8b7d0b9b31203f36bb03bef05ae3");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(texts_have_the_published_digests_in_any_steps),
        cmocka_unit_test(token_digests_are_those_of_the_specification),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
