// Linear maps: the declared bits, the float64 bound, rows that do not see each other, all codes.
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/number.h"
#include "base/quant.h"
#include "kernel/linear/linear.h"
#include "kernel_check.h"

enum { FORMATS = LF_WEIGHT_MXFP4 + 1 };
static const char *const format_names[FORMATS] = {"bf16", "f16", "f32", "fp8", "mxfp4"};

// A matrix whose bytes end tail bytes before an unreadable page: any alignment.
struct weights {
    struct lf_matrix m;
    struct lf_check_buffer data, scale;
};

static size_t scale_bytes(const struct lf_matrix *m) {
    if (m->format == LF_WEIGHT_FP8)
        return (size_t)((m->out + 31) / 32) * (m->in / 32);
    return m->format == LF_WEIGHT_MXFP4 ? (size_t)m->out * (m->in / 32) : 0;
}

static struct weights weights_open(enum lf_weight_format format, uint32_t out, uint32_t in,
                                   size_t tail) {
    struct weights w = {.m = {.format = format, .out = out, .in = in}};
    w.data = lf_check_open(lf_matrix_row_bytes(&w.m) * out, tail);
    w.m.data = w.data.data;
    w.scale = lf_check_open(scale_bytes(&w.m), tail);
    w.m.scale = scale_bytes(&w.m) ? w.scale.data : NULL;
    return w;
}

static void weights_close(struct weights *w) {
    lf_check_guards(&w->data, "weights");
    lf_check_guards(&w->scale, "scales");
    lf_check_close(&w->data);
    lf_check_close(&w->scale);
}

static void weights_fill(struct weights *w, struct lf_check_rng *rng, enum lf_check_style style) {
    uint8_t *data = w->data.data, *scale = w->scale.data;
    size_t bytes = w->data.bytes;
    enum lf_check_style plain = style == LF_STYLE_CANCELLING ? LF_STYLE_NORMAL : style;
    uint32_t value_bytes = w->m.format == LF_WEIGHT_F32 ? 4 : 2;
    if (!lf_matrix_quantizes_input(&w->m))
        for (size_t i = 0; i < bytes; i += value_bytes) {
            float v;
            lf_check_fill_f32(rng, plain, 0.05f, &v, 1);
            v = w->m.format == LF_WEIGHT_F16 ? fmaxf(-65504.0f, fminf(v, 65504.0f)) : v;
            uint16_t half = w->m.format == LF_WEIGHT_F16 ? lf_f16_from_f32(v) : lf_bf16_from_f32(v);
            memcpy(data + i, value_bytes == 4 ? (void *)&v : (void *)&half, value_bytes);
        }
    else
        for (size_t i = 0; i < bytes; i++) {
            data[i] = (uint8_t)lf_check_next(rng);
            if (w->m.format == LF_WEIGHT_FP8 && (data[i] & 0x7F) == 0x7F)
                data[i] ^= 1;
            if (style == LF_STYLE_SPARSE && lf_check_below(rng, 8))
                data[i] = 0;
        }
    for (size_t i = 0; i < w->scale.bytes; i++)
        scale[i] = (uint8_t)(style == LF_STYLE_WIDE ? 97 + lf_check_below(rng, 50)
                                                    : 116 + lf_check_below(rng, 4));
}

// x as the map reads it: QA8 values for the quantized formats.
static void x_quantize(const struct lf_matrix *m, uint16_t *x, size_t n) {
    if (!lf_matrix_quantizes_input(m))
        return;
    for (size_t k = 0; k < n; k += LF_QA8_GROUP) {
        uint8_t codes[LF_QA8_GROUP], scale = lf_qa8_group(x + k, codes);
        for (size_t i = 0; i < LF_QA8_GROUP; i++)
            x[k + i] = lf_bf16_from_f32(ldexpf(lf_e4m3_to_f32(codes[i]), scale - 127));
    }
}

