#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "base/number.h"
#include "kernel/expert_join/expert_join.h"
#include "kernel_check.h"
#include "rows_check.h"

enum { ROWS = 4, TOP = 6, PAIRS = ROWS * TOP, DIM = 300 };

static void run(const void *shape, struct lf_pool *pool, enum lf_isa isa, uint32_t rows,
                void *const *operand) {
    struct lf_expert_join_args args = *(const struct lf_expert_join_args *)shape;
    args.rows = rows;
    args.pair = operand[0], args.shared = operand[1], args.y = operand[2];
    lf_check_kernels(isa)->expert_join(pool, &args);
}

// Pairs in no order of rows: a bijection of the places.
static void deal_pairs(uint32_t *pair, size_t n) {
    for (size_t i = 0; i < n; i++)
        pair[i] = (uint32_t)(i * 5 % n);
}

static void check_bound(enum lf_check_style style, uint32_t top, uint32_t dim, bool shared) {
    struct lf_check_rng rng = {.state = 41 + style};
    size_t n = (size_t)ROWS * dim, pairs = (size_t)ROWS * top;
    uint16_t *expert = calloc(pairs * dim, 2), *extra = calloc(n, 2), *y = calloc(n, 2);
    uint32_t *pair = calloc(pairs, 4);
    double *ref = calloc(n, 8), *error = calloc(n, 8);
    assert_true(expert && extra && y && pair && ref && error);
    deal_pairs(pair, pairs);
    lf_check_fill_bf16(&rng, style, 1.0f, expert, pairs * dim);
    lf_check_fill_bf16(&rng, style, 1.0f, extra, n);
    struct lf_expert_join_args args = {.rows = ROWS, .top = top, .dim = dim, .y = y};
    args.expert = expert, args.pair = pair, args.shared = shared ? extra : NULL;
    lf_expert_join_f64(&args, ref);
    for (size_t i = 0; i < n; i++) {
        error[i] = shared ? fabs((double)lf_bf16_to_f32(extra[i])) : 0;
        for (size_t k = 0; k < top; k++)
            error[i] += fabs((double)lf_bf16_to_f32(
                expert[pair[i / dim * top + k] * (size_t)dim + i % dim]));
        error[i] *= lf_check_gamma(top);
    }
    struct lf_pool *pool = lf_check_pool(1);
    lf_expert_join_portable(pool, &args);
    lf_check_bound_bf16(lf_check_style_name(style), y, ref, error, n);
    lf_pool_close(pool);
    free(expert), free(extra), free(y), free(pair), free(ref), free(error);
}

static void every_element_is_within_its_bound(void **state) {
    (void)state;
    for (enum lf_check_style style = 0; style < LF_STYLES; style++) {
        check_bound(style, TOP, DIM, true);
        check_bound(style, 1, 7, false);
        check_bound(style, 3, 513, false);
    }
}

static void the_sum_goes_by_the_order_of_the_pairs_and_shared_is_last(void **state) {
    (void)state;
    uint16_t big = lf_bf16_from_f32(0x1p30f), one = lf_bf16_from_f32(1.0f);
    uint16_t expert[3] = {big, one, (uint16_t)(big ^ 0x8000)}, shared[1] = {one}, y[1];
    uint32_t pair[3] = {0, 1, 2}, other[3] = {0, 2, 1};
    struct lf_expert_join_args args = {.rows = 1, .top = 3, .dim = 1, .y = y, .expert = expert};
    struct lf_pool *pool = lf_check_pool(1);
    args.pair = pair, args.shared = shared;
    lf_expert_join_portable(pool, &args);
    assert_int_equal(y[0], one);
    args.pair = other;
    lf_expert_join_portable(pool, &args);
    assert_int_equal(y[0], lf_bf16_from_f32(2.0f));
    lf_pool_close(pool);
}

static void rows_do_not_see_each_other(void **state) {
    (void)state;
    struct lf_check_rng rng = {.state = 3};
    uint16_t expert[PAIRS * DIM], shared[ROWS * DIM];
    uint32_t pair[PAIRS];
    deal_pairs(pair, PAIRS);
    lf_check_fill_bf16(&rng, LF_STYLE_NORMAL, 3.0f, expert, PAIRS * DIM);
    lf_check_fill_bf16(&rng, LF_STYLE_NORMAL, 3.0f, shared, ROWS * DIM);
    expert[3] = 0x7FC3, shared[DIM] = 0xFF80;
    struct lf_expert_join_args shape = {.top = TOP, .dim = DIM, .expert = expert};
    struct lf_rows_case c = {.name = "expert_join", .shape = &shape, .rows = ROWS, .operands = 3,
                             .operand = {{LF_ROWS_FIXED, TOP * 4, pair},
                                         {LF_ROWS_IN, DIM * 2, shared},
                                         {LF_ROWS_OUT, DIM * 2, NULL}},
                             .run = run};
    lf_rows_check(&c);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_element_is_within_its_bound),
        cmocka_unit_test(the_sum_goes_by_the_order_of_the_pairs_and_shared_is_last),
        cmocka_unit_test(rows_do_not_see_each_other),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
