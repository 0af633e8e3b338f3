// Packed cache rows: base/quant's codes and scales in the layouts of kernel/row.h.
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include "base/number.h"
#include "base/quant.h"
#include "kernel/cache_pack/cache_pack.h"
#include "kernel/row.h"
#include "kernel_check.h"

enum { FORMATS = LF_CACHE_QF4E + 1 };

static uint32_t row_bytes(enum lf_cache_format format, uint32_t dim) {
    return format == LF_CACHE_QA8    ? lf_qa8_row_bytes(dim)
           : format == LF_CACHE_QF4S ? lf_qf4s_row_bytes(dim)
                                     : lf_qf4e_row_bytes(dim);
}

// Code and scale of element k of a packed row, as stored.
static void unpack(enum lf_cache_format format, const uint8_t *row, uint32_t dim, uint32_t k,
                   uint8_t *code, uint8_t *scale) {
    bool qa8 = format == LF_CACHE_QA8;
    *code = qa8 ? row[k] : row[k / 2] >> k % 2 * 4 & 15;
    *scale = qa8 ? row[dim + k / 32] : row[dim / 2 + k / (format == LF_CACHE_QF4S ? 16 : 32)];
}

static void check_row(enum lf_cache_format format, const uint16_t *x, const uint8_t *row,
                      uint32_t dim) {
    uint32_t group = format == LF_CACHE_QF4S ? 16 : 32;
    for (uint32_t k = 0; k < dim; k += group) {
        uint8_t codes[32], byte, code, scale;
        byte = format == LF_CACHE_QA8    ? lf_qa8_group(x + k, codes)
               : format == LF_CACHE_QF4S ? lf_qf4s_group(x + k, codes)
                                         : lf_qf4e_group(x + k, codes);
        for (uint32_t i = 0; i < group; i++) {
            unpack(format, row, dim, k + i, &code, &scale);
            assert_int_equal(scale, byte);
            assert_int_equal(code, codes[i]);
        }
    }
}

// Rows land at scattered odd addresses; nothing beside them is written.
static void check_pack(enum lf_cache_format format, uint16_t *x, uint32_t rows, uint32_t dim,
                       struct lf_device *device) {
    uint32_t bytes = row_bytes(format, dim);
    struct lf_check_buffer *row = malloc(rows * sizeof *row);
    uint8_t **dst = malloc(rows * sizeof *dst);
    for (uint32_t r = 0; r < rows; r++) {
        row[r] = lf_check_open(bytes, r % 3);
        dst[r] = row[r].data;
    }
    struct lf_cache_pack_args args = {.format = format, .rows = rows, .dim = dim, .x = x,
                                      .dst = dst};
    for (enum lf_isa i = LF_ISA_PORTABLE; i < LF_ISAS; i++) {
        if (!lf_isa_present(i))
            continue;
        for (uint32_t r = 0; r < rows; r++)
            lf_check_poison(&row[r], (uint8_t)(0xEE + i));
        lf_check_kernels(i)->cache_pack(device, &args);
        for (uint32_t r = 0; r < rows; r++) {
            check_row(format, x + (size_t)r * dim, dst[r], dim);
            lf_check_guards(&row[r], lf_isa_name(i));
        }
    }
    for (uint32_t r = 0; r < rows; r++)
        lf_check_close(&row[r]);
    free(row);
    free(dst);
}

static void every_format_equals_base_quant_in_every_style(void **state) {
    (void)state;
    enum { ROWS = 37 };
    static const uint32_t dims[] = {32, 64, 128, 512};
    struct lf_check_rng rng = {31};
    uint16_t *x = malloc(ROWS * 512 * 2);
    for (uint32_t threads = 1; threads <= 3; threads++) {
        struct lf_device *device = lf_check_device(threads);
        for (uint32_t format = 0; format < FORMATS; format++)
            for (uint32_t style = 0; style < LF_STYLES; style++)
                for (int scale = -120; scale <= 120; scale += 40) {
                    uint32_t rows = scale ? 3 : ROWS;
                    lf_check_fill_bf16(&rng, style, ldexpf(1.0f, scale), x, ROWS * 512);
                    check_pack(format, x, rows, dims[(style + threads) % 4], device);
                }
        lf_check_device_close(device);
    }
    free(x);
}