static float weight_at(const struct lf_matrix *m, size_t o, size_t k, float *scale) {
    size_t at = o * m->in + k;
    uint16_t half;
    float word;
    *scale = 1.0f;
    switch (m->format) {
    case LF_WEIGHT_BF16:
        memcpy(&half, m->data + 2 * at, 2);
        return lf_bf16_to_f32(half);
    case LF_WEIGHT_F16:
        memcpy(&half, m->data + 2 * at, 2);
        return lf_f16_to_f32(half);
    case LF_WEIGHT_F32:
        memcpy(&word, m->data + 4 * at, 4);
        return word;
    case LF_WEIGHT_FP8:
        *scale = lf_ue8m0_to_f32(m->scale[o / 32 * (m->in / 32) + k / 32]);
        return lf_e4m3_to_f32(m->data[at]);
    case LF_WEIGHT_MXFP4:
        *scale = lf_ue8m0_to_f32(m->scale[at / 32]);
        return lf_e2m1_to_f32(m->data[at / 2] >> (at % 2 * 4));
    }
    return 0.0f;
}

// The declared order, one output at a time, from the contract's text.
static float declared_sum(const struct lf_matrix *m, size_t o, const uint16_t *x) {
    static const uint32_t elements[FORMATS] = {2, 2, 1, 4, 8};
    uint32_t per_word = elements[m->format];
    uint32_t words = (m->in + per_word * 16 - 1) / (per_word * 16) * 16;
    float partial[16] = {0};
    for (uint32_t word = 0; word < words; word++) {
        float w[8], value[8], scale = 1.0f;
        for (uint32_t e = 0; e < per_word; e++) {
            uint32_t k = word * per_word + e;
            w[e] = k < m->in ? weight_at(m, o, k, &scale) : 0.0f;
            value[e] = k < m->in ? lf_bf16_to_f32(x[k]) : 0.0f;
        }
        float *acc = &partial[word % 16];
        if (m->format != LF_WEIGHT_MXFP4) {
            for (uint32_t e = 0; e < per_word; e++)
                *acc = fmaf(w[e] * scale, value[e], *acc);
            continue;
        }
        float low = w[0] * value[0], high = w[4] * value[4];
        for (uint32_t e = 1; e < 4; e++) {
            low = fmaf(w[e], value[e], low);
            high = fmaf(w[4 + e], value[4 + e], high);
        }
        *acc = fmaf(low + high, scale, *acc);
    }
    for (uint32_t width = 8; width; width /= 2)
        for (uint32_t i = 0; i < width; i++)
            partial[i] += partial[i + width];
    return isnan(partial[0]) ? lf_f32_from_bits(0x7FC00000u) : partial[0];
}

// Runs one job and compares every output with the declared order, guards and all.
static void check_job(enum lf_isa isa, struct lf_device *device, struct lf_linear_job job) {
    char what[96];
    snprintf(what, sizeof what, "%s %s %ux%u rows %u", lf_isa_name(isa),
             format_names[job.w->format], job.w->out, job.w->in, job.rows);
    size_t element = job.y_f32 ? 4 : 2;
    size_t bytes = ((job.rows - 1) * job.y_stride + job.w->out) * element;
    struct lf_check_buffer y = lf_check_open(bytes, 0);
    struct lf_linear_args args = {.n_jobs = 1, .job = &job};
    job.y = y.data;
    lf_check_poison(&y, 0xEE);
    lf_check_kernels(isa)->linear(device, &args);
    for (uint32_t r = 0; r < job.rows; r++) {
        const uint16_t *x = job.x + (job.x_index ? job.x_index[r] : r) * job.x_stride;
        for (size_t o = 0; o < job.y_stride && r * job.y_stride + o < bytes / element; o++) {
            float sum = o < job.w->out ? declared_sum(job.w, o, x) : 0.0f;
            const uint8_t *got = (const uint8_t *)y.data + (r * job.y_stride + o) * element;
            uint16_t half = lf_bf16_from_f32(sum);
            uint32_t poison = 0xEEEEEEEEu;
            if (o >= job.w->out)
                lf_check_same(what, got, &poison, element);
            else if (job.y_f32)
                lf_check_same(what, got, &sum, 4);
            else
                lf_check_same(what, got, &half, 2);
        }
    }
    lf_check_guards(&y, what);
    lf_check_close(&y);
}

struct shape {
    uint32_t out, in;
};
static const struct shape shapes[] = {{64, 256}, {50, 96},  {33, 32},   {7, 160},
                                      {1, 1024}, {26, 544}, {3, 12320}, {97, 1184}};
enum { SHAPES = sizeof shapes / sizeof *shapes };

