// The order of MXFP4's codes on a device (kernel/linear/linear_turn.h).
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include "base/number.h"
#include "kernel/linear/linear_turn.h"

static void is_turning_a_permutation_of_bits_and_undone(void **state) {
    uint32_t all = 0, word = 1;
    (void)state;
    for (uint32_t bit = 0; bit < 32; bit++) {
        uint32_t turned = lf_mxfp4_turned(1u << bit);
        assert_true(turned && !(turned & (turned - 1)) && !(turned & all));
        assert_int_equal(lf_mxfp4_published(turned), 1u << bit);
        all |= turned;
    }
    for (uint32_t i = 0; i < 1000; i++, word = word * 1664525u + 1013904223u)
        assert_int_equal(lf_mxfp4_published(lf_mxfp4_turned(word)), word);
}

// Each byte of a file at each place of a word, beside others.
static void do_pairs_of_a_turned_word_hold_the_published_values(void **state) {
    static const uint32_t first[4] = {0, 4, 2, 6}, beside[2] = {0, 0xFFFFFFFFu};
    (void)state;
    for (uint32_t i = 0; i < 256 * 4 * 2; i++) {
        uint32_t byte = i % 256, at = i / 256 % 4 * 8;
        uint32_t word = (beside[i / 1024] & ~(255u << at)) | byte << at;
        uint32_t turned = lf_mxfp4_turned(word);
        for (uint32_t n = 0; n < 8; n++) {
            uint32_t pair = lf_mxfp4_pair(turned, n / 2), code = first[n / 2] + n % 2;
            float value = lf_bf16_to_f32((uint16_t)(pair >> n % 2 * 16)) * 0x1p126f;
            float want = lf_e2m1_to_f32((uint8_t)(word >> 4 * code & 15));
            assert_int_equal(lf_f32_bits(value), lf_f32_bits(want));
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(is_turning_a_permutation_of_bits_and_undone),
        cmocka_unit_test(do_pairs_of_a_turned_word_hold_the_published_values),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
