// What the gates know of engram_gate.
#include <math.h>
#include <string.h>
#include "contract/record.h"
#include "kernel/engram_gate/engram_gate.h"
#include "kernel/reference.h"

enum { X, KV, Q_WEIGHT, K_WEIGHT, DEAD, GATE, OPERANDS };

struct shape {
    struct lf_engram_gate_args args;
    uint32_t spans, shows; // 1: rows may lie in image spans; gates are stored
};

static void add(struct lf_shapes *shapes, const char *model, uint32_t rows, uint32_t streams,
                uint32_t dim, float eps, uint32_t spans, uint32_t shows) {
    struct shape shape = {.args = {.streams = streams, .dim = dim, .eps = eps},
                          .spans = spans, .shows = shows};
    shape.args.dot_scale = (float)(1.0 / sqrt((double)dim));
    lf_shapes_add(shapes, rows, &shape, sizeof shape, "%s %u x %u%s%s", model, streams, dim,
                  spans ? ", spans" : "", shows ? ", gates stored" : "");
}

// As it is served, and with spans and stored gates.
static void shapes(const struct lf_served *served, struct lf_shapes *shapes) {
    const struct lf_topology *t = served->t;
    for (uint32_t i = 0; t->n_engram && i < 2; i++)
        add(shapes, served->name, served->chunk_rows, t->streams, t->hidden, t->norm_eps, i, i);
}

static void ragged(struct lf_shapes *shapes) {
    add(shapes, "ragged", 64, 1, 17, 1e-20f, 0, 1);
    add(shapes, "ragged", 64, 3, 300, 1e-3f, 1, 1);
}

// A fourth of the rows lies in a span.
static void fill_dead(const struct lf_fill *fill, void *data, size_t n) {
    memset(data, fill->row % 4 == 2, n);
}

static void describe(const void *args, struct lf_operand *o) {
    const struct shape *s = args;
    size_t n = (size_t)s->args.streams * s->args.dim;
    o[X] = lf_operand("x", LF_INOUT, LF_BF16, n);
    o[X].scale = 3.0f;
    o[KV] = lf_operand("kv", LF_IN, LF_BF16, n + s->args.dim);
    o[Q_WEIGHT] = lf_operand("q_weight", LF_WEIGHT, LF_BF16, n);
    o[K_WEIGHT] = lf_operand("k_weight", LF_WEIGHT, LF_BF16, n);
    o[Q_WEIGHT].align = o[K_WEIGHT].align = 1;
    o[DEAD] = lf_operand("dead", LF_RULE, LF_U8, s->spans);
    o[DEAD].align = 1, o[DEAD].fill = fill_dead;
    o[GATE] = lf_operand("gate", LF_OUT, LF_F32, s->shows ? s->args.streams : 0);
}

static void bind(const struct lf_call *call, void *args) {
    struct lf_engram_gate_args *a = args;
    a->rows = call->rows, a->x = call->data[X], a->kv = call->data[KV];
    a->q_weight = call->data[Q_WEIGHT], a->k_weight = call->data[K_WEIGHT];
    a->dead = call->data[DEAD], a->gate = call->data[GATE];
}

static size_t columns(const void *args) {
    const struct lf_engram_gate_args *a = args;
    return (size_t)a->streams * (a->dim + 1);
}

// What products below the least normal number lose.
static double lost(double exact) {
    return exact != 0.0 && fabs(exact) < 0x1p-125 ? 0x1p-149 : 0.0;
}

