// What the gates know of hc_expand.
#include <math.h>
#include "contract/record.h"
#include "kernel/hc_expand/hc_expand.h"
#include "kernel/reference.h"

enum { X, B, POST, COMB, PAIR, EXPERT, SHARED, PRE, NORM, Y, QUANTIZED, OPERANDS };

struct shape {
    struct lf_hc_expand_args args;
    uint32_t shared, collapses, quantizes;
};

// top 0: no experts.
static void add(struct lf_shapes *shapes, const char *model, uint32_t rows, struct shape shape) {
    shape.args.eps = 1e-20f;
    lf_shapes_add(shapes, rows, &shape, sizeof shape, "%s %u x %u%s%s%s%s", model,
                  shape.args.streams, shape.args.dim, shape.args.top ? " of experts" : "",
                  shape.shared ? " and shared" : "", shape.collapses ? " collapsed" : "",
                  shape.quantizes ? " quantized" : "");
}

// After experts, the last ones, those before a layer and a drafter's, and after attention.
static void shapes(const struct lf_served *served, struct lf_shapes *shapes) {
    const struct lf_topology *t = served->t;
    const struct lf_hc_expand_args args = {.streams = t->streams, .dim = t->hidden};
    struct shape experts = {.args = args, .shared = t->shared_experts};
    experts.args.top = t->experts_top;
    add(shapes, served->name, served->chunk_rows, experts);
    experts.collapses = experts.quantizes = 1;
    add(shapes, served->name, served->chunk_rows, experts);
    experts.collapses = experts.quantizes = 0;
    experts.args.top = t->draft_experts_top;
    add(shapes, served->name, served->launch_rows, experts);
    add(shapes, served->name, served->chunk_rows,
        (struct shape){.args = args, .collapses = 1, .quantizes = 1});
}

static void ragged(struct lf_shapes *shapes) {
    add(shapes, "ragged", 64, (struct shape){.args = {.streams = 3, .dim = 257}});
    add(shapes, "ragged", 64,
        (struct shape){.args = {.streams = LF_STREAMS_MAX, .dim = 7, .top = 3}});
    add(shapes, "ragged", 64, (struct shape){.args = {.streams = 7, .dim = 33}, .collapses = 1});
    add(shapes, "ragged", 64, (struct shape){.args = {.streams = 2, .dim = 96}, .collapses = 1,
                                             .quantizes = 1});
    add(shapes, "ragged", 64, (struct shape){.args = {.streams = 1, .dim = 1056}, .collapses = 1,
                                             .quantizes = 1});
    add(shapes, "ragged", 64, (struct shape){.args = {.streams = 3, .dim = 264, .top = 9},
                                             .shared = 1, .collapses = 1});
}

static void fill_pair(const struct lf_fill *fill, void *data, size_t n) {
    (void)fill;
    memset(data, 0, n * sizeof(uint32_t)); // bind knows the places
}

static void describe(const void *args, struct lf_operand *o) {
    const struct shape *s = args;
    const struct lf_hc_expand_args *a = &s->args;
    o[X] = lf_operand("x", LF_INOUT, LF_BF16, (size_t)a->streams * a->dim);
    o[X].scale = 3.0f;
    o[B] = lf_operand("b", LF_IN, LF_BF16, a->top ? 0 : a->dim);
    o[POST] = lf_operand("post", LF_IN, LF_F32, a->streams);
    o[COMB] = lf_operand("comb", LF_IN, LF_F32, (size_t)a->streams * a->streams);
    o[COMB].scale = 0.5f;
    o[PAIR] = lf_operand("pair", LF_RULE, LF_U32, a->top);
    o[PAIR].fill = fill_pair;
    o[EXPERT] = lf_operand("expert", LF_IN, LF_BF16, (size_t)a->top * a->dim);
    o[SHARED] = lf_operand("shared", LF_IN, LF_BF16, s->shared ? a->dim : 0);
    o[PRE] = lf_operand("pre", LF_IN, LF_F32, s->collapses ? a->streams : 0);
    o[PRE].scale = 0.5f;
    o[NORM] = lf_operand("norm", LF_WEIGHT, LF_BF16, s->collapses ? a->dim : 0);
    o[NORM].align = 1;
    o[Y] = lf_operand("y", LF_OUT, LF_BF16, s->collapses ? a->dim : 0);
    o[QUANTIZED] = lf_operand("quantized", LF_OUT, LF_BF16, s->quantizes ? a->dim : 0);
    o[QUANTIZED].quantizes = 1 + Y;
}

