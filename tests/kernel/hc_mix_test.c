#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "base/number.h"
#include "kernel/hc_mix/hc_mix.h"
#include "kernel_check.h"
#include "rows_check.h"
#include "vectors.h"

// A launch whose weights lie at odd addresses; outs = streams * (2 + streams).
struct launch {
    struct lf_hc_mix_args args;
    uint32_t outs;
    size_t n;
    uint16_t *x;
    char *fn;
    float base[80], scale[3];
    float *pre, *post, *comb;
};

static struct launch open_launch(enum lf_check_style style, uint32_t rows, uint32_t s,
                                 uint32_t dim) {
    struct launch l = {.outs = s * (2 + s), .n = (size_t)s * dim, .scale = {0.7f, 1.1f, 0.9f}};
    struct lf_check_rng rng = {.state = 81 + style};
    l.x = calloc(rows * l.n, 2), l.fn = calloc(l.outs * l.n + 1, 4);
    l.pre = calloc((size_t)rows * l.outs, 4);
    l.post = l.pre + (size_t)rows * s, l.comb = l.post + (size_t)rows * s;
    assert_true(l.x && l.fn && l.pre);
    lf_check_fill_bf16(&rng, style, 3.0f, l.x, rows * l.n);
    lf_check_fill_f32(&rng, LF_STYLE_NORMAL, (float)(1 / sqrt((double)l.n)),
                      (float *)(void *)l.fn, l.outs * l.n);
    lf_check_fill_f32(&rng, LF_STYLE_NORMAL, 1.0f, l.base, l.outs);
    memmove(l.fn + 1, l.fn, l.outs * l.n * 4);
    l.args = (struct lf_hc_mix_args){.rows = rows, .streams = s, .dim = dim, .sinkhorn_iters = 20};
    l.args.hc_eps = 1e-6f, l.args.norm_eps = 1e-20f;
    l.args.x = l.x, l.args.fn = (const float *)(const void *)(l.fn + 1);
    l.args.pre = l.pre, l.args.post = l.post, l.args.comb = l.comb;
    return l;
}

// The arrays inside the launch are pointed at where it lies now.
static void settle_launch(struct launch *l) {
    l->args.base = l->base, l->args.scale = l->scale;
}

static void close_launch(struct launch *l) {
    free(l->x), free(l->fn), free(l->pre);
}

// How far m * scale + base of output o may be off: the sum, rho, three roundings.
static double logit_error(const struct launch *l, size_t row, size_t o) {
    double sum = 0, dot = 0, squares = 0, depth = (double)(l->n / 16 + 5);
    for (size_t k = 0; k < l->n; k++) {
        float w;
        memcpy(&w, l->fn + 1 + 4 * (o * l->n + k), sizeof w);
        double x = (double)lf_bf16_to_f32(l->x[row * l->n + k]);
        dot += (double)w * x, sum += fabs((double)w * x), squares += x * x;
    }
    uint32_t s = l->args.streams;
    double scale = (double)fabsf(l->scale[o < s ? 0 : o < 2 * s ? 1 : 2]);
    double rho = 1 / sqrt(squares / (double)l->n + 1e-20) * scale;
    return lf_check_gamma(depth) * sum * rho + lf_check_gamma(depth / 2 + 7) * fabs(dot * rho) +
           lf_check_gamma(1) * fabs((double)l->base[o]);
}

// Limits of a row: sigmoids by slope; Sinkhorn's scalings add the logit's error a pass at most.
static void row_limits(const struct launch *l, size_t row, const double *ref, double *limit) {
    uint32_t s = l->args.streams;
    double worst = 0, passes = 2.0 * l->args.sinkhorn_iters + 1;
    for (uint32_t o = 0; o < 2 * s; o++)
        limit[o] = (o < s ? 1 : 2) * (0.25 * logit_error(l, row, o) + lf_check_gamma(5));
    for (uint32_t o = 2 * s; o < l->outs; o++)
        worst = fmax(worst, logit_error(l, row, o));
    for (uint32_t o = 2 * s; o < l->outs; o++)
        limit[o] = passes * (worst + lf_check_gamma(s + 4)) * ref[o];
}

