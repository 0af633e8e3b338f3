// What the gates know of linear.
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "base/number.h"
#include "base/quant.h"
#include "contract/record.h"
#include "kernel/linear/linear_contract.h"
#include "kernel/linear/linear_turn.h"
#include "kernel/table.h"

enum {
    X = LF_LINEAR_X,
    W = LF_LINEAR_W,
    SCALE = LF_LINEAR_SCALE,
    Y = LF_LINEAR_Y,
    Y_F32 = LF_LINEAR_Y_F32,
    INDEX = LF_LINEAR_INDEX,
    OPERANDS = LF_LINEAR_OPERANDS
};
enum { OUT_MOST = 40, VECTORS = 1 << LF_ISA_AVX2 | 1 << LF_ISA_AVX512 | 1 << LF_ISA_NEON };
enum { CUDA = 1 << LF_SET_CUDA };

_Static_assert(sizeof(struct lf_linear_map) <= LF_ARGS_BYTES, "a shape of linear");

// Outputs do not see each other: of maps that are run a few more than a task are enough.
static void add(struct lf_shapes *shapes, const struct lf_served *served, uint32_t rows,
                enum lf_weight_format format, uint32_t out, uint32_t in, int y_f32) {
    static const char *const names[LF_WEIGHT_FORMATS] = {"BF16", "F16", "F32", "FP8", "MXFP4"};
    struct lf_linear_map map = {.job = {{.x_stride = in, .y_f32 = y_f32}},
                                .w = {.format = format, .in = in}};
    // A served model's maps are regular, as loading finds them; ragged ones may be odd.
    map.w.is_regular = lf_matrix_quantizes_input(&map.w) && served->t;
    map.w.out = out < OUT_MOST || served->whole ? out : OUT_MOST;
    map.job[0].y_stride = map.w.out;
    if (out && in)
        lf_shapes_add(shapes, rows, &map, sizeof map, "%s %s %ux%u%s", served->name,
                      names[format], map.w.out, in, y_f32 ? " f32" : "")
            ->work = 8 * (uint64_t)map.w.out * in;
}

static void shapes(const struct lf_served *served, struct lf_shapes *shapes) {
    const struct lf_topology *t = served->t;
    uint32_t chunk = served->chunk_rows, launch = served->launch_rows;
    add(shapes, served, chunk, LF_WEIGHT_FP8, t->q_lora, t->hidden, 0);
    add(shapes, served, chunk, LF_WEIGHT_FP8, t->heads * t->head_dim, t->q_lora, 0);
    add(shapes, served, chunk, LF_WEIGHT_FP8, t->hidden, t->o_groups * t->o_lora, 0);
    add(shapes, served, chunk, LF_WEIGHT_FP8, t->hidden, t->expert_dim, 0);
    add(shapes, served, chunk, LF_WEIGHT_MXFP4, t->expert_dim, t->hidden, 0);
    add(shapes, served, chunk, LF_WEIGHT_MXFP4, t->hidden, t->expert_dim, 0);
    add(shapes, served, chunk, LF_WEIGHT_BF16, t->experts, t->hidden, 1);
    add(shapes, served, launch, LF_WEIGHT_BF16, t->vocab, t->hidden, 1);
}

static void ragged(struct lf_shapes *shapes) {
    static const struct lf_served few = {.name = "ragged"};
    struct lf_linear_map gaps = {.job = {{.x_stride = 107, .y_stride = 45, .y_f32 = 1}},
                                 .w = {.format = LF_WEIGHT_BF16, .out = 37, .in = 99}};
    add(shapes, &few, 64, LF_WEIGHT_FP8, 97, 1184, 1);
    add(shapes, &few, 64, LF_WEIGHT_MXFP4, 97, 1184, 1);
    add(shapes, &few, 64, LF_WEIGHT_MXFP4, 33, 12320, 0);
    // Few tiles of many parts: blocks of a device share them.
    add(shapes, &few, 64, LF_WEIGHT_FP8, 57, 5792, 1);
    add(shapes, &few, 64, LF_WEIGHT_F16, 50, 544, 1);
    add(shapes, &few, 64, LF_WEIGHT_F32, 50, 160, 1);
    add(shapes, &few, 64, LF_WEIGHT_BF16, 7, 33, 0);
    add(shapes, &few, 64, LF_WEIGHT_BF16, 7, 1930, 1);
    add(shapes, &few, 64, LF_WEIGHT_BF16, 9, 1928, 1);
    lf_shapes_add(shapes, 64, &gaps, sizeof gaps, "ragged BF16 37x99 with gaps");
    gaps.grouped = 1;
    lf_shapes_add(shapes, 64, &gaps, sizeof gaps, "ragged BF16 37x99 in groups");
    gaps.grouped = 2;
    lf_shapes_add(shapes, 64, &gaps, sizeof gaps, "ragged BF16 37x99 in groups by index");
    gaps.job[0].x_stride = 680, gaps.w.format = LF_WEIGHT_MXFP4, gaps.w.out = 21, gaps.w.in = 672;
    lf_shapes_add(shapes, 200, &gaps, sizeof gaps, "ragged MXFP4 21x672 in groups by index");
}

