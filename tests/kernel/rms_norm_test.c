#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>
#include "base/number.h"
#include "kernel/rms_norm/rms_norm.h"
#include "kernel_check.h"
#include "vectors.h"

enum { ROWS = 17, PAD = 3 };

typedef void kernel_fn(struct lf_device *device, const struct lf_rms_norm_args *args);

// Rows of x and y lie dim + PAD apart; what lies between them must stay as it is.
struct problem {
    uint32_t dim;
    uint16_t *x, *w; // w at an odd address
};

static struct problem open_problem(uint32_t dim, enum lf_check_style style) {
    struct lf_check_rng rng = {dim + (uint32_t)style};
    struct problem p = {.dim = dim};
    p.x = malloc(ROWS * (size_t)(dim + PAD) * sizeof *p.x);
    uint16_t *w = malloc(dim * sizeof *w);
    lf_check_fill_bf16(&rng, style, 0.02f, p.x, ROWS * (size_t)(dim + PAD));
    lf_check_fill_bf16(&rng, LF_STYLE_NORMAL, 1.0f, w, dim);
    char *odd = malloc(dim * sizeof *w + 1);
    memcpy(odd + 1, w, dim * sizeof *w);
    p.w = (uint16_t *)(void *)(odd + 1);
    free(w);
    return p;
}

static void close_problem(struct problem *p) {
    free(p->x);
    free((char *)p->w - 1);
}

static struct lf_rms_norm_args arguments(const struct problem *p, uint32_t first, uint32_t rows) {
    return (struct lf_rms_norm_args){.rows = rows, .dim = p->dim, .w = p->w, .eps = 1e-20f,
                                     .x = p->x + first * (size_t)(p->dim + PAD),
                                     .x_stride = p->dim + PAD, .y_stride = p->dim + PAD};
}

// Rows first .. first+rows-1, densely [rows][dim].
static uint16_t *norm(const struct problem *p, uint32_t first, uint32_t rows, kernel_fn *kernel,
                      uint32_t threads) {
    struct lf_device *device = lf_check_device(threads);
    struct lf_rms_norm_args args = arguments(p, first, rows);
    size_t stride = p->dim + PAD;
    struct lf_check_buffer out = lf_check_open((rows * stride - PAD) * sizeof(uint16_t), 0);
    uint16_t *dense = malloc((size_t)rows * p->dim * sizeof *dense);
    lf_check_poison(&out, 0x5A);
    args.y = out.data;
    kernel(device, &args);
    lf_check_guards(&out, "rms_norm");
    for (uint32_t r = 0; r < rows; r++) {
        memcpy(dense + (size_t)r * p->dim, args.y + r * stride, p->dim * sizeof *dense);
        for (uint32_t i = p->dim; r + 1 < rows && i < stride; i++)
            assert_int_equal(args.y[r * stride + i], 0x5A5A);
    }
    lf_check_close(&out);
    lf_check_device_close(device);
    return dense;
}

// model.md 3.4: 1e-20 is a normal float32 number
static void a_zero_row_gives_zeros(void **state) {
    (void)state;
    struct problem p = open_problem(128, LF_STYLE_NORMAL);
    lf_check_fill_hostile(3, p.x, 128);
    uint16_t *y = norm(&p, 0, 2, lf_rms_norm_avx2, 1);
    for (uint32_t i = 0; i < 128; i++)
        assert_int_equal(y[i] & 0x7FFF, 0);
    assert_int_not_equal(y[128] & 0x7FFF, 0);
    free(y);
    close_problem(&p);
}

// blocks.json: the compressor's norm of a pooled entry
static void the_vector_comes_out(void **state) {
    (void)state;
    json_t *file = vectors_load("blocks"), *v = vectors_get(file, "compressor_ratio2");
    struct lf_device *device = lf_check_device(1);
    uint16_t x[3], w[3], y[3];
    for (size_t i = 0; i < 3; i++) {
        x[i] = lf_bf16_from_f32((float)vectors_number(vectors_get(v, "pooled_bf16"), i));
        w[i] = lf_bf16_from_f32((float)vectors_number(vectors_get(v, "norm_weight"), i));
    }
    struct lf_rms_norm_args args = {.rows = 1, .dim = 3, .x = x, .x_stride = 3, .w = w,
                                    .eps = 1e-20f, .y = y, .y_stride = 3};
    lf_rms_norm_avx2(device, &args);
    for (size_t i = 0; i < 3; i++)
        assert_true((double)lf_bf16_to_f32(y[i]) ==
                    vectors_number(vectors_get(v, "latent_bf16"), i));
    lf_check_device_close(device);
    json_decref(file);
}

static void quantized_values_are_act_quants_of_what_is_stored(void **state) {
    enum { DIM = 96, STRIDE = 101, N = ROWS * STRIDE };
    uint16_t x[N] = {0}, w[DIM], y[N] = {0}, values[N] = {0}, want[N] = {0};
    struct lf_check_rng rng = {7};
    struct lf_device *device = lf_check_device(1);
    (void)state;
    lf_check_fill_bf16(&rng, LF_STYLE_NORMAL, 1.0f, w, DIM);
    lf_check_fill_bf16(&rng, LF_STYLE_WIDE, 1.0f, x, N);
    x[STRIDE + 40] = 0x7FC1; // a row of NaN among others
    for (enum lf_isa isa = LF_ISA_PORTABLE; isa < LF_ISAS; isa++) {
        if (!lf_isa_present(isa))
            continue;
        const struct lf_kernels *k = lf_check_kernels(isa);
        k->rms_norm(device, &(struct lf_rms_norm_args){.rows = ROWS, .dim = DIM, .x = x,
                                                       .x_stride = STRIDE, .w = w, .eps = 1e-6f,
                                                       .y = y, .y_stride = STRIDE,
                                                       .quantized = values});
        k->act_quant(device, &(struct lf_act_quant_args){LF_ACT_QA8, ROWS, DIM, y, STRIDE, want,
                                                         STRIDE});
        lf_check_same("quantized", values, want, sizeof want);
    }
    lf_check_device_close(device);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_vector_comes_out),
        cmocka_unit_test(a_zero_row_gives_zeros),
        cmocka_unit_test(quantized_values_are_act_quants_of_what_is_stored),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
