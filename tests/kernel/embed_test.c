// Embedding rows: exact copies for every stream, from any address.
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "base/number.h"
#include "kernel/embed/embed.h"
#include "kernel_check.h"

enum { VOCAB = 300, ROWS_MAX = 50 };

static void every_stream_holds_the_tokens_row_bit_for_bit(void **state) {
    (void)state;
    static const uint32_t rows[] = {1, 2, 17, ROWS_MAX}, dims[] = {256, 33};
    struct lf_check_rng rng = {41};
    for (uint32_t c = 0; c < 16; c++) {
        uint32_t n = rows[c % 4], dim = dims[c / 4 % 2], streams = c < 8 ? 4 : 1;
        struct lf_check_buffer data = lf_check_open((size_t)VOCAB * dim * 2, c % 4);
        struct lf_check_buffer out = lf_check_open((size_t)n * streams * dim * 2, 0);
        struct lf_pool *pool = lf_check_pool(1 + c % 3);
        uint8_t *bytes = data.data;
        for (size_t i = 0; i < data.bytes; i++)
            bytes[i] = (uint8_t)lf_check_next(&rng);
        struct lf_matrix table = {LF_WEIGHT_BF16, VOCAB, dim, bytes, NULL};
        struct lf_row row[ROWS_MAX] = {0};
        for (uint32_t r = 0; r < n; r++)
            row[r].token = r % 3 ? lf_check_below(&rng, VOCAB) : r % 2 * (VOCAB - 1);
        struct lf_embed_args args = {n, streams, row, &table, out.data};
        for (enum lf_isa i = LF_ISA_PORTABLE; i < LF_ISAS; i++) {
            if (!lf_isa_present(i))
                continue;
            lf_check_poison(&out, 0xEE);
            lf_check_kernels(i)->embed(pool, &args);
            for (uint32_t k = 0; k < n * streams; k++)
                lf_check_same("embed", (uint8_t *)out.data + (size_t)k * dim * 2,
                              bytes + (size_t)row[k / streams].token * dim * 2, dim * 2);
            lf_check_guards(&out, "streams");
        }
        lf_check_guards(&data, "table");
        lf_check_close(&data);
        lf_check_close(&out);
        lf_pool_close(pool);
    }
}

static void the_float64_reference_reads_the_same_rows(void **state) {
    (void)state;
    enum { DIM = 32 };
    struct lf_check_rng rng = {42};
    struct lf_pool *pool = lf_check_pool(1);
    uint16_t data[VOCAB * DIM], out[3 * 2 * DIM];
    double ref[3 * 2 * DIM];
    lf_check_fill_bf16(&rng, LF_STYLE_WIDE, 1.0f, data, VOCAB * DIM);
    struct lf_matrix table = {LF_WEIGHT_BF16, VOCAB, DIM, (uint8_t *)data, NULL};
    struct lf_row row[3] = {{.token = 0}, {.token = VOCAB - 1}, {.token = 7}};
    struct lf_embed_args args = {3, 2, row, &table, out};
    lf_embed_f64(&args, ref);
    for (enum lf_isa i = LF_ISA_PORTABLE; i < LF_ISAS; i++) {
        if (!lf_isa_present(i))
            continue;
        memset(out, 0xFF, sizeof out);
        lf_check_kernels(i)->embed(pool, &args);
        for (uint32_t k = 0; k < 3 * 2 * DIM; k++)
            assert_true((double)lf_bf16_to_f32(out[k]) == ref[k]);
    }
    lf_pool_close(pool);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_stream_holds_the_tokens_row_bit_for_bit),
        cmocka_unit_test(the_float64_reference_reads_the_same_rows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
