#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "base/number.h"
#include "kernel/engram_gather/engram_gather.h"
#include "kernel_check.h"

enum { TABLE = 256, COLUMNS = 6, DIM = 64, ROWS = 5 };

struct table {
    uint8_t value[TABLE * DIM], scale[TABLE * DIM / 32];
    uint64_t number[ROWS * COLUMNS];
};

// Row r of the table holds every code beside scale byte r (and 255 - r).
static void fill_table(struct table *t) {
    struct lf_check_rng rng = {.state = 9};
    for (size_t i = 0; i < sizeof t->value; i++)
        t->value[i] = (uint8_t)(i * 7 + i / DIM);
    for (size_t i = 0; i < sizeof t->scale; i++)
        t->scale[i] = (uint8_t)(i % 2 ? 255 - i / 2 : i / 2);
    for (size_t i = 0; i < ROWS * COLUMNS; i++)
        t->number[i] = lf_check_below(&rng, TABLE);
    t->number[0] = 0, t->number[1] = TABLE - 1;
}

static void every_code_and_scale_has_the_bits_of_float64_rounded(void **state) {
    (void)state;
    struct table *t = calloc(1, sizeof *t);
    uint64_t number[TABLE];
    uint16_t *y = calloc(TABLE * DIM, 2);
    double *ref = calloc(TABLE * DIM, 8);
    assert_true(t && y && ref);
    fill_table(t);
    for (uint64_t i = 0; i < TABLE; i++)
        number[i] = i;
    struct lf_engram_gather_args args = {.rows = 1, .columns = TABLE, .dim = DIM, .number = number};
    args.value = t->value, args.scale = t->scale, args.y = y;
    struct lf_device *device = lf_check_device(1);
    lf_engram_gather_portable(device, &args);
    lf_engram_gather_f64(&args, ref);
    for (size_t i = 0; i < TABLE * DIM; i++)
        if (isnan(ref[i]))
            assert_int_equal(y[i], 0x7FC0);
        else
            assert_int_equal(y[i], lf_bf16_from_f32((float)ref[i]));
    lf_check_device_close(device);
    free(t), free(y), free(ref);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_code_and_scale_has_the_bits_of_float64_rounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