// QA8 values where the map reads them.
static void fill_x(const struct lf_fill *fill, void *data, size_t n) {
    const struct lf_linear_map *map = fill->args;
    uint16_t *x = data;
    lf_check_fill_bf16(fill->rng, fill->style, 1.0f, x, n);
    for (size_t k = 0; lf_matrix_quantizes_input(&map->w) && k < n; k += LF_QA8_GROUP) {
        uint8_t codes[LF_QA8_GROUP], scale = lf_qa8_group(x + k, codes);
        for (size_t i = 0; i < LF_QA8_GROUP; i++)
            x[k + i] = lf_bf16_from_f32(ldexpf(lf_e4m3_to_f32(codes[i]), scale - 127));
    }
}

static void fill_plain(const struct lf_fill *fill, enum lf_weight_format format, uint8_t *data,
                       size_t n) {
    size_t each = format == LF_WEIGHT_F32 ? 4 : 2;
    enum lf_check_style style = fill->style == LF_STYLE_CANCELLING ? LF_STYLE_NORMAL : fill->style;
    for (size_t i = 0; i < n; i += each) {
        float v;
        lf_check_fill_f32(fill->rng, style, 0.05f, &v, 1);
        v = format == LF_WEIGHT_F16 ? fmaxf(-65504.0f, fminf(v, 65504.0f)) : v;
        uint16_t half = format == LF_WEIGHT_F16 ? lf_f16_from_f32(v) : lf_bf16_from_f32(v);
        memcpy(data + i, each == 4 ? (void *)&v : (void *)&half, each);
    }
}

// All codes but NaN.
static void fill_w(const struct lf_fill *fill, void *data, size_t n) {
    const struct lf_matrix *m = &((const struct lf_linear_map *)fill->args)->w;
    uint8_t *codes = data;
    if (!lf_matrix_quantizes_input(m)) {
        fill_plain(fill, m->format, data, n);
        return;
    }
    for (size_t i = 0; i < n; i++) {
        codes[i] = (uint8_t)lf_check_below(fill->rng, 256);
        if (fill->style == LF_STYLE_SPARSE && lf_check_below(fill->rng, 8))
            codes[i] = 0;
        else if (m->format == LF_WEIGHT_FP8 && (codes[i] & 0x7F) == 0x7F)
            codes[i] ^= 1;
    }
}

static void fill_scale(const struct lf_fill *fill, void *data, size_t n) {
    const struct lf_matrix *m = &((const struct lf_linear_map *)fill->args)->w;
    uint32_t wide = m->is_regular ? 32 : 50; // up to 128: the greatest that is not odd
    for (size_t i = 0; i < n; i++)
        ((uint8_t *)data)[i] = (uint8_t)(fill->style == LF_STYLE_WIDE
                                             ? 97 + lf_check_below(fill->rng, wide)
                                             : 116 + lf_check_below(fill->rng, 4));
}

// Written by bind.
static void fill_index(const struct lf_fill *fill, void *data, size_t n) {
    (void)fill;
    memset(data, 0, n * sizeof(uint32_t));
}

static void describe(const void *args, struct lf_operand *o) {
    const struct lf_linear_map *map = args;
    const struct lf_matrix *m = &map->w;
    o[X] = lf_operand("x", LF_IN, LF_BF16, m->in);
    o[X].pitch = map->job->x_stride, o[X].fill = fill_x;
    o[W] = lf_operand("w", LF_WEIGHT, LF_U8, lf_matrix_row_bytes(m) * m->out);
    o[W].align = 1, o[W].fill = fill_w;
    o[SCALE] = lf_operand("scale", LF_WEIGHT, LF_U8, lf_matrix_scale_bytes(m));
    o[SCALE].align = 1, o[SCALE].fill = fill_scale;
    o[Y] = lf_operand("y", LF_OUT, LF_BF16, map->job->y_f32 ? 0 : m->out);
    o[Y_F32] = lf_operand("y", LF_OUT, LF_F32, map->job->y_f32 ? m->out : 0);
    o[Y].pitch = o[Y_F32].pitch = map->job->y_stride;
    o[INDEX] = lf_operand("x_index", LF_RULE, LF_U32, map->grouped == 2);
    o[INDEX].fill = fill_index;
}