static void check_bound(enum lf_check_style style, uint32_t rows, uint32_t s, uint32_t dim) {
    struct launch l = open_launch(style, rows, s, dim);
    settle_launch(&l);
    double *ref = calloc((size_t)rows * l.outs, 8), limit[80];
    assert_non_null(ref);
    lf_hc_mix_f64(&l.args, ref);
    struct lf_pool *pool = lf_check_pool(2);
    for (enum lf_isa isa = LF_ISA_PORTABLE; isa < LF_ISAS; isa++) {
        if (!lf_isa_present(isa))
            continue;
        lf_check_kernels(isa)->hc_mix(pool, &l.args);
        for (size_t row = 0; row < rows; row++) {
            const double *line = ref + row * l.outs;
            row_limits(&l, row, line, limit);
            lf_check_bound_f32("pre", l.pre + row * s, line, limit, s);
            lf_check_bound_f32("post", l.post + row * s, line + s, limit + s, s);
            lf_check_bound_f32("comb", l.comb + row * s * s, line + 2 * s, limit + 2 * s,
                               (size_t)s * s);
        }
    }
    lf_pool_close(pool);
    free(ref);
    close_launch(&l);
}

static void every_element_is_within_its_bound(void **state) {
    (void)state;
    for (enum lf_check_style style = 0; style < LF_STYLES; style++) {
        check_bound(style, 3, 4, 256);
        check_bound(style, 2, 1, 7);
        check_bound(style, 2, 2, 33);
        check_bound(style, 2, 8, 20);
    }
    check_bound(LF_STYLE_NORMAL, 21, 4, 300);
    check_bound(LF_STYLE_NORMAL, 1, 4, 5120);
}

// Rows of ones make rho 1 and m the first column of fn.
static void the_split_of_the_vectors_comes_out_as_published(void **state) {
    (void)state;
    json_t *file = vectors_load("hc"), *part = vectors_get(file, "split");
    uint16_t x[4] = {0x3F80, 0x3F80, 0x3F80, 0x3F80};
    float fn[24][4] = {{0}}, base[24], scale[3], pre[4], post[4], comb[16];
    for (size_t o = 0; o < 24; o++) {
        fn[o][0] = (float)vectors_number(vectors_get(part, "mix"), o);
        base[o] = (float)vectors_number(vectors_get(part, "base"), o);
    }
    for (size_t i = 0; i < 3; i++)
        scale[i] = (float)vectors_number(vectors_get(part, "scale"), i);
    struct lf_hc_mix_args args = {.rows = 1, .streams = 4, .dim = 1, .x = x, .fn = fn[0]};
    args.base = base, args.scale = scale, args.sinkhorn_iters = 20;
    args.hc_eps = 1e-6f, args.norm_eps = 1e-20f;
    args.pre = pre, args.post = post, args.comb = comb;
    struct lf_pool *pool = lf_check_pool(1);
    lf_hc_mix_portable(pool, &args);
    for (size_t i = 0; i < 4; i++) {
        assert_true(fabs((double)pre[i] - vectors_number(vectors_get(part, "pre"), i)) < 3e-7);
        assert_true(fabs((double)post[i] - vectors_number(vectors_get(part, "post"), i)) < 6e-7);
        for (size_t j = 0; j < 4; j++)
            assert_true(fabs((double)comb[i * 4 + j] -
                             vectors_number(json_array_get(vectors_get(part, "comb"), i), j)) <
                        1e-6);
    }
    lf_pool_close(pool);
    json_decref(file);
}

// The streams of this vector are no bf16 numbers: what is left is their rounding.
static void the_whole_mix_of_the_vectors_is_near_the_published_one(void **state) {
    (void)state;
    json_t *file = vectors_load("hc"), *part = vectors_get(file, "mixes");
    uint16_t x[8];
    float fn[24][8], base[24], scale[3], pre[4], post[4], comb[16];
    for (size_t k = 0; k < 8; k++)
        x[k] = lf_bf16_from_f32(
            (float)vectors_number(json_array_get(vectors_get(part, "X"), k / 2), k % 2));
    for (size_t o = 0; o < 24; o++) {
        for (size_t k = 0; k < 8; k++)
            fn[o][k] = (float)sin(0.3 * (double)o + 0.7 * (double)k);
        base[o] = (float)vectors_number(vectors_get(part, "base"), o);
    }
    for (size_t i = 0; i < 3; i++)
        scale[i] = (float)vectors_number(vectors_get(part, "scale"), i);
    struct lf_hc_mix_args args = {.rows = 1, .streams = 4, .dim = 2, .x = x, .fn = fn[0]};
    args.base = base, args.scale = scale, args.sinkhorn_iters = 20;
    args.hc_eps = 1e-6f, args.norm_eps = 1e-20f;
    args.pre = pre, args.post = post, args.comb = comb;
    struct lf_pool *pool = lf_check_pool(1);
    lf_hc_mix_portable(pool, &args);
    for (size_t i = 0; i < 4; i++) {
        assert_true(fabs((double)pre[i] - vectors_number(vectors_get(part, "pre"), i)) < 5e-4);
        assert_true(fabs((double)post[i] - vectors_number(vectors_get(part, "post"), i)) < 1e-3);
        for (size_t j = 0; j < 4; j++)
            assert_true(fabs((double)comb[i * 4 + j] -
                             vectors_number(json_array_get(vectors_get(part, "comb"), i), j)) <
                        1e-3);
    }
    lf_pool_close(pool);
    json_decref(file);
}

