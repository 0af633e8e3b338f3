// What the gates know of act_quant.
#include "contract/record.h"
#include "kernel/act_quant/act_quant.h"

enum { X, Y, OPERANDS };
enum { GROUP = 32 };

static void add(struct lf_shapes *shapes, const char *model, uint32_t rows,
                enum lf_act_format format, uint32_t dim) {
    struct lf_act_quant_args args = {.format = format, .dim = dim, .x_stride = dim,
                                     .y_stride = dim};
    lf_shapes_add(shapes, rows, &args, sizeof args, "%s %s %u", model,
                  format == LF_ACT_QA8 ? "QA8" : "QF4e", dim);
}

// Inputs of quantized maps, and index queries.
static void shapes(const struct lf_served *served, struct lf_shapes *shapes) {
    const struct lf_topology *t = served->t;
    const uint32_t dim[] = {t->hidden, t->q_lora, t->o_groups * t->o_lora, t->expert_dim};
    for (uint32_t i = 0; i < 4; i++)
        add(shapes, served->name, served->chunk_rows, LF_ACT_QA8, dim[i]);
    add(shapes, served->name, served->chunk_rows, LF_ACT_QF4E, t->index_heads * t->index_dim);
}

static void ragged(struct lf_shapes *shapes) {
    for (uint32_t format = LF_ACT_QA8; format <= LF_ACT_QF4E; format++) {
        struct lf_act_quant_args apart = {.format = format, .dim = 96, .x_stride = 99,
                                          .y_stride = 104};
        add(shapes, "ragged", 64, format, GROUP);
        lf_shapes_add(shapes, 64, &apart, sizeof apart, "ragged 96 with gaps, format %u", format);
    }
}

// Rows of all exponents, so that every scale comes up.
static void fill_x(const struct lf_fill *fill, void *data, size_t n) {
    uint16_t *x = data;
    for (size_t i = 0; i < n; i += GROUP) {
        double power = (double)lf_check_below(fill->rng, 200) - 100;
        float scale = fill->style == LF_STYLE_NORMAL ? 1.0f : (float)__builtin_exp2(power);
        lf_check_fill_bf16(fill->rng, fill->style, scale, x + i, GROUP);
    }
}

static void describe(const void *args, struct lf_operand *o) {
    const struct lf_act_quant_args *a = args;
    o[X] = lf_operand("x", LF_IN, LF_BF16, a->dim);
    o[X].pitch = a->x_stride, o[X].fill = fill_x;
    o[Y] = lf_operand("y", LF_OUT, LF_BF16, a->dim);
    o[Y].pitch = a->y_stride;
    if (a->x_stride == a->y_stride)
        o[Y].may_be = 1 + X;
}

static void bind(const struct lf_call *call, void *args) {
    struct lf_act_quant_args *a = args;
    a->rows = call->rows, a->x = call->data[X], a->y = call->data[Y];
}

// Each value that is not finite makes its group NaN; ties, both zeros, subnormal results.
static void edges(struct lf_trial *trial, const struct lf_shape *shape) {
    static const uint16_t odd[] = {0x7F81, 0xFFFF, 0x7F80, 0xFF80};
    // With a largest value of 448 (QA8) or 6 (QF4e) the scale is 1: halves between codes.
    static const uint16_t tie[] = {0x3F88, 0x3F98, 0xBF88, 0x3E80, 0x40A0, 0x4060, 0x8000, 0x3B80};
    const struct lf_act_quant_args *a = (const void *)shape->args;
    struct lf_call *call;
    for (uint32_t i = 0; i < 4; i++) {
        call = lf_call_open(trial, shape, 2, LF_STYLE_NORMAL);
        *(uint16_t *)lf_call_at(call, X, 1, a->dim - 1 - 7 * i) = odd[i];
        lf_call_judge(call);
        lf_call_close(call);
    }
    call = lf_call_open(trial, shape, 2, LF_STYLE_NORMAL);
    for (uint32_t c = 0; c < a->dim; c++)
        *(uint16_t *)lf_call_at(call, X, 0, c) = tie[c % 8];
    for (uint32_t c = 0; c < a->dim; c += GROUP)
        *(uint16_t *)lf_call_at(call, X, 0, c) = a->format == LF_ACT_QA8 ? 0x43E0 : 0x40C0;
    lf_call_judge(call);
    lf_call_close(call);
}

static uint32_t products(const void *args, uint32_t rows, struct lf_product *product) {
    const struct lf_act_quant_args *a = args;
    product[0] = (struct lf_product){"tasks", ((uint64_t)rows * (a->dim / GROUP) + 255) / 256, 32};
    return 1;
}

static uint32_t cuda_products(const void *args, uint32_t rows, struct lf_product *product) {
    const struct lf_act_quant_args *a = args;
    product[0] = (struct lf_product){"blocks", ((uint64_t)rows * (a->dim / GROUP) + 7) / 8, 32};
    return 1;
}

static const struct lf_control controls[] = {
    {41, "values pass without rounding", LF_GATE_BOUND, 0},
    {42, "the QA8 scale rounded down", LF_GATE_BOUND, 0},
    {43, "a group's maximum over 31 of its 32 values", LF_GATE_BOUND, 0},
    {44, "QA8 codes truncated", LF_GATE_BOUND, 0},
    {45, "the QF4e scale for a largest code of 4", LF_GATE_BOUND, 0},
    {46, "a group that is not finite becomes 0", LF_GATE_EDGES, 0},
    {7, "in launches of many rows a task leaves its last group", LF_GATE_ROWS, 0},
    {8, "a group past the last row is written", LF_GATE_MEMORY, 0},
};

const struct lf_record lf_act_quant_record = {
    .name = "act_quant", .file = "src/kernel/act_quant/act_quant_cpu.c",
    .contract = LF_ACT_QUANT_CONTRACT, .operands = OPERANDS,
    .shapes = shapes, .ragged = ragged, .describe = describe, .bind = bind,
    .hostile = 31, .edges = edges, .products = products,
    .cuda_products = cuda_products, .stack_bytes = 4096,
    .controls = controls, .n_controls = sizeof controls / sizeof *controls,
};
