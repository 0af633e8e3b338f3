#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "kernel/sample/noise.h"
#include "kernel/sample/sample.h"
#include "kernel_check.h"
#include "vectors.h"

static const char *text(const json_t *object, const char *key) {
    const char *value = json_string_value(vectors_get(object, key));
    assert_non_null(value);
    return value;
}

static uint32_t word(const json_t *array, size_t i) {
    return (uint32_t)strtoul(json_string_value(json_array_get(array, i)), NULL, 16);
}

static void check_bits(const json_t *object, const char *key, double got) {
    double want = strtod(text(object, key), NULL);
    if (lf_f64_bits(got) != lf_f64_bits(want))
        fail_msg("%s: %a, expected %a", key, got, want);
}

// engine.md S-1.
static void philox_gives_the_known_answers(void **state) {
    (void)state;
    json_t *file = vectors_load("sampling"), *item;
    size_t i;
    json_array_foreach(vectors_get(file, "philox"), i, item) {
        uint32_t counter[4], key[2], out[4];
        for (size_t k = 0; k < 4; k++)
            counter[k] = word(vectors_get(item, "counter"), k);
        for (size_t k = 0; k < 2; k++)
            key[k] = word(vectors_get(item, "key"), k);
        lf_philox(counter, key, out);
        for (size_t k = 0; k < 4; k++)
            assert_int_equal(out[k], word(vectors_get(item, "out"), k));
    }
    assert_int_equal(i, 8);
    json_decref(file);
}

// S-2, S-3.
static void uniform_and_gumbel_have_the_published_bits(void **state) {
    (void)state;
    json_t *file = vectors_load("sampling"), *item;
    size_t i;
    json_array_foreach(vectors_get(file, "uniform"), i, item) {
        json_t *at = vectors_get(item, "seed");
        uint64_t seed = json_is_string(at) ? strtoull(json_string_value(at), NULL, 10)
                                           : (uint64_t)json_integer_value(at);
        uint64_t position = (uint64_t)json_integer_value(vectors_get(item, "position"));
        uint32_t id = (uint32_t)json_integer_value(vectors_get(item, "id"));
        check_bits(item, "u", lf_sample_uniform(seed, position, id));
        check_bits(item, "gumbel", lf_sample_gumbel(seed, position, id));
    }
    assert_int_equal(i, 32);
    json_decref(file);
}

// S-11.
static void log_and_exp_have_the_published_bits(void **state) {
    (void)state;
    json_t *file = vectors_load("sampling"), *item;
    size_t i, k;
    json_array_foreach(vectors_get(file, "log"), i, item)
        check_bits(item, "y", lf_sample_log(strtod(text(item, "x"), NULL)));
    json_array_foreach(vectors_get(file, "exp"), k, item)
        check_bits(item, "y", lf_sample_exp(strtod(text(item, "x"), NULL)));
    assert_true(i == 28 && k == 24);
    json_decref(file);
}

// S-13.
static void a_derived_seed_is_the_published_one(void **state) {
    (void)state;
    json_t *file = vectors_load("sampling"), *item;
    size_t i;
    json_array_foreach(vectors_get(file, "seed"), i, item) {
        json_t *ids = vectors_get(item, "ids"), *images = vectors_get(item, "image_digests");
        uint32_t id[128];
        uint8_t digest[4][32];
        for (size_t k = 0; k < json_array_size(ids); k++)
            id[k] = (uint32_t)json_integer_value(json_array_get(ids, k));
        for (size_t k = 0; k < json_array_size(images) * 32; k++) {
            const char *hex = json_string_value(json_array_get(images, k / 32)) + k % 32 * 2;
            char pair[3] = {hex[0], hex[1], 0};
            digest[k / 32][k % 32] = (uint8_t)strtoul(pair, NULL, 16);
        }
        uint64_t salt = (uint64_t)json_integer_value(vectors_get(item, "salt"));
        assert_true(lf_seed_derive(id, json_array_size(ids), (const uint8_t(*)[32])digest,
                                   json_array_size(images), salt) ==
                    strtoull(text(item, "seed"), NULL, 10));
    }
    assert_int_equal(i, 7);
    json_decref(file);
}

static void the_race_may_skip_by_the_bound_of_the_noise(void **state) {
    (void)state;
    struct lf_check_rng rng = {.state = 1};
    assert_true(lf_noise_gumbel(UINT64_MAX) <= lf_noise_gumbel_bound(UINT64_MAX));
    assert_true(lf_noise_gumbel_bound(UINT64_MAX) <= LF_NOISE_GUMBEL_MAX);
    assert_true(lf_noise_gumbel(0) <= lf_noise_gumbel_bound(0));
    for (int i = 0; i < 1000000; i++) {
        uint64_t noise = lf_check_next(&rng), high = ~(noise >> lf_check_below(&rng, 64));
        assert_true(lf_noise_gumbel(noise) <= lf_noise_gumbel_bound(noise));
        assert_true(lf_noise_gumbel(high) <= lf_noise_gumbel_bound(high));
        assert_true(lf_noise_gumbel_bound(high) <= LF_NOISE_GUMBEL_MAX);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(philox_gives_the_known_answers),
        cmocka_unit_test(uniform_and_gumbel_have_the_published_bits),
        cmocka_unit_test(log_and_exp_have_the_published_bits),
        cmocka_unit_test(a_derived_seed_is_the_published_one),
        cmocka_unit_test(the_race_may_skip_by_the_bound_of_the_noise),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
