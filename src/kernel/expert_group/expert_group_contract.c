// What the gates know of expert_group.
#include <string.h>
#include "contract/record.h"
#include "kernel/expert_group/expert_group.h"

enum { ID, WEIGHT, FIRST, PAIR_ROW, PAIR_WEIGHT, PAIR_OF, OPERANDS };

// A row of the record is a launch: its results are the launch's as a whole.
static void add(struct lf_shapes *shapes, const char *model, uint32_t rows, uint32_t top,
                uint32_t experts) {
    struct lf_expert_group_args args = {.rows = rows, .top = top, .experts = experts};
    lf_shapes_add(shapes, 1, &args, sizeof args, "%s %u rows, %u of %u", model, rows, top, experts);
}

static void shapes(const struct lf_served *served, struct lf_shapes *shapes) {
    const struct lf_topology *t = served->t;
    const uint32_t rows[] = {1, 7, served->launch_rows,
                             served->whole ? served->chunk_rows : 512};
    for (uint32_t i = 0; i < sizeof rows / sizeof *rows; i++)
        add(shapes, served->name, rows[i], t->experts_top, t->experts);
    if (t->draft_experts)
        add(shapes, served->name, served->launch_rows, t->draft_experts_top, t->draft_experts);
}

static void ragged(struct lf_shapes *shapes) {
    add(shapes, "ragged", 3, 1, 1);
    add(shapes, "ragged", 5, 3, 300);
}

// Distinct experts a row, ascending, as router lists them.
static void fill_id(const struct lf_fill *fill, void *data, size_t n) {
    const struct lf_expert_group_args *a = fill->args;
    uint32_t *id = data;
    for (size_t i = 0; i < n; i++) {
        uint32_t left = a->top - (uint32_t)(i % a->top);
        uint32_t least = i % a->top ? id[i - 1] + 1 : 0;
        id[i] = least + lf_check_below(fill->rng, a->experts - left - least + 1);
    }
}

static void describe(const void *args, struct lf_operand *o) {
    const struct lf_expert_group_args *a = args;
    size_t choices = (size_t)a->rows * a->top;
    o[ID] = lf_operand("id", LF_RULE, LF_U32, choices);
    o[ID].fill = fill_id;
    o[WEIGHT] = lf_operand("weight", LF_IN, LF_F32, choices);
    o[FIRST] = lf_operand("first", LF_OUT, LF_U32, a->experts + 1);
    o[PAIR_ROW] = lf_operand("pair_row", LF_OUT, LF_U32, choices);
    o[PAIR_WEIGHT] = lf_operand("pair_weight", LF_OUT, LF_F32, choices);
    o[PAIR_OF] = lf_operand("pair_of", LF_OUT, LF_U32, choices);
}

static void bind(const struct lf_call *call, void *args) {
    struct lf_expert_group_args *a = args;
    a->rows = call->rows ? a->rows : 0;
    a->id = call->data[ID], a->weight = call->data[WEIGHT], a->first = call->data[FIRST];
    a->pair_row = call->data[PAIR_ROW], a->pair_weight = call->data[PAIR_WEIGHT];
    a->pair_of = call->data[PAIR_OF];
}

// Everything to one expert: the last, then the first.
static void edges(struct lf_trial *trial, const struct lf_shape *shape) {
    const struct lf_expert_group_args *a = (const void *)shape->args;
    for (uint32_t last = 0; a->top == 1 && last < 2; last++) {
        struct lf_call *call = lf_call_open(trial, shape, 1, LF_STYLE_NORMAL);
        for (uint32_t i = 0; i < a->rows; i++)
            *(uint32_t *)lf_call_at(call, ID, 0, i) = last ? a->experts - 1 : 0;
        lf_call_judge(call);
        lf_call_close(call);
    }
}

static uint32_t products(const void *args, uint32_t rows, struct lf_product *product) {
    const struct lf_expert_group_args *a = args;
    (void)rows;
    product[0] = (struct lf_product){"choices", (uint64_t)a->rows * a->top, 32};
    return 1;
}

static const struct lf_control controls[] = {
    {1, "an expert's rows in descending order", LF_GATE_BOUND, 0},
    {2, "weights not sorted with their pairs", LF_GATE_BOUND, 0},
    {3, "the place among a row's choices for the row", LF_GATE_BOUND, 0},
    {4, "the first expert starts where it ends", LF_GATE_BOUND | LF_GATE_EDGES, 0},
    {5, "a write past the starts", LF_GATE_MEMORY, 0},
    {6, "the last choice of long launches", LF_GATE_BOUND, 0},
};

const struct lf_record lf_expert_group_record = {
    .name = "expert_group", .file = "src/kernel/expert_group/expert_group_cpu.c",
    .contract = LF_EXPERT_GROUP_CONTRACT, .operands = OPERANDS, .shapes = shapes, .ragged = ragged,
    .describe = describe, .bind = bind, .hostile = 1 << 3 | 1 << 4, .edges = edges,
    .products = products, .cuda_products = products, .stack_bytes = 4096,
    .controls = controls, .n_controls = sizeof controls / sizeof *controls,
};
