#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>
#include "kernel/row_gather/row_gather.h"
#include "kernel_check.h"

// Two buffers in one launch: one closes up in place, one is joined to wider rows elsewhere.
static void rows_move_by_index_in_place_and_apart(void **state) {
    (void)state;
    static const uint32_t index[3] = {1, 2, 4};
    uint16_t place[5] = {10, 11, 12, 13, 14};
    const uint8_t wide[] = {1, 2, 0xAA, 3, 4, 0xAA};
    uint8_t joined[] = {9, 9, 9, 9, 9, 9, 9, 9};
    const uint8_t want[] = {9, 1, 2, 9, 9, 3, 4, 9};
    const struct lf_row_gather_job job[2] = {
        {.rows = 3, .index = index, .x = place, .x_pitch = 2, .y = place, .y_pitch = 2,
         .row_bytes = 2},
        {.rows = 2, .x = wide, .x_pitch = 3, .y = joined + 1, .y_pitch = 4, .row_bytes = 2},
    };
    struct lf_device *device = lf_check_device(2);
    lf_row_gather_portable(device, &(struct lf_row_gather_args){2, job});
    assert_int_equal(place[0], 11);
    assert_int_equal(place[1], 12);
    assert_int_equal(place[2], 14);
    assert_memory_equal(joined, want, sizeof want);
    lf_check_device_close(device);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_move_by_index_in_place_and_apart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
