// What the gates know of cache_pack.
#include <math.h>
#include <stdlib.h>
#include "base/error.h"
#include "contract/record.h"
#include "kernel/cache_pack/cache_pack.h"
#include "kernel/reference.h"
#include "kernel/rope/rope_contract.h"
#include "kernel/row.h"

enum { X, NORM, COS, SIN, DST, PACKED, OPERANDS };

struct shape {
    struct lf_cache_pack_args args;
    uint32_t norms;
};

static const char *const names[] = {"QA8", "QF4s", "QF4e"};

static void add(struct lf_shapes *shapes, const char *model, uint32_t rows,
                enum lf_cache_format format, uint32_t dim, uint32_t rope_dim, uint32_t norms) {
    struct shape shape = {.args = {.format = format, .dim = dim, .rope_dim = rope_dim,
                                   .eps = 1e-20f}, .norms = norms};
    lf_shapes_add(shapes, rows, &shape, sizeof shape, "%s %s %u%s%s", model, names[format], dim,
                  norms ? " normed" : "", rope_dim ? " turned" : "");
}

// Window keys, compressed entries, index keys.
static void shapes(const struct lf_served *served, struct lf_shapes *shapes) {
    const struct lf_topology *t = served->t;
    uint32_t rows = served->chunk_rows, turned = t->rope_dim;
    add(shapes, served->name, rows, LF_CACHE_QA8, t->head_dim, turned, 1);
    add(shapes, served->name, rows, LF_CACHE_QF4S, t->head_dim, turned, 0);
    add(shapes, served->name, rows, LF_CACHE_QF4E, t->index_dim, turned, 1);
}

static void ragged(struct lf_shapes *shapes) {
    for (enum lf_cache_format format = LF_CACHE_QA8; format <= LF_CACHE_QF4E; format++) {
        add(shapes, "ragged", 64, format, 32, 0, 0);
        add(shapes, "ragged", 64, format, 96, 0, 0);
        add(shapes, "ragged", 64, format, 96, 10, 1);
    }
    add(shapes, "ragged", 64, LF_CACHE_QA8, 64, 64, 0);
    add(shapes, "ragged", 64, LF_CACHE_QF4E, 32, 0, 1);
}

static uint32_t row_bytes(const struct lf_cache_pack_args *a) {
    return a->format == LF_CACHE_QA8    ? lf_qa8_row_bytes(a->dim)
           : a->format == LF_CACHE_QF4S ? lf_qf4s_row_bytes(a->dim)
                                        : lf_qf4e_row_bytes(a->dim);
}

// Groups of all exponents that a scale of the format can hold; numbers of one size for a norm.
static void fill_x(const struct lf_fill *fill, void *data, size_t n) {
    const struct shape *s = fill->args;
    uint32_t span = s->args.format == LF_CACHE_QF4S ? 24 : 200;
    uint16_t *x = data;
    for (size_t i = 0; i < n; i += 32) {
        int power = (int)lf_check_below(fill->rng, span) - (int)span / 2;
        bool plain = fill->style == LF_STYLE_NORMAL || s->norms || s->args.rope_dim;
        float scale = plain ? 1.0f : ldexpf(1.0f, power);
        lf_check_fill_bf16(fill->rng, fill->style, scale, x + i, 32);
    }
}

// A packed row and bytes behind it that belong to others.
static void describe(const void *args, struct lf_operand *o) {
    const struct shape *s = args;
    const struct lf_cache_pack_args *a = &s->args;
    o[X] = lf_operand("x", LF_INOUT, LF_BF16, a->dim);
    o[X].fill = fill_x;
    o[NORM] = lf_operand("norm", LF_WEIGHT, LF_BF16, s->norms ? a->dim : 0);
    o[NORM].align = 1;
    o[COS] = lf_operand("cos", LF_RULE, LF_F32, a->rope_dim / 2);
    o[COS].fill = lf_rope_fill_cos;
    o[SIN] = lf_operand("sin", LF_RULE, LF_F32, a->rope_dim / 2);
    o[SIN].fill = lf_rope_fill_sin;
    o[DST] = lf_operand("dst", LF_POINTER, LF_U64, 1);
    o[PACKED] = lf_operand("packed", LF_OUT, LF_U8, row_bytes(a));
    o[PACKED].pitch = row_bytes(a) + 3, o[PACKED].align = 1;
}

static void bind(const struct lf_call *call, void *args) {
    struct shape *s = args;
    struct lf_cache_pack_args *a = &s->args;
    uint8_t **dst = call->data[DST];
    for (uint32_t row = 0; row < call->rows; row++)
        dst[row] = lf_call_at(call, PACKED, row, 0);
    a->rows = call->rows, a->x = call->data[X], a->dst = dst;
    a->norm = s->norms ? call->data[NORM] : NULL;
    a->cos = call->data[COS], a->sin = call->data[SIN];
}

// x alone: what is packed follows from it.
static size_t columns(const void *args) {
    return ((const struct lf_cache_pack_args *)args)->dim;
}

