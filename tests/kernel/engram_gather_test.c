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
#include "rows_check.h"

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

static void run(const void *shape, struct lf_pool *pool, enum lf_isa isa, uint32_t rows,
                void *const *operand) {
    struct lf_engram_gather_args args = *(const struct lf_engram_gather_args *)shape;
    args.rows = rows;
    args.number = operand[0], args.y = operand[1];
    lf_check_kernels(isa)->engram_gather(pool, &args);
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
    struct lf_pool *pool = lf_check_pool(1);
    lf_engram_gather_portable(pool, &args);
    lf_engram_gather_f64(&args, ref);
    for (size_t i = 0; i < TABLE * DIM; i++)
        if (isnan(ref[i]))
            assert_int_equal(y[i], 0x7FC0);
        else
            assert_int_equal(y[i], lf_bf16_from_f32((float)ref[i]));
    lf_pool_close(pool);
    free(t), free(y), free(ref);
}

static void rows_do_not_see_each_other(void **state) {
    (void)state;
    struct table *t = calloc(1, sizeof *t);
    assert_non_null(t);
    fill_table(t);
    struct lf_engram_gather_args shape = {.columns = COLUMNS, .dim = DIM};
    shape.value = t->value, shape.scale = t->scale;
    struct lf_rows_case c = {.name = "engram_gather", .shape = &shape, .rows = ROWS,
                             .operands = 2, .run = run,
                             .operand = {{LF_ROWS_FIXED, COLUMNS * 8, t->number},
                                         {LF_ROWS_OUT, COLUMNS * DIM * 2, NULL}}};
    lf_rows_check(&c);
    free(t);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_code_and_scale_has_the_bits_of_float64_rounded),
        cmocka_unit_test(rows_do_not_see_each_other),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
