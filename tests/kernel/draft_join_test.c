#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include "kernel/draft_join/draft_join.h"
#include "kernel_check.h"

static void each_row_takes_its_own_bias_and_what_lies_between_stays(void **state) {
    (void)state;
    float logits[8] = {1, 2, 3, 9, -1, -2, -3, 9};
    const float bias[6] = {0.5f, -2, 0x1p-30f, 10, 20, 30};
    const float want[8] = {1.5f, 0, 3, 9, 9, 18, 27, 9};
    struct lf_draft_join_args args = {.rows = 2, .vocab = 3, .logits = logits, .logits_stride = 4,
                                      .bias = bias};
    struct lf_device *device = lf_check_device(1);
    lf_draft_join_portable(device, &args);
    for (int i = 0; i < 8; i++)
        assert_true(logits[i] == want[i]);
    lf_check_device_close(device);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_row_takes_its_own_bias_and_what_lies_between_stays),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
