#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "base/number.h"
#include "kernel/stream_mean/stream_mean.h"
#include "kernel_check.h"
#include "rows_check.h"

enum { ROWS = 4, STREAMS = 4, DIM = 300 };

static void run(const void *shape, struct lf_pool *pool, enum lf_isa isa, uint32_t rows,
                void *const *operand) {
    struct lf_stream_mean_args args = *(const struct lf_stream_mean_args *)shape;
    args.rows = rows;
    args.x = operand[0], args.y = operand[1];
    lf_check_kernels(isa)->stream_mean(pool, &args);
}

static void check_bound(enum lf_check_style style, uint32_t s, uint32_t dim) {
    struct lf_check_rng rng = {.state = 31 + style};
    size_t n = (size_t)ROWS * dim;
    uint16_t *x = calloc(n * s, 2), *y = calloc(n, 2);
    double *ref = calloc(n, 8), *error = calloc(n, 8);
    assert_true(x && y && ref && error);
    lf_check_fill_bf16(&rng, style, 3.0f, x, n * s);
    struct lf_stream_mean_args args = {.rows = ROWS, .streams = s, .dim = dim, .x = x, .y = y};
    lf_stream_mean_f64(&args, ref);
    for (size_t i = 0; i < n; i++) {
        for (size_t k = 0; k < s; k++)
            error[i] += fabs((double)lf_bf16_to_f32(x[(i / dim * s + k) * dim + i % dim])) / s;
        error[i] *= lf_check_gamma(s);
    }
    struct lf_pool *pool = lf_check_pool(1);
    lf_stream_mean_portable(pool, &args);
    lf_check_bound_bf16(lf_check_style_name(style), y, ref, error, n);
    lf_pool_close(pool);
    free(x), free(y), free(ref), free(error);
}

static void every_element_is_within_its_bound(void **state) {
    (void)state;
    for (enum lf_check_style style = 0; style < LF_STYLES; style++) {
        check_bound(style, STREAMS, DIM);
        check_bound(style, 1, 7);
        check_bound(style, 3, 513);
    }
}

static void the_mean_of_equal_streams_is_the_stream(void **state) {
    (void)state;
    uint16_t x[4][32], y[32];
    struct lf_check_rng rng = {.state = 5};
    lf_check_fill_bf16(&rng, LF_STYLE_WIDE, 1.0f, x[0], 32);
    for (int i = 1; i < 4; i++)
        memcpy(x[i], x[0], sizeof x[0]);
    struct lf_stream_mean_args args = {.rows = 1, .streams = 4, .dim = 32, .x = x[0], .y = y};
    struct lf_pool *pool = lf_check_pool(1);
    lf_stream_mean_portable(pool, &args);
    lf_check_same("mean", y, x[0], sizeof y);
    lf_pool_close(pool);
}

static void rows_do_not_see_each_other(void **state) {
    (void)state;
    struct lf_check_rng rng = {.state = 3};
    uint16_t x[ROWS * STREAMS * DIM];
    lf_check_fill_bf16(&rng, LF_STYLE_NORMAL, 3.0f, x, ROWS * STREAMS * DIM);
    x[7] = 0x7F80, x[DIM + 7] = 0xFF80, x[9] = 0x7F81;
    struct lf_stream_mean_args shape = {.streams = STREAMS, .dim = DIM};
    struct lf_rows_case c = {.name = "stream_mean", .shape = &shape, .rows = ROWS, .operands = 2,
                             .operand = {{LF_ROWS_IN, STREAMS * DIM * 2, x},
                                         {LF_ROWS_OUT, DIM * 2, NULL}},
                             .run = run};
    lf_rows_check(&c);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_element_is_within_its_bound),
        cmocka_unit_test(the_mean_of_equal_streams_is_the_stream),
        cmocka_unit_test(rows_do_not_see_each_other),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
