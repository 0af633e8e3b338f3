#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include "kernel/expert_group/expert_group.h"
#include "kernel_check.h"

// model.md 9.3: three rows, two of four experts each
static void an_experts_rows_become_one_run(void **state) {
    (void)state;
    static const uint32_t id[] = {0, 3, 1, 3, 0, 1};
    static const float weight[] = {1, 2, 3, 4, 5, 6};
    static const uint32_t want_first[] = {0, 2, 4, 4, 6}, want_row[] = {0, 2, 1, 2, 0, 1};
    static const uint32_t want_of[] = {0, 4, 2, 5, 1, 3};
    uint32_t first[5], row[6], of[6];
    float sorted[6];
    struct lf_device *device = lf_check_device(1);
    lf_expert_group_portable(device, &(struct lf_expert_group_args){
                                       .rows = 3, .top = 2, .experts = 4, .id = id,
                                       .weight = weight, .first = first, .pair_row = row,
                                       .pair_weight = sorted, .pair_of = of});
    assert_memory_equal(first, want_first, sizeof first);
    assert_memory_equal(row, want_row, sizeof row);
    assert_memory_equal(of, want_of, sizeof of);
    for (uint32_t i = 0; i < 6; i++)
        assert_true(sorted[of[i]] == weight[i]);
    lf_check_device_close(device);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_experts_rows_become_one_run),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