static void every_bf16_value_beside_larger_ones_equals_base_quant(void **state) {
    (void)state;
    enum { GROUPS = 65536 / 15 + 2, DIM = GROUPS / 2 * 32 };
    struct lf_check_rng rng = {32};
    struct lf_device *device = lf_check_device(2);
    uint16_t *x = malloc(DIM * 2);
    for (uint32_t round = 0; round < 6; round++) {
        for (uint32_t g = 0, v = 0; g < DIM / 16; g++) {
            for (uint32_t i = 0; i < 15; i++)
                x[g * 16 + i] = (uint16_t)v++;
            x[g * 16 + 15] = (uint16_t)((x[g * 16] & 0x7F80) + round * 0x80 +
                                        lf_check_below(&rng, 128));
        }
        for (uint32_t format = 0; format < FORMATS; format++)
            check_pack(format, x, 1, DIM, device);
    }
    free(x);
    lf_check_device_close(device);
}

static void nan_and_infinity_are_stored_as_base_quant_says(void **state) {
    (void)state;
    struct lf_check_rng rng = {33};
    struct lf_device *device = lf_check_device(1);
    uint16_t x[LF_HOSTILE_KINDS * 64];
    for (uint32_t format = 0; format < FORMATS; format++)
        for (uint32_t one = 0; one < 2; one++) {
            for (uint32_t kind = 0; kind < LF_HOSTILE_KINDS; kind++) {
                uint16_t *row = x + kind * 64;
                lf_check_fill_bf16(&rng, LF_STYLE_NORMAL, 1.0f, row, 64);
                lf_check_fill_hostile(kind, one ? row + 7 : row, one ? 2 : 64);
            }
            check_pack(format, x, LF_HOSTILE_KINDS, 64, device);
        }
    lf_check_device_close(device);
}

static void what_comes_first_in_the_call_has_the_bits_of_calls_one_by_one(void **state) {
    enum { ROWS = 19, DIM = 96, ROPE = 10, PAIRS = ROPE / 2, BYTES = DIM + DIM / 8 };
    uint16_t x[2][ROWS * DIM], norm[DIM];
    uint8_t packed[2][ROWS * BYTES], *dst[2][ROWS];
    float cos[ROWS * PAIRS], sin[ROWS * PAIRS];
    struct lf_check_rng rng = {34};
    struct lf_device *device = lf_check_device(2);
    (void)state;
    lf_check_fill_bf16(&rng, LF_STYLE_NORMAL, 1.0f, norm, DIM);
    lf_check_fill_f32(&rng, LF_STYLE_NORMAL, 1.0f, cos, ROWS * PAIRS);
    lf_check_fill_f32(&rng, LF_STYLE_NORMAL, 1.0f, sin, ROWS * PAIRS);
    for (uint32_t r = 0; r < ROWS; r++)
        dst[0][r] = packed[0] + r * BYTES, dst[1][r] = packed[1] + r * BYTES;
    for (uint32_t i = 0; i < LF_ISAS * FORMATS; i++) {
        if (!lf_isa_present(i / FORMATS))
            continue;
        const struct lf_kernels *k = lf_check_kernels(i / FORMATS);
        struct lf_cache_pack_args args = {.format = i % FORMATS, .rows = ROWS, .dim = DIM,
                                          .x = x[0], .dst = dst[0]};
        lf_check_fill_bf16(&rng, LF_STYLE_WIDE, 1.0f, x[0], ROWS * DIM);
        memcpy(x[1], x[0], sizeof x[0]);
        memset(packed, 0, sizeof packed);
        k->rms_norm(device, &(struct lf_rms_norm_args){.rows = ROWS, .dim = DIM, .x = x[0],
                                                       .x_stride = DIM, .w = norm, .eps = 1e-6f,
                                                       .y = x[0], .y_stride = DIM});
        k->rope(device, &(struct lf_rope_args){.rows = ROWS, .heads = 1, .head_dim = DIM,
                                               .rope_dim = ROPE, .x = x[0], .x_stride = DIM,
                                               .cos = cos, .sin = sin});
        k->cache_pack(device, &args);
        args.x = x[1], args.dst = dst[1], args.norm = norm, args.eps = 1e-6f;
        args.rope_dim = ROPE, args.cos = cos, args.sin = sin;
        k->cache_pack(device, &args);
        lf_check_same("x", x[1], x[0], sizeof x[0]);
        lf_check_same("packed", packed[1], packed[0], sizeof packed[0]);
    }
    lf_check_device_close(device);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_format_equals_base_quant_in_every_style),
        cmocka_unit_test(every_bf16_value_beside_larger_ones_equals_base_quant),
        cmocka_unit_test(what_comes_first_in_the_call_has_the_bits_of_calls_one_by_one),
        cmocka_unit_test(nan_and_infinity_are_stored_as_base_quant_says),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
