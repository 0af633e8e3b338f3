// What the gates know of cache_pack.
#include <math.h>
#include "contract/record.h"
#include "kernel/cache_pack/cache_pack.h"
#include "kernel/row.h"

enum { X, DST, PACKED, OPERANDS };

static const char *const names[] = {"QA8", "QF4s", "QF4e"};

static void add(struct lf_shapes *shapes, const char *model, uint32_t rows,
                enum lf_cache_format format, uint32_t dim) {
    struct lf_cache_pack_args args = {.format = format, .dim = dim};
    lf_shapes_add(shapes, rows, &args, sizeof args, "%s %s %u", model, names[format], dim);
}

// Window keys, compressed entries, index keys.
static void shapes(const struct lf_served *served, struct lf_shapes *shapes) {
    const struct lf_topology *t = served->t;
    add(shapes, served->name, served->chunk_rows, LF_CACHE_QA8, t->head_dim);
    add(shapes, served->name, served->chunk_rows, LF_CACHE_QF4S, t->head_dim);
    add(shapes, served->name, served->chunk_rows, LF_CACHE_QF4E, t->index_dim);
}

static void ragged(struct lf_shapes *shapes) {
    for (enum lf_cache_format format = LF_CACHE_QA8; format <= LF_CACHE_QF4E; format++) {
        add(shapes, "ragged", 64, format, 32);
        add(shapes, "ragged", 64, format, 96);
    }
}

static uint32_t row_bytes(const struct lf_cache_pack_args *a) {
    return a->format == LF_CACHE_QA8    ? lf_qa8_row_bytes(a->dim)
           : a->format == LF_CACHE_QF4S ? lf_qf4s_row_bytes(a->dim)
                                        : lf_qf4e_row_bytes(a->dim);
}

// Groups of all exponents that a scale of the format can hold.
static void fill_x(const struct lf_fill *fill, void *data, size_t n) {
    const struct lf_cache_pack_args *a = fill->args;
    uint32_t span = a->format == LF_CACHE_QF4S ? 24 : 200;
    uint16_t *x = data;
    for (size_t i = 0; i < n; i += 32) {
        int power = (int)lf_check_below(fill->rng, span) - (int)span / 2;
        float scale = fill->style == LF_STYLE_NORMAL ? 1.0f : ldexpf(1.0f, power);
        lf_check_fill_bf16(fill->rng, fill->style, scale, x + i, 32);
    }
}

// A packed row and bytes behind it that belong to others.
static void describe(const void *args, struct lf_operand *o) {
    const struct lf_cache_pack_args *a = args;
    o[X] = lf_operand("x", LF_IN, LF_BF16, a->dim);
    o[X].fill = fill_x;
    o[DST] = lf_operand("dst", LF_POINTER, LF_U64, 1);
    o[PACKED] = lf_operand("packed", LF_OUT, LF_U8, row_bytes(a));
    o[PACKED].pitch = row_bytes(a) + 3, o[PACKED].align = 1;
}

static void bind(const struct lf_call *call, void *args) {
    struct lf_cache_pack_args *a = args;
    uint8_t **dst = call->data[DST];
    for (uint32_t row = 0; row < call->rows; row++)
        dst[row] = lf_call_at(call, PACKED, row, 0);
    a->rows = call->rows, a->x = call->data[X], a->dst = dst;
}

// A NaN or an infinity shows in the scale of its group and in no other.
static void edges(struct lf_trial *trial, const struct lf_shape *shape) {
    static const uint16_t odd[] = {0x7FC1, 0xFF81, 0x7F80, 0xFF80};
    const struct lf_cache_pack_args *a = (const void *)shape->args;
    uint32_t codes = a->format == LF_CACHE_QA8 ? a->dim : a->dim / 2;
    for (uint32_t i = 0; i < 4; i++) {
        struct lf_call *call = lf_call_open(trial, shape, 1, LF_STYLE_NORMAL);
        *(uint16_t *)lf_call_at(call, X, 0, 3) = odd[i];
        uint8_t want = a->format != LF_CACHE_QF4S ? 255 : i < 2 ? 0x7F : 0x7E;
        lf_call_run(call);
        lf_expect_bits(call, PACKED, 0, codes, want, "the scale of a group that is not finite");
        for (uint32_t s = codes + 2; s < row_bytes(a); s++)
            lf_expect(call, *(uint8_t *)lf_call_at(call, PACKED, 0, s) != want, PACKED, 0, s,
                      "the scale of a finite group");
        lf_call_close(call);
    }
}

static uint32_t cuda_products(const void *args, uint32_t rows, struct lf_product *product) {
    const struct lf_cache_pack_args *a = args;
    product[0] = (struct lf_product){"blocks", ((uint64_t)rows * (a->dim / 32) + 7) / 8, 32};
    return 1;
}

static const struct lf_control controls[] = {
    {1, "the QA8 scale rounded down", LF_GATE_BOUND, 0},
    {2, "QA8 codes truncated", LF_GATE_BOUND, 0},
    {3, "the QF4e scale for a largest code of 4", LF_GATE_BOUND, 0},
    {4, "the QF4s scale not rounded before values are divided by it", LF_GATE_BOUND, 0},
    {5, "a QF4s group's maximum over 15 of its 16 values", LF_GATE_BOUND, 0},
    {6, "the pair's codes swapped", LF_GATE_BOUND, 0},
    {7, "rows past the first are stored one place early", LF_GATE_ROWS, 0},
    {8, "a scale past the row is written", LF_GATE_MEMORY, 0},
    {9, "a NaN counts as 0", LF_GATE_EDGES, 0},
};

const struct lf_record lf_cache_pack_record = {
    .name = "cache_pack", .file = "src/kernel/cache_pack/cache_pack_cpu.c",
    .contract = LF_CACHE_PACK_CONTRACT, .operands = OPERANDS, .shapes = shapes, .ragged = ragged,
    .describe = describe, .bind = bind, .hostile = 1 << 2 | 1 << 3 | 1 << 4, .edges = edges,
    .cuda_products = cuda_products, .stack_bytes = 4096,
    .controls = controls, .n_controls = sizeof controls / sizeof *controls,
};
