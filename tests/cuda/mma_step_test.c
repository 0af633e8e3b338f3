// Is the integer model of a tensor core's step what the device was measured to do?
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "base/number.h"
#include "kernel/linear/mma_step.h"

enum { STEP = 16, TURNS = 20000 };

static uint64_t random_state = 1;

static uint32_t next_random(void) {
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(random_state >> 33);
}

// Exponents from -spread to spread.
static uint16_t number(uint32_t spread) {
    uint32_t bits = next_random(), exponent = 127 - spread + bits / 256 % (2 * spread + 1);
    return (uint16_t)((bits & 0x8000u) | exponent << 7 | (bits & 0x7F));
}

static double product(uint16_t a, uint16_t b) {
    return (double)lf_bf16_to_f32(a) * (double)lf_bf16_to_f32(b);
}

static void are_sums_that_need_no_cut_exact(void **state) {
    (void)state;
    for (int turn = 0; turn < TURNS; turn++) {
        uint16_t a[STEP], b[STEP];
        float c = (float)(int)(next_random() % 4096) - 2048.0f;
        double sum = (double)c;
        for (int k = 0; k < STEP; k++) {
            a[k] = lf_bf16_from_f32((float)(int)(next_random() % 255) - 127.0f);
            b[k] = lf_bf16_from_f32((float)(int)(next_random() % 255) - 127.0f);
            sum += product(a[k], b[k]);
        }
        assert_true((double)lf_mma_step(a, b, c) == sum);
    }
}

// |out - exact| < 16 * 2^(E - 25) + 2^(exponent of out - 23), and never away from zero at the end.
static void is_every_sum_within_the_bound_of_one_step(void **state) {
    (void)state;
    for (int turn = 0; turn < TURNS; turn++) {
        uint16_t a[STEP], b[STEP];
        float c = lf_bf16_to_f32(number(20)) * lf_bf16_to_f32(number(20));
        double sum = (double)c, most = fabs((double)c);
        for (int k = 0; k < STEP; k++) {
            a[k] = number(12), b[k] = number(12);
            sum += product(a[k], b[k]);
            most = fmax(most, fabs(product(a[k], b[k])));
        }
        double out = (double)lf_mma_step(a, b, c);
        assert_true(fabs(out - sum) < most * 0x1p-21 + fabs(out) * 0x1p-23);
    }
}

static void does_the_order_inside_a_step_not_matter(void **state) {
    (void)state;
    for (int turn = 0; turn < TURNS; turn++) {
        uint16_t a[STEP], b[STEP], a_turned[STEP], b_turned[STEP];
        float c = lf_bf16_to_f32(number(20));
        uint32_t by = next_random() % STEP;
        for (uint32_t k = 0; k < STEP; k++) {
            a[k] = number(30), b[k] = number(30);
            a_turned[(k + by) % STEP] = a[k], b_turned[(k + by) % STEP] = b[k];
        }
        assert_int_equal(lf_mma_bits(lf_mma_step(a, b, c)),
                         lf_mma_bits(lf_mma_step(a_turned, b_turned, c)));
    }
}

// One step of a * b + c, all other products zero.
static uint32_t lone(float a, float b, float c) {
    uint16_t x[STEP] = {lf_bf16_from_f32(a)}, y[STEP] = {lf_bf16_from_f32(b)};
    return lf_mma_bits(lf_mma_step(x, y, c));
}

static void are_cuts_toward_zero_at_the_measured_place(void **state) {
    (void)state;
    // A term survives to 2^-25 of the largest; the store keeps 24 bits.
    assert_int_equal(lone(0x1p-13f, -0x1p-12f, 1.0f), lf_mma_bits(1.0f - 0x1p-24f));
    assert_int_equal(lone(0x1p-13f, -0x1p-13f, 1.0f), lf_mma_bits(1.0f));
    assert_int_equal(lone(0x1p-12f, 0x1p-12f, 1.0f), lf_mma_bits(1.0f));
    assert_int_equal(lone(0x1p-12f, 0x1p-11f, -1.0f), lf_mma_bits(-1.0f + 0x1p-23f));
}

static void are_the_ends_of_the_range_as_measured(void **state) {
    (void)state;
    assert_int_equal(lone(0x1p127f, 2.0f, 0.0f), lf_mma_bits(INFINITY));
    assert_int_equal(lone(0x1p-100f, 0x1p-49f, 0.0f), 1);
    assert_int_equal(lone(0x1p-100f, -0x1p-50f, 0.0f), 0);
    assert_int_equal(lone(-1.0f, 1.0f, 1.0f), 0);
    assert_int_equal(lone(0x1p-133f, 1.0f, 0x1p-149f), lf_mma_bits(0x1p-133f + 0x1p-149f));
    assert_int_equal(lone(INFINITY, 0.0f, 1.0f), 0x7FFFFFFF);
    assert_int_equal(lone(INFINITY, 1.0f, -INFINITY), 0x7FFFFFFF);
    assert_int_equal(lone(-NAN, 1.0f, 0.0f), 0x7FFFFFFF);
    assert_int_equal(lone(INFINITY, -1.0f, 1.0f), lf_mma_bits(-INFINITY));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(are_sums_that_need_no_cut_exact),
        cmocka_unit_test(is_every_sum_within_the_bound_of_one_step),
        cmocka_unit_test(does_the_order_inside_a_step_not_matter),
        cmocka_unit_test(are_cuts_toward_zero_at_the_measured_place),
        cmocka_unit_test(are_the_ends_of_the_range_as_measured),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
