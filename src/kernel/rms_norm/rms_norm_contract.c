// What the gates know of rms_norm.
#include <math.h>
#include "contract/record.h"
#include "kernel/rms_norm/rms_norm.h"

enum { X, W, Y, QUANTIZED, OPERANDS };

struct shape {
    struct lf_rms_norm_args args;
    uint32_t quantizes;
};

static void add(struct lf_shapes *shapes, const char *model, uint32_t rows, uint32_t dim,
                float eps, uint32_t quantizes) {
    struct shape shape = {.args = {.dim = dim, .x_stride = dim, .y_stride = dim, .eps = eps},
                          .quantizes = quantizes};
    lf_shapes_add(shapes, rows, &shape, sizeof shape, "%s %u%s", model, dim,
                  quantizes ? " quantized" : "");
}

// Sublayers and head, queries, keys and entries, index keys; those that quantized maps read.
static void shapes(const struct lf_served *served, struct lf_shapes *shapes) {
    const struct lf_topology *t = served->t;
    const uint32_t dim[] = {t->hidden, t->q_lora, t->head_dim, t->index_dim};
    for (uint32_t i = 0; i < 4; i++)
        add(shapes, served->name, served->chunk_rows, dim[i], t->norm_eps, 0);
    for (uint32_t i = 0; i < 3; i++)
        add(shapes, served->name, served->chunk_rows, dim[i], t->norm_eps, 1);
}

static void ragged(struct lf_shapes *shapes) {
    struct shape apart = {.args = {.dim = 33, .x_stride = 40, .y_stride = 35, .eps = 1e-3f}};
    struct shape quantized = {.args = {.dim = 96, .x_stride = 99, .y_stride = 97, .eps = 1e-20f},
                              .quantizes = 1};
    add(shapes, "ragged", 64, 7, 1e-20f, 0);
    add(shapes, "ragged", 64, 6240, 1e-20f, 1);
    lf_shapes_add(shapes, 64, &apart, sizeof apart, "ragged 33 with gaps, eps 1e-3");
    lf_shapes_add(shapes, 64, &quantized, sizeof quantized, "ragged 96 with gaps, quantized");
}

static void describe(const void *args, struct lf_operand *o) {
    const struct shape *s = args;
    const struct lf_rms_norm_args *a = &s->args;
    o[X] = lf_operand("x", LF_IN, LF_BF16, a->dim);
    o[X].pitch = a->x_stride, o[X].scale = 0.02f;
    o[W] = lf_operand("w", LF_WEIGHT, LF_BF16, a->dim);
    o[W].align = 1;
    o[Y] = lf_operand("y", LF_OUT, LF_BF16, a->dim);
    o[Y].pitch = a->y_stride;
    if (a->x_stride == a->y_stride)
        o[Y].may_be = 1 + X;
    o[QUANTIZED] = lf_operand("quantized", LF_OUT, LF_BF16, s->quantizes ? a->dim : 0);
    o[QUANTIZED].pitch = a->y_stride, o[QUANTIZED].quantizes = 1 + Y;
}

static void bind(const struct lf_call *call, void *args) {
    struct shape *s = args;
    struct lf_rms_norm_args *a = &s->args;
    a->rows = call->rows;
    a->x = call->data[X], a->w = call->data[W], a->y = call->data[Y];
    a->quantized = s->quantizes ? call->data[QUANTIZED] : NULL;
}

static void bound(const void *args, const double *ref, double *error) {
    const struct lf_rms_norm_args *a = args;
    double each = lf_check_gamma(a->dim / 16.0 + 4.0) / 2.0 + 6 * 0x1p-24;
    for (size_t i = 0; i < (size_t)a->rows * a->dim; i++)
        error[i] = fabs(ref[i]) * each;
}

// One NaN or infinity in a row of numbers, and a row whose squares pass float32.
static void edges(struct lf_trial *trial, const struct lf_shape *shape) {
    static const uint16_t odd[] = {0x7FC1, 0x7F80, 0xFF80};
    struct lf_call *call;
    for (uint32_t i = 0; i < 3; i++) {
        call = lf_call_open(trial, shape, 2, LF_STYLE_NORMAL);
        *(uint16_t *)lf_call_at(call, X, 1, 5) = odd[i];
        lf_call_judge(call);
        lf_call_close(call);
    }
    call = lf_call_open(trial, shape, 2, LF_STYLE_NORMAL);
    *(uint16_t *)lf_call_at(call, X, 0, 3) = 0x7F7F;
    lf_call_run(call);
    lf_expect(call, !(*(uint16_t *)lf_call_at(call, Y, 0, 3) & 0x7FFF), Y, 0, 3,
              "expected 0: the mean is infinite");
    lf_call_close(call);
}

static const struct lf_control controls[] = {
    {1, "the last element is not in the sum", LF_GATE_BOUND, 0},
    {2, "eps outside the root", LF_GATE_BOUND, 0},
    {3, "rounded to bf16 before the weight", LF_GATE_BOUND, 0},
    {4, "the last element is not in the sum of the row at place 5", LF_GATE_ROWS, 0},
    {5, "a write past the row", LF_GATE_MEMORY, 0},
    {6, "what is not finite counts as 0", LF_GATE_EDGES, 0},
    {7, "quantized values are those that are stored", LF_GATE_BOUND, 0},
    {8, "the last group is not quantized", LF_GATE_MEMORY, 0},
};

const struct lf_record lf_rms_norm_record = {
    .name = "rms_norm", .file = "src/kernel/rms_norm/rms_norm_cpu.c",
    .contract = LF_RMS_NORM_CONTRACT, .operands = OPERANDS,
    .shapes = shapes, .ragged = ragged, .describe = describe, .bind = bind, .bound = bound,
    .hostile = 1 << 0 | 1 << 1 | 1 << 3 | 1 << 4, .edges = edges, .stack_bytes = 4096,
    .controls = controls, .n_controls = sizeof controls / sizeof *controls,
};
