// What the gates know of stream_mean.
#include <math.h>
#include "contract/record.h"
#include "kernel/reference.h"
#include "kernel/stream_mean/stream_mean.h"

enum { X, Y, OPERANDS };

static void add(struct lf_shapes *shapes, const char *model, uint32_t rows, uint32_t streams,
                uint32_t dim) {
    struct lf_stream_mean_args args = {.streams = streams, .dim = dim};
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
    const struct lf_stream_mean_args *a = args;
    o[X] = lf_operand("x", LF_IN, LF_BF16, (size_t)a->streams * a->dim);
    o[X].scale = 3.0f;
    o[Y] = lf_operand("y", LF_OUT, LF_BF16, a->dim);
}

static void bind(const struct lf_call *call, void *args) {
    struct lf_stream_mean_args *a = args;
    a->rows = call->rows, a->x = call->data[X], a->y = call->data[Y];
}

static void bound(const void *args, const double *ref, double *error) {
    const struct lf_stream_mean_args *a = args;
    (void)ref;
    for (size_t row = 0; row < a->rows; row++)
        for (size_t d = 0; d < a->dim; d++) {
            double sum = 0;
            for (size_t i = 0; i < a->streams; i++)
                sum += fabs(lf_ref_bf16(a->x, (row * a->streams + i) * a->dim + d));
            error[row * a->dim + d] = lf_check_gamma(a->streams) * sum / a->streams + 0x1p-149;
        }
}

static const struct lf_control controls[] = {
    {1, "the last stream is not in the sum", LF_GATE_BOUND, 0},
    {2, "the sum is not divided", LF_GATE_BOUND, 0},
    {3, "the running total rounded to bf16", LF_GATE_BOUND, 0},
    {4, "the row at place 5 loses its last stream", LF_GATE_ROWS, 0},
    {5, "a write past the row", LF_GATE_MEMORY, 0},
    {6, "what is not finite counts as 0", LF_GATE_EDGES, 0},
};

// The largest finite values overflow in the sum: infinity, where float64 has their mean.
static void edges(struct lf_trial *trial, const struct lf_shape *shape) {
    const struct lf_stream_mean_args *a = (const void *)shape->args;
    struct lf_call *call = lf_call_open(trial, shape, 1, LF_STYLE_NORMAL);
    for (uint32_t i = 0; i < a->streams; i++)
        *(uint16_t *)lf_call_at(call, X, 0, (size_t)i * a->dim) = 0x7F7F;
    lf_call_run(call);
    lf_expect_bits(call, Y, 0, 0, a->streams > 1 ? 0x7F80 : 0x7F7F, "the sum overflows");
    lf_call_close(call);
}

const struct lf_record lf_stream_mean_record = {
    .name = "stream_mean", .file = "src/kernel/stream_mean/stream_mean_cpu.c",
    .contract = LF_STREAM_MEAN_CONTRACT, .operands = OPERANDS, .shapes = shapes, .ragged = ragged,
    .describe = describe, .bind = bind, .bound = bound, .edges = edges,
    .hostile = 1 << 0 | 1 << 1 | 1 << 3 | 1 << 4, .stack_bytes = 8192,
    .controls = controls, .n_controls = sizeof controls / sizeof *controls,
};
