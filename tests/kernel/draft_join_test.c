#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "base/number.h"
#include "kernel/draft_join/draft_join.h"
#include "kernel_check.h"
#include "rows_check.h"

enum { ROWS = 4, VOCAB = 300 };

static void run(const void *shape, struct lf_pool *pool, enum lf_isa isa, uint32_t rows,
                void *const *operand) {
    struct lf_draft_join_args args = *(const struct lf_draft_join_args *)shape;
    args.rows = rows;
    args.bias = operand[0], args.logits = operand[1];
    lf_check_kernels(isa)->draft_join(pool, &args);
}

// Rows apart by more than the vocabulary: what lies between them must stay.
static void check_bound(enum lf_check_style style, uint32_t vocab, uint32_t threads) {
    struct lf_check_rng rng = {.state = 11 + style};
    size_t n = (size_t)ROWS * vocab, stride = vocab + 5u;
    float *logits = calloc(ROWS * stride, 4), *bias = calloc(n, 4), *got = calloc(n, 4);
    double *ref = calloc(n, 8), *error = calloc(n, 8);
    assert_true(logits && bias && got && ref && error);
    lf_check_fill_f32(&rng, style, 9.0f, logits, ROWS * stride);
    lf_check_fill_f32(&rng, style, 9.0f, bias, n);
    float between = logits[vocab];
    struct lf_draft_join_args args = {.rows = ROWS, .vocab = vocab, .logits = logits,
                                      .logits_stride = stride, .bias = bias};
    lf_draft_join_f64(&args, ref);
    struct lf_pool *pool = lf_check_pool(threads);
    lf_draft_join_portable(pool, &args);
    for (size_t i = 0; i < n; i++) {
        got[i] = logits[i / vocab * stride + i % vocab];
        error[i] = fabs(ref[i]) * 0x1p-24 + 0x1p-149;
    }
    lf_check_bound_f32(lf_check_style_name(style), got, ref, error, n);
    assert_true(logits[vocab] == between);
    lf_pool_close(pool);
    free(logits), free(bias), free(got), free(ref), free(error);
}

static void every_element_is_within_its_bound(void **state) {
    (void)state;
    for (enum lf_check_style style = 0; style < LF_STYLES; style++) {
        check_bound(style, VOCAB, 1);
        check_bound(style, 1, 2);
        check_bound(style, 8192, 2);
        check_bound(style, 8193, 2);
    }
}

static void rows_do_not_see_each_other(void **state) {
    (void)state;
    static float logits[ROWS * VOCAB], bias[ROWS * VOCAB];
    struct lf_check_rng rng = {.state = 3};
    lf_check_fill_f32(&rng, LF_STYLE_NORMAL, 3.0f, logits, ROWS * VOCAB);
    lf_check_fill_f32(&rng, LF_STYLE_WIDE, 3.0f, bias, ROWS * VOCAB);
    logits[7] = INFINITY, bias[7] = -INFINITY;
    logits[9] = lf_f32_from_bits(0xFFC12345u), bias[11] = lf_f32_from_bits(0x7F812345u);
    struct lf_draft_join_args shape = {.vocab = VOCAB, .logits_stride = VOCAB};
    struct lf_rows_case c = {.name = "draft_join", .shape = &shape, .rows = ROWS, .operands = 2,
                             .operand = {{LF_ROWS_IN, VOCAB * 4, bias},
                                         {LF_ROWS_INOUT, VOCAB * 4, logits}},
                             .run = run};
    lf_rows_check(&c);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_element_is_within_its_bound),
        cmocka_unit_test(rows_do_not_see_each_other),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
