#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "base/number.h"
#include "kernel/swiglu/swiglu.h"
#include "kernel_check.h"
#include "rows_check.h"
#include "vectors.h"

enum { ROWS = 4, DIM = 300 };

static void run(const void *shape, struct lf_pool *pool, enum lf_isa isa, uint32_t rows,
                void *const *operand) {
    struct lf_swiglu_args args = *(const struct lf_swiglu_args *)shape;
    args.rows = rows;
    args.gate = operand[0], args.up = operand[1], args.y = operand[2];
    args.weight = args.weight ? operand[3] : NULL;
    lf_check_kernels(isa)->swiglu(pool, &args);
}

// Seven roundings and exp's ulp; below -86 the sigmoid may be flushed, which is tiny in itself.
static double error_of(double g, double u, double weight, double ref) {
    double tiny = g > -120 && g < -86 ? fabs(g) * 0x1p-124 : 0x1p-149;
    return lf_check_gamma(9) * fabs(ref) + (tiny * 10 + 0x1p-149) * (fabs(weight) + 1) +
           0x1p-149 * fabs(u);
}

static void check_bound(enum lf_check_style style, float scale, uint32_t dim, bool weighted) {
    struct lf_check_rng rng = {.state = 51 + style};
    size_t n = (size_t)ROWS * dim;
    uint16_t *gate = calloc(n, 2), *up = calloc(n, 2), *y = calloc(n, 2);
    double *ref = calloc(n, 8), *error = calloc(n, 8);
    float weight[ROWS];
    assert_true(gate && up && y && ref && error);
    lf_check_fill_bf16(&rng, style, scale, gate, n);
    lf_check_fill_bf16(&rng, style, scale, up, n);
    lf_check_fill_f32(&rng, LF_STYLE_NORMAL, 0.5f, weight, ROWS);
    struct lf_swiglu_args args = {.rows = ROWS, .dim = dim, .limit = 10.0f};
    args.gate = gate, args.up = up, args.y = y, args.weight = weighted ? weight : NULL;
    lf_swiglu_f64(&args, ref);
    for (size_t i = 0; i < n; i++)
        error[i] = error_of((double)lf_bf16_to_f32(gate[i]), (double)lf_bf16_to_f32(up[i]),
                            weighted ? (double)weight[i / dim] : 1, ref[i]);
    struct lf_pool *pool = lf_check_pool(1);
    lf_swiglu_portable(pool, &args);
    lf_check_bound_bf16(lf_check_style_name(style), y, ref, error, n);
    lf_pool_close(pool);
    free(gate), free(up), free(y), free(ref), free(error);
}

static void every_element_is_within_its_bound(void **state) {
    (void)state;
    for (enum lf_check_style style = 0; style < LF_STYLES; style++) {
        check_bound(style, 1.0f, DIM, true);
        check_bound(style, 6.0f, 513, false);
        check_bound(style, 60.0f, 7, true);
    }
}

static float one(float gate, float up, float limit, const float *weight, struct lf_pool *pool) {
    uint16_t g = lf_bf16_from_f32(gate), u = lf_bf16_from_f32(up), y;
    struct lf_swiglu_args args = {.rows = 1, .dim = 1, .limit = limit, .gate = &g, .up = &u};
    args.y = &y, args.weight = weight;
    lf_swiglu_portable(pool, &args);
    return lf_bf16_to_f32(y);
}

static void the_examples_of_the_vectors_come_out_as_published(void **state) {
    (void)state;
    json_t *file = vectors_load("blocks"), *list = vectors_get(file, "expert_activation"), *item;
    struct lf_pool *pool = lf_check_pool(1);
    size_t i;
    json_array_foreach(list, i, item) {
        double want = json_number_value(vectors_get(item, "h"));
        double got = (double)one((float)json_number_value(vectors_get(item, "gate")),
                                 (float)json_number_value(vectors_get(item, "up")), 10.0f, NULL,
                                 pool);
        assert_true(fabs(got - want) <= 0x1p-7 * fabs(want));
    }
    assert_true(i >= 5);
    lf_pool_close(pool);
    json_decref(file);
}

