// What the gates know of draft_join.
#include <math.h>
#include "contract/record.h"
#include "kernel/draft_join/draft_join.h"

enum { LOGITS, BIAS, OPERANDS };

static void add(struct lf_shapes *shapes, const char *model, uint32_t rows, uint32_t vocab,
                uint32_t stride) {
    struct lf_draft_join_args args = {.vocab = vocab, .logits_stride = stride};
    struct lf_shape *shape = lf_shapes_add(shapes, rows, &args, sizeof args, "%s %u of %u", model,
                                           vocab, stride);
    shape->work = (uint64_t)vocab + stride;
}

// One draft of every stream: the rows of a block lie between (model.md 11.4).
static void shapes(const struct lf_served *served, struct lf_shapes *shapes) {
    const struct lf_topology *t = served->t;
    if (t->draft_block)
        add(shapes, served->name, served->launch_rows, t->vocab, t->draft_block * t->vocab);
}

// One element, a part exactly, one past it, gaps.
static void ragged(struct lf_shapes *shapes) {
    add(shapes, "ragged", 64, 1, 1);
    add(shapes, "ragged", 64, 300, 305);
    add(shapes, "ragged", 64, 8192, 8192);
    add(shapes, "ragged", 64, 8193, 8200);
}

static void describe(const void *args, struct lf_operand *o) {
    const struct lf_draft_join_args *a = args;
    o[LOGITS] = lf_operand("logits", LF_INOUT, LF_F32, a->vocab);
    o[LOGITS].pitch = a->logits_stride, o[LOGITS].scale = 4.0f;
    o[BIAS] = lf_operand("bias", LF_IN, LF_F32, a->vocab);
    o[BIAS].scale = 2.0f;
}

static void bind(const struct lf_call *call, void *args) {
    struct lf_draft_join_args *a = args;
    a->rows = call->rows, a->logits = call->data[LOGITS], a->bias = call->data[BIAS];
}

// One rounded addition; results below 2^-126 are exact.
static void bound(const void *args, const double *ref, double *error) {
    const struct lf_draft_join_args *a = args;
    for (size_t i = 0; i < (size_t)a->rows * a->vocab; i++)
        error[i] = fabs(ref[i]) * 0x1p-24;
}

// Values and the exact bits of their sum: both zeros, cancelling, halves to even, every NaN.
static void edges(struct lf_trial *trial, const struct lf_shape *shape) {
    static const uint32_t sum[][3] = {
        {0x80000000, 0x80000000, 0x80000000}, {0x80000000, 0x00000000, 0x00000000},
        {0x3F800000, 0xBF800000, 0x00000000}, {0x3F800000, 0x33800000, 0x3F800000},
        {0x3F800001, 0x33800000, 0x3F800002}, {0x00000001, 0x80000002, 0x80000001},
        {0x7F7FFFFF, 0x73000000, 0x7F800000}, {0x7F800000, 0xFF800000, 0x7FC00000},
        {0xFFC12345, 0x3F800000, 0x7FC00000}, {0x3F800000, 0x7F812345, 0x7FC00000},
        {0xFF800000, 0x7F7FFFFF, 0xFF800000}};
    const struct lf_draft_join_args *a = (const void *)shape->args;
    struct lf_call *call = lf_call_open(trial, shape, 2, LF_STYLE_NORMAL);
    for (uint32_t i = 0; i < sizeof sum / sizeof *sum; i++) {
        uint32_t column = i % 2 ? a->vocab - 1 : 0;
        *(uint32_t *)lf_call_at(call, LOGITS, 1, column) = sum[i][0];
        *(uint32_t *)lf_call_at(call, BIAS, 1, column) = sum[i][1];
        lf_call_run(call);
        lf_expect_bits(call, LOGITS, 1, column, sum[i][2], "the sum, rounded to even");
    }
    lf_call_close(call);
}

static uint32_t products(const void *args, uint32_t rows, struct lf_product *product) {
    const struct lf_draft_join_args *a = args;
    product[0] = (struct lf_product){"parts", (uint64_t)rows * ((a->vocab + 8191u) / 8192), 32};
    return 1;
}

static const struct lf_control controls[] = {
    {1, "the bias of the neighbour row", LF_GATE_BOUND | LF_GATE_ROWS, 0},
    {2, "the bias of the last id left out", LF_GATE_BOUND, 0},
    {3, "the bias rounded to bf16", LF_GATE_BOUND, 0},
    {4, "a NaN keeps its own pattern", LF_GATE_EDGES, 0},
    {5, "a write past the row", LF_GATE_MEMORY, 0},
    {6, "the last part of the row at place 5 is left", LF_GATE_ROWS, 0},
    {7, "the sum kept in fp16", LF_GATE_BOUND, 0},
};

const struct lf_record lf_draft_join_record = {
    .name = "draft_join", .file = "src/kernel/draft_join/draft_join_cpu.c",
    .contract = LF_DRAFT_JOIN_CONTRACT, .operands = OPERANDS,
    .shapes = shapes, .ragged = ragged, .describe = describe, .bind = bind, .bound = bound,
    .hostile = 31, .edges = edges, .products = products, .stack_bytes = 4096,
    .controls = controls, .n_controls = sizeof controls / sizeof *controls,
};
