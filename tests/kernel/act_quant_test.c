// Activation quantizers: base/quant's codes dequantized, for every kind of row.
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "base/number.h"
#include "base/quant.h"
#include "kernel/act_quant/act_quant.h"
#include "kernel_check.h"

// One group through base/quant; a NaN is the house's one NaN.
static void expected_group(enum lf_act_format format, const uint16_t *x, uint16_t *y) {
    uint8_t codes[32], scale;
    scale = format == LF_ACT_QA8 ? lf_qa8_group(x, codes) : lf_qf4e_group(x, codes);
    for (int i = 0; i < 32; i++) {
        float v = format == LF_ACT_QA8 ? lf_e4m3_to_f32(codes[i]) : lf_e2m1_to_f32(codes[i]);
        v *= lf_ue8m0_to_f32(scale);
        y[i] = isnan(v) ? 0x7FC0 : lf_bf16_from_f32(v);
    }
}

static void check_rows(const struct lf_act_quant_args *given, struct lf_device *device) {
    struct lf_act_quant_args args = *given;
    size_t words = (args.rows - 1) * args.y_stride + args.dim;
    struct lf_check_buffer y = lf_check_open(words * 2, 0);
    uint16_t *expected = malloc(words * 2);
    memset(expected, 0xEE, words * 2);
    for (uint32_t r = 0; r < args.rows; r++)
        for (uint32_t k = 0; k < args.dim; k += 32)
            expected_group(args.format, args.x + r * args.x_stride + k,
                           expected + r * args.y_stride + k);
    args.y = y.data;
    for (enum lf_isa i = LF_ISA_PORTABLE; i < LF_ISAS; i++) {
        if (!lf_isa_present(i))
            continue;
        lf_check_poison(&y, 0xEE);
        lf_check_kernels(i)->act_quant(device, &args);
        lf_check_same(lf_isa_name(i), y.data, expected, words * 2);
        lf_check_guards(&y, lf_isa_name(i));
    }
    free(expected);
    lf_check_close(&y);
}

static void both_formats_equal_base_quant_in_every_style(void **state) {
    (void)state;
    enum { ROWS = 21, DIM = 1280, STRIDE = 1312 };
    struct lf_check_rng rng = {21};
    uint16_t *x = malloc(ROWS * STRIDE * 2);
    for (uint32_t threads = 1; threads <= 3; threads++) {
        struct lf_device *device = lf_check_device(threads);
        for (uint32_t format = 0; format < 2; format++)
            for (uint32_t style = 0; style < LF_STYLES; style++)
                for (int scale = -120; scale <= 120; scale += 24) {
                    lf_check_fill_bf16(&rng, style, ldexpf(1.0f, scale), x, ROWS * STRIDE);
                    check_rows(&(struct lf_act_quant_args){format, ROWS, DIM, x, STRIDE, NULL,
                                                           DIM + 8},
                               device);
                }
        lf_check_device_close(device);
    }
    free(x);
}

static void every_bf16_value_beside_every_scale_equals_base_quant(void **state) {
    (void)state;
    enum { GROUPS = 65536 / 31 + 1, DIM = GROUPS * 32 };
    struct lf_check_rng rng = {22};
    struct lf_device *device = lf_check_device(2);
    uint16_t *x = malloc(DIM * 2);
    for (uint32_t round = 0; round < 12; round++) {
        for (uint32_t g = 0, v = 0; g < GROUPS; g++) {
            for (uint32_t i = 0; i < 31; i++)
                x[g * 32 + i] = (uint16_t)v++;
            uint16_t first = x[g * 32];
            // The group's largest value is the round's, a little to far above the others.
            x[g * 32 + 31] = (uint16_t)((first & 0x7F80) + round * 0x80 +
                                        lf_check_below(&rng, 128));
        }
        for (uint32_t format = 0; format < 2; format++)
            check_rows(&(struct lf_act_quant_args){format, 1, DIM, x, DIM, NULL, DIM}, device);
    }
    free(x);
    lf_check_device_close(device);
}

static void one_nan_or_infinity_makes_its_group_nan(void **state) {
    (void)state;
    static const uint16_t bad[] = {0x7F80, 0xFF80, 0x7F81, 0xFFFF};
    struct lf_device *device = lf_check_device(1);
    for (uint32_t b = 0; b < 4; b++)
        for (uint32_t format = 0; format < 2; format++) {
            uint16_t x[64], y[64];
            for (int i = 0; i < 64; i++)
                x[i] = 0x3F80;
            x[5] = bad[b];
            struct lf_act_quant_args args = {format, 1, 64, x, 64, y, 64};
            for (enum lf_isa i = LF_ISA_PORTABLE; i < LF_ISAS; i++) {
                if (!lf_isa_present(i))
                    continue;
                lf_check_kernels(i)->act_quant(device, &args);
                for (int k = 0; k < 64; k++)
                    assert_int_equal(y[k], k < 32 ? 0x7FC0 : 0x3F80);
            }
        }
    lf_check_device_close(device);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(both_formats_equal_base_quant_in_every_style),
        cmocka_unit_test(every_bf16_value_beside_every_scale_equals_base_quant),
        cmocka_unit_test(one_nan_or_infinity_makes_its_group_nan),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