// The first third of the rows and the others.
static void bind_groups(struct lf_linear_map *map, uint32_t rows, uint32_t *index) {
    for (uint32_t r = 0; index && r < rows; r++)
        index[r] = r;
    map->job->x_index = index;
    map->bounds[0] = 0, map->bounds[1] = rows / 3, map->bounds[2] = rows;
    map->job[0].group = map->bounds;
    map->job[1] = map->job[0];
    map->job[1].group++;
    map->args.n_jobs = 2;
    map->args.room = map->room;
    map->args.group_rows = rows;
}

static void bind(const struct lf_call *call, void *args) {
    struct lf_linear_map *map = args;
    map->w.data = call->data[W];
    map->w.scale = lf_matrix_scale_bytes(&map->w) ? call->data[SCALE] : NULL;
    map->job->w = &map->w, map->job->rows = call->rows, map->job->x = call->data[X];
    map->job->y = call->data[map->job->y_f32 ? Y_F32 : Y];
    map->args = (struct lf_linear_args){.n_jobs = 1, .job = map->job};
    if (map->grouped)
        bind_groups(map, call->rows, map->grouped == 2 ? call->data[INDEX] : NULL);
}

static void cuda_turn(void *args, bool back) {
    const struct lf_linear_map *map = args;
    if (map->w.format == LF_WEIGHT_MXFP4)
        lf_mxfp4_turn((void *)(uintptr_t)map->w.data, map->w.out * lf_matrix_row_bytes(&map->w),
                      back);
}

// g(D) sum |w x|, and what subnormal sums lose.
double lf_linear_error(double depth, double ref, double magnitude) {
    return isfinite(ref) ? lf_check_gamma(depth) * magnitude + depth * 0x1p-149 : 0.0;
}

static void bound(const void *args, const double *ref, double *error) {
    const struct lf_linear_map *map = args;
    size_t n = (size_t)map->job->rows * map->w.out;
    double depth = lf_linear_f64_depth(&map->w);
    double *out = calloc(n, sizeof *out);
    if (!out)
        return;
    lf_linear_f64_sums(&map->args, out, error);
    for (size_t i = 0; i < n; i++)
        error[i] = lf_linear_error(depth, ref[i], error[i]);
    free(out);
}

static void judge_byte(struct lf_trial *trial, const struct lf_shape *shape, uint32_t operand,
                       size_t at, uint8_t byte) {
    struct lf_call *call = lf_call_open(trial, shape, 3, LF_STYLE_NORMAL);
    *(uint8_t *)lf_call_at(call, operand, 0, at) = byte;
    lf_call_judge(call);
    lf_call_close(call);
}

// Scales whose weights bf16 cannot all hold.
static void judge_small(struct lf_trial *trial, const struct lf_shape *shape) {
    const struct lf_matrix *m = &((const struct lf_linear_map *)(const void *)shape->args)->w;
    struct lf_call *call = lf_call_open(trial, shape, 2, LF_STYLE_NORMAL);
    for (size_t i = 0; i < lf_matrix_scale_bytes(m); i++)
        *(uint8_t *)lf_call_at(call, SCALE, 0, i) = (uint8_t)(i % 3);
    lf_call_judge(call);
    lf_call_close(call);
}

// NaN codes and the ends of the scales.
static void judge_odd(struct lf_trial *trial, const struct lf_shape *shape) {
    static const uint8_t scale[] = {0x00, 0x01, 0x7F, 0xFF};
    const struct lf_matrix *m = &((const struct lf_linear_map *)(const void *)shape->args)->w;
    size_t scales = lf_matrix_scale_bytes(m);
    if (m->format == LF_WEIGHT_FP8) {
        judge_byte(trial, shape, W, 3, 0x7F);
        judge_byte(trial, shape, W, (size_t)m->out * m->in - 1, 0xFF);
        judge_small(trial, shape);
    }
    for (uint32_t i = 0; scales && i < sizeof scale; i++)
        judge_byte(trial, shape, SCALE, i % 2 ? 0 : scales - 1, scale[i]);
    // The scale behind the end of a row, or of 32.
    if (scales > m->in / 32)
        judge_byte(trial, shape, SCALE, m->in / 32, 0xFF);
}

