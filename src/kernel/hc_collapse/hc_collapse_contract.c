// What the gates know of hc_collapse.
#include <math.h>
#include "contract/record.h"
#include "kernel/hc_collapse/hc_collapse.h"
#include "kernel/reference.h"

enum { X, PRE, NORM, Y, QUANTIZED, OPERANDS };

struct shape {
    struct lf_hc_collapse_args args;
    uint32_t normed, quantizes;
};

static void add(struct lf_shapes *shapes, const char *model, uint32_t rows, uint32_t streams,
                uint32_t dim, uint32_t normed, uint32_t quantizes) {
    struct shape shape = {.args = {.streams = streams, .dim = dim, .eps = 1e-20f},
                          .normed = normed, .quantizes = quantizes};
    lf_shapes_add(shapes, rows, &shape, sizeof shape, "%s %u x %u%s%s", model, streams, dim,
                  normed ? " normed" : "", quantizes ? " quantized" : "");
}

// Of drafts; before the head; before sublayers.
static void shapes(const struct lf_served *served, struct lf_shapes *shapes) {
    uint32_t streams = served->t->streams, dim = served->t->hidden;
    add(shapes, served->name, served->launch_rows, streams, dim, 0, 0);
    add(shapes, served->name, served->chunk_rows, streams, dim, 1, 0);
    add(shapes, served->name, served->chunk_rows, streams, dim, 1, 1);
}

static void ragged(struct lf_shapes *shapes) {
    add(shapes, "ragged", 64, 3, 257, 0, 0);
    add(shapes, "ragged", 64, 1, 7, 0, 0);
    add(shapes, "ragged", 64, 7, 33, 1, 0);
    add(shapes, "ragged", 64, 2, 96, 1, 1);
    add(shapes, "ragged", 16, 2, 6240, 1, 1);
}

static void describe(const void *args, struct lf_operand *o) {
    const struct shape *s = args;
    const struct lf_hc_collapse_args *a = &s->args;
    o[X] = lf_operand("x", LF_IN, LF_BF16, (size_t)a->streams * a->dim);
    o[X].scale = 3.0f;
    o[PRE] = lf_operand("pre", LF_IN, LF_F32, a->streams);
    o[PRE].scale = 0.5f;
    o[NORM] = lf_operand("norm", LF_WEIGHT, LF_BF16, s->normed ? a->dim : 0);
    o[NORM].align = 1;
    o[Y] = lf_operand("y", LF_OUT, LF_BF16, a->dim);
    o[QUANTIZED] = lf_operand("quantized", LF_OUT, LF_BF16, s->quantizes ? a->dim : 0);
    o[QUANTIZED].quantizes = 1 + Y;
}

static void bind(const struct lf_call *call, void *args) {
    struct shape *s = args;
    struct lf_hc_collapse_args *a = &s->args;
    a->rows = call->rows, a->x = call->data[X], a->pre = call->data[PRE], a->y = call->data[Y];
    a->norm = s->normed ? call->data[NORM] : NULL;
    a->quantized = s->quantizes ? call->data[QUANTIZED] : NULL;
}

static void bound(const void *args, const double *ref, double *error) {
    const struct lf_hc_collapse_args *a = args;
    double normed = lf_check_gamma(a->dim / 16.0 + 4.0) / 2.0 + 6 * 0x1p-24;
    for (size_t row = 0; row < a->rows; row++)
        for (size_t d = 0; d < a->dim; d++) {
            double sum = 0;
            for (size_t i = 0; i < a->streams; i++)
                sum += fabs((double)a->pre[row * a->streams + i] *
                            lf_ref_bf16(a->x, (row * a->streams + i) * a->dim + d));
            error[row * a->dim + d] = a->norm ? fabs(ref[row * a->dim + d]) * normed
                                              : lf_check_gamma(a->streams) * sum + 0x1p-147;
        }
}

static const struct lf_control controls[] = {
    {11, "the last stream is not in the sum", LF_GATE_BOUND, 0},
    {12, "weights rounded to bf16", LF_GATE_BOUND, 0},
    {13, "the running total rounded to bf16", LF_GATE_BOUND, 0},
    {14, "the row at place 5 takes the first row's weights", LF_GATE_ROWS, 0},
    {15, "a write past the row", LF_GATE_MEMORY, 0},
    {16, "what is not finite counts as 0", LF_GATE_EDGES, 0},
    {17, "the norm with another eps", LF_GATE_BOUND, 0},
    {18, "all quantized rows at the place of the first", LF_GATE_BOUND, 0},
};

const struct lf_record lf_hc_collapse_record = {
    .name = "hc_collapse", .file = "src/kernel/hc_collapse/hc_collapse_cpu.c",
    .contract = LF_HC_COLLAPSE_CONTRACT, .operands = OPERANDS, .shapes = shapes, .ragged = ragged,
    .describe = describe, .bind = bind, .bound = bound,
    .hostile = 1 << 0 | 1 << 1 | 1 << 3 | 1 << 4, .stack_bytes = 8192,
    .controls = controls, .n_controls = sizeof controls / sizeof *controls,
};
