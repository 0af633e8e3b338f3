// Are log-probabilities the softmax's, and their alternatives the best?
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "kernel/logprobs/logprobs.h"
#include "kernel_check.h"

// Both forms, whose bits must be the same.
static struct lf_logprob_row run_one(const float *logits, uint32_t vocab, uint32_t drawn,
                                     uint32_t top) {
    struct lf_logprob_row row, other;
    struct lf_logprobs_args args = {.rows = 1, .vocab = vocab, .logits = logits,
                                    .logits_stride = vocab, .drawn = &drawn, .top = top};
    struct lf_device *device = lf_check_device(1);
    memset(&row, 0x5A, sizeof row);
    memset(&other, 0xC3, sizeof other);
    args.row = &row;
    lf_logprobs_portable(device, &args);
    args.row = &other;
    lf_check_kernels(lf_isa_best())->logprobs(device, &args);
    lf_check_same("logprobs, both forms", &row, &other, sizeof row);
    lf_check_device_close(device);
    return row;
}

// engine.md S-22: 2e-6, and below -64 what float32 itself leaves.
static bool is_close(float out, double want) {
    double spacing = want < -64 ? fabs(want) * 0x1p-24 : 0;
    if (isinf((float)want))
        return isinf(out) && out < 0;
    if (isnan(want))
        return isnan(out);
    return fabs((double)out - want) <= 2e-6 + spacing;
}

static void check_row(const char *what, const float *logits, uint32_t vocab, uint32_t drawn,
                      uint32_t top) {
    double ref[LF_LOGPROBS_F64_COLUMNS];
    struct lf_logprobs_args args = {.rows = 1, .vocab = vocab, .logits = logits,
                                    .logits_stride = vocab, .drawn = &drawn, .top = top};
    lf_logprobs_f64(&args, ref);
    struct lf_logprob_row row = run_one(logits, vocab, drawn, top);
    if (!is_close(row.drawn, ref[0]))
        fail_msg("%s of %u: id %u is %.9g, by float64 %.17g", what, vocab, drawn,
                 (double)row.drawn, ref[0]);
    assert_int_equal(row.n, ref[1]);
    for (uint32_t i = 0; i < LF_LOGPROBS_MAX; i++) {
        assert_int_equal(row.id[i], ref[2 + i]);
        if (!is_close(row.value[i], ref[2 + LF_LOGPROBS_MAX + i]))
            fail_msg("%s of %u: alternative %u is %.9g, by float64 %.17g", what, vocab, i,
                     (double)row.value[i], ref[2 + LF_LOGPROBS_MAX + i]);
    }
}

// Known distributions, worked out by hand.
static void known_rows_come_out(void **state) {
    (void)state;
    float fourth[4] = {7, 7, 7, 7}, thirds[3] = {0, (float)log(2), -INFINITY};
    struct lf_logprob_row row = run_one(fourth, 4, 2, 3);
    assert_true(fabs((double)row.drawn + log(4)) < 1e-7 && row.n == 3);
    assert_true(row.id[0] == 0 && row.id[1] == 1 && row.id[2] == 2);
    assert_true(row.value[2] == row.drawn);
    row = run_one(thirds, 3, 0, 20);
    assert_true(fabs((double)row.drawn + log(3)) < 2e-7 && row.n == 2);
    assert_true(row.id[0] == 1 && fabs((double)row.value[0] - log(2.0 / 3)) < 2e-7);
    row = run_one(thirds, 1, 0, 20);
    assert_true(row.drawn == 0 && row.n == 1 && row.value[0] == 0);
}

static void ties_go_to_the_lower_id(void **state) {
    (void)state;
    static float logits[3000];
    for (int kind = 0; kind < 4; kind++) {
        for (uint32_t i = 0; i < 3000; i++)
            logits[i] = kind == 0   ? (float)(i % 7)
                        : kind == 1 ? (i % 3 ? 0.0f : -0.0f)
                        : kind == 2 ? (float)i // every id enters
                                    : -(float)i;
        check_row("ties", logits, 3000, 1501, 20);
    }
    for (uint32_t i = 0; i < 3000; i++)
        logits[i] = i % 3 ? 0.0f : -0.0f;
    struct lf_logprob_row row = run_one(logits, 3000, 0, 20);
    for (uint32_t i = 0; i < 20; i++)
        assert_int_equal(row.id[i], i);
}

static void rows_without_a_distribution_give_nan_and_no_alternatives(void **state) {
    (void)state;
    const float bad[] = {NAN, -NAN, INFINITY};
    float logits[100] = {0};
    for (uint32_t at = 0; at < 100; at += 33)
        for (int b = 0; b < 3; b++) {
            logits[at] = bad[b];
            struct lf_logprob_row row = run_one(logits, 100, 5, 20);
            assert_true(isnan(row.drawn) && row.n == 0 && row.id[0] == 0 && row.value[0] == 0);
            logits[at] = 0;
        }
    struct lf_logprob_row row = run_one(logits, 100, UINT32_MAX, 20);
    assert_true(isnan(row.drawn) && row.n == 20);
    for (uint32_t i = 0; i < 100; i++)
        logits[i] = -INFINITY;
    row = run_one(logits, 100, 5, 20);
    assert_true(isnan(row.drawn) && row.n == 0);
}

static void all_probabilities_sum_to_one(void **state) {
    (void)state;
    enum { VOCAB = 777 };
    float logits[VOCAB];
    double sum = 0;
    struct lf_check_rng rng = {.state = 5};
    lf_check_fill_f32(&rng, LF_STYLE_NORMAL, 3, logits, VOCAB);
    for (uint32_t id = 0; id < VOCAB; id++) {
        struct lf_logprob_row row = run_one(logits, VOCAB, id, 1);
        assert_true(row.drawn <= row.value[0] && (row.id[0] != id || row.drawn == row.value[0]));
        sum += exp((double)row.drawn);
    }
    assert_true(fabs(sum - 1) < 1e-6);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_rows_come_out),
        cmocka_unit_test(ties_go_to_the_lower_id),
        cmocka_unit_test(rows_without_a_distribution_give_nan_and_no_alternatives),
        cmocka_unit_test(all_probabilities_sum_to_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
