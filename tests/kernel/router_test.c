#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "base/number.h"
#include "kernel/router/router.h"
#include "kernel_check.h"
#include "rows_check.h"
#include "vectors.h"

enum { ROWS = 6, EXPERTS = 384, TOP = 6 };

static void run(const void *shape, struct lf_pool *pool, enum lf_isa isa, uint32_t rows,
                void *const *operand) {
    struct lf_router_args args = *(const struct lf_router_args *)shape;
    args.rows = rows;
    args.logits = operand[0], args.id = operand[1], args.weight = operand[2];
    lf_check_kernels(isa)->router(pool, &args);
}

// Ids equal where the margin is above twice a key's error; weights within their roundings.
static void check_bound(enum lf_check_style style, float scale, uint32_t experts, uint32_t top) {
    struct lf_check_rng rng = {.state = 61 + style};
    size_t line = 2 * (size_t)top + 1, outs = (size_t)ROWS * top;
    float *logits = calloc((size_t)ROWS * experts, 4), *bias = calloc(experts, 4);
    float *weight = calloc(outs, 4);
    uint32_t *id = calloc(outs, 4);
    double *ref = calloc(ROWS * line, 8);
    assert_true(logits && bias && weight && id && ref);
    lf_check_fill_f32(&rng, style, scale, logits, (size_t)ROWS * experts);
    lf_check_fill_f32(&rng, LF_STYLE_NORMAL, 0.1f, bias, experts);
    struct lf_router_args args = {.rows = ROWS, .experts = experts, .top = top, .bias = bias};
    args.logits = logits, args.route_scale = 1.5f, args.id = id, args.weight = weight;
    lf_router_f64(&args, ref);
    struct lf_pool *pool = lf_check_pool(1);
    lf_router_portable(pool, &args);
    for (size_t row = 0; row < ROWS; row++) {
        double key_error = lf_check_gamma(4) * (sqrt(fmax(20, 6e6 * (double)scale)) + 1);
        assert_true(ref[row * line + 2 * top] > 2 * key_error);
        for (size_t k = 0; k < top; k++) {
            double want = ref[row * line + top + k];
            assert_int_equal(id[row * top + k], (uint32_t)ref[row * line + k]);
            assert_true(fabs((double)weight[row * top + k] - want) <=
                        lf_check_gamma(top + 7) * want);
        }
    }
    lf_pool_close(pool);
    free(logits), free(bias), free(weight), free(id), free(ref);
}

static void choices_and_weights_agree_with_float64(void **state) {
    (void)state;
    check_bound(LF_STYLE_NORMAL, 2.0f, EXPERTS, TOP);
    check_bound(LF_STYLE_NORMAL, 30.0f, EXPERTS, TOP);
    check_bound(LF_STYLE_CANCELLING, 2.0f, 128, 3);
    check_bound(LF_STYLE_SPARSE, 2.0f, 32, 1);
    check_bound(LF_STYLE_NORMAL, 2.0f, 8, 8);
}

static void check_example(const json_t *part, const char *row, const char *bias_name) {
    json_t *want = vectors_get(vectors_get(part, row), "weights");
    float logits[8], bias[8], weight[3];
    uint32_t id[3];
    for (size_t i = 0; i < 8; i++) {
        logits[i] = (float)vectors_number(vectors_get(part, "logits"), i);
        bias[i] = (float)vectors_number(vectors_get(part, bias_name), i);
    }
    struct lf_router_args args = {.rows = 1, .experts = 8, .top = 3, .logits = logits};
    args.bias = bias, args.route_scale = 1.5f, args.id = id, args.weight = weight;
    struct lf_pool *pool = lf_check_pool(1);
    lf_router_portable(pool, &args);
    assert_int_equal(json_object_size(want), 3);
    for (size_t k = 0; k < 3; k++) {
        char name[16];
        snprintf(name, sizeof name, "%u", id[k]);
        double w = json_number_value(vectors_get(want, name));
        assert_true(fabs((double)weight[k] - w) <= 0x1p-20 * w);
        assert_true(k == 0 || id[k] > id[k - 1]);
    }
    lf_pool_close(pool);
}

