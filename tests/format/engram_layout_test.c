#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include "format/engram_layout.h"
#include "vectors.h"

static struct lf_engram_layout build(const struct lf_topology *t) {
    struct lf_engram_layout layout;
    struct lf_error err = LF_ERROR_INIT;
    if (lf_engram_layout_build(&layout, t, &err) != LF_OK)
        fail_msg("%s", err.text);
    return layout;
}

static struct lf_topology release_fields(void) {
    return (struct lf_topology){
        .n_engram = 2, .engram_layers = {1, 14}, .engram_rows = {384006168, 384016682},
        .engram_ngram = 4, .engram_heads = 8, .engram_dim = 256, .engram_vocab = 16000000,
        .engram_classes = 99092,
    };
}

static void check_list(const json_t *expected, const uint64_t *found, size_t n) {
    assert_int_equal(json_array_size(expected), n);
    for (size_t i = 0; i < n; i++)
        assert_int_equal(json_integer_value(json_array_get(expected, i)), found[i]);
}

// model.md 6.2 and vectors/engram_layout.json.
static void release_layout_equals_vectors(void **state) {
    (void)state;
    json_t *file = vectors_load("engram_layout");
    struct lf_topology t = release_fields();
    struct lf_engram_layout layout = build(&t);
    assert_int_equal(layout.tables, 2);
    assert_int_equal(layout.columns, 24);
    for (size_t i = 0; i < 2; i++) {
        const struct lf_engram_columns *table = &layout.table[i];
        const char *layer = i == 0 ? "1" : "14";
        const json_t *primes = vectors_get(vectors_get(file, "primes"), layer);
        check_list(vectors_get(vectors_get(file, "multipliers"), layer), table->multiplier, 4);
        check_list(vectors_get(vectors_get(file, "offsets"), layer), table->offset, 24);
        for (size_t c = 0; c < 24; c++)
            assert_int_equal(
                json_integer_value(json_array_get(json_array_get(primes, c / 8), c % 8)),
                table->prime[c]);
        assert_int_equal(table->rows, t.engram_rows[i]);
    }
    lf_engram_layout_free(&layout);
    json_decref(file);
}

static void demo_layout_equals_its_golden(void **state) {
    (void)state;
    json_t *file = vectors_load("../demo-golden/engram_layout");
    const json_t *layers = vectors_get(file, "layers");
    struct lf_topology t = {
        .n_engram = 2, .engram_layers = {1, 4}, .engram_rows = {19590, 20752}, .engram_ngram = 4,
        .engram_heads = 4, .engram_dim = 32, .engram_vocab = 1600, .engram_classes = 1561,
    };
    struct lf_engram_layout layout = build(&t);
    assert_int_equal(layout.columns, 12);
    for (size_t i = 0; i < 2; i++) {
        const struct lf_engram_columns *table = &layout.table[i];
        const json_t *golden = json_array_get(layers, i);
        check_list(vectors_get(golden, "multipliers"), table->multiplier, 4);
        check_list(vectors_get(golden, "offsets"), table->offset, 12);
        for (size_t c = 0; c < 12; c++)
            assert_int_equal(json_integer_value(json_array_get(vectors_get(golden, "primes"), c)),
                             table->prime[c]);
    }
    lf_engram_layout_free(&layout);
    json_decref(file);
}

static void does_a_row_count_off_by_one_name_its_field(void **state) {
    (void)state;
    struct lf_topology t = release_fields();
    struct lf_engram_layout layout;
    struct lf_error err = LF_ERROR_INIT;
    t.engram_rows[1]--;
    assert_int_equal(lf_engram_layout_build(&layout, &t, &err), LF_E_VALUE);
    assert_non_null(strstr(err.text, "engram_num_embeddings[1]"));
    assert_non_null(strstr(err.text, "384016682"));
}

// A release layout with another field must not pass by chance.
static void do_wrong_hash_fields_break_the_row_counts(void **state) {
    (void)state;
    for (int which = 0; which < 3; which++) {
        struct lf_topology t = release_fields();
        struct lf_engram_layout layout;
        struct lf_error err = LF_ERROR_INIT;
        t.engram_vocab += which == 0 ? 1000 : 0;
        t.engram_heads -= which == 1;
        t.engram_ngram -= which == 2;
        assert_int_equal(lf_engram_layout_build(&layout, &t, &err), LF_E_VALUE);
    }
}

static void are_columns_and_classes_bounded(void **state) {
    (void)state;
    struct lf_engram_layout layout;
    struct lf_topology t = release_fields();
    struct lf_error err = LF_ERROR_INIT;
    t.engram_heads = 86;
    assert_int_equal(lf_engram_layout_build(&layout, &t, &err), LF_E_VALUE);
    assert_non_null(strstr(err.text, "engram_n_heads"));
    t = release_fields();
    err = (struct lf_error)LF_ERROR_INIT;
    t.engram_classes = 1u << 30;
    assert_int_equal(lf_engram_layout_build(&layout, &t, &err), LF_E_VALUE);
    assert_non_null(strstr(err.text, "engram_compressed_vocab_size"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(release_layout_equals_vectors),
        cmocka_unit_test(demo_layout_equals_its_golden),
        cmocka_unit_test(does_a_row_count_off_by_one_name_its_field),
        cmocka_unit_test(do_wrong_hash_fields_break_the_row_counts),
        cmocka_unit_test(are_columns_and_classes_bounded),
    };
    return cmocka_run_group_tests_name("engram_layout", tests, NULL, NULL);
}