static void every_format_gives_the_declared_bits(void **state) {
    (void)state;
    static const uint32_t rows[] = {1, 2, 3, 4, 5, 8, 37};
    struct lf_check_rng rng = {11};
    struct lf_device *device = lf_check_device(2);
    for (uint32_t f = 0; f < FORMATS; f++)
        for (uint32_t s = 0; s < SHAPES; s++)
            for (uint32_t style = 0; style < LF_STYLES; style++) {
                uint32_t n = rows[(f + s + 3 * style) % 7], in = shapes[s].in, stride = in + 8;
                struct weights w = weights_open(f, shapes[s].out, in, (s + style) % 4);
                uint16_t *x = calloc((size_t)n * stride, 2);
                weights_fill(&w, &rng, style);
                for (uint32_t r = 0; r < n; r++) {
                    lf_check_fill_bf16(&rng, style, 1.0f, x + r * stride, in);
                    x_quantize(&w.m, x + r * stride, in);
                }
                struct lf_linear_job job = {.w = &w.m, .rows = n, .x = x, .x_stride = stride,
                                            .y_stride = shapes[s].out + 5, .y_f32 = style % 2};
                for (enum lf_isa i = LF_ISA_PORTABLE; i < LF_ISAS; i++)
                    for (job.rows = n; lf_isa_present(i) && job.rows; job.rows /= 2)
                        check_job(i, device, job);
                free(x);
                weights_close(&w);
            }
    lf_check_device_close(device);
}

static void odd_widths_of_plain_formats_are_padded_with_zero_products(void **state) {
    (void)state;
    struct lf_check_rng rng = {12};
    struct lf_device *device = lf_check_device(1);
    for (uint32_t f = LF_WEIGHT_BF16; f <= LF_WEIGHT_F32; f++)
        for (uint32_t in = 1; in < 70; in += 3)
            for (uint32_t rows = 1; rows < 4; rows += 2) {
                struct weights w = weights_open(f, 5, in, 1);
                uint16_t x[3 * 70];
                weights_fill(&w, &rng, LF_STYLE_NORMAL);
                lf_check_fill_bf16(&rng, LF_STYLE_NORMAL, 1.0f, x, rows * in);
                struct lf_linear_job job = {.w = &w.m, .rows = rows, .x = x, .x_stride = in,
                                            .y_stride = 5, .y_f32 = 1};
                for (enum lf_isa i = LF_ISA_PORTABLE; i < LF_ISAS; i++)
                    if (lf_isa_present(i))
                        check_job(i, device, job);
                weights_close(&w);
            }
    lf_check_device_close(device);
}

// Products so small that they round to -0: the padding must turn such partials to +0.
static void a_partial_of_minus_zero_becomes_plus_zero_only_through_padding(void **state) {
    (void)state;
    struct lf_device *device = lf_check_device(1);
    for (uint32_t words = 16; words <= 20; words += 4)
        for (uint32_t rows = 1; rows <= 2; rows++) {
            struct weights w = weights_open(LF_WEIGHT_BF16, 3, 2 * words, 0);
            uint16_t x[80], small = 0x0001, minus_small = 0x8001;
            for (uint32_t i = 0; i < 6 * words; i++)
                memcpy((uint8_t *)w.data.data + 2 * i, &small, 2);
            for (uint32_t i = 0; i < 80; i++)
                x[i] = minus_small;
            struct lf_linear_job job = {.w = &w.m, .rows = rows, .x = x, .x_stride = 2 * words,
                                        .y_stride = 3, .y_f32 = 1};
            assert_int_equal(signbit(declared_sum(&w.m, 0, x)) != 0, words == 16);
            for (enum lf_isa i = LF_ISA_PORTABLE; i < LF_ISAS; i++)
                if (lf_isa_present(i))
                    check_job(i, device, job);
            weights_close(&w);
        }
    lf_check_device_close(device);
}

