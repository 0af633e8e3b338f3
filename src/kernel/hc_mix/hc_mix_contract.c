// What the gates know of hc_mix.
#include <math.h>
#include "contract/record.h"
#include "kernel/hc_mix/hc_mix.h"
#include "kernel/reference.h"

enum { X, FN, BASE, SCALE, PRE, POST, COMB, OPERANDS };

static void add(struct lf_shapes *shapes, const char *model, uint32_t rows,
                struct lf_hc_mix_args args) {
    struct lf_shape *shape = lf_shapes_add(shapes, rows, &args, sizeof args, "%s %u x %u, %u times",
                                           model, args.streams, args.dim, args.sinkhorn_iters);
    shape->work = (uint64_t)args.streams * args.dim * args.streams * (2 + args.streams);
}

static void shapes(const struct lf_served *served, struct lf_shapes *shapes) {
    const struct lf_topology *t = served->t;
    add(shapes, served->name, served->chunk_rows,
        (struct lf_hc_mix_args){.streams = t->streams, .dim = t->hidden, .hc_eps = t->hc_eps,
                                .norm_eps = t->norm_eps, .sinkhorn_iters = t->sinkhorn_iters});
}

// Uneven sizes, an eps that shows in every term, few passes, so that their error is small.
static void ragged(struct lf_shapes *shapes) {
    struct lf_hc_mix_args args = {.streams = 3, .dim = 67, .hc_eps = 1e-2f, .norm_eps = 1e-3f,
                                  .sinkhorn_iters = 1};
    add(shapes, "ragged", 64, args);
    args.sinkhorn_iters = 2, args.streams = 2, args.dim = 5;
    add(shapes, "ragged", 64, args);
    args.streams = 1, args.dim = 7;
    add(shapes, "ragged", 64, args);
    args.streams = LF_STREAMS_MAX, args.dim = 20;
    add(shapes, "ragged", 64, args);
}

static void fill_fn(const struct lf_fill *fill, void *data, size_t n) {
    const struct lf_hc_mix_args *a = fill->args;
    float scale = 1.0f / sqrtf((float)a->streams * (float)a->dim);
    lf_check_fill_f32(fill->rng, LF_STYLE_NORMAL, scale, data, n);
}

static void fill_small(const struct lf_fill *fill, void *data, size_t n) {
    lf_check_fill_f32(fill->rng, LF_STYLE_NORMAL, 1.0f, data, n);
}

static void fill_scale(const struct lf_fill *fill, void *data, size_t n) {
    static const float scale[] = {0.7f, 1.1f, 0.9f};
    (void)fill;
    for (size_t i = 0; i < n; i++)
        ((float *)data)[i] = scale[i % 3];
}

static void describe(const void *args, struct lf_operand *o) {
    const struct lf_hc_mix_args *a = args;
    size_t s = a->streams, outs = s * (2 + s);
    o[X] = lf_operand("x", LF_IN, LF_BF16, s * a->dim);
    o[X].scale = 3.0f;
    o[FN] = lf_operand("fn", LF_WEIGHT, LF_F32, outs * s * a->dim);
    o[FN].align = 1, o[FN].fill = fill_fn;
    o[BASE] = lf_operand("base", LF_WEIGHT, LF_F32, outs);
    o[BASE].align = 1, o[BASE].fill = fill_small;
    o[SCALE] = lf_operand("scale", LF_WEIGHT, LF_F32, 3);
    o[SCALE].align = 1, o[SCALE].fill = fill_scale;
    o[PRE] = lf_operand("pre", LF_OUT, LF_F32, s);
    o[POST] = lf_operand("post", LF_OUT, LF_F32, s);
    o[COMB] = lf_operand("comb", LF_OUT, LF_F32, s * s);
}

static void bind(const struct lf_call *call, void *args) {
    struct lf_hc_mix_args *a = args;
    a->rows = call->rows, a->x = call->data[X], a->fn = call->data[FN];
    a->base = call->data[BASE], a->scale = call->data[SCALE];
    a->pre = call->data[PRE], a->post = call->data[POST], a->comb = call->data[COMB];
}

