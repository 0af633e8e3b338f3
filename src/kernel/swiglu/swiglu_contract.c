// What the gates know of swiglu.
#include <math.h>
#include "contract/record.h"
#include "kernel/reference.h"
#include "kernel/swiglu/swiglu.h"

enum { GATE, UP, WEIGHT, Y, QUANTIZED, OPERANDS };

struct shape {
    struct lf_swiglu_args args;
    uint32_t weighted, quantizes;
};

static void add(struct lf_shapes *shapes, const char *model, uint32_t rows, uint32_t dim,
                float limit, uint32_t weighted, uint32_t quantizes) {
    struct shape shape = {.args = {.dim = dim, .limit = limit}, .weighted = weighted,
                          .quantizes = quantizes};
    lf_shapes_add(shapes, rows, &shape, sizeof shape, "%s %u%s%s", model, dim,
                  weighted ? " weighted" : "", quantizes ? " quantized" : "");
}

// Pairs of routed experts, rows of the shared one; for maps that quantize their input and others.
static void shapes(const struct lf_served *served, struct lf_shapes *shapes) {
    const struct lf_topology *t = served->t;
    for (uint32_t quantizes = 0; quantizes < 2; quantizes++) {
        add(shapes, served->name, served->chunk_rows * t->experts_top, t->expert_dim,
            t->swiglu_limit, 1, quantizes);
        add(shapes, served->name, served->chunk_rows, t->expert_dim, t->swiglu_limit, 0, quantizes);
    }
}

static void ragged(struct lf_shapes *shapes) {
    add(shapes, "ragged", 64, 513, 1.5f, 1, 0);
    add(shapes, "ragged", 64, 7, 10.0f, 0, 0);
    add(shapes, "ragged", 64, 96, 10.0f, 1, 1);
}

static void describe(const void *args, struct lf_operand *o) {
    const struct shape *shape = args;
    o[GATE] = lf_operand("gate", LF_IN, LF_BF16, shape->args.dim);
    o[GATE].scale = 4.0f;
    o[UP] = lf_operand("up", LF_IN, LF_BF16, shape->args.dim);
    o[UP].scale = 4.0f;
    o[WEIGHT] = lf_operand("weight", LF_IN, LF_F32, shape->weighted);
    o[WEIGHT].scale = 0.5f;
    o[Y] = lf_operand("y", LF_OUT, LF_BF16, shape->args.dim);
    o[Y].may_be = 1 + GATE;
    o[QUANTIZED] = lf_operand("quantized", LF_OUT, LF_BF16,
                              shape->quantizes ? shape->args.dim : 0);
    o[QUANTIZED].may_be = 1 + UP, o[QUANTIZED].quantizes = 1 + Y;
}

static void bind(const struct lf_call *call, void *args) {
    struct shape *shape = args;
    shape->args.rows = call->rows;
    shape->args.gate = call->data[GATE], shape->args.up = call->data[UP];
    shape->args.weight = call->data[WEIGHT];
    shape->args.weighted = shape->weighted ? call->rows : 0;
    shape->args.y = call->data[Y];
    shape->args.quantized = shape->quantizes ? call->data[QUANTIZED] : NULL;
}

// Seven roundings and exp's ulp; below -86 the sigmoid may be flushed, which is tiny in itself.
static void bound(const void *args, const double *ref, double *error) {
    const struct lf_swiglu_args *a = args;
    for (size_t i = 0; i < (size_t)a->rows * a->dim; i++) {
        double g = lf_ref_bf16(a->gate, i), u = lf_ref_bf16(a->up, i);
        double weight = i / a->dim < a->weighted ? fabs((double)a->weight[i / a->dim]) : 1.0;
        double tiny = g > -120 && g < -86 ? fabs(g) * 0x1p-124 : 0x1p-149;
        error[i] = lf_check_gamma(9) * fabs(ref[i]) + 0x1p-149 * fmin(fabs(u), 1e3) +
                   (tiny * (double)a->limit + 0x1p-149) * (weight + 1);
    }
}

// Each value that float32 tells from its neighbour on either side of a clamp, and both infinities.
static void edges(struct lf_trial *trial, const struct lf_shape *shape) {
    static const uint16_t odd[] = {0x4120, 0x4121, 0x411F, 0xC120, 0xC121, 0xC11F, 0x7F80, 0x7FC1,
                                   0xC2B2, 0xC2B3, 0x0000, 0x8000};
    const struct shape *s = (const void *)shape->args;
    struct lf_call *call = lf_call_open(trial, shape, 2, LF_STYLE_NORMAL);
    for (uint32_t c = 0; c < s->args.dim; c++) {
        *(uint16_t *)lf_call_at(call, GATE, 0, c) = odd[c % 12];
        *(uint16_t *)lf_call_at(call, UP, 1, c) = c % 12 == 7 ? 0xFF80 : odd[c % 12];
    }
    lf_call_judge(call);
    lf_call_close(call);
}

static uint32_t cuda_products(const void *args, uint32_t rows, struct lf_product *product) {
    const struct lf_swiglu_args *a = args;
    product[0] = (struct lf_product){"blocks", ((uint64_t)rows * a->dim + 255) / 256, 32};
    return 1;
}

static const struct lf_control controls[] = {
    {1, "the gate is not clamped", LF_GATE_BOUND, 0},
    {2, "up is clamped on one side only", LF_GATE_BOUND, 0},
    {3, "the sigmoid without the gate", LF_GATE_BOUND, 0},
    {4, "the weight is left out", LF_GATE_BOUND, 0},
    {5, "rounded to bf16 before the weight", LF_GATE_BOUND, 0},
    {6, "the row at place 5 takes the first row's weight", LF_GATE_ROWS, 0},
    {7, "a write past the row", LF_GATE_MEMORY, 0},
    {8, "a NaN is clamped", LF_GATE_EDGES, 0},
    {9, "the last row that has a weight goes without it", LF_GATE_BOUND, 0},
    {10, "quantized values are those that are stored", LF_GATE_BOUND, 0},
};

const struct lf_record lf_swiglu_record = {
    .name = "swiglu", .file = "src/kernel/swiglu/swiglu_cpu.c", .contract = LF_SWIGLU_CONTRACT,
    .operands = OPERANDS, .shapes = shapes, .ragged = ragged, .describe = describe, .bind = bind,
    .bound = bound, .hostile = 1 << 0 | 1 << 3 | 1 << 4, .edges = edges,
    .cuda_products = cuda_products, .stack_bytes = 8192,
    .controls = controls, .n_controls = sizeof controls / sizeof *controls,
};
