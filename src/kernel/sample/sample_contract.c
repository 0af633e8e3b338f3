// What the gates know of sample.
#include <float.h>
#include <math.h>
#include <string.h>
#include "contract/record.h"
#include "kernel/sample/sample.h"

enum { LOGITS, RULE, MASK, ROW, DRAWN, KEPT, OPERANDS };

struct shape {
    struct lf_sample_args args;
    uint32_t counts; // 1: how many candidates were left is asked for
};

// What a row brings: its rule, its position, whether it heeds its mask.
struct rule {
    struct lf_sampling sampling;
    uint64_t position;
    uint32_t masked;
};

static void add(struct lf_shapes *shapes, const char *model, uint32_t rows, uint32_t vocab,
                uint32_t stride, uint32_t counts) {
    struct shape shape = {.args = {.vocab = vocab, .logits_stride = stride}, .counts = counts};
    struct lf_shape *added = lf_shapes_add(shapes, rows, &shape, sizeof shape, "%s %u ids of %u%s",
                                           model, vocab, stride, counts ? ", counts" : "");
    added->work = 16 * (uint64_t)vocab;
}

// A launch of windows, and one draft of every stream, whose rows lie a block apart.
static void shapes(const struct lf_served *served, struct lf_shapes *shapes) {
    const struct lf_topology *t = served->t;
    add(shapes, served->name, served->launch_rows, t->vocab, t->vocab, 1);
    if (t->draft_block)
        add(shapes, served->name, served->launch_rows, t->vocab, t->draft_block * t->vocab, 0);
}

static void ragged(struct lf_shapes *shapes) {
    static const uint32_t vocab[] = {1, 31, 63, 64, 65, 1100};
    for (uint32_t i = 0; i < sizeof vocab / sizeof *vocab; i++)
        add(shapes, "ragged", 64, vocab[i], vocab[i] + i, 1);
}

// All filters, none, each alone, and greedy; rows take them in turn.
static const struct lf_sampling rules[] = {
    {.temperature = 1, .top_p = 0.95, .min_p = 0.05, .top_k = 50},
    {.temperature = 1, .top_p = 1},
    {.temperature = 0.7, .top_p = 0.9},
    {.temperature = 1.3, .top_p = 1, .top_k = 20},
    {.temperature = 4, .top_p = 0.5, .min_p = 0.3},
    {.temperature = 0, .top_p = 0.1, .top_k = 2},
    {.temperature = 2, .top_p = 1, .min_p = 0.2},
    {.temperature = 30, .top_p = 0.75},
    {.temperature = 1, .top_p = 0, .top_k = 5},
    {.temperature = 8, .top_p = 0.8, .top_k = 400},
    {.temperature = 1, .top_p = 1, .min_p = 1},
    {.temperature = 3, .top_p = 1, .top_k = 1},
    {.temperature = 0.01, .top_p = 0.999},
    {.temperature = 12, .top_p = 1, .top_k = INT64_MAX},
};

static void fill_rule(const struct lf_fill *fill, void *data, size_t n) {
    struct rule rule = {.sampling = rules[fill->row % (sizeof rules / sizeof *rules)],
                        .position = lf_check_next(fill->rng), .masked = fill->row % 3 == 1};
    rule.sampling.seed = lf_check_next(fill->rng);
    memcpy(data, &rule, n);
}

static void fill_mask(const struct lf_fill *fill, void *data, size_t n) {
    uint32_t *mask = data;
    for (size_t i = 0; i < n; i++)
        mask[i] = (uint32_t)lf_check_next(fill->rng);
}

// Spread exponents at the size of the noise for every second row, so that noise decides.
static void fill_logits(const struct lf_fill *fill, void *data, size_t n) {
    bool small = fill->style == LF_STYLE_WIDE && fill->row % 2;
    lf_check_fill_f32(fill->rng, fill->style, small ? 0x1p-14f : 4.0f, data, n);
}

static void describe(const void *args, struct lf_operand *o) {
    const struct shape *s = args;
    o[LOGITS] = lf_operand("logits", LF_IN, LF_F32, s->args.vocab);
    o[LOGITS].pitch = s->args.logits_stride, o[LOGITS].fill = fill_logits;
    o[RULE] = lf_operand("rule", LF_RULE, LF_U8, sizeof(struct rule));
    o[RULE].fill = fill_rule;
    o[MASK] = lf_operand("mask", LF_RULE, LF_U32, (s->args.vocab + 31) / 32);
    o[MASK].fill = fill_mask;
    o[ROW] = lf_operand("row", LF_POINTER, LF_U64, sizeof(struct lf_sample_row) / 8);
    o[DRAWN] = lf_operand("drawn", LF_OUT, LF_U32, 1);
    o[KEPT] = lf_operand("kept", LF_OUT, LF_U32, s->counts);
}