static void every_element_is_within_the_bound_of_float64(void **state) {
    (void)state;
    struct lf_check_rng rng = {13};
    struct lf_device *device = lf_check_device(2);
    for (uint32_t f = 0; f < FORMATS; f++)
        for (uint32_t style = 0; style < LF_STYLES; style++)
            for (uint32_t rows = 1; rows <= 6; rows += 5) {
                enum { OUT = 40, IN = 2080 };
                struct weights w = weights_open(f, OUT, IN, 1);
                uint16_t *x = malloc(rows * IN * 2);
                weights_fill(&w, &rng, style);
                lf_check_fill_bf16(&rng, style, 1.0f, x, rows * IN);
                x_quantize(&w.m, x, rows * IN);
                float y[6 * OUT];
                uint16_t y16[6 * OUT];
                double ref[6 * OUT], limit[6 * OUT];
                struct lf_linear_job job = {.w = &w.m, .rows = rows, .x = x, .x_stride = IN,
                                            .y = y, .y_stride = OUT, .y_f32 = 1};
                struct lf_linear_args args = {.n_jobs = 1, .job = &job};
                lf_linear_f64_sums(&args, ref, limit);
                for (uint32_t i = 0; i < rows * OUT; i++)
                    limit[i] *= lf_check_gamma(lf_linear_f64_depth(&w.m));
                for (enum lf_isa i = LF_ISA_PORTABLE; i < LF_ISAS; i++) {
                    if (!lf_isa_present(i))
                        continue;
                    memset(y, 0xFF, sizeof y);
                    memset(y16, 0xFF, sizeof y16);
                    job.y = y, job.y_f32 = 1;
                    lf_check_kernels(i)->linear(device, &args);
                    lf_check_bound_f32(format_names[f], y, ref, limit, rows * OUT);
                    job.y = y16, job.y_f32 = 0;
                    lf_check_kernels(i)->linear(device, &args);
                    lf_check_bound_bf16(format_names[f], y16, ref, limit, rows * OUT);
                }
                free(x);
                weights_close(&w);
            }
    lf_check_device_close(device);
}

enum { CALL_MAX = 64, SAMPLES = 5 };
// The sample rows sit at places of a call whose other rows are hostile, reached through x_index.
static void a_row_gives_the_same_bits_alone_and_at_any_place_beside_hostile_rows(void **state) {
    (void)state;
    static const uint32_t calls[] = {2, 3, 8, 17, 64};
    enum { OUT = 55, IN = 1120 };
    struct lf_check_rng rng = {14};
    struct lf_device *devices[3] = {lf_check_device(1), lf_check_device(2), lf_check_device(3)};
    uint16_t *x = malloc((SAMPLES + LF_HOSTILE_KINDS) * IN * 2);
    for (uint32_t f = 0; f < FORMATS; f++) {
        struct weights w = weights_open(f, OUT, IN, 3);
        weights_fill(&w, &rng, LF_STYLE_NORMAL);
        lf_check_fill_bf16(&rng, LF_STYLE_NORMAL, 1.0f, x, SAMPLES * IN);
        x_quantize(&w.m, x, SAMPLES * IN);
        for (uint32_t kind = 0; kind < LF_HOSTILE_KINDS; kind++)
            lf_check_fill_hostile(kind, x + (SAMPLES + kind) * IN, IN);
        for (enum lf_isa i = LF_ISA_PORTABLE; i < LF_ISAS; i++) {
            if (!lf_isa_present(i))
                continue;
            uint32_t index[CALL_MAX];
            float alone[SAMPLES][OUT], y[CALL_MAX][OUT];
            struct lf_linear_job job = {.w = &w.m, .x = x, .x_stride = IN, .x_index = index,
                                        .y_stride = OUT, .y_f32 = 1};
            struct lf_linear_args args = {.n_jobs = 1, .job = &job};
            for (uint32_t s = 0; s < SAMPLES; s++) {
                index[0] = s;
                job.rows = 1, job.y = alone[s];
                lf_check_kernels(i)->linear(devices[0], &args);
            }
            for (uint32_t c = 0; c < 15; c++) {
                job.rows = calls[c % 5], job.y = y;
                for (uint32_t r = 0; r < job.rows; r++)
                    index[r] = lf_check_below(&rng, SAMPLES + LF_HOSTILE_KINDS);
                index[lf_check_below(&rng, job.rows)] = c % SAMPLES;
                lf_check_kernels(i)->linear(devices[c / 5], &args);
                for (uint32_t r = 0; r < job.rows; r++)
                    if (index[r] < SAMPLES)
                        lf_check_same(lf_isa_name(i), y[r], alone[index[r]], sizeof y[r]);
            }
        }
        weights_close(&w);
    }
    free(x);
    for (uint32_t p = 0; p < 3; p++)
        lf_check_device_close(devices[p]);
}