// Sums, then the square root and the sigmoid by their slopes; a sign in doubt is the least gate's.
static double gate_error(const struct lf_engram_gate_args *a, size_t row, size_t i) {
    size_t s = a->streams, dim = a->dim;
    double dot = 0, sum = 0, x2 = 0, key2 = 0, below = 0, n = (double)dim, eps = (double)a->eps;
    for (size_t d = 0; d < dim; d++) {
        double x = lf_ref_bf16(a->x, (row * s + i) * dim + d);
        double key = lf_ref_bf16(a->kv, (row * (s + 1) + i) * dim + d);
        double w = lf_ref_bf16(a->q_weight, i * dim + d) * lf_ref_bf16(a->k_weight, i * dim + d);
        dot += x * w * key, sum += fabs(x * w * key);
        x2 += x * x, key2 += key * key;
        below += lost(w) * fabs(x * key) + lost(x * w) * fabs(key) + lost(x * w * key);
    }
    double factor = 1 / sqrt(x2 / n + eps) / sqrt(key2 / n + eps) / sqrt(n);
    double e = (lf_check_gamma(n / 16 + 6) * sum + below) * factor;
    e += lf_check_gamma(n / 16 + 17) * fabs(dot * factor);
    double size = fmax(fabs(dot * factor) - e, 1e-6);
    double flip = e > 0 && fabs(dot * factor) <= e ? 2e-3 : 0;
    return 0.25 * (flip + e / (2 * sqrt(size)) + lf_check_gamma(2) * sqrt(size)) +
           lf_check_gamma(5);
}

static void bound(const void *args, const double *ref, double *error) {
    const struct lf_engram_gate_args *a = args;
    size_t s = a->streams, dim = a->dim;
    for (size_t row = 0; row < a->rows; row++, ref += s * (dim + 1), error += s * (dim + 1))
        for (size_t i = 0; i < s; i++) {
            bool dead = a->dead && a->dead[row];
            double off = error[s * dim + i] = dead ? 0 : gate_error(a, row, i);
            for (size_t d = i * dim; d < (i + 1) * dim; d++) {
                double value = fabs(lf_ref_bf16(a->kv, (row * (s + 1) + s) * dim + d - i * dim));
                error[d] = value * off + (dead ? 0 : lf_check_gamma(1) * (fabs(ref[d]) + value));
            }
        }
}

// One NaN or infinity in the streams, the keys or the value, in both kinds of columns.
static void run_odd(struct lf_trial *trial, const struct lf_shape *shape) {
    static const uint16_t odd[] = {0x7FC1, 0xFFFF, 0x7F80, 0xFF80};
    const struct lf_engram_gate_args *a = (const void *)shape->args;
    for (uint32_t i = 0; i < 8; i++) {
        struct lf_call *call = lf_call_open(trial, shape, 2, LF_STYLE_NORMAL);
        size_t n = (size_t)a->streams * a->dim;
        if (i < 4)
            *(uint16_t *)lf_call_at(call, X, 1, n - 1) = odd[i];
        else
            *(uint16_t *)lf_call_at(call, KV, 1, i % 2 ? n + 3 : a->dim - 2) = odd[i - 4];
        lf_call_judge(call);
        lf_call_close(call);
    }
}

// Keys that are the stream times sign: a dot of sqrt(dim) to its last bits; both signs, and dead.
static void run_plain(struct lf_trial *trial, const struct lf_shape *shape, float size,
                      uint16_t sign) {
    const struct lf_engram_gate_args *a = (const void *)shape->args;
    struct lf_call *call = lf_call_open(trial, shape, 3, LF_STYLE_NORMAL);
    uint32_t bits;
    memcpy(&bits, &size, sizeof bits);
    for (uint32_t row = 0; row < 3; row++)
        for (size_t d = 0; d < (size_t)a->streams * a->dim; d++) {
            *(uint16_t *)lf_call_at(call, X, row, d) = (uint16_t)(bits >> 16);
            *(uint16_t *)lf_call_at(call, KV, row, d) = (uint16_t)(bits >> 16) ^ sign;
        }
    lf_call_judge(call);
    lf_call_close(call);
}

// A square past float32: the mean is infinite, the dot 0, the gate the least.
static void run_overflow(struct lf_trial *trial, const struct lf_shape *shape) {
    const struct shape *s = (const void *)shape->args;
    struct lf_call *call = lf_call_open(trial, shape, 2, LF_STYLE_NORMAL);
    double least = 1 / (1 + exp(-1e-3));
    memset(lf_call_at(call, KV, 1, 0), 0, 2 * (size_t)s->args.streams * s->args.dim);
    *(uint16_t *)lf_call_at(call, X, 1, 1) = 0x7F00;
    *(uint16_t *)lf_call_at(call, Q_WEIGHT, 0, 1) = 0x3F80;
    *(uint16_t *)lf_call_at(call, K_WEIGHT, 0, 1) = 0x3F80;
    *(uint16_t *)lf_call_at(call, KV, 1, 1) = 0x3F80;
    lf_call_run(call);
    if (s->shows)
        lf_judge_element(call, GATE, 1, 0, least, lf_check_gamma(5));
    lf_call_close(call);
}

