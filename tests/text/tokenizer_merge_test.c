// Are merges applied lowest rank first, leftmost on a tie, at any length (checkpoint.md 3.4)?
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>
#include "demo_tokenizer.h"
#include "text/tokenizer_table.h"

// The rule word by word: rescan all pairs for every merge.
static void merge_by_the_rule(const struct lf_tokenizer *t, const char *bytes, size_t len,
                              struct lf_ids *out) {
    lf_ids_clear(out);
    for (size_t i = 0; i < len; i++)
        lf_ids_add(out, t->byte_id[(unsigned char)bytes[i]]);
    for (;;) {
        uint32_t lowest = LF_TOKEN_NONE;
        size_t at = 0;
        for (size_t i = 0; i + 1 < out->len; i++) {
            uint32_t id = lf_pair_find(t, out->id[i], out->id[i + 1]);
            if (id < lowest) {
                lowest = id;
                at = i;
            }
        }
        if (lowest == LF_TOKEN_NONE)
            return;
        out->id[at] = lowest;
        for (size_t i = at + 1; i + 1 < out->len; i++)
            out->id[i] = out->id[i + 1];
        out->len--;
    }
}

static void random_words_of_any_length_merge_by_the_rule(void **state) {
    static const char *const alphabets[] = {"ab", "aeinrst", "etaoinshrdlucmfwypvbgkjqxz", "is"};
    struct lf_ids expected = {0}, found = {0};
    uint64_t seed = 1;
    (void)state;
    for (unsigned round = 0; round < 4000; round++) {
        char word[400];
        const char *alphabet = alphabets[round % 4];
        size_t letters = strlen(alphabet), len = 1 + round % (round % 8 ? 70 : 399);
        for (size_t i = 0; i < len; i++) {
            seed = seed * 6364136223846793005u + 1442695040888963407u;
            word[i] = alphabet[(seed >> 33) % letters];
        }
        struct lf_error err = LF_ERROR_INIT;
        merge_by_the_rule(demo, word, len, &expected);
        lf_ids_clear(&found);
        assert_int_equal(lf_tokenizer_encode(demo, word, len, false, &found, &err), LF_OK);
        assert_int_equal(found.len, expected.len);
        assert_memory_equal(found.id, expected.id, found.len * sizeof *found.id);
    }
    lf_ids_free(&expected);
    lf_ids_free(&found);
}

static void every_token_is_taken_whole_only_when_its_bytes_merge_to_it(void **state) {
    struct lf_ids expected = {0};
    unsigned whole = 0;
    (void)state;
    for (uint32_t id = 0; id < demo->vocab; id++) {
        size_t len;
        const char *bytes = lf_tokenizer_bytes(demo, id, &len);
        if (lf_tokenizer_is_added(demo, id))
            continue;
        merge_by_the_rule(demo, bytes, len, &expected);
        bool merges_to_it = expected.len == 1 && expected.id[0] == id;
        assert_int_equal(lf_word_whole(demo, bytes, len), merges_to_it ? id : LF_TOKEN_NONE);
        whole += merges_to_it;
    }
    assert_true(whole > 2000);
    lf_ids_free(&expected);
}

static void a_megabyte_in_one_piece_is_decoded_back(void **state) {
    static const char *const patterns[] = {"a", "ab", "the",  " ",  "\n",     " \n",    "!",
                                           "<", "1",  "\x01", "日", "\u0301", "<think", "\u200d"};
    enum { BYTES = 1 << 20 };
    char *text = malloc(BYTES);
    (void)state;
    assert_non_null(text);
    for (size_t p = 0; p < sizeof patterns / sizeof *patterns; p++) {
        size_t len = strlen(patterns[p]), n = BYTES / len * len, at = 0;
        struct lf_error err = LF_ERROR_INIT;
        struct lf_ids ids = {0};
        for (size_t i = 0; i < n; i++)
            text[i] = patterns[p][i % len];
        assert_int_equal(lf_tokenizer_encode(demo, text, n, true, &ids, &err), LF_OK);
        for (size_t i = 0; i < ids.len; i++) {
            size_t len_token;
            const char *bytes = lf_tokenizer_bytes(demo, ids.id[i], &len_token);
            assert_true(at + len_token <= n && memcmp(text + at, bytes, len_token) == 0);
            at += len_token;
        }
        assert_int_equal(at, n);
        lf_ids_free(&ids);
    }
    free(text);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_words_of_any_length_merge_by_the_rule),
        cmocka_unit_test(every_token_is_taken_whole_only_when_its_bytes_merge_to_it),
        cmocka_unit_test(a_megabyte_in_one_piece_is_decoded_back),
    };
    return cmocka_run_group_tests(tests, open_demo, close_demo);
}
