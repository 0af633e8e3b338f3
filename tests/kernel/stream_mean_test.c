#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>
#include "kernel/stream_mean/stream_mean.h"
#include "kernel_check.h"

static void the_mean_of_equal_streams_is_the_stream(void **state) {
    (void)state;
    uint16_t x[4][32], y[32];
    struct lf_check_rng rng = {.state = 5};
    lf_check_fill_bf16(&rng, LF_STYLE_WIDE, 1.0f, x[0], 32);
    for (int i = 1; i < 4; i++)
        memcpy(x[i], x[0], sizeof x[0]);
    struct lf_stream_mean_args args = {.rows = 1, .streams = 4, .dim = 32, .x = x[0], .y = y};
    struct lf_device *device = lf_check_device(1);
    lf_stream_mean_portable(device, &args);
    lf_check_same("mean", y, x[0], sizeof y);
    lf_check_device_close(device);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_mean_of_equal_streams_is_the_stream),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
