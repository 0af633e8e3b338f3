#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>
#include "model/engram_hash.h"
#include "vectors.h"

enum { N = 4, COLUMNS = 24 };

static struct lf_engram_layout release_layout(void) {
    static const struct lf_topology topology = {
        .n_engram = 2, .engram_layers = {1, 14}, .engram_rows = {384006168, 384016682},
        .engram_ngram = N, .engram_heads = 8, .engram_dim = 256, .engram_vocab = 16000000,
        .engram_classes = 99092};
    struct lf_error err = LF_ERROR_INIT;
    struct lf_engram_layout layout;
    if (lf_engram_layout_build(&layout, &topology, &err) != LF_OK)
        fail_msg("%s", err.text);
    return layout;
}

// The look-back of position p under the vectors' identity map, -1 being dead.
static void look_back(const json_t *ids, size_t p, uint32_t classes[N]) {
    for (size_t s = 0; s < N; s++) {
        json_int_t id = s > p ? -1 : json_integer_value(json_array_get(ids, p - s));
        classes[s] = id < 0 ? LF_CLASS_DEAD : (uint32_t)id;
    }
}

static void check_rows(const struct lf_engram_layout *layout, uint32_t table,
                       const uint32_t classes[N], const json_t *want) {
    uint64_t rows[COLUMNS];
    lf_engram_rows(layout, table, classes, 2, rows);
    assert_int_equal(json_array_size(want), COLUMNS);
    for (size_t c = 0; c < COLUMNS; c++) {
        assert_int_equal(rows[c], json_integer_value(json_array_get(want, c)));
        assert_true(rows[c] < layout->table[table].rows);
    }
}

static void rows_of_the_vectors_are_those_published(void **state) {
    (void)state;
    json_t *file = vectors_load("engram_hash"), *one, *result;
    struct lf_engram_layout layout = release_layout();
    size_t i, k, positions = 0;
    assert_int_equal(layout.columns, COLUMNS);
    json_array_foreach(vectors_get(file, "cases"), i, one)
        json_array_foreach(vectors_get(one, "result"), k, result) {
            uint32_t classes[N];
            json_t *layers = vectors_get(result, "layers");
            size_t p = (size_t)json_integer_value(vectors_get(result, "position"));
            look_back(vectors_get(one, "compressed_ids"), p, classes);
            check_rows(&layout, 0, classes, vectors_get(vectors_get(layers, "1"), "rows"));
            check_rows(&layout, 1, classes, vectors_get(vectors_get(layers, "14"), "rows"));
            positions++;
        }
    assert_true(positions >= 15);
    lf_engram_layout_free(&layout);
    json_decref(file);
}

static void nothing_behind_a_dead_position_is_seen(void **state) {
    (void)state;
    struct lf_engram_layout layout = release_layout();
    uint32_t near[N] = {7, LF_CLASS_DEAD, 8, 9}, far[N] = {7, LF_CLASS_DEAD, 55, LF_CLASS_DEAD};
    uint32_t padded[N] = {7, 2, 2, 2};
    uint64_t rows[3][COLUMNS];
    lf_engram_rows(&layout, 1, near, 2, rows[0]);
    lf_engram_rows(&layout, 1, far, 2, rows[1]);
    lf_engram_rows(&layout, 1, padded, 2, rows[2]);
    assert_memory_equal(rows[0], rows[1], sizeof rows[0]);
    assert_memory_equal(rows[0], rows[2], sizeof rows[0]);
    lf_engram_layout_free(&layout);
}

static void classes_up_to_the_last_stay_inside_the_table(void **state) {
    (void)state;
    struct lf_engram_layout layout = release_layout();
    uint32_t classes[N] = {99091, 99091, 99091, 99091};
    uint64_t rows[COLUMNS];
    for (uint32_t table = 0; table < 2; table++) {
        lf_engram_rows(&layout, table, classes, 2, rows);
        for (size_t c = 0; c < COLUMNS; c++) {
            uint64_t offset = layout.table[table].offset[c];
            assert_true(rows[c] >= offset && rows[c] < offset + layout.table[table].prime[c]);
        }
    }
    lf_engram_layout_free(&layout);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_of_the_vectors_are_those_published),
        cmocka_unit_test(nothing_behind_a_dead_position_is_seen),
        cmocka_unit_test(classes_up_to_the_last_stay_inside_the_table),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
