// What the gates know of hc_collapse.
#include <math.h>
#include "contract/record.h"
#include "kernel/hc_collapse/hc_collapse.h"
#include "kernel/reference.h"

enum { X, PRE, Y, OPERANDS };

static void add(struct lf_shapes *shapes, const char *model, uint32_t rows, uint32_t streams,
                uint32_t dim) {
    struct lf_hc_collapse_args args = {.streams = streams, .dim = dim};
    lf_shapes_add(shapes, rows, &args, sizeof args, "%s %u x %u", model, streams, dim);
}

static void shapes(const struct lf_served *served, struct lf_shapes *shapes) {
    add(shapes, served->name, served->chunk_rows, served->t->streams, served->t->hidden);
}

static void ragged(struct lf_shapes *shapes) {
    add(shapes, "ragged", 64, 3, 257);
    add(shapes, "ragged", 64, 1, 7);
}

static void describe(const void *args, struct lf_operand *o) {
    const struct lf_hc_collapse_args *a = args;
    o[X] = lf_operand("x", LF_IN, LF_BF16, (size_t)a->streams * a->dim);
    o[X].scale = 3.0f;
    o[PRE] = lf_operand("pre", LF_IN, LF_F32, a->streams);
    o[PRE].scale = 0.5f;
    o[Y] = lf_operand("y", LF_OUT, LF_BF16, a->dim);
}

static void bind(const struct lf_call *call, void *args) {
    struct lf_hc_collapse_args *a = args;
    a->rows = call->rows, a->x = call->data[X], a->pre = call->data[PRE], a->y = call->data[Y];
}

static void bound(const void *args, const double *ref, double *error) {
    const struct lf_hc_collapse_args *a = args;
    (void)ref;
    for (size_t row = 0; row < a->rows; row++)
        for (size_t d = 0; d < a->dim; d++) {
            double sum = 0;
            for (size_t i = 0; i < a->streams; i++)
                sum += fabs((double)a->pre[row * a->streams + i] *
                            lf_ref_bf16(a->x, (row * a->streams + i) * a->dim + d));
            error[row * a->dim + d] = lf_check_gamma(a->streams) * sum + 0x1p-147;
        }
}

static const struct lf_control controls[] = {
    {1, "the last stream is not in the sum", LF_GATE_BOUND, 0},
    {2, "weights rounded to bf16", LF_GATE_BOUND, 0},
    {3, "the running total rounded to bf16", LF_GATE_BOUND, 0},
    {4, "the row at place 5 takes the first row's weights", LF_GATE_ROWS, 0},
    {5, "a write past the row", LF_GATE_MEMORY, 0},
    {6, "what is not finite counts as 0", LF_GATE_EDGES, 0},
};

const struct lf_record lf_hc_collapse_record = {
    .name = "hc_collapse", .file = "src/kernel/hc_collapse/hc_collapse_cpu.c",
    .contract = LF_HC_COLLAPSE_CONTRACT, .operands = OPERANDS, .shapes = shapes, .ragged = ragged,
    .describe = describe, .bind = bind, .bound = bound,
    .hostile = 1 << 0 | 1 << 1 | 1 << 3 | 1 << 4, .stack_bytes = 8192,
    .controls = controls, .n_controls = sizeof controls / sizeof *controls,
};