// A row's pairs lie together here, its last choice first.
static void bind_experts(const struct lf_call *call, const struct shape *s,
                         struct lf_hc_expand_args *a) {
    uint32_t top = a->top, *pair = call->data[PAIR];
    for (uint32_t i = 0; i < call->rows * top; i++)
        pair[i] = i / top * top + (top - 1 - i % top);
    a->pair = pair, a->expert = call->data[EXPERT];
    a->shared = s->shared ? call->data[SHARED] : NULL;
}

static void bind(const struct lf_call *call, void *args) {
    struct shape *s = args;
    struct lf_hc_expand_args *a = &s->args;
    a->rows = call->rows, a->x = call->data[X];
    a->post = call->data[POST], a->comb = call->data[COMB];
    if (a->top)
        bind_experts(call, s, a);
    else
        a->b = call->data[B];
    if (!s->collapses)
        return;
    a->pre = call->data[PRE], a->norm = call->data[NORM], a->y = call->data[Y];
    a->quantized = s->quantizes ? call->data[QUANTIZED] : NULL;
}

static double expand_error(const struct lf_hc_expand_args *a, size_t row, size_t j, size_t d) {
    size_t s = a->streams;
    double sum = fabs((double)a->post[row * s + j] * lf_hc_expand_taken(a, row, d));
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

// Float32 adds in the order of the ids: a large pair that cancels takes the small one with it.
static void edges(struct lf_trial *trial, const struct lf_shape *shape) {
    static const uint16_t first[] = {0x4B80, 0x3F80, 0xCB80}; // 2^24, 1, -2^24
    const struct shape *s = (const void *)shape->args;
    uint32_t top = s->args.top, dim = s->args.dim;
    if (top < 3)
        return;
    struct lf_call *call = lf_call_open(trial, shape, 1, LF_STYLE_NORMAL);
    memset(lf_call_at(call, EXPERT, 0, 0), 0, (size_t)top * dim * 2);
    if (s->shared)
        memset(lf_call_at(call, SHARED, 0, 0), 0, dim * 2);
    for (uint32_t k = 0; k < 3; k++)
        *(uint16_t *)lf_call_at(call, EXPERT, 0, (size_t)(top - 1 - k) * dim) = first[k];
    lf_call_judge(call);
    lf_call_close(call);
}

static uint32_t products(const void *args, uint32_t rows, struct lf_product *product) {
    const struct shape *s = args;
    product[0] = (struct lf_product){"pairs", (uint64_t)rows * s->args.top, 32};
    return 1;
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
    {31, "the shared expert is added twice", LF_GATE_BOUND, 0},
    {32, "the shared expert is left out", LF_GATE_BOUND, 0},
    {33, "the last expert is left out", LF_GATE_BOUND, 0},
    {34, "experts in the order of their pairs", LF_GATE_EDGES, 0},
    {35, "the row at place 5 takes its neighbour's experts", LF_GATE_ROWS, 0},
    {36, "the running total rounded to bf16", LF_GATE_BOUND, 0},
    {37, "the experts' sum not rounded to bf16 before it is taken", LF_GATE_BOUND, 0},
    {38, "a row is normed without its last columns", LF_GATE_BOUND, 1 << LF_SET_CUDA},
};

const struct lf_record lf_hc_expand_record = {
    .name = "hc_expand", .file = "src/kernel/hc_expand/hc_expand_cpu.c",
    .contract = LF_HC_EXPAND_CONTRACT, .operands = OPERANDS, .shapes = shapes, .ragged = ragged,
    .describe = describe, .bind = bind, .bound = bound,
    .hostile = 1 << 0 | 1 << 1 | 1 << 3 | 1 << 4, .edges = edges, .products = products,
    .stack_bytes = 16384,
    .controls = controls, .n_controls = sizeof controls / sizeof *controls,
};
