// Whether the comparison that every other test of this folder relies on sees a single bit.
#include "exact.h"

#include <string.h>

static struct lf_exact exact;
static struct lf_outcome read;

static int open_all(void **state) {
    (void)state;
    lf_exact_open(&exact);
    struct lf_target *target = lf_exact_target(&exact, &(struct lf_model_options){.slots = 1});
    lf_exact_prefill(target, 0, exact.ids, 40, (struct lf_cut){.rows = 40}, NULL, 0);
    lf_outcome_read(target, 0, &read);
    target->ops->close(target);
    return 0;
}

static int close_all(void **state) {
    (void)state;
    lf_exact_close(&exact);
    return 0;
}

static void sees(const char *part, void *byte) {
    static struct lf_outcome want;
    want = read;
    assert_null(lf_outcome_differs(&read, &want));
    *(uint8_t *)byte ^= 1;
    const char *found = lf_outcome_differs(&read, &want);
    *(uint8_t *)byte ^= 1;
    assert_string_equal(found ? found : "nothing", part);
}

static void one_bit_of_any_part_is_a_difference(void **state) {
    (void)state;
    for (uint32_t i = 0; i < LF_EXACT_VOCAB; i += 2303)
        sees("logits", &read.logits[i]);
    for (uint32_t r = 0; r < LF_EXACT_TAPS; r += 30)
        sees("taps", &read.tap[r][r * 25]);
    sees("taps", &read.length);
    sees("state", &read.digest[31]);
}

// A tap that is not there is zeros: comparing nothing with nothing would show no difference.
static void every_row_of_a_prompt_in_reach_has_its_taps(void **state) {
    static const uint16_t none[LF_EXACT_TAP_SIZE];
    (void)state;
    for (uint32_t r = 0; r < LF_EXACT_TAPS; r++)
        assert_memory_not_equal(read.tap[r], none, sizeof none);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_bit_of_any_part_is_a_difference),
        cmocka_unit_test(every_row_of_a_prompt_in_reach_has_its_taps),
    };
    return lf_exact_main(argc, argv, tests, sizeof tests / sizeof *tests, open_all, close_all);
}