static void nan_and_infinity_of_a_row_show_in_its_outputs(void **state) {
    (void)state;
    static const uint16_t hostile[] = {0x7FC0, 0x7F80, 0xFF80, 0x7F7F, 0x0001};
    enum { OUT = 9, IN = 160 };
    struct lf_check_rng rng = {15};
    struct lf_device *device = lf_check_device(1);
    for (uint32_t f = 0; f < FORMATS; f++)
        for (uint32_t rows = 1; rows <= 3; rows += 2)
            for (uint32_t k = 0; k < IN; k += 13) {
                struct weights w = weights_open(f, OUT, IN, 0);
                uint16_t x[3 * IN];
                weights_fill(&w, &rng, k % 2 ? LF_STYLE_NORMAL : LF_STYLE_SPARSE);
                lf_check_fill_bf16(&rng, LF_STYLE_NORMAL, 1.0f, x, rows * IN);
                x[k] = hostile[k % 5];
                struct lf_linear_job job = {.w = &w.m, .rows = rows, .x = x, .x_stride = IN,
                                            .y_stride = OUT, .y_f32 = k % 2};
                if (k % 5 == 0)
                    for (uint32_t o = 0; o < OUT; o++)
                        assert_true(isnan(declared_sum(&w.m, o, x)));
                for (enum lf_isa i = LF_ISA_PORTABLE; i < LF_ISAS; i++)
                    if (lf_isa_present(i))
                        check_job(i, device, job);
                weights_close(&w);
            }
    lf_check_device_close(device);
}

// Output c reads code c everywhere and the scales in turn: NaN codes and scales give NaN.
static void all_codes_and_all_edge_scales_are_decoded(void **state) {
    (void)state;
    static const uint8_t scales[] = {0,   1,   7,   8,   86,  87,  127,
                                     128, 129, 134, 135, 228, 229, 254, 255};
    enum { OUT = 256, IN = 128 };
    struct lf_check_rng rng = {16};
    struct lf_device *device = lf_check_device(2);
    for (uint32_t f = LF_WEIGHT_FP8; f <= LF_WEIGHT_MXFP4; f++)
        for (uint32_t s = 0; s < sizeof scales; s++)
            for (uint32_t rows = 1; rows <= 33; rows += 8) {
                struct weights w = weights_open(f, OUT, IN, 1);
                uint16_t x[33 * IN];
                for (size_t i = 0; i < w.data.bytes; i++)
                    ((uint8_t *)w.data.data)[i] = (uint8_t)(i / lf_matrix_row_bytes(&w.m));
                for (size_t i = 0; i < w.scale.bytes; i++)
                    ((uint8_t *)w.scale.data)[i] = i % 3 ? 120 : scales[s];
                lf_check_fill_bf16(&rng, LF_STYLE_NORMAL, 1.0f, x, 33 * IN);
                struct lf_linear_job job = {.w = &w.m, .rows = rows, .x = x, .x_stride = IN,
                                            .y_stride = OUT, .y_f32 = 1};
                if (f == LF_WEIGHT_FP8)
                    assert_true(isnan(declared_sum(&w.m, 0x7F, x)) &&
                                isnan(declared_sum(&w.m, 0xFF, x)));
                assert_int_equal(isnan(declared_sum(&w.m, 0, x)) != 0, scales[s] == 255);
                for (enum lf_isa i = LF_ISA_PORTABLE; i < LF_ISAS; i++)
                    if (lf_isa_present(i))
                        check_job(i, device, job);
                weights_close(&w);
            }
    lf_check_device_close(device);
}

// x and scales at and past the edges where scales may be folded into x or w: same bits throughout.
static void extreme_magnitudes_give_the_declared_bits(void **state) {
    (void)state;
    enum { OUT = 9, IN = 320, ROWS = 35 };
    static const int x_exponents[] = {-126, -110, -51, -50, -45, 0, 26, 27, 60, 110};
    struct lf_check_rng rng = {19};
    struct lf_device *device = lf_check_device(1);
    uint16_t *x = malloc(ROWS * IN * 2);
    for (uint32_t f = 0; f < FORMATS; f++)
        for (uint32_t e = 0; e < sizeof x_exponents / sizeof *x_exponents; e++)
            for (uint32_t base = 60; base <= 230; base += 17) {
                struct weights w = weights_open(f, OUT, IN, 0);
                uint8_t *scale = w.scale.data;
                weights_fill(&w, &rng, LF_STYLE_NORMAL);
                for (size_t i = 0; i < w.scale.bytes; i++)
                    scale[i] = (uint8_t)(base + lf_check_below(&rng, 24));
                for (uint32_t i = 0; i < ROWS * IN; i++)
                    x[i] = (uint16_t)((lf_check_below(&rng, 2) << 15) +
                                      ((x_exponents[e] + 127) << 7) + lf_check_below(&rng, 256));
                struct lf_linear_job job = {.w = &w.m, .x = x, .x_stride = IN, .y_stride = OUT,
                                            .y_f32 = 1};
                for (enum lf_isa i = LF_ISA_PORTABLE; i < LF_ISAS; i++)
                    for (uint32_t n = 1; n <= ROWS && lf_isa_present(i); n += n == 1 ? 2 : 32) {
                        job.rows = n;
                        check_job(i, device, job);
                    }
                weights_close(&w);
            }
    free(x);
    lf_check_device_close(device);
}