static void text_and_image_rows_of_the_vectors_route_as_published(void **state) {
    (void)state;
    json_t *file = vectors_load("blocks"), *part = vectors_get(file, "router");
    check_example(part, "text_row", "bias");
    check_example(part, "image_row", "bias_vl");
    json_decref(file);
}

// Routes one row of 8 logits with no bias.
static void route(const float logits[8], uint32_t top, uint32_t *id, float *weight) {
    float bias[8] = {0};
    struct lf_router_args args = {.rows = 1, .experts = 8, .top = top, .logits = logits};
    args.bias = bias, args.route_scale = 1.0f, args.id = id, args.weight = weight;
    struct lf_pool *pool = lf_check_pool(1);
    lf_router_portable(pool, &args);
    lf_pool_close(pool);
}

static void equal_keys_go_to_the_lower_id(void **state) {
    (void)state;
    float logits[8] = {1, 2, 2, 3, 2, 2, 1, 2}, weight[8];
    uint32_t id[8];
    route(logits, 3, id, weight);
    assert_true(id[0] == 1 && id[1] == 2 && id[2] == 3);
    float zeros[8] = {-0.0f, 0.0f, -0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f};
    route(zeros, 4, id, weight);
    assert_true(id[0] == 0 && id[1] == 1 && id[2] == 2 && id[3] == 3);
    assert_true(weight[0] == 0.25f);
}

static void a_nan_is_chosen_only_when_numbers_run_out_and_then_shows(void **state) {
    (void)state;
    float logits[8] = {NAN, -5, NAN, -INFINITY, 1, NAN, -30, 2}, weight[8];
    uint32_t id[8];
    route(logits, 5, id, weight);
    assert_true(id[0] == 1 && id[1] == 3 && id[2] == 4 && id[3] == 6 && id[4] == 7);
    for (int k = 0; k < 5; k++)
        assert_false(isnan(weight[k]));
    route(logits, 6, id, weight);
    assert_true(id[0] == 0 && id[1] == 1 && id[5] == 7);
    for (int k = 0; k < 6; k++)
        assert_true(isnan(weight[k]));
}

static void scores_that_all_vanish_give_zero_weights(void **state) {
    (void)state;
    float logits[8], weight[8];
    uint32_t id[8];
    for (int i = 0; i < 8; i++)
        logits[i] = -INFINITY;
    route(logits, 3, id, weight);
    for (uint32_t k = 0; k < 3; k++)
        assert_true(id[k] == k && weight[k] == 0.0f);
}

static void rows_do_not_see_each_other(void **state) {
    (void)state;
    struct lf_check_rng rng = {.state = 3};
    float logits[ROWS * EXPERTS];
    _Alignas(4) char bytes[EXPERTS * 4 + 1];
    lf_check_fill_f32(&rng, LF_STYLE_NORMAL, 3.0f, logits, ROWS * EXPERTS);
    logits[EXPERTS + 5] = NAN, logits[2 * EXPERTS] = INFINITY;
    for (int i = 0; i < EXPERTS; i++)
        logits[3 * EXPERTS + i] = NAN;
    lf_check_fill_f32(&rng, LF_STYLE_NORMAL, 0.2f, (float *)(void *)bytes, EXPERTS);
    memmove(bytes + 1, bytes, EXPERTS * 4);
    struct lf_router_args shape = {.experts = EXPERTS, .top = TOP, .route_scale = 1.5f};
    shape.bias = (const float *)(const void *)(bytes + 1);
    struct lf_rows_case c = {.name = "router", .shape = &shape, .rows = ROWS, .operands = 3,
                             .operand = {{LF_ROWS_IN, EXPERTS * 4, logits},
                                         {LF_ROWS_OUT, TOP * 4, NULL},
                                         {LF_ROWS_OUT, TOP * 4, NULL}},
                             .run = run};
    lf_rows_check(&c);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(choices_and_weights_agree_with_float64),
        cmocka_unit_test(text_and_image_rows_of_the_vectors_route_as_published),
        cmocka_unit_test(equal_keys_go_to_the_lower_id),
        cmocka_unit_test(a_nan_is_chosen_only_when_numbers_run_out_and_then_shows),
        cmocka_unit_test(scores_that_all_vanish_give_zero_weights),
        cmocka_unit_test(rows_do_not_see_each_other),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
