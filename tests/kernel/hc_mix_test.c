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
    struct lf_device *device = lf_check_device(1);
    lf_hc_mix_portable(device, &args);
    for (size_t i = 0; i < 4; i++) {
        assert_true(fabs((double)pre[i] - vectors_number(vectors_get(part, "pre"), i)) < 3e-7);
        assert_true(fabs((double)post[i] - vectors_number(vectors_get(part, "post"), i)) < 6e-7);
        for (size_t j = 0; j < 4; j++)
            assert_true(fabs((double)comb[i * 4 + j] -
                             vectors_number(json_array_get(vectors_get(part, "comb"), i), j)) <
                        1e-6);
    }
    lf_check_device_close(device);
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
    struct lf_device *device = lf_check_device(1);
    lf_hc_mix_portable(device, &args);
    for (size_t i = 0; i < 4; i++) {
        assert_true(fabs((double)pre[i] - vectors_number(vectors_get(part, "pre"), i)) < 5e-4);
        assert_true(fabs((double)post[i] - vectors_number(vectors_get(part, "post"), i)) < 1e-3);
        for (size_t j = 0; j < 4; j++)
            assert_true(fabs((double)comb[i * 4 + j] -
                             vectors_number(json_array_get(vectors_get(part, "comb"), i), j)) <
                        1e-3);
    }
    lf_check_device_close(device);
    json_decref(file);
}

static void a_zero_row_mixes_by_its_base_alone(void **state) {
    (void)state;
    struct launch l = open_launch(LF_STYLE_NORMAL, 1, 4, 64);
    settle_launch(&l);
    memset(l.x, 0, l.n * 2);
    struct lf_device *device = lf_check_device(1);
    lf_hc_mix_portable(device, &l.args);
    for (int j = 0; j < 4; j++) {
        double want = 1 / (1 + exp(-(double)l.base[j])) + 1e-6;
        assert_true(fabs((double)l.pre[j] - want) < 3e-7);
    }
    lf_check_device_close(device);
    close_launch(&l);
}

// Calls above and below 16 rows split outputs and elements differently.
static void rows_of_a_long_call_equal_rows_alone(void **state) {
    (void)state;
    enum { ROWS = 37, S = 4, DIM = 300 };
    struct launch l = open_launch(LF_STYLE_NORMAL, ROWS, S, DIM);
    settle_launch(&l);
    float alone[S * (2 + S)];
    struct lf_device *device = lf_check_device(3);
    for (enum lf_isa isa = LF_ISA_PORTABLE; isa < LF_ISAS; isa++) {
        if (!lf_isa_present(isa))
            continue;
        lf_check_kernels(isa)->hc_mix(device, &l.args);
        for (uint32_t row = 0; row < ROWS; row++) {
            struct lf_hc_mix_args one = l.args;
            one.rows = 1, one.x = l.x + row * l.n;
            one.pre = alone, one.post = alone + S, one.comb = alone + 2 * S;
            lf_hc_mix_portable(device, &one);
            lf_check_same("pre", l.pre + (size_t)row * S, one.pre, S * 4);
            lf_check_same("post", l.post + (size_t)row * S, one.post, S * 4);
            lf_check_same("comb", l.comb + (size_t)row * S * S, one.comb, S * S * 4);
        }
    }
    lf_check_device_close(device);
    close_launch(&l);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_split_of_the_vectors_comes_out_as_published),
        cmocka_unit_test(the_whole_mix_of_the_vectors_is_near_the_published_one),
        cmocka_unit_test(a_zero_row_mixes_by_its_base_alone),
        cmocka_unit_test(rows_of_a_long_call_equal_rows_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