static void several_jobs_in_one_launch_give_what_each_gives_alone(void **state) {
    (void)state;
    enum { JOBS = 7, OUT = 45, IN = 288, ROWS = 40 };
    static const uint32_t rows[JOBS] = {1, 0, 3, ROWS, 0, 1, 9};
    struct lf_check_rng rng = {17};
    uint16_t x[ROWS * IN];
    static uint16_t y[JOBS][ROWS * OUT], alone[JOBS][ROWS * OUT];
    struct weights w[JOBS];
    struct lf_linear_job job[JOBS];
    lf_check_fill_bf16(&rng, LF_STYLE_NORMAL, 1.0f, x, ROWS * IN);
    for (uint32_t j = 0; j < JOBS; j++) {
        w[j] = weights_open(j % FORMATS, OUT - j, IN, 1);
        weights_fill(&w[j], &rng, LF_STYLE_NORMAL);
        job[j] = (struct lf_linear_job){.w = &w[j].m, .rows = rows[j], .x = x, .x_stride = IN,
                                        .y_stride = OUT};
    }
    for (enum lf_isa i = LF_ISA_PORTABLE; i < LF_ISAS; i++)
        for (uint32_t threads = 1; lf_isa_present(i) && threads <= 3; threads++) {
            struct lf_device *device = lf_check_device(threads);
            memset(y, 0xEE, sizeof y);
            memset(alone, 0xEE, sizeof alone);
            for (uint32_t j = 0; j < JOBS; j++) {
                job[j].y = alone[j];
                struct lf_linear_args one = {.n_jobs = 1, .job = &job[j]};
                lf_check_kernels(i)->linear(device, &one);
                job[j].y = y[j];
            }
            struct lf_linear_args all = {.n_jobs = JOBS, .job = job}, none = {0};
            lf_check_kernels(i)->linear(device, &all);
            lf_check_kernels(i)->linear(device, &none);
            lf_check_same(lf_isa_name(i), y, alone, sizeof y);
            lf_check_device_close(device);
        }
    for (uint32_t j = 0; j < JOBS; j++)
        weights_close(&w[j]);
}

static void a_row_longer_than_scratch_gives_the_declared_bits(void **state) {
    (void)state;
    enum { IN = 100000, ROWS = 34 };
    struct lf_check_rng rng = {18};
    struct lf_device *device = lf_check_device(1);
    struct weights w = weights_open(LF_WEIGHT_MXFP4, 2, IN, 0);
    uint16_t *x = malloc((size_t)ROWS * IN * 2);
    weights_fill(&w, &rng, LF_STYLE_NORMAL);
    lf_check_fill_bf16(&rng, LF_STYLE_NORMAL, 1.0f, x, (size_t)ROWS * IN);
    x_quantize(&w.m, x, (size_t)ROWS * IN);
    struct lf_linear_job job = {.w = &w.m, .x = x, .x_stride = IN, .y_stride = 2, .y_f32 = 1};
    for (enum lf_isa i = LF_ISA_PORTABLE; i < LF_ISAS; i++)
        for (uint32_t n = 0; lf_isa_present(i) && n < 2; n++) {
            job.rows = n ? ROWS : 1;
            check_job(i, device, job);
        }
    free(x);
    weights_close(&w);
    lf_check_device_close(device);
}