static void bind(const struct lf_call *call, void *args) {
    struct lf_sample_args *a = args;
    struct lf_sample_row *row = call->data[ROW];
    a->rows = call->rows, a->logits = call->data[LOGITS], a->row = row;
    a->drawn = call->data[DRAWN], a->kept = call->data[KEPT];
    for (uint32_t r = 0; r < call->rows; r++) {
        const struct rule *rule = lf_call_at(call, RULE, r, 0);
        row[r] = (struct lf_sample_row){.rule = &rule->sampling, .position = rule->position};
        row[r].mask = rule->masked ? lf_call_at(call, MASK, r, 0) : NULL;
    }
}

static size_t columns(const void *args) {
    (void)args;
    return 2;
}

// A row that repeats n logits; ends: others at the first and the last id; no logits: normal ones.
struct row {
    const float *logit;
    uint32_t n;
    const float *ends;
};

static void run(struct lf_trial *trial, const struct lf_shape *shape, struct row row,
                struct lf_sampling rule, uint64_t position) {
    struct lf_call *call = lf_call_open(trial, shape, 1, LF_STYLE_NORMAL);
    uint32_t vocab = ((const struct shape *)(const void *)shape->args)->args.vocab;
    for (uint32_t id = 0; id < vocab && row.logit; id++)
        *(float *)lf_call_at(call, LOGITS, 0, id) = row.logit[id % row.n];
    if (row.ends) {
        *(float *)lf_call_at(call, LOGITS, 0, 0) = row.ends[0];
        *(float *)lf_call_at(call, LOGITS, 0, vocab - 1) = row.ends[1];
    }
    *(struct rule *)lf_call_at(call, RULE, 0, 0) = (struct rule){.sampling = rule,
                                                               .position = position};
    lf_call_judge(call);
    lf_call_close(call);
}

// Every pattern of logits under the greedy rule and one with all filters.
static void run_patterns(struct lf_trial *trial, const struct lf_shape *shape) {
    static const float flat[] = {2.5f}, zeros[] = {-0.0f, 0.0f, 0.0f}, none[] = {-INFINITY};
    static const float levels[] = {3, 1, 3, 2, -INFINITY}, wide[] = {FLT_MAX, -FLT_MAX, 0};
    static const float end[][2] = {{5, -INFINITY}, {-INFINITY, 5}, {9, 9}, {0, NAN},
                                   {-NAN, 0}, {INFINITY, 0}, {0, INFINITY}};
    const struct row row[] = {{flat, 1, NULL}, {zeros, 3, NULL}, {none, 1, NULL},
                              {levels, 5, NULL}, {wide, 3, NULL}, {none, 1, end[0]},
                              {none, 1, end[1]}, {levels, 5, end[2]}, {NULL, 0, end[3]},
                              {NULL, 0, end[4]}, {NULL, 0, end[5]}, {NULL, 0, end[6]}};
    for (uint32_t i = 0; i < sizeof row / sizeof *row; i++) {
        run(trial, shape, row[i], (struct lf_sampling){.top_p = 1}, i);
        run(trial, shape, row[i], (struct lf_sampling){.temperature = 1.5, .top_p = 0.6,
                                                       .min_p = 0.01, .top_k = 700, .seed = 3}, i);
    }
}

// Ties go to the lower id, in the choice and in a race that the noise is too small for.
static void run_ties(struct lf_trial *trial, const struct lf_shape *shape) {
    static const float tied[] = {1, 7, 7, 2};
    const struct row row = {tied, 4, NULL};
    run(trial, shape, row, (struct lf_sampling){.temperature = -1, .top_p = 0.5}, 9);
    run(trial, shape, row, (struct lf_sampling){.temperature = 1e-300, .top_p = 1, .seed = 8}, 9);
    run(trial, shape, row, (struct lf_sampling){.temperature = 5e-324, .top_p = 0.7, .seed = 8}, 9);
    run(trial, shape, row, (struct lf_sampling){.temperature = 1e300, .top_p = 0.7, .seed = 8}, 9);
    run(trial, shape, row, (struct lf_sampling){.temperature = 1, .top_p = 1, .top_k = 2}, 9);
}

