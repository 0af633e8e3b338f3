#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "base/number.h"
#include "kernel/hc_expand/hc_expand.h"
#include "kernel_check.h"
#include "rows_check.h"
#include "vectors.h"

enum { ROWS = 4, STREAMS = 4, DIM = 300 };

static void run(const void *shape, struct lf_pool *pool, enum lf_isa isa, uint32_t rows,
                void *const *operand) {
    struct lf_hc_expand_args args = *(const struct lf_hc_expand_args *)shape;
    args.rows = rows;
    args.x = operand[0], args.b = operand[1], args.post = operand[2], args.comb = operand[3];
    lf_check_kernels(isa)->hc_expand(pool, &args);
}

// The sum of the magnitudes behind element (row, j, d).
static double magnitude(const struct lf_hc_expand_args *a, size_t row, size_t j, size_t d) {
    size_t s = a->streams, dim = a->dim;
    double sum = fabs((double)a->post[row * s + j] * (double)lf_bf16_to_f32(a->b[row * dim + d]));
    for (size_t i = 0; i < s; i++)
        sum += fabs((double)a->comb[(row * s + i) * s + j] *
                    (double)lf_bf16_to_f32(a->x[(row * s + i) * dim + d]));
    return sum;
}

static void check_bound(enum lf_check_style style, uint32_t s, uint32_t dim) {
    struct lf_check_rng rng = {.state = 21 + style};
    size_t n = (size_t)ROWS * s * dim;
    uint16_t *x = calloc(n, 2), *b = calloc((size_t)ROWS * dim, 2);
    float *post = calloc((size_t)ROWS * s, 4), *comb = calloc((size_t)ROWS * s * s, 4);
    double *ref = calloc(n, 8), *error = calloc(n, 8);
    assert_true(x && b && post && comb && ref && error);
    lf_check_fill_bf16(&rng, style, 3.0f, x, n);
    lf_check_fill_bf16(&rng, style, 1.0f, b, (size_t)ROWS * dim);
    lf_check_fill_f32(&rng, style, 0.7f, post, (size_t)ROWS * s);
    lf_check_fill_f32(&rng, style, 0.3f, comb, (size_t)ROWS * s * s);
    struct lf_hc_expand_args args = {.rows = ROWS, .streams = s, .dim = dim};
    args.x = x, args.b = b, args.post = post, args.comb = comb;
    lf_hc_expand_f64(&args, ref);
    for (size_t i = 0; i < n; i++)
        error[i] = lf_check_gamma(s + 1) * magnitude(&args, i / dim / s, i / dim % s, i % dim);
    struct lf_pool *pool = lf_check_pool(1);
    lf_hc_expand_portable(pool, &args);
    lf_check_bound_bf16(lf_check_style_name(style), x, ref, error, n);
    lf_pool_close(pool);
    free(x), free(b), free(post), free(comb), free(ref), free(error);
}

static void every_element_is_within_its_bound(void **state) {
    (void)state;
    for (enum lf_check_style style = 0; style < LF_STYLES; style++) {
        check_bound(style, STREAMS, DIM);
        check_bound(style, 1, 7);
        check_bound(style, 8, 257);
    }
}

static void the_sum_runs_over_the_first_index_of_comb(void **state) {
    (void)state;
    uint16_t x[2] = {lf_bf16_from_f32(1.0f), lf_bf16_from_f32(10.0f)}, b[1] = {0};
    float post[2] = {0, 0}, comb[4] = {0.5f, 0.25f, 0.0f, 0.75f};
    struct lf_hc_expand_args args = {.rows = 1, .streams = 2, .dim = 1, .x = x, .b = b};
    args.post = post, args.comb = comb;
    struct lf_pool *pool = lf_check_pool(1);
    lf_hc_expand_portable(pool, &args);
    assert_int_equal(x[0], lf_bf16_from_f32(0.5f));
    assert_int_equal(x[1], lf_bf16_from_f32(7.75f));
    lf_pool_close(pool);
}

static void the_example_of_the_vectors_expands_as_published(void **state) {
    (void)state;
    json_t *file = vectors_load("hc"), *part = vectors_get(file, "expand");
    json_t *split = vectors_get(file, "split"), *result = vectors_get(part, "Y");
    uint16_t x[12], b[3];
    float post[4], comb[16];
    for (size_t i = 0; i < 12; i++)
        x[i] = lf_bf16_from_f32((float)vectors_number(
            json_array_get(vectors_get(part, "X"), i / 3), i % 3));
    for (size_t d = 0; d < 3; d++)
        b[d] = lf_bf16_from_f32((float)vectors_number(vectors_get(part, "b"), d));
    for (size_t i = 0; i < 4; i++)
        post[i] = (float)vectors_number(vectors_get(split, "post"), i);
    for (size_t i = 0; i < 16; i++)
        comb[i] = (float)vectors_number(
            json_array_get(vectors_get(split, "comb"), i / 4), i % 4);
    struct lf_hc_expand_args args = {.rows = 1, .streams = 4, .dim = 3, .x = x, .b = b};
    args.post = post, args.comb = comb;
    struct lf_pool *pool = lf_check_pool(1);
    lf_hc_expand_portable(pool, &args);
    for (size_t i = 0; i < 12; i++) {
        double want = vectors_number(json_array_get(result, i / 3), i % 3);
        // b is not a bf16 number in the vectors: half a spacing of b, then of the result.
        double allowed = 0x1p-9 * fabs((double)post[i / 3] * 1.2) + 0x1p-8 * fabs(want);
        assert_true(fabs((double)lf_bf16_to_f32(x[i]) - want) <= allowed);
    }
    lf_pool_close(pool);
    json_decref(file);
}

static void rows_do_not_see_each_other(void **state) {
    (void)state;
    struct lf_check_rng rng = {.state = 3};
    uint16_t x[ROWS * STREAMS * DIM], b[ROWS * DIM];
    float post[ROWS * STREAMS], comb[ROWS * STREAMS * STREAMS];
    lf_check_fill_bf16(&rng, LF_STYLE_NORMAL, 3.0f, x, ROWS * STREAMS * DIM);
    lf_check_fill_bf16(&rng, LF_STYLE_NORMAL, 1.0f, b, ROWS * DIM);
    lf_check_fill_f32(&rng, LF_STYLE_NORMAL, 0.5f, post, ROWS * STREAMS);
    lf_check_fill_f32(&rng, LF_STYLE_NORMAL, 0.5f, comb, ROWS * STREAMS * STREAMS);
    x[DIM + 3] = 0xFF80, b[DIM] = 0x7FC9;
    struct lf_hc_expand_args shape = {.streams = STREAMS, .dim = DIM};
    struct lf_rows_case c = {.name = "hc_expand", .shape = &shape, .rows = ROWS, .operands = 4,
                             .operand = {{LF_ROWS_INOUT, STREAMS * DIM * 2, x},
                                         {LF_ROWS_IN, DIM * 2, b},
                                         {LF_ROWS_IN, STREAMS * 4, post},
                                         {LF_ROWS_IN, STREAMS * STREAMS * 4, comb}},
                             .run = run};
    lf_rows_check(&c);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_element_is_within_its_bound),
        cmocka_unit_test(the_sum_runs_over_the_first_index_of_comb),
        cmocka_unit_test(the_example_of_the_vectors_expands_as_published),
        cmocka_unit_test(rows_do_not_see_each_other),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