// A dead row's streams stay, bit for bit.
static void run_dead(struct lf_trial *trial, const struct lf_shape *shape) {
    const struct shape *s = (const void *)shape->args;
    size_t n = (size_t)s->args.streams * s->args.dim;
    struct lf_call *call = lf_call_open(trial, shape, 2, LF_STYLE_WIDE);
    for (uint32_t row = 0; row < 2; row++)
        *(uint8_t *)lf_call_at(call, DEAD, row, 0) = row == 1;
    uint16_t before[16];
    memcpy(before, lf_call_at(call, X, 1, n - 16), sizeof before);
    lf_call_judge(call);
    for (size_t c = 0; c < 16; c++)
        lf_expect_bits(call, X, 1, n - 16 + c, before[c], "a dead row keeps its streams");
    for (uint32_t i = 0; s->shows && i < s->args.streams; i++)
        lf_expect_bits(call, GATE, 1, i, 0, "a dead row's gate is 0");
    lf_call_close(call);
}

static void edges(struct lf_trial *trial, const struct lf_shape *shape) {
    run_odd(trial, shape);
    run_plain(trial, shape, 1.5f, 0);
    run_plain(trial, shape, 1.5f, 0x8000);
    run_plain(trial, shape, 0x1p-40f, 0x8000);
    run_plain(trial, shape, 0.0f, 0x8000);
    run_overflow(trial, shape);
    if (((const struct shape *)(const void *)shape->args)->spans)
        run_dead(trial, shape);
}

static const struct lf_control controls[] = {
    {1, "every gate is zero, Engram is left out", LF_GATE_BOUND, 0},
    {2, "eps left out", LF_GATE_EDGES, 0},
    {3, "no root of the dot", LF_GATE_BOUND, 0},
    {4, "the sign of the dot lost after the root", LF_GATE_BOUND | LF_GATE_EDGES, 0},
    {5, "no least dot under the root", LF_GATE_EDGES, 0},
    {6, "k_weight left out", LF_GATE_BOUND, 0},
    {7, "the key is not normalised", LF_GATE_BOUND, 0},
    {8, "dot_scale left out", LF_GATE_BOUND, 0},
    {9, "the value is the last stream's key", LF_GATE_BOUND, 0},
    {10, "the last column is not in the sums", LF_GATE_BOUND, 0},
    {11, "dead rows are joined", LF_GATE_BOUND | LF_GATE_EDGES, 0},
    {12, "the row at place 5 takes its neighbour's keys", LF_GATE_ROWS, 0},
    {13, "a write past the last stream", LF_GATE_MEMORY, 0},
    {14, "the gate rounded to bf16 before the join", LF_GATE_BOUND, 0},
    {15, "gate times value rounded to bf16 before it is added", LF_GATE_BOUND, 0},
    {16, "the streams are not normalised", LF_GATE_BOUND, 0},
    {17, "q_weight left out", LF_GATE_BOUND, 0},
    {18, "a NaN gate counts as 0", LF_GATE_EDGES, 0},
    {19, "no sigmoid", LF_GATE_BOUND, 0},
};

const struct lf_record lf_engram_gate_record = {
    .name = "engram_gate", .file = "src/kernel/engram_gate/engram_gate_cpu.c",
    .contract = LF_ENGRAM_GATE_CONTRACT, .operands = OPERANDS,
    .shapes = shapes, .ragged = ragged, .describe = describe, .bind = bind, .columns = columns,
    .bound = bound, .hostile = 1 << 0 | 1 << 1 | 1 << 3 | 1 << 4, .edges = edges,
    .stack_bytes = 8192, .controls = controls, .n_controls = sizeof controls / sizeof *controls,
};