// The ends of seeds, positions and top_p; a nucleus of the whole vocabulary; one of one.
static void run_ends(struct lf_trial *trial, const struct lf_shape *shape) {
    static const float flat[] = {0};
    const struct row row[] = {{flat, 1, NULL}, {NULL, 0, NULL}};
    for (uint32_t i = 0; i < 2; i++) {
        struct lf_sampling rule = {.temperature = 1, .top_p = 1, .seed = 99};
        run(trial, shape, row[i], rule, UINT32_MAX);
        run(trial, shape, row[i], rule, (uint64_t)UINT32_MAX + 1);
        run(trial, shape, row[i], rule, UINT64_MAX);
        rule.seed |= (uint64_t)1 << 32;
        run(trial, shape, row[i], rule, 17);
        rule.seed = UINT64_MAX, rule.top_p = 1 - 0x1p-53;
        run(trial, shape, row[i], rule, 17);
        rule.top_p = 0x1p-40;
        run(trial, shape, row[i], rule, 17);
    }
}

// Rules that float32 would round: a tail of masses near 2^13, a candidate just above min_p.
static void run_exact(struct lf_trial *trial, const struct lf_shape *shape) {
    static const float tail[] = {-18.71f}, near[] = {-0.5f}, head[] = {0, 0};
    struct lf_sampling rule = {.temperature = 1, .top_p = 1 - 0x1p-26, .seed = 5};
    run(trial, shape, (struct row){tail, 1, head}, rule, 1);
    rule.temperature = 1 + 0x1p-25, rule.top_p = 1, rule.min_p = exp(-0.5 + 0x1p-27);
    run(trial, shape, (struct row){near, 1, head}, rule, 1);
}

static void edges(struct lf_trial *trial, const struct lf_shape *shape) {
    run_patterns(trial, shape);
    run_ties(trial, shape);
    run_ends(trial, shape);
    run_exact(trial, shape);
}

static uint32_t products(const void *args, uint32_t rows, struct lf_product *product) {
    (void)rows;
    const struct lf_sample_args *a = args;
    product[0] = (struct lf_product){"ids of the last block", (uint64_t)a->vocab + 63, 32};
    product[1] = (struct lf_product){"masses of all ids", (uint64_t)a->vocab << 40, 64};
    return 2;
}

static uint32_t cuda_products(const void *args, uint32_t rows, struct lf_product *product) {
    const struct lf_sample_args *a = args;
    (void)rows;
    product[0] = (struct lf_product){"ids of the last turn", 2ull * a->vocab + 4096, 32};
    product[1] = (struct lf_product){"masses of all ids", (uint64_t)a->vocab << 40, 64};
    return 2;
}

static const struct lf_control controls[] = {
    {1, "the position from the row's place", LF_GATE_BOUND | LF_GATE_ROWS, 0},
    {2, "ties of a race to the higher id", LF_GATE_EDGES, 0},
    {3, "ties of the greatest to the higher id", LF_GATE_EDGES, 0},
    {4, "masses as a float32 sum keeps them", LF_GATE_EDGES, 0},
    {5, "the seed truncated to 32 bits", LF_GATE_BOUND, 0},
    {6, "the position truncated to 32 bits", LF_GATE_BOUND | LF_GATE_EDGES, 0},
    {7, "min_p before top_p", LF_GATE_BOUND, 0},
    {8, "top_k after top_p", LF_GATE_BOUND, 0},
    {9, "the temperature in float32", LF_GATE_EDGES, 0},
    {10, "top_p in float32", LF_GATE_EDGES, 0},
    {11, "the mask is not read", LF_GATE_BOUND, 0},
    {12, "min_p left out", LF_GATE_BOUND, 0},
    {13, "top_k left out", LF_GATE_BOUND, 0},
    {14, "a NaN is not seen", LF_GATE_EDGES, 0},
    {15, "the last id is no candidate", LF_GATE_EDGES, 0},
    {16, "a write past the row", LF_GATE_MEMORY, 0},
    {17, "candidates dropped whose noise could still win", LF_GATE_BOUND, 0},
    {18, "all candidates tied at the end of a nucleus kept", LF_GATE_BOUND, 0},
    {19, "the temperature left out of the race", LF_GATE_BOUND, 0},
    {20, "nine rounds of Philox", LF_GATE_BOUND, 0},
    {21, "the row at place 5 takes its neighbour's rule", LF_GATE_ROWS, 0},
    {22, "top_p left out", LF_GATE_BOUND, 0},
};

const struct lf_record lf_sample_record = {
    .name = "sample", .file = "src/kernel/sample/sample_cpu.c", .contract = LF_SAMPLE_CONTRACT,
    .operands = OPERANDS, .shapes = shapes, .ragged = ragged, .describe = describe, .bind = bind,
    .columns = columns, .hostile = 31, .edges = edges, .products = products,
    .cuda_products = cuda_products,
    .stack_bytes = 24576,
    .controls = controls, .n_controls = sizeof controls / sizeof *controls,
};
