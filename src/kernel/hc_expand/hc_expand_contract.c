// What the gates know of hc_expand.
#include <math.h>
#include "contract/record.h"
#include "kernel/hc_expand/hc_expand.h"
#include "kernel/reference.h"

enum { X, B, POST, COMB, PRE, NORM, Y, QUANTIZED, OPERANDS };

struct shape {
    struct lf_hc_expand_args args;
    uint32_t collapses, quantizes;
};

static void add(struct lf_shapes *shapes, const char *model, uint32_t rows, uint32_t streams,
                uint32_t dim, uint32_t collapses, uint32_t quantizes) {
    struct shape shape = {.args = {.streams = streams, .dim = dim, .eps = 1e-20f},
                          .collapses = collapses, .quantizes = quantizes};
    lf_shapes_add(shapes, rows, &shape, sizeof shape, "%s %u x %u%s%s", model, streams, dim,
                  collapses ? " collapsed" : "", quantizes ? " quantized" : "");
}

// After experts, after attention.
static void shapes(const struct lf_served *served, struct lf_shapes *shapes) {
    uint32_t streams = served->t->streams, dim = served->t->hidden;
    add(shapes, served->name, served->chunk_rows, streams, dim, 0, 0);
    add(shapes, served->name, served->chunk_rows, streams, dim, 1, 1);
}

static void ragged(struct lf_shapes *shapes) {
    add(shapes, "ragged", 64, 3, 257, 0, 0);
    add(shapes, "ragged", 64, LF_STREAMS_MAX, 7, 0, 0);
    add(shapes, "ragged", 64, 7, 33, 1, 0);
    add(shapes, "ragged", 64, 2, 96, 1, 1);
}

static void describe(const void *args, struct lf_operand *o) {
    const struct shape *s = args;
    const struct lf_hc_expand_args *a = &s->args;
    o[X] = lf_operand("x", LF_INOUT, LF_BF16, (size_t)a->streams * a->dim);
    o[X].scale = 3.0f;
    o[B] = lf_operand("b", LF_IN, LF_BF16, a->dim);
    o[POST] = lf_operand("post", LF_IN, LF_F32, a->streams);
    o[COMB] = lf_operand("comb", LF_IN, LF_F32, (size_t)a->streams * a->streams);
    o[COMB].scale = 0.5f;
    o[PRE] = lf_operand("pre", LF_IN, LF_F32, s->collapses ? a->streams : 0);
    o[PRE].scale = 0.5f;
    o[NORM] = lf_operand("norm", LF_WEIGHT, LF_BF16, s->collapses ? a->dim : 0);
    o[NORM].align = 1;
    o[Y] = lf_operand("y", LF_OUT, LF_BF16, s->collapses ? a->dim : 0);
    o[QUANTIZED] = lf_operand("quantized", LF_OUT, LF_BF16, s->quantizes ? a->dim : 0);
    o[QUANTIZED].quantizes = 1 + Y;
}

static void bind(const struct lf_call *call, void *args) {
    struct shape *s = args;
    struct lf_hc_expand_args *a = &s->args;
    a->rows = call->rows, a->x = call->data[X], a->b = call->data[B];
    a->post = call->data[POST], a->comb = call->data[COMB];
    if (!s->collapses)
        return;
    a->pre = call->data[PRE], a->norm = call->data[NORM], a->y = call->data[Y];
    a->quantized = s->quantizes ? call->data[QUANTIZED] : NULL;
}

static double expand_error(const struct lf_hc_expand_args *a, size_t row, size_t j, size_t d) {
    size_t s = a->streams;
    double sum = fabs((double)a->post[row * s + j] * lf_ref_bf16(a->b, row * a->dim + d));
    for (size_t i = 0; i < s; i++)
        sum += fabs((double)a->comb[(row * s + i) * s + j] *
                    lf_ref_bf16(a->x, (row * s + i) * a->dim + d));
    return lf_check_gamma(a->streams + 1) * sum + 0x1p-146;
}

static void bound(const void *args, const double *ref, double *error) {
    const struct lf_hc_expand_args *a = args;
    size_t wide = (size_t)a->streams * a->dim, all = wide + (a->pre ? a->dim : 0);
    double normed = lf_check_gamma(a->dim / 16.0 + 4.0) / 2.0 + 6 * 0x1p-24;
    for (size_t row = 0; row < a->rows; row++, ref += all)
        for (size_t c = 0; c < all; c++)
            *error++ = c < wide ? expand_error(a, row, c / a->dim, c % a->dim)
                                : fabs(ref[c]) * normed;
}

static const struct lf_control controls[] = {
    {21, "sums over the second index of comb", LF_GATE_BOUND, 0},
    {22, "the sublayer's output is left out", LF_GATE_BOUND, 0},
    {23, "the last old stream is not in the sum", LF_GATE_BOUND, 0},
    {24, "later streams see the new ones before them", LF_GATE_BOUND, 0},
    {25, "the row at place 5 takes the first row's comb", LF_GATE_ROWS, 0},
    {26, "the last columns are left as they were", LF_GATE_BOUND, 0},
    {27, "a write past the last stream", LF_GATE_MEMORY, 0},
    {28, "what is not finite counts as 0", LF_GATE_EDGES, 0},
    {29, "the old streams are collapsed", LF_GATE_BOUND, 0},
    {30, "collapsed with the first row's weights", LF_GATE_BOUND, 0},
};

const struct lf_record lf_hc_expand_record = {
    .name = "hc_expand", .file = "src/kernel/hc_expand/hc_expand_cpu.c",
    .contract = LF_HC_EXPAND_CONTRACT, .operands = OPERANDS, .shapes = shapes, .ragged = ragged,
    .describe = describe, .bind = bind, .bound = bound,
    .hostile = 1 << 0 | 1 << 1 | 1 << 3 | 1 << 4, .stack_bytes = 16384,
    .controls = controls, .n_controls = sizeof controls / sizeof *controls,
};