static void up_is_clamped_on_both_sides_and_gate_only_above(void **state) {
    (void)state;
    struct lf_pool *pool = lf_check_pool(1);
    assert_true(one(0.5f, 12.0f, 10.0f, NULL, pool) == one(0.5f, 10.0f, 10.0f, NULL, pool));
    assert_true(one(0.5f, -12.0f, 10.0f, NULL, pool) == one(0.5f, -10.0f, 10.0f, NULL, pool));
    assert_true(one(12.0f, 1.0f, 10.0f, NULL, pool) == one(10.0f, 1.0f, 10.0f, NULL, pool));
    assert_true(one(-12.0f, 1.0f, 10.0f, NULL, pool) != one(-10.0f, 1.0f, 10.0f, NULL, pool));
    assert_true(one(INFINITY, 1.0f, 10.0f, NULL, pool) == one(10.0f, 1.0f, 10.0f, NULL, pool));
    assert_true(one(0.5f, -INFINITY, 10.0f, NULL, pool) == one(0.5f, -10.0f, 10.0f, NULL, pool));
    lf_pool_close(pool);
}

static void a_nan_passes_the_clamps(void **state) {
    (void)state;
    struct lf_pool *pool = lf_check_pool(1);
    float weight = NAN;
    assert_true(isnan(one(NAN, 1.0f, 10.0f, NULL, pool)));
    assert_true(isnan(one(1.0f, NAN, 10.0f, NULL, pool)));
    assert_true(isnan(one(1.0f, 1.0f, 10.0f, &weight, pool)));
    lf_pool_close(pool);
}

static void the_output_may_lie_over_an_input(void **state) {
    (void)state;
    struct lf_check_rng rng = {.state = 8};
    uint16_t gate[2 * DIM], up[2 * DIM], y[2 * DIM];
    lf_check_fill_bf16(&rng, LF_STYLE_NORMAL, 2.0f, gate, 2 * DIM);
    lf_check_fill_bf16(&rng, LF_STYLE_NORMAL, 2.0f, up, 2 * DIM);
    struct lf_swiglu_args args = {.rows = 2, .dim = DIM, .limit = 10.0f, .gate = gate, .up = up};
    struct lf_pool *pool = lf_check_pool(1);
    args.y = y;
    lf_swiglu_portable(pool, &args);
    args.y = gate;
    lf_swiglu_portable(pool, &args);
    lf_check_same("in place", gate, y, sizeof y);
    lf_pool_close(pool);
}

static void rows_do_not_see_each_other(void **state) {
    (void)state;
    struct lf_check_rng rng = {.state = 3};
    uint16_t gate[ROWS * DIM], up[ROWS * DIM];
    float weight[ROWS];
    lf_check_fill_bf16(&rng, LF_STYLE_NORMAL, 6.0f, gate, ROWS * DIM);
    lf_check_fill_bf16(&rng, LF_STYLE_WIDE, 6.0f, up, ROWS * DIM);
    lf_check_fill_f32(&rng, LF_STYLE_NORMAL, 0.5f, weight, ROWS);
    gate[3] = 0xFF80, gate[4] = 0x7FC3, up[5] = 0xFFFF;
    struct lf_swiglu_args shape = {.dim = DIM, .limit = 10.0f, .weight = weight};
    struct lf_rows_case c = {.name = "swiglu", .shape = &shape, .rows = ROWS, .operands = 4,
                             .operand = {{LF_ROWS_IN, DIM * 2, gate},
                                         {LF_ROWS_IN, DIM * 2, up},
                                         {LF_ROWS_OUT, DIM * 2, NULL},
                                         {LF_ROWS_IN, 4, weight}},
                             .run = run};
    lf_rows_check(&c);
    shape.weight = NULL;
    lf_rows_check(&c);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_element_is_within_its_bound),
        cmocka_unit_test(the_examples_of_the_vectors_come_out_as_published),
        cmocka_unit_test(up_is_clamped_on_both_sides_and_gate_only_above),
        cmocka_unit_test(a_nan_passes_the_clamps),
        cmocka_unit_test(the_output_may_lie_over_an_input),
        cmocka_unit_test(rows_do_not_see_each_other),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
