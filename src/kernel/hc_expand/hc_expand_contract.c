// What the gates know of hc_expand.
#include <math.h>
#include "contract/record.h"
#include "kernel/hc_expand/hc_expand.h"
#include "kernel/reference.h"

enum { X, B, POST, COMB, OPERANDS };

static void add(struct lf_shapes *shapes, const char *model, uint32_t rows, uint32_t streams,
                uint32_t dim) {
    struct lf_hc_expand_args args = {.streams = streams, .dim = dim};
    lf_shapes_add(shapes, rows, &args, sizeof args, "%s %u x %u", model, streams, dim);
}

static void shapes(const struct lf_served *served, struct lf_shapes *shapes) {
    add(shapes, served->name, served->chunk_rows, served->t->streams, served->t->hidden);
}

static void ragged(struct lf_shapes *shapes) {
    add(shapes, "ragged", 64, 3, 257);
    add(shapes, "ragged", 64, LF_STREAMS_MAX, 7);
}

static void describe(const void *args, struct lf_operand *o) {
    const struct lf_hc_expand_args *a = args;
    o[X] = lf_operand("x", LF_INOUT, LF_BF16, (size_t)a->streams * a->dim);
    o[X].scale = 3.0f;
    o[B] = lf_operand("b", LF_IN, LF_BF16, a->dim);
    o[POST] = lf_operand("post", LF_IN, LF_F32, a->streams);
    o[COMB] = lf_operand("comb", LF_IN, LF_F32, (size_t)a->streams * a->streams);
    o[COMB].scale = 0.5f;
}

static void bind(const struct lf_call *call, void *args) {
    struct lf_hc_expand_args *a = args;
    a->rows = call->rows, a->x = call->data[X], a->b = call->data[B];
    a->post = call->data[POST], a->comb = call->data[COMB];
}

static void bound(const void *args, const double *ref, double *error) {
    const struct lf_hc_expand_args *a = args;
    size_t s = a->streams;
    (void)ref;
    for (size_t row = 0; row < a->rows; row++)
        for (size_t j = 0; j < s; j++)
            for (size_t d = 0; d < a->dim; d++) {
                double sum = fabs((double)a->post[row * s + j] *
                                  lf_ref_bf16(a->b, row * a->dim + d));
                for (size_t i = 0; i < s; i++)
                    sum += fabs((double)a->comb[(row * s + i) * s + j] *
                                lf_ref_bf16(a->x, (row * s + i) * a->dim + d));
                *error++ = lf_check_gamma(a->streams + 1) * sum + 0x1p-146;
            }
}

static const struct lf_control controls[] = {
    {1, "sums over the second index of comb", LF_GATE_BOUND, 0},
    {2, "the sublayer's output is left out", LF_GATE_BOUND, 0},
    {3, "the last old stream is not in the sum", LF_GATE_BOUND, 0},
    {4, "later streams see the new ones before them", LF_GATE_BOUND, 0},
    {5, "the row at place 5 takes the first row's comb", LF_GATE_ROWS, 0},
    {6, "the last columns are left as they were", LF_GATE_BOUND, 0},
    {7, "a write past the last stream", LF_GATE_MEMORY, 0},
    {8, "what is not finite counts as 0", LF_GATE_EDGES, 0},
};

const struct lf_record lf_hc_expand_record = {
    .name = "hc_expand", .file = "src/kernel/hc_expand/hc_expand_cpu.c",
    .contract = LF_HC_EXPAND_CONTRACT, .operands = OPERANDS, .shapes = shapes, .ragged = ragged,
    .describe = describe, .bind = bind, .bound = bound,
    .hostile = 1 << 0 | 1 << 1 | 1 << 3 | 1 << 4, .stack_bytes = 16384,
    .controls = controls, .n_controls = sizeof controls / sizeof *controls,
};