// Blocks of k of few rows, and groups of more, begin and end anywhere.
static void rows_and_inputs_around_the_blocks_give_the_declared_bits(void **state) {
    (void)state;
    enum { OUT = 35, ROWS_MAX = 19, IN_MAX = 3872 };
    static const uint32_t inputs[] = {992, 1024, 1056, 1280, 1312, 2336, 2560, 2592, IN_MAX};
    static const uint32_t rows[] = {2, 4, 5, 8, 9, 11, 13, ROWS_MAX};
    struct lf_check_rng rng = {19};
    struct lf_device *device = lf_check_device(1);
    uint16_t *x = malloc((size_t)ROWS_MAX * IN_MAX * 2);
    for (uint32_t f = 0; f < 2; f++)
        for (uint32_t i = 0; i < sizeof inputs / sizeof *inputs; i++) {
            uint32_t in = inputs[i], count = rows[(i + 3 * f) % 8];
            struct weights w = weights_open(f ? LF_WEIGHT_FP8 : LF_WEIGHT_BF16, OUT, in, 0);
            weights_fill(&w, &rng, LF_STYLE_NORMAL);
            lf_check_fill_bf16(&rng, LF_STYLE_NORMAL, 1.0f, x, (size_t)ROWS_MAX * in);
            x_quantize(&w.m, x, (size_t)ROWS_MAX * in);
            struct lf_linear_job job = {.w = &w.m, .rows = count, .x = x, .x_stride = in,
                                        .y_stride = OUT, .y_f32 = 1};
            for (enum lf_isa isa = LF_ISA_PORTABLE; isa < LF_ISAS; isa++)
                for (job.rows = count; lf_isa_present(isa) && job.rows; job.rows = job.rows * 3 / 4)
                    check_job(isa, device, job);
            weights_close(&w);
        }
    free(x);
    lf_check_device_close(device);
}

// Rows that another kernel chose: empty groups, an index, bf16 and float32.
static void a_groups_rows_give_what_they_give_as_a_job(void **state) {
    (void)state;
    enum { ROWS = 7, OUT = 40, IN = 64, GROUPS = 4 };
    static const uint32_t bounds[GROUPS + 1] = {0, 3, 3, 6, 7}, index[ROWS] = {6, 1, 0, 2, 2, 5, 3};
    struct lf_check_rng rng = {19};
    struct weights w = weights_open(LF_WEIGHT_BF16, OUT, IN, 0);
    struct lf_device *device = lf_check_device(2);
    struct lf_linear_job job[GROUPS], room[GROUPS];
    uint16_t x[ROWS * IN];
    float want[ROWS * OUT], got[ROWS * OUT];
    weights_fill(&w, &rng, LF_STYLE_NORMAL);
    lf_check_fill_bf16(&rng, LF_STYLE_NORMAL, 1.0f, x, ROWS * IN);
    for (int form = 0; form < 4; form++) {
        struct lf_linear_job all = {.w = &w.m, .rows = ROWS, .x = x, .x_stride = IN, .y = want,
                                    .y_stride = OUT, .y_f32 = form & 1,
                                    .x_index = form & 2 ? index : NULL};
        size_t bytes = sizeof want / (all.y_f32 ? 1 : 2);
        lf_linear_portable(device, &(struct lf_linear_args){.n_jobs = 1, .job = &all});
        for (uint32_t g = 0; g < GROUPS; g++) {
            job[g] = all;
            job[g].y = got, job[g].group = bounds + g;
        }
        memset(got, 0xEE, sizeof got);
        struct lf_linear_args args = {.n_jobs = GROUPS, .job = job, .room = room};
        lf_linear_portable(device, &args);
        lf_check_same("groups", got, want, bytes);
    }
    lf_check_device_close(device);
    weights_close(&w);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_format_gives_the_declared_bits),
        cmocka_unit_test(odd_widths_of_plain_formats_are_padded_with_zero_products),
        cmocka_unit_test(a_partial_of_minus_zero_becomes_plus_zero_only_through_padding),
        cmocka_unit_test(every_element_is_within_the_bound_of_float64),
        cmocka_unit_test(a_row_gives_the_same_bits_alone_and_at_any_place_beside_hostile_rows),
        cmocka_unit_test(nan_and_infinity_of_a_row_show_in_its_outputs),
        cmocka_unit_test(all_codes_and_all_edge_scales_are_decoded),
        cmocka_unit_test(extreme_magnitudes_give_the_declared_bits),
        cmocka_unit_test(several_jobs_in_one_launch_give_what_each_gives_alone),
        cmocka_unit_test(a_groups_rows_give_what_they_give_as_a_job),
        cmocka_unit_test(a_row_longer_than_scratch_gives_the_declared_bits),
        cmocka_unit_test(rows_and_inputs_around_the_blocks_give_the_declared_bits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
