// What the gates know of rope.
#include <math.h>
#include "contract/record.h"
#include "kernel/reference.h"
#include "kernel/rope/rope.h"
#include "kernel/rope/rope_contract.h"

enum { X, COS, SIN, OPERANDS };

static void add(struct lf_shapes *shapes, const char *model, uint32_t rows,
                struct lf_rope_args args, size_t gap) {
    args.x_stride = (size_t)args.heads * args.head_dim + gap;
    lf_shapes_add(shapes, rows, &args, sizeof args, "%s %u x %u, %u turned%s", model, args.heads,
                  args.head_dim, args.rope_dim, args.inverse ? " back" : "");
}

// Queries and outputs, keys and entries, index queries and index keys.
static void shapes(const struct lf_served *served, struct lf_shapes *shapes) {
    const struct lf_topology *t = served->t;
    const uint32_t heads[] = {t->heads, 1, t->index_heads, 1};
    const uint32_t dim[] = {t->head_dim, t->head_dim, t->index_dim, t->index_dim};
    for (uint32_t i = 0; i < 5; i++)
        add(shapes, served->name, served->chunk_rows,
            (struct lf_rope_args){.heads = heads[i % 4], .head_dim = dim[i % 4],
                                  .rope_dim = t->rope_dim, .inverse = i == 4}, 0);
}

static void ragged(struct lf_shapes *shapes) {
    for (int inverse = 0; inverse < 2; inverse++)
        add(shapes, "ragged", 64, (struct lf_rope_args){.heads = 3, .head_dim = 10, .rope_dim = 6,
                                                        .inverse = inverse}, 5);
}

// Angles of a row: as the positions' tables hold them, the same for cos and sin.
static void fill_turn(const struct lf_fill *fill, double *angle, size_t n) {
    for (size_t i = 0; i < n; i++)
        angle[i] = 1e3 * (fill->row + 1) / (double)(i + 1);
}

void lf_rope_fill_cos(const struct lf_fill *fill, void *data, size_t n) {
    double angle[LF_ROPE_DIM_MAX / 2];
    fill_turn(fill, angle, n);
    for (size_t i = 0; i < n; i++)
        ((float *)data)[i] = (float)cos(angle[i]);
}

void lf_rope_fill_sin(const struct lf_fill *fill, void *data, size_t n) {
    double angle[LF_ROPE_DIM_MAX / 2];
    fill_turn(fill, angle, n);
    for (size_t i = 0; i < n; i++)
        ((float *)data)[i] = (float)sin(angle[i]);
}

static void describe(const void *args, struct lf_operand *o) {
    const struct lf_rope_args *a = args;
    o[X] = lf_operand("x", LF_INOUT, LF_BF16, (size_t)a->heads * a->head_dim);
    o[X].pitch = a->x_stride;
    o[COS] = lf_operand("cos", LF_RULE, LF_F32, a->rope_dim / 2);
    o[COS].fill = lf_rope_fill_cos;
    o[SIN] = lf_operand("sin", LF_RULE, LF_F32, a->rope_dim / 2);
    o[SIN].fill = lf_rope_fill_sin;
}

static void bind(const struct lf_call *call, void *args) {
    struct lf_rope_args *a = args;
    a->rows = call->rows, a->x = call->data[X];
    a->cos = call->data[COS], a->sin = call->data[SIN];
}

static bool written(const void *args, uint32_t operand, uint32_t row, size_t column) {
    const struct lf_rope_args *a = args;
    (void)operand, (void)row;
    return column % a->head_dim >= a->head_dim - a->rope_dim;
}

static void bound(const void *args, const double *ref, double *error) {
    const struct lf_rope_args *a = args;
    uint32_t pairs = a->rope_dim / 2, still = a->head_dim - a->rope_dim;
    (void)ref;
    for (uint32_t row = 0; row < a->rows; row++)
        for (uint32_t head = 0; head < a->heads; head++, error += a->head_dim)
            for (uint32_t i = 0; i < pairs; i++) {
                const uint16_t *x = a->x + row * a->x_stride + (size_t)head * a->head_dim + still;
                double e = fabs(lf_ref_bf16(x, 2 * i)), o = fabs(lf_ref_bf16(x, 2 * i + 1));
                double c = fabs((double)a->cos[(size_t)row * pairs + i]);
                double s = fabs((double)a->sin[(size_t)row * pairs + i]);
                error[still + 2 * i] = lf_check_gamma(2) * (e * c + o * s) + 0x1p-148;
                error[still + 2 * i + 1] = lf_check_gamma(2) * (e * s + o * c) + 0x1p-148;
            }
}

static uint32_t cuda_products(const void *args, uint32_t rows, struct lf_product *product) {
    const struct lf_rope_args *a = args;
    (void)rows;
    product[0] = (struct lf_product){"pairs of a row", a->heads * (a->rope_dim / 2ull), 32};
    return 1;
}

static const struct lf_control controls[] = {
    {61, "pairs i and i + d/2: rotation in halves", LF_GATE_BOUND, 0},
    {2, "the inverse leaves x as it is", LF_GATE_BOUND, 0},
    {3, "the last head is not turned", LF_GATE_BOUND, 0},
    {4, "the first elements of a head are turned", LF_GATE_MEMORY, 0},
    {5, "the row at place 5 is turned as the first", LF_GATE_ROWS, 0},
    {66, "what is not finite counts as 0", LF_GATE_EDGES, 0},
    {67, "the sine's product rounded to bf16 before the sum", LF_GATE_BOUND, 0},
};

const struct lf_record lf_rope_record = {
    .name = "rope", .file = "src/kernel/rope/rope_cpu.c", .contract = LF_ROPE_CONTRACT,
    .operands = OPERANDS, .shapes = shapes, .ragged = ragged, .describe = describe, .bind = bind,
    .bound = bound, .written = written, .hostile = 31,
    .cuda_products = cuda_products, .stack_bytes = 4096,
    .controls = controls, .n_controls = sizeof controls / sizeof *controls,
};
