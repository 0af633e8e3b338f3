#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include "base/number.h"
#include "kernel/compress_pool/compress_pool.h"
#include "kernel_check.h"
#include "vectors.h"

enum { DIM = 75 };

// equal gates are a plain mean; a far lower gate leaves the other value alone
static void known_gates_give_known_entries(void **state) {
    (void)state;
    static float row[2][2 * DIM]; // v then g
    uint16_t y[DIM];
    for (uint32_t d = 0; d < DIM; d++) {
        row[0][d] = 1.5f;
        row[1][d] = -0.5f;
        row[0][DIM + d] = d % 2 ? 40.0f : 1e30f;
        row[1][DIM + d] = d % 2 ? 40.0f : -1e30f;
    }
    row[1][DIM + 7] = NAN;
    const float *first = row[0], *second = row[1];
    struct lf_device *device = lf_check_device(1);
    struct lf_compress_pool_args args = {.entries = 1, .dim = DIM, .first = &first,
                                         .second = &second, .y = y};
    lf_compress_pool_avx2(device, &args);
    for (uint32_t d = 0; d < DIM; d++)
        assert_int_equal(y[d], d == 7 ? 0x7FC0 : d % 2 ? 0x3F00 : 0x3FC0);
    lf_check_device_close(device);
}

static void the_vector_comes_out(void **state) {
    (void)state;
    json_t *file = vectors_load("blocks"), *v = vectors_get(file, "compressor_ratio2");
    struct lf_device *device = lf_check_device(1);
    float rows[2][6];
    uint16_t y[3];
    static const char *const names[2][2] = {{"kv0", "score0"}, {"kv1", "score1"}};
    for (size_t i = 0; i < 12; i++)
        rows[i / 6][i % 6] =
            (float)vectors_number(vectors_get(v, names[i / 6][i % 6 / 3]), i % 3);
    const float *first = rows[0], *second = rows[1];
    struct lf_compress_pool_args args = {.entries = 1, .dim = 3, .first = &first,
                                         .second = &second, .y = y};
    lf_compress_pool_avx2(device, &args);
    for (size_t i = 0; i < 3; i++)
        assert_true((double)lf_bf16_to_f32(y[i]) ==
                    vectors_number(vectors_get(v, "pooled_bf16"), i));
    lf_check_device_close(device);
    json_decref(file);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_vector_comes_out),
        cmocka_unit_test(known_gates_give_known_entries),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