static void a_zero_row_mixes_by_its_base_alone(void **state) {
    (void)state;
    struct launch l = open_launch(LF_STYLE_NORMAL, 1, 4, 64);
    settle_launch(&l);
    memset(l.x, 0, l.n * 2);
    struct lf_pool *pool = lf_check_pool(1);
    lf_hc_mix_portable(pool, &l.args);
    for (int j = 0; j < 4; j++) {
        double want = 1 / (1 + exp(-(double)l.base[j])) + 1e-6;
        assert_true(fabs((double)l.pre[j] - want) < 3e-7);
    }
    lf_pool_close(pool);
    close_launch(&l);
}

static void run(const void *shape, struct lf_pool *pool, enum lf_isa isa, uint32_t rows,
                void *const *operand) {
    struct lf_hc_mix_args args = *(const struct lf_hc_mix_args *)shape;
    args.rows = rows;
    args.x = operand[0];
    args.pre = operand[1], args.post = operand[2], args.comb = operand[3];
    lf_check_kernels(isa)->hc_mix(pool, &args);
}

static void check_rows(uint32_t s, uint32_t dim) {
    struct launch l = open_launch(LF_STYLE_NORMAL, 4, s, dim);
    settle_launch(&l);
    l.x[l.n + 3] = 0x7FC5, l.x[2 * l.n] = 0x7F80;
    struct lf_rows_case c = {.name = "hc_mix", .shape = &l.args, .rows = 4, .operands = 4,
                             .run = run};
    c.operand[0] = (struct lf_rows_operand){LF_ROWS_IN, l.n * 2, l.x};
    c.operand[1] = (struct lf_rows_operand){LF_ROWS_OUT, s * 4, NULL};
    c.operand[2] = (struct lf_rows_operand){LF_ROWS_OUT, s * 4, NULL};
    c.operand[3] = (struct lf_rows_operand){LF_ROWS_OUT, (size_t)s * s * 4, NULL};
    lf_rows_check(&c);
    close_launch(&l);
}

static void rows_do_not_see_each_other(void **state) {
    (void)state;
    check_rows(4, 300);
    check_rows(2, 33);
}

// Calls above and below 16 rows split outputs and elements differently.
static void rows_of_a_long_call_equal_rows_alone(void **state) {
    (void)state;
    enum { ROWS = 37, S = 4, DIM = 300 };
    struct launch l = open_launch(LF_STYLE_NORMAL, ROWS, S, DIM);
    settle_launch(&l);
    float alone[S * (2 + S)];
    struct lf_pool *pool = lf_check_pool(3);
    for (enum lf_isa isa = LF_ISA_PORTABLE; isa < LF_ISAS; isa++) {
        if (!lf_isa_present(isa))
            continue;
        lf_check_kernels(isa)->hc_mix(pool, &l.args);
        for (uint32_t row = 0; row < ROWS; row++) {
            struct lf_hc_mix_args one = l.args;
            one.rows = 1, one.x = l.x + row * l.n;
            one.pre = alone, one.post = alone + S, one.comb = alone + 2 * S;
            lf_hc_mix_portable(pool, &one);
            lf_check_same("pre", l.pre + (size_t)row * S, one.pre, S * 4);
            lf_check_same("post", l.post + (size_t)row * S, one.post, S * 4);
            lf_check_same("comb", l.comb + (size_t)row * S * S, one.comb, S * S * 4);
        }
    }
    lf_pool_close(pool);
    close_launch(&l);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_element_is_within_its_bound),
        cmocka_unit_test(the_split_of_the_vectors_comes_out_as_published),
        cmocka_unit_test(the_whole_mix_of_the_vectors_is_near_the_published_one),
        cmocka_unit_test(a_zero_row_mixes_by_its_base_alone),
        cmocka_unit_test(rows_do_not_see_each_other),
        cmocka_unit_test(rows_of_a_long_call_equal_rows_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
