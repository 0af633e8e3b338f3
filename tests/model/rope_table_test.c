#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <string.h>
#include "../support/vectors.h"
#include "base/number.h"
#include "model/rope_table.h"

static struct lf_topology release(void) {
    struct lf_topology t = {.rope_dim = 64, .rope_theta = 10000.0, .compress_rope_theta = 160000.0};
    t.rope_scaling = (struct lf_rope_scaling){.present = true, .factor = 16.0, .beta_fast = 32.0,
                                              .beta_slow = 1.0, .original_positions = 65536};
    return t;
}

static void check_frequencies(const json_t *rows, bool compressed) {
    struct lf_topology topology = release();
    struct lf_rope_table table;
    lf_rope_table_init(&table, &topology, compressed);
    assert_int_equal(table.pairs, 32);
    assert_int_equal(json_array_size(rows), 32);
    for (uint32_t i = 0; i < 32; i++)
        assert_int_equal(lf_f32_bits(table.freq[i]),
                         vectors_bits(json_array_get(rows, i), "f32_bits"));
}

// model.md 3.5: both tables, bit for bit
static void frequencies_have_the_bits_of_the_vectors(void **state) {
    (void)state;
    json_t *file = vectors_load("rope");
    check_frequencies(vectors_get(file, "plain_theta_10000"), false);
    check_frequencies(vectors_get(file, "yarn_theta_160000_factor_16"), true);
    json_decref(file);
}

static void check_angles(const json_t *positions, bool compressed) {
    struct lf_topology topology = release();
    struct lf_rope_table table;
    lf_rope_table_init(&table, &topology, compressed);
    const char *key;
    json_t *rows, *row;
    size_t n;
    json_object_foreach((json_t *)positions, key, rows) {
        uint64_t position = strtoull(key, NULL, 10);
        float c[32], s[32];
        lf_rope_rows(&table, &position, 1, c, s);
        assert_true(json_array_size(rows) > 0);
        json_array_foreach(rows, n, row) {
            size_t i = (size_t)json_integer_value(vectors_get(row, "i"));
            float angle = (float)position * table.freq[i];
            assert_int_equal(lf_f32_bits(angle), vectors_bits(row, "angle_bits"));
            assert_int_equal(lf_f32_bits(c[i]), vectors_bits(row, "cos_bits"));
            assert_int_equal(lf_f32_bits(s[i]), vectors_bits(row, "sin_bits"));
        }
    }
}

static void cos_and_sin_have_the_bits_of_the_vectors(void **state) {
    (void)state;
    json_t *file = vectors_load("rope"), *both = vectors_get(file, "cos_sin");
    check_angles(vectors_get(both, "plain"), false);
    check_angles(vectors_get(both, "yarn"), true);
    json_decref(file);
}

// model.md 3.5, the demo: d 16, O 256, low 0 and high 3
static void other_sizes_follow_the_general_blend(void **state) {
    (void)state;
    struct lf_topology topology = release();
    topology.rope_dim = 16;
    topology.rope_scaling.original_positions = 256;
    struct lf_rope_table table;
    lf_rope_table_init(&table, &topology, true);
    assert_int_equal(table.pairs, 8);
    for (uint32_t i = 0; i < 8; i++) {
        double f = pow(160000.0, -(double)i / 8.0), ramp = i >= 3 ? 1.0 : (double)i / 3.0;
        double want = f / 16.0 * ramp + f * (1.0 - ramp);
        assert_true(fabs((double)table.freq[i] - want) <= 4.0 * 0x1p-24 * want);
    }
}

// equal bounds would divide by zero: high grows by 0.001, so the ramp is a step after low
static void equal_bounds_give_a_step(void **state) {
    (void)state;
    struct lf_topology topology = release();
    topology.rope_scaling.original_positions = 6;
    struct lf_rope_table table;
    lf_rope_table_init(&table, &topology, true);
    assert_true(lf_f32_bits(table.freq[0]) == lf_f32_bits(1.0f));
    for (uint32_t i = 1; i < 32; i++) {
        double f = pow(160000.0, -(double)i / 32.0) / 16.0;
        assert_true(fabs((double)table.freq[i] - f) <= 4.0 * 0x1p-24 * f);
    }
}

static void without_scaling_the_compressed_base_is_used_as_it_is(void **state) {
    (void)state;
    struct lf_topology topology = release();
    topology.rope_scaling.present = false;
    struct lf_rope_table table;
    lf_rope_table_init(&table, &topology, true);
    for (uint32_t i = 0; i < 32; i++) {
        double f = pow(160000.0, -(double)i / 32.0);
        assert_true(fabs((double)table.freq[i] - f) <= 4.0 * 0x1p-24 * f);
    }
}

// a row depends on its position only, not on its place
static void rows_are_independent(void **state) {
    (void)state;
    struct lf_topology topology = release();
    struct lf_rope_table table;
    lf_rope_table_init(&table, &topology, true);
    const uint64_t positions[3] = {7, 1048575, 7};
    float c[3][32], s[3][32];
    lf_rope_rows(&table, positions, 3, c[0], s[0]);
    assert_memory_equal(c[0], c[2], sizeof c[0]);
    assert_memory_equal(s[0], s[2], sizeof s[0]);
    assert_memory_not_equal(c[0], c[1], sizeof c[0]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(frequencies_have_the_bits_of_the_vectors),
        cmocka_unit_test(cos_and_sin_have_the_bits_of_the_vectors),
        cmocka_unit_test(other_sizes_follow_the_general_blend),
        cmocka_unit_test(equal_bounds_give_a_step),
        cmocka_unit_test(without_scaling_the_compressed_base_is_used_as_it_is),
        cmocka_unit_test(rows_are_independent),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