// A norm's error and its store, then the rotation's products of them.
static void row_error(const struct lf_cache_pack_args *a, uint32_t row, const double *ref,
                      double *error) {
    double each = a->norm ? lf_check_gamma(a->dim / 16.0 + 4.0) / 2.0 + 6 * 0x1p-24 : 0.0;
    uint32_t still = a->dim - a->rope_dim, pairs = a->rope_dim / 2;
    for (uint32_t i = 0; i < a->dim; i++)
        error[i] = fabs(ref[i]) * each;
    for (uint32_t i = 0; i < pairs; i++) {
        double c = fabs((double)a->cos[(size_t)row * pairs + i]);
        double s = fabs((double)a->sin[(size_t)row * pairs + i]);
        double x = fabs(ref[still + 2 * i]), y = fabs(ref[still + 2 * i + 1]);
        double e = (x * c + y * s) * 1.001, o = (x * s + y * c) * 1.001; // before it, at most
        double e_off = a->norm ? e * each + lf_check_half_bf16(e * (1.0 + each)) : 0.0;
        double o_off = a->norm ? o * each + lf_check_half_bf16(o * (1.0 + each)) : 0.0;
        double sums = lf_check_gamma(2) * 1.01;
        error[still + 2 * i] = c * e_off + s * o_off + sums * (e * c + o * s) + 0x1p-148;
        error[still + 2 * i + 1] = s * e_off + c * o_off + sums * (e * s + o * c) + 0x1p-148;
    }
}

static void judge_packed(struct lf_call *call, uint32_t row, uint8_t *want) {
    const struct lf_cache_pack_args *a = (const void *)call->args;
    const uint16_t *x = lf_call_at(call, X, row, 0);
    for (uint32_t i = 0; i < a->dim; i++)
        if (!isfinite(lf_ref_bf16(x, i)))
            return; // edges know those
    lf_cache_pack_bytes(a, x, want);
    for (uint32_t i = 0; i < row_bytes(a); i++)
        lf_expect_bits(call, PACKED, row, i, want[i], "x as it lies there");
}

static void judge(struct lf_call *call, const double *ref) {
    const struct lf_cache_pack_args *a = (const void *)call->args;
    double *error = malloc(a->dim * sizeof *error);
    uint8_t *want = malloc(row_bytes(a));
    LF_ASSERT(error && want);
    for (uint32_t row = 0; row < call->rows; row++, ref += a->dim) {
        row_error(a, row, ref, error);
        for (uint32_t i = 0; i < a->dim; i++)
            lf_judge_element(call, X, row, i, ref[i], error[i]);
        judge_packed(call, row, want);
    }
    free(error);
    free(want);
}

// The largest finite numbers, which a norm would overflow.
static void largest(struct lf_trial *trial, const struct lf_shape *shape) {
    struct lf_call *call = lf_call_open(trial, shape, 1, LF_STYLE_NORMAL);
    lf_check_fill_hostile(2, lf_call_at(call, X, 0, 0),
                          ((const struct lf_cache_pack_args *)(const void *)shape->args)->dim);
    lf_call_judge(call);
    lf_call_close(call);
}

// A NaN or an infinity shows in the scale of its group and in no other.
static void edges(struct lf_trial *trial, const struct lf_shape *shape) {
    static const uint16_t odd[] = {0x7FC1, 0xFF81, 0x7F80, 0xFF80};
    const struct lf_cache_pack_args *a = (const void *)shape->args;
    if (((const struct shape *)(const void *)shape->args)->norms || a->rope_dim)
        return;
    largest(trial, shape);
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

static const struct lf_control controls[] = {
    {51, "the QA8 scale rounded down", LF_GATE_BOUND, 0},
    {52, "QA8 codes truncated", LF_GATE_BOUND, 0},
    {53, "the QF4e scale for a largest code of 4", LF_GATE_BOUND, 0},
    {54, "the QF4s scale not rounded before values are divided by it", LF_GATE_BOUND, 0},
    {55, "a QF4s group's maximum over 15 of its 16 values", LF_GATE_BOUND, 0},
    {56, "the pair's codes swapped", LF_GATE_BOUND, 0},
    {57, "rows past the first are stored one place early", LF_GATE_ROWS, 0},
    {58, "a scale past the row is written", LF_GATE_MEMORY, 0},
    {59, "a NaN counts as 0", LF_GATE_EDGES, 0},
    {70, "rows are not normed", LF_GATE_BOUND, 0},
    {71, "rows are not turned", LF_GATE_BOUND, 0},
    {72, "the row at place 5 is turned as the first", LF_GATE_ROWS, 0},
    {73, "rows are turned before they are normed", LF_GATE_BOUND, 0},
};

const struct lf_record lf_cache_pack_record = {
    .name = "cache_pack", .file = "src/kernel/cache_pack/cache_pack_cpu.c",
    .contract = LF_CACHE_PACK_CONTRACT, .operands = OPERANDS, .shapes = shapes, .ragged = ragged,
    .describe = describe, .bind = bind, .columns = columns, .judge = judge,
    .hostile = 1 << 3 | 1 << 4, .edges = edges, .stack_bytes = 4096,
    .controls = controls, .n_controls = sizeof controls / sizeof *controls,
};
