// What the gates know of compress_pool.
#include <math.h>
#include "contract/record.h"
#include "kernel/compress_pool/compress_pool.h"
#include "kernel/reference.h"

enum { FIRST, SECOND, FIRST_AT, SECOND_AT, Y, OPERANDS };

static void add(struct lf_shapes *shapes, const char *model, uint32_t rows, uint32_t dim) {
    struct lf_compress_pool_args args = {.dim = dim};
    lf_shapes_add(shapes, rows, &args, sizeof args, "%s %u", model, dim);
}

// Half of a chunk's rows complete a pair, or one row more in each lane.
static void shapes(const struct lf_served *served, struct lf_shapes *shapes) {
    add(shapes, served->name, served->chunk_rows / 2 + served->slots, served->t->head_dim);
}

static void ragged(struct lf_shapes *shapes) {
    add(shapes, "ragged", 64, 1);
    add(shapes, "ragged", 64, 75);
}

// Values, then gates: as far apart as the style has them, where exp's range allows to tell.
static void fill_row(const struct lf_fill *fill, void *data, size_t n) {
    float *x = data;
    float gates = fill->style == LF_STYLE_WIDE ? 0x1p-12f : 3.0f;
    lf_check_fill_f32(fill->rng, fill->style, 1.0f, x, n / 2);
    lf_check_fill_f32(fill->rng, fill->style, gates, x + n / 2, n / 2);
}

static void describe(const void *args, struct lf_operand *o) {
    const struct lf_compress_pool_args *a = args;
    o[FIRST] = lf_operand("first", LF_IN, LF_F32, 2 * (size_t)a->dim);
    o[SECOND] = lf_operand("second", LF_IN, LF_F32, 2 * (size_t)a->dim);
    o[FIRST].fill = o[SECOND].fill = fill_row;
    o[FIRST_AT] = lf_operand("first's addresses", LF_POINTER, LF_U64, 1);
    o[SECOND_AT] = lf_operand("second's addresses", LF_POINTER, LF_U64, 1);
    o[Y] = lf_operand("y", LF_OUT, LF_BF16, a->dim);
}

static void bind(const struct lf_call *call, void *args) {
    struct lf_compress_pool_args *a = args;
    const float **first = call->data[FIRST_AT], **second = call->data[SECOND_AT];
    for (uint32_t i = 0; i < call->rows; i++) {
        first[i] = lf_call_at(call, FIRST, i, 0);
        second[i] = lf_call_at(call, SECOND, i, 0);
    }
    a->entries = call->rows, a->first = first, a->second = second, a->y = call->data[Y];
}

static void bound(const void *args, const double *ref, double *error) {
    const struct lf_compress_pool_args *a = args;
    (void)ref;
    for (uint32_t entry = 0; entry < a->entries; entry++)
        for (uint32_t i = 0; i < a->dim; i++) {
            double v0 = fabs(lf_ref_f32(a->first[entry], i));
            double v1 = fabs(lf_ref_f32(a->second[entry], i));
            double gap = lf_ref_f32(a->first[entry], a->dim + i) -
                         lf_ref_f32(a->second[entry], a->dim + i);
            double near = fmin(fabs(gap), 104.0), left = 1.0 / (1.0 + exp(-gap));
            *error++ = (near + 7.0) * 0x1p-24 * (left * v0 + v1 / (1.0 + exp(gap))) +
                       0x1p-148 * (v0 + v1) + 0x1p-149;
        }
}

static void pool_one(struct lf_trial *trial, const struct lf_shape *shape, float g0, float g1,
                     bool is_nan) {
    const struct lf_compress_pool_args *a = (const void *)shape->args;
    struct lf_call *call = lf_call_open(trial, shape, 2, LF_STYLE_NORMAL);
    uint32_t at = a->dim - 1;
    *(float *)lf_call_at(call, FIRST, 1, a->dim + at) = g0;
    *(float *)lf_call_at(call, SECOND, 1, a->dim + at) = g1;
    if (is_nan) {
        lf_call_run(call);
        lf_expect_bits(call, Y, 1, at, 0x7FC0, "a gate is NaN or infinity");
    } else
        lf_call_judge(call);
    lf_call_close(call);
}

// Gates that are equal, zeros of both signs, far apart, at the ends of exp; one odd value a row.
static void edges(struct lf_trial *trial, const struct lf_shape *shape) {
    static const float pair[][2] = {{7, 7},          {0.0f, -0.0f},   {-0.0f, 0.0f},
                                    {1e30f, -1e30f}, {-1e30f, 1e30f}, {103.9f, 0},
                                    {0, 104.1f},     {88.8f, 88.7f},  {-200, -200.5f},
                                    {3e38f, -3e38f}, {1, -INFINITY},  {-INFINITY, 1}};
    static const float odd[][2] = {{NAN, 1}, {1, NAN}, {INFINITY, 1}, {1, INFINITY},
                                   {INFINITY, INFINITY}, {-INFINITY, -INFINITY}};
    for (size_t i = 0; i < sizeof pair / sizeof *pair; i++)
        pool_one(trial, shape, pair[i][0], pair[i][1], false);
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++)
        pool_one(trial, shape, odd[i][0], odd[i][1], true);
    for (uint32_t operand = FIRST; operand <= SECOND; operand++)
        for (int value = 0; value < 2; value++) {
            struct lf_call *call = lf_call_open(trial, shape, 2, LF_STYLE_NORMAL);
            *(float *)lf_call_at(call, operand, 0, 0) = value ? INFINITY : NAN;
            lf_call_judge(call);
            lf_call_close(call);
        }
}

static const struct lf_control controls[] = {
    {1, "the maximum is not subtracted", LF_GATE_BOUND, 0},
    {2, "the second entry dropped", LF_GATE_BOUND, 0},
    {3, "each gate weighs the other's value", LF_GATE_BOUND, 0},
    {4, "the first product rounded to bf16", LF_GATE_BOUND, 0},
    {5, "weights rounded to bf16", LF_GATE_BOUND, 0},
    {6, "not divided by the sum", LF_GATE_BOUND, 0},
    {7, "the sixth entry of a launch takes the fifth's second row", LF_GATE_ROWS, 0},
    {8, "a write past the entry", LF_GATE_MEMORY, 0},
    {9, "a NaN gate counts as minus infinity", LF_GATE_EDGES, 0},
};

const struct lf_record lf_compress_pool_record = {
    .name = "compress_pool", .file = "src/kernel/compress_pool/compress_pool_cpu.c",
    .contract = LF_COMPRESS_POOL_CONTRACT, .operands = OPERANDS,
    .shapes = shapes, .ragged = ragged, .describe = describe, .bind = bind, .bound = bound,
    .hostile = 1 << 0 | 1 << 2 | 1 << 3 | 1 << 4, .edges = edges, .stack_bytes = 4096,
    .controls = controls, .n_controls = sizeof controls / sizeof *controls,
};