// How far m * scale + base of output o may be off: the sum, rho, three roundings.
static double logit_error(const struct lf_hc_mix_args *a, size_t row, size_t o) {
    size_t s = a->streams, n = s * a->dim;
    double sum = 0, dot = 0, squares = 0, depth = (double)(n / 16 + 5);
    for (size_t k = 0; k < n; k++) {
        double w = lf_ref_f32(a->fn, o * n + k), x = lf_ref_bf16(a->x, row * n + k);
        dot += w * x, sum += fabs(w * x), squares += x * x;
    }
    double scale = fabs(lf_ref_f32(a->scale, o < s ? 0 : o < 2 * s ? 1 : 2));
    double rho = 1 / sqrt(squares / (double)n + (double)a->norm_eps) * scale;
    return lf_check_gamma(depth) * sum * rho + lf_check_gamma(depth / 2 + 7) * fabs(dot * rho) +
           lf_check_gamma(1) * fabs(lf_ref_f32(a->base, o));
}

// Sigmoids by slope; Sinkhorn's scalings add the logit's error a pass at most.
static void bound(const void *args, const double *ref, double *error) {
    const struct lf_hc_mix_args *a = args;
    size_t s = a->streams, outs = s * (2 + s);
    double passes = 2.0 * a->sinkhorn_iters + 1;
    for (size_t row = 0; row < a->rows; row++, ref += outs, error += outs) {
        double worst = 0;
        for (size_t o = 0; o < 2 * s; o++)
            error[o] = (o < s ? 1 : 2) * (0.25 * logit_error(a, row, o) + lf_check_gamma(5));
        for (size_t o = 2 * s; o < outs; o++)
            worst = fmax(worst, logit_error(a, row, o));
        for (size_t o = 2 * s; o < outs; o++)
            error[o] = passes * (worst + lf_check_gamma((double)s + 4)) * ref[o];
    }
}

// Squares past float32: rho is 0 and the mix is what base alone gives, or NaN where the dot was.
static void edges(struct lf_trial *trial, const struct lf_shape *shape) {
    const struct lf_hc_mix_args *a = (const void *)shape->args;
    struct lf_call *call = lf_call_open(trial, shape, 1, LF_STYLE_NORMAL);
    *(uint16_t *)lf_call_at(call, X, 0, 0) = 0x7F7F;
    lf_call_run(call);
    for (uint32_t i = 0; i < a->streams; i++) {
        double base = lf_ref_f32(call->data[BASE], i);
        lf_judge_element(call, PRE, 0, i, 1.0 / (1.0 + exp(-base)) + (double)a->hc_eps,
                         lf_check_gamma(6));
    }
    lf_call_close(call);
}

static uint32_t cuda_products(const void *args, uint32_t rows, struct lf_product *product) {
    const struct lf_hc_mix_args *a = args;
    uint64_t n = (uint64_t)a->streams * a->dim;
    (void)rows;
    product[0] = (struct lf_product){"elements and those fetched ahead", n + (1 << 14), 32};
    return 1;
}

static const struct lf_control controls[] = {
    {1, "the last product is not in the dots", LF_GATE_BOUND, 0},
    {2, "rho without norm_eps", LF_GATE_BOUND, 0},
    {3, "pre without hc_eps", LF_GATE_BOUND, 0},
    {4, "post without its factor of 2", LF_GATE_BOUND, 0},
    {5, "all outputs take the scale of pre", LF_GATE_BOUND, 0},
    {6, "base left out", LF_GATE_BOUND, 0},
    {7, "the softmax of comb without hc_eps", LF_GATE_BOUND, 0},
    {8, "one pass of the scaling too few", LF_GATE_BOUND, 0},
    {9, "scaling by rows and columns in turn from the rows on", LF_GATE_BOUND, 0},
    {10, "the row at place 5 takes the first row's rho", LF_GATE_ROWS, 0},
    {11, "a write past comb", LF_GATE_MEMORY, 0},
    {12, "what is not finite counts as 0", LF_GATE_EDGES, 0},
    {13, "scaling without hc_eps in the sum", LF_GATE_BOUND, 0},
};

const struct lf_record lf_hc_mix_record = {
    .name = "hc_mix", .file = "src/kernel/hc_mix/hc_mix_cpu.c", .contract = LF_HC_MIX_CONTRACT,
    .operands = OPERANDS, .shapes = shapes, .ragged = ragged, .describe = describe, .bind = bind,
    .bound = bound, .hostile = 1 << 0 | 1 << 1 | 1 << 3 | 1 << 4, .edges = edges,
    .cuda_products = cuda_products, .stack_bytes = 32768,
    .controls = controls, .n_controls = sizeof controls / sizeof *controls,
};
