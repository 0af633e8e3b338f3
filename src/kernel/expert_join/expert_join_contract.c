// What the gates know of expert_join.
#include <math.h>
#include <string.h>
#include "contract/record.h"
#include "kernel/expert_join/expert_join.h"
#include "kernel/reference.h"

enum { EXPERT, PAIR, SHARED, Y, OPERANDS };

struct shape {
    struct lf_expert_join_args args;
    uint32_t shared;
};

static void add(struct lf_shapes *shapes, const char *model, uint32_t rows, uint32_t top,
                uint32_t dim, uint32_t shared) {
    struct shape shape = {.args = {.top = top, .dim = dim}, .shared = shared};
    lf_shapes_add(shapes, rows, &shape, sizeof shape, "%s %u of %u%s", model, top, dim,
                  shared ? " and shared" : "");
}

static void shapes(const struct lf_served *served, struct lf_shapes *shapes) {
    const struct lf_topology *t = served->t;
    add(shapes, served->name, served->chunk_rows, t->experts_top, t->hidden, t->shared_experts);
    add(shapes, served->name, served->launch_rows, t->draft_experts_top, t->hidden,
        t->shared_experts);
}

static void ragged(struct lf_shapes *shapes) {
    add(shapes, "ragged", 64, 3, 257, 0);
    add(shapes, "ragged", 64, 1, 7, 1);
}

static void fill_pair(const struct lf_fill *fill, void *data, size_t n) {
    (void)fill;
    memset(data, 0, n * sizeof(uint32_t)); // bind knows the places
}

static void describe(const void *args, struct lf_operand *o) {
    const struct shape *s = args;
    o[EXPERT] = lf_operand("expert", LF_IN, LF_BF16, (size_t)s->args.top * s->args.dim);
    o[PAIR] = lf_operand("pair", LF_RULE, LF_U32, s->args.top);
    o[PAIR].fill = fill_pair;
    o[SHARED] = lf_operand("shared", LF_IN, LF_BF16, s->shared ? s->args.dim : 0);
    o[Y] = lf_operand("y", LF_OUT, LF_BF16, s->args.dim);
}

// A row's pairs lie together here, its last choice first.
static void bind(const struct lf_call *call, void *args) {
    struct shape *s = args;
    uint32_t top = s->args.top, *pair = call->data[PAIR];
    for (uint32_t i = 0; i < call->rows * top; i++)
        pair[i] = i / top * top + (top - 1 - i % top);
    s->args.rows = call->rows, s->args.expert = call->data[EXPERT], s->args.pair = pair;
    s->args.shared = s->shared ? call->data[SHARED] : NULL;
    s->args.y = call->data[Y];
}

static void bound(const void *args, const double *ref, double *error) {
    const struct lf_expert_join_args *a = args;
    (void)ref;
    for (size_t row = 0; row < a->rows; row++)
        for (size_t d = 0; d < a->dim; d++) {
            double sum = a->shared ? fabs(lf_ref_bf16(a->shared, row * a->dim + d)) : 0;
            for (size_t k = 0; k < a->top; k++)
                sum += fabs(lf_ref_bf16(a->expert, a->pair[row * a->top + k] * (size_t)a->dim + d));
            *error++ = lf_check_gamma(a->top) * sum;
        }
}

// Float32 adds in the order of the ids: a large pair that cancels takes the small one with it.
static void edges(struct lf_trial *trial, const struct lf_shape *shape) {
    static const uint16_t first[] = {0x4B80, 0x3F80, 0xCB80}; // 2^24, 1, -2^24
    const struct shape *s = (const void *)shape->args;
    uint32_t top = s->args.top, dim = s->args.dim;
    struct lf_call *call;
    if (top < 3)
        return;
    call = lf_call_open(trial, shape, 1, LF_STYLE_NORMAL);
    memset(lf_call_at(call, EXPERT, 0, 0), 0, (size_t)top * dim * 2);
    if (s->shared)
        memset(lf_call_at(call, SHARED, 0, 0), 0, dim * 2);
    for (uint32_t k = 0; k < 3; k++)
        *(uint16_t *)lf_call_at(call, EXPERT, 0, (size_t)(top - 1 - k) * dim) = first[k];
    lf_call_run(call);
    lf_expect_bits(call, Y, 0, 0, 0, "2^24 + 1 rounds to 2^24 in the order of the ids");
    lf_call_close(call);
}

static uint32_t products(const void *args, uint32_t rows, struct lf_product *product) {
    const struct lf_expert_join_args *a = args;
    product[0] = (struct lf_product){"pairs", (uint64_t)rows * a->top, 32};
    return 1;
}

static const struct lf_control controls[] = {
    {1, "the shared expert is added twice", LF_GATE_BOUND, 0},
    {2, "the shared expert is left out", LF_GATE_BOUND, 0},
    {3, "the last expert is left out", LF_GATE_BOUND, 0},
    {4, "experts in the order of their pairs", LF_GATE_EDGES, 0},
    {5, "the row at place 5 takes its neighbour's experts", LF_GATE_ROWS, 0},
    {6, "the running total rounded to bf16", LF_GATE_BOUND, 0},
    {7, "a write past the row", LF_GATE_MEMORY, 0},
};

const struct lf_record lf_expert_join_record = {
    .name = "expert_join", .file = "src/kernel/expert_join/expert_join_cpu.c",
    .contract = LF_EXPERT_JOIN_CONTRACT, .operands = OPERANDS, .shapes = shapes, .ragged = ragged,
    .describe = describe, .bind = bind, .bound = bound,
    .hostile = 1 << 0 | 1 << 1 | 1 << 3 | 1 << 4, .edges = edges, .products = products,
    .stack_bytes = 8192, .controls = controls, .n_controls = sizeof controls / sizeof *controls,
};
