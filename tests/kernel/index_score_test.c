#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/number.h"
#include "kernel/index_score/index_score.h"
#include "kernel_check.h"
#include "vectors.h"

static void the_vector_comes_out(void **state) {
    (void)state;
    json_t *file = vectors_load("blocks"), *v = vectors_get(file, "index");
    struct lf_pool *pool = lf_check_pool(1);
    uint16_t q[2][32] = {{0}}, weight[2];
    uint8_t keys[10 * 17] = {0}, *page = keys;
    float out[10];
    for (size_t h = 0; h < 2; h++) {
        weight[h] = lf_bf16_from_f32((float)vectors_number(vectors_get(v, "head_weight"), h));
        for (size_t d = 0; d < 2; d++)
            q[h][d] = lf_bf16_from_f32(
                (float)vectors_number(json_array_get(vectors_get(v, "iq"), h), d));
    }
    for (size_t s = 0; s < 10; s++) {
        const json_t *key = json_array_get(vectors_get(v, "keys"), s);
        keys[17 * s] = (uint8_t)(lf_e2m1_from_f32((float)vectors_number(key, 0)) |
                                 lf_e2m1_from_f32((float)vectors_number(key, 1)) << 4);
        keys[17 * s + 16] = 127;
    }
    const struct lf_row row = {0};
    const struct lf_paged paged = {&page};
    const uint32_t visible = 10;
    struct lf_index_score_args args = {
        .rows = 1, .heads = 2, .dim = 32, .row = &row, .q = q[0], .head_weight = weight,
        .weight_scale = 1.0f, .keys = &paged, .visible = &visible, .score = out,
        .score_stride = 10};
    lf_index_score_avx2(pool, &args);
    for (size_t s = 0; s < 10; s++)
        assert_true((double)out[s] == vectors_number(vectors_get(v, "scores"), s));
    lf_pool_close(pool);
    json_decref(file);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_vector_comes_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
