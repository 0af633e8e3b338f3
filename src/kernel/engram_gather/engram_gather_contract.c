// What the gates know of engram_gather.
#include <math.h>
#include <string.h>
#include "contract/record.h"
#include "kernel/engram_gather/engram_gather.h"

enum { NUMBER, VALUE, SCALE, Y, OPERANDS };
enum { GROUP = 32, TABLE_ROWS = 1021 };

struct shape {
    struct lf_engram_gather_args args;
    uint32_t table_rows;
};

static void add(struct lf_shapes *shapes, const char *model, uint32_t rows, uint32_t columns,
                uint32_t dim, uint32_t table_rows) {
    struct shape shape = {.args = {.columns = columns, .dim = dim}, .table_rows = table_rows};
    lf_shapes_add(shapes, rows, &shape, sizeof shape, "%s %u x %u", model, columns, dim);
}

// The published tables take gigabytes: fewer rows of the same width.
static void shapes(const struct lf_served *served, struct lf_shapes *shapes) {
    const struct lf_topology *t = served->t;
    if (t->n_engram)
        add(shapes, served->name, served->chunk_rows, (t->engram_ngram - 1) * t->engram_heads,
            t->engram_dim, TABLE_ROWS);
}

static void ragged(struct lf_shapes *shapes) {
    add(shapes, "ragged", 64, 1, GROUP, 40);
    add(shapes, "ragged", 64, 5, 3 * GROUP, 300);
}

static void fill_number(const struct lf_fill *fill, void *data, size_t n) {
    uint64_t *number = data;
    for (size_t i = 0; i < n; i++)
        number[i] = lf_check_below(fill->rng, ((const struct shape *)fill->args)->table_rows);
}

// Codes and scales of all bits, NaN included.
static void describe(const void *args, struct lf_operand *o) {
    const struct shape *s = args;
    size_t values = (size_t)s->table_rows * s->args.dim;
    o[NUMBER] = lf_operand("number", LF_RULE, LF_U64, s->args.columns);
    o[NUMBER].fill = fill_number;
    o[VALUE] = lf_operand("value", LF_WEIGHT, LF_U8, values);
    o[SCALE] = lf_operand("scale", LF_WEIGHT, LF_U8, values / GROUP);
    o[VALUE].align = o[SCALE].align = 1;
    o[Y] = lf_operand("y", LF_OUT, LF_BF16, (size_t)s->args.columns * s->args.dim);
}

static void bind(const struct lf_call *call, void *args) {
    struct lf_engram_gather_args *a = args;
    a->rows = call->rows, a->number = call->data[NUMBER], a->value = call->data[VALUE];
    a->scale = call->data[SCALE], a->y = call->data[Y];
}

// float64 to the nearest bf16, halves to even.
static uint16_t bf16_bits(double x) {
    double size = fabs(x);
    if (isnan(x))
        return 0x7FC0;
    int exponent = size < 0x1p-126 ? -126 : ilogb(size);
    float rounded = (float)ldexp(nearbyint(ldexp(size, 7 - exponent)), exponent - 7);
    uint32_t bits;
    memcpy(&bits, &rounded, sizeof bits);
    return (uint16_t)(bits >> 16 | (signbit(x) ? 0x8000u : 0u));
}

static void judge(struct lf_call *call, const double *ref) {
    const struct lf_engram_gather_args *a = (const void *)call->args;
    size_t n = (size_t)a->columns * a->dim;
    for (uint32_t row = 0; row < call->rows; row++)
        for (size_t c = 0; c < n; c++) {
            uint16_t want = bf16_bits(ref[row * n + c]);
            if (*(uint16_t *)lf_call_at(call, Y, row, c) != want)
                lf_expect_bits(call, Y, row, c, want, "code times scale, rounded once");
        }
}

// Every code beside the scales at the ends, and the first and the last row of the table.
static void edges(struct lf_trial *trial, const struct lf_shape *shape) {
    static const uint8_t scale[] = {0, 1, 127, 254, 255};
    const struct shape *s = (const void *)shape->args;
    uint32_t turns = 256 / GROUP * sizeof scale, groups = s->args.dim / GROUP;
    struct lf_call *call = lf_call_open(trial, shape, 2, LF_STYLE_NORMAL);
    for (uint32_t turn = 0; turn < turns; turn += 2 * groups) {
        for (uint32_t g = 0; g < 2 * groups; g++) {
            size_t at = g < groups ? g : (size_t)s->table_rows * groups - 2 * groups + g;
            *(uint8_t *)lf_call_at(call, SCALE, 0, at) = scale[(turn + g) % turns / 8];
            for (uint32_t i = 0; i < GROUP; i++)
                *(uint8_t *)lf_call_at(call, VALUE, 0, at * GROUP + i) =
                    (uint8_t)((turn + g) % 8 * GROUP + i);
        }
        for (uint32_t c = 0; c < s->args.columns; c++) {
            *(uint64_t *)lf_call_at(call, NUMBER, 0, c) = c % 2 ? s->table_rows - 1 : 0;
            *(uint64_t *)lf_call_at(call, NUMBER, 1, c) = c % 2 ? 0 : s->table_rows - 1;
        }
        lf_call_judge(call);
    }
    lf_call_close(call);
}

static uint32_t cuda_products(const void *args, uint32_t rows, struct lf_product *product) {
    const struct lf_engram_gather_args *a = args;
    uint64_t elements = (uint64_t)rows * a->columns * a->dim;
    product[0] = (struct lf_product){"blocks", (elements + 255) / 256, 32};
    return 1;
}

static const struct lf_control controls[] = {
    {1, "the last row of a table of 1,021 clamped to the one before", LF_GATE_EDGES, 0},
    {2, "the scale of the neighbour block", LF_GATE_BOUND, 0},
    {3, "the last column is not copied", LF_GATE_MEMORY, 0},
    {4, "the NaN code counts as 480", LF_GATE_BOUND, 0},
    {5, "scale 255 counts as infinity", LF_GATE_EDGES, 0},
    {6, "subnormal codes become 0", LF_GATE_BOUND, 0},
    {7, "scale 0 counts as 0", LF_GATE_EDGES, 0},
    {8, "the sign of a zero is lost", LF_GATE_BOUND, 0},
    {9, "the row at place 5 takes its neighbour's numbers", LF_GATE_ROWS, 0},
    {10, "a write past the last column", LF_GATE_MEMORY, 0},
    {11, "products truncated to bf16", LF_GATE_EDGES, 0},
};

const struct lf_record lf_engram_gather_record = {
    .name = "engram_gather", .file = "src/kernel/engram_gather/engram_gather_cpu.c",
    .contract = LF_ENGRAM_GATHER_CONTRACT, .operands = OPERANDS,
    .shapes = shapes, .ragged = ragged, .describe = describe, .bind = bind, .judge = judge,
    .edges = edges, .cuda_products = cuda_products, .stack_bytes = 4096,
    .controls = controls, .n_controls = sizeof controls / sizeof *controls,
};