// Odd weights where there may be some, and one value of a row that is not finite.
static void edges(struct lf_trial *trial, const struct lf_shape *shape) {
    static const uint16_t odd[] = {0x7FC1, 0xFF80, 0x7F80, 0x8000, 0x0001};
    const struct lf_matrix *m = &((const struct lf_linear_map *)(const void *)shape->args)->w;
    // Wider rows hold nothing that these do not.
    if (m->in > 2600)
        return;
    if (!m->is_regular)
        judge_odd(trial, shape);
    for (uint32_t i = 0; i < sizeof odd / sizeof *odd; i++) {
        uint32_t rows = i % 2 ? 1 : 9;
        struct lf_call *call = lf_call_open(trial, shape, rows, LF_STYLE_NORMAL);
        *(uint16_t *)lf_call_at(call, X, rows - 1, m->in - 1 - i) = odd[i];
        lf_call_judge(call);
        lf_call_close(call);
    }
}

static size_t scratch(const void *args) {
    (void)args;
    return LF_LINEAR_SCRATCH_BYTES;
}

static uint32_t products(const void *args, uint32_t rows, struct lf_product *product) {
    const struct lf_matrix *m = &((const struct lf_linear_map *)args)->w;
    product[0] = (struct lf_product){"tasks", ((uint64_t)m->out / 32 + 1) * (rows / 64 + 1), 32};
    product[1] = (struct lf_product){"x of few rows", 8ull * ((uint64_t)m->in + 128), 32};
    return 2;
}

static uint32_t cuda_products(const void *args, uint32_t rows, struct lf_product *product) {
    const struct lf_matrix *m = &((const struct lf_linear_map *)args)->w;
    uint64_t tiles = ((uint64_t)rows + 7) / 8 * ((m->out + 15) / 16);
    uint64_t parts = (m->in + LF_LINEAR_PART - 1) / LF_LINEAR_PART;
    // Which tile a unit is of comes from a product with the inverse of parts.
    uint64_t units = tiles * parts;
    product[0] = (struct lf_product){"units of a block that has all tiles", units * parts, 32};
    product[1] = (struct lf_product){"the end of a row's last part", parts * LF_LINEAR_PART, 31};
    return 2;
}

static const struct lf_control controls[] = {
    {1, "the last element is not in the sum", LF_GATE_BOUND, 1 << LF_ISA_PORTABLE | CUDA},
    {2, "the last element of x is not put in order", LF_GATE_BOUND, VECTORS},
    {3, "the last element has no digits", LF_GATE_BOUND, VECTORS},
    {4, "past the first task, the scale of the block before", LF_GATE_BOUND, 0},
    {5, "the total kept in fp16", LF_GATE_BOUND, 0},
    {6, "bf16 truncated", LF_GATE_BOUND, 0},
    {7, "another tree in launches of more than eight rows", LF_GATE_ROWS, 0},
    {8, "a write past the row", LF_GATE_MEMORY, 0},
    {9, "an e4m3 NaN is read as a number", LF_GATE_EDGES, VECTORS | CUDA},
    {10, "a row that has no digits is not done again", LF_GATE_EDGES, VECTORS},
    {11, "low digits left out", LF_GATE_ROWS, VECTORS},
    {12, "odd rows read their first block of x again", LF_GATE_ROWS, VECTORS},
    {13, "a group's x begins a row early", LF_GATE_BOUND | LF_GATE_ROWS, 0},
    {14, "x_index is not read", LF_GATE_BOUND | LF_GATE_ROWS, 0},
    {15, "scale 255 is read as a number", LF_GATE_EDGES, CUDA},
    {16, "weights that bf16 does not hold are rounded", LF_GATE_EDGES, CUDA},
    {17, "MXFP4's x in the order of the others", LF_GATE_BOUND, CUDA},
    {18, "two steps of a chain change places", LF_GATE_BOUND, CUDA},
};

const struct lf_record lf_linear_record = {
    .name = "linear", .file = "src/kernel/linear/linear_cpu.c", .contract = LF_LINEAR_CONTRACT,
    .operands = OPERANDS, .shapes = shapes, .ragged = ragged, .describe = describe, .bind = bind,
    .bound = bound, .cuda_sums = &lf_linear_cuda_sums, .cuda_turn = cuda_turn,
    .hostile = 1 << 0 | 1 << 1 | 1 << 3 | 1 << 4, .edges = edges, .scratch = scratch,
    .products = products, .cuda_products = cuda_products, .stack_bytes = 24576,
    .controls = controls, .n_controls = sizeof controls / sizeof *controls,
};
