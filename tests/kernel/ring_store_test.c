#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>
#include "kernel/ring_store/ring_store.h"
#include "kernel_check.h"

enum { RING = 4, ROWS = 6, BYTES = 2 };

// Lane 1 brings positions 5 .. 10, of which the ring keeps 7 .. 10; row 4 was dropped.
static void rows_go_to_their_positions_and_the_rest_stays(void **state) {
    (void)state;
    struct lf_row row[ROWS];
    uint8_t lane0[RING * BYTES], lane1[RING * BYTES], x[ROWS * BYTES], *ring[2] = {lane0, lane1};
    const struct lf_span span[2] = {{0}, {.rows = ROWS, .pos0 = 5}};
    const uint8_t want[RING * BYTES] = {6, 7, 0xEE, 0xEE, 10, 11, 4, 5};
    memset(lane0, 0xEE, sizeof lane0);
    memset(lane1, 0xEE, sizeof lane1);
    for (uint8_t i = 0; i < ROWS * BYTES; i++)
        x[i] = i;
    for (uint32_t r = 0; r < ROWS; r++)
        row[r] = (struct lf_row){.lane = 1, .position = 5 + r, .depth = r == 4 ? 2 : 3};
    struct lf_ring_store_args args = {.rows = ROWS, .row = row, .depth_min = 3, .span = span,
                                      .kept = RING, .x = x, .row_bytes = BYTES, .ring = ring,
                                      .ring_rows = RING, .ring_pitch = BYTES};
    struct lf_device *device = lf_check_device(1);
    lf_ring_store_portable(device, &args);
    assert_memory_equal(lane1, want, sizeof want);
    for (uint32_t i = 0; i < sizeof lane0; i++)
        assert_int_equal(lane0[i], 0xEE);
    lf_check_device_close(device);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_go_to_their_positions_and_the_rest_stays),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
