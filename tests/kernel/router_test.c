#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include "kernel/router/router.h"
#include "kernel_check.h"
#include "vectors.h"

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
    struct lf_device *device = lf_check_device(1);
    lf_router_portable(device, &args);
    assert_int_equal(json_object_size(want), 3);
    for (size_t k = 0; k < 3; k++) {
        char name[16];
        snprintf(name, sizeof name, "%u", id[k]);
        double w = json_number_value(vectors_get(want, name));
        assert_true(fabs((double)weight[k] - w) <= 0x1p-20 * w);
        assert_true(k == 0 || id[k] > id[k - 1]);
    }
    lf_check_device_close(device);
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
    struct lf_device *device = lf_check_device(1);
    lf_router_portable(device, &args);
    lf_check_device_close(device);
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

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_and_image_rows_of_the_vectors_route_as_published),
        cmocka_unit_test(equal_keys_go_to_the_lower_id),
        cmocka_unit_test(a_nan_is_chosen_only_when_numbers_run_out_and_then_shows),
        cmocka_unit_test(scores_that_all_vanish_give_zero_weights),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
