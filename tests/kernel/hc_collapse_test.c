#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "base/number.h"
#include "kernel/hc_collapse/hc_collapse.h"
#include "kernel_check.h"
#include "rows_check.h"
#include "vectors.h"

enum { ROWS = 5, STREAMS = 4, DIM = 300 };

static void run(const void *shape, struct lf_pool *pool, enum lf_isa isa, uint32_t rows,
                void *const *operand) {
    struct lf_hc_collapse_args args = *(const struct lf_hc_collapse_args *)shape;
    args.rows = rows;
    args.x = operand[0], args.pre = operand[1], args.y = operand[2];
    lf_check_kernels(isa)->hc_collapse(pool, &args);
}

// Operands of one style and what the kernel and float64 make of them.
static void check_bound(enum lf_check_style style, uint32_t streams, uint32_t dim) {
    struct lf_check_rng rng = {.state = 11 + style};
    size_t n = (size_t)ROWS * dim;
    uint16_t *x = calloc(n * streams, 2), *y = calloc(n, 2);
    float *pre = calloc((size_t)ROWS * streams, 4);
    double *ref = calloc(n, 8), *error = calloc(n, 8);
    assert_true(x && y && pre && ref && error);
    lf_check_fill_bf16(&rng, style, 3.0f, x, n * streams);
    lf_check_fill_f32(&rng, style, 0.5f, pre, (size_t)ROWS * streams);
    struct lf_hc_collapse_args args = {.rows = ROWS, .streams = streams, .dim = dim};
    args.x = x, args.pre = pre, args.y = y;
    lf_hc_collapse_f64(&args, ref);
    for (size_t row = 0; row < ROWS; row++)
        for (size_t d = 0; d < dim; d++) {
            double sum = 0;
            for (size_t i = 0; i < streams; i++)
                sum += fabs((double)pre[row * streams + i] *
                            (double)lf_bf16_to_f32(x[(row * streams + i) * dim + d]));
            error[row * dim + d] = lf_check_gamma(streams) * sum;
        }
    struct lf_pool *pool = lf_check_pool(1);
    lf_hc_collapse_portable(pool, &args);
    lf_check_bound_bf16(lf_check_style_name(style), y, ref, error, n);
    lf_pool_close(pool);
    free(x), free(y), free(pre), free(ref), free(error);
}

static void every_element_is_within_its_bound(void **state) {
    (void)state;
    for (enum lf_check_style style = 0; style < LF_STYLES; style++) {
        check_bound(style, STREAMS, DIM);
        check_bound(style, 1, 7);
        check_bound(style, 8, 513);
    }
}

static void the_example_of_the_vectors_collapses_as_published(void **state) {
    (void)state;
    json_t *file = vectors_load("hc"), *part = vectors_get(file, "collapse");
    uint16_t x[12], y[3];
    float pre[4];
    for (size_t i = 0; i < 12; i++)
        x[i] = lf_bf16_from_f32((float)vectors_number(
            json_array_get(vectors_get(part, "X"), i / 3), i % 3));
    for (size_t i = 0; i < 4; i++)
        pre[i] = (float)vectors_number(vectors_get(part, "pre_in"), i);
    struct lf_hc_collapse_args args = {.rows = 1, .streams = 4, .dim = 3};
    args.x = x, args.pre = pre, args.y = y;
    struct lf_pool *pool = lf_check_pool(1);
    lf_hc_collapse_portable(pool, &args);
    for (size_t d = 0; d < 3; d++)
        assert_int_equal(y[d], lf_bf16_from_f32((float)vectors_number(vectors_get(part, "y"), d)));
    lf_pool_close(pool);
    json_decref(file);
}

static void the_first_mix_of_a_model_returns_stream_0(void **state) {
    (void)state;
    uint16_t x[4 * 64], y[64];
    float pre[4] = {1, 0, 0, 0};
    struct lf_check_rng rng = {.state = 5};
    lf_check_fill_bf16(&rng, LF_STYLE_WIDE, 1.0f, x, 4 * 64);
    struct lf_hc_collapse_args args = {.rows = 1, .streams = 4, .dim = 64};
    args.x = x, args.pre = pre, args.y = y;
    struct lf_pool *pool = lf_check_pool(1);
    lf_hc_collapse_portable(pool, &args);
    lf_check_same("stream 0", y, x, sizeof y);
    lf_pool_close(pool);
}

static void rows_do_not_see_each_other(void **state) {
    (void)state;
    struct lf_check_rng rng = {.state = 3};
    uint16_t x[ROWS * STREAMS * DIM];
    float pre[ROWS * STREAMS];
    lf_check_fill_bf16(&rng, LF_STYLE_NORMAL, 3.0f, x, ROWS * STREAMS * DIM);
    lf_check_fill_f32(&rng, LF_STYLE_NORMAL, 0.5f, pre, ROWS * STREAMS);
    x[DIM] = 0x7F80, x[2 * DIM] = 0xFFC5;
    struct lf_hc_collapse_args shape = {.streams = STREAMS, .dim = DIM};
    struct lf_rows_case c = {.name = "hc_collapse", .shape = &shape, .rows = ROWS, .operands = 3,
                             .operand = {{LF_ROWS_IN, STREAMS * DIM * 2, x},
                                         {LF_ROWS_IN, STREAMS * 4, pre},
                                         {LF_ROWS_OUT, DIM * 2, NULL}},
                             .run = run};
    lf_rows_check(&c);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_element_is_within_its_bound),
        cmocka_unit_test(the_example_of_the_vectors_collapses_as_published),
        cmocka_unit_test(the_first_mix_of_a_model_returns_stream_0),
        cmocka_unit_test(rows_do_not_see_each_other),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
