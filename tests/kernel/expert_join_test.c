#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include "base/number.h"
#include "kernel/expert_join/expert_join.h"
#include "kernel_check.h"

static void the_sum_goes_by_the_order_of_the_pairs_and_shared_is_last(void **state) {
    (void)state;
    uint16_t big = lf_bf16_from_f32(0x1p30f), one = lf_bf16_from_f32(1.0f);
    uint16_t expert[3] = {big, one, (uint16_t)(big ^ 0x8000)}, shared[1] = {one}, y[1];
    uint32_t pair[3] = {0, 1, 2}, other[3] = {0, 2, 1};
    struct lf_expert_join_args args = {.rows = 1, .top = 3, .dim = 1, .y = y, .expert = expert};
    struct lf_device *device = lf_check_device(1);
    args.pair = pair, args.shared = shared;
    lf_expert_join_portable(device, &args);
    assert_int_equal(y[0], one);
    args.pair = other;
    lf_expert_join_portable(device, &args);
    assert_int_equal(y[0], lf_bf16_from_f32(2.0f));
    lf_check_device_close(device);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_sum_goes_by_the_order_of_the_pairs_and_shared_is_last),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
