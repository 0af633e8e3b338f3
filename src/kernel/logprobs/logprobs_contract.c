// What the gates know of logprobs.
#include <float.h>
#include <math.h>
#include <string.h>
#include "contract/record.h"
#include "kernel/logprobs/logprobs.h"

enum { LOGITS, DRAWN, ROW, OPERANDS };
// A row of results in words, as struct lf_logprob_row has them.
enum { WORD_DRAWN, WORD_N, WORD_ID, WORD_VALUE = WORD_ID + LF_LOGPROBS_MAX };
_Static_assert(sizeof(struct lf_logprob_row) == 4 * LF_LOGPROBS_F64_COLUMNS, "words without gaps");

static void add(struct lf_shapes *shapes, const char *model, uint32_t rows, uint32_t vocab,
                uint32_t stride, uint32_t top) {
    struct lf_logprobs_args args = {.vocab = vocab, .logits_stride = stride, .top = top};
    struct lf_shape *shape = lf_shapes_add(shapes, rows, &args, sizeof args, "%s %u of %u", model,
                                           top, vocab);
    shape->work = 4 * (uint64_t)vocab;
}

// The most alternatives, and none, which is how text is scored.
static void shapes(const struct lf_served *served, struct lf_shapes *shapes) {
    uint32_t vocab = served->t->vocab;
    add(shapes, served->name, served->launch_rows, vocab, vocab, LF_LOGPROBS_MAX);
    add(shapes, served->name, served->launch_rows, vocab, vocab, 0);
}

// One id, fewer ids than alternatives, ends of lanes and blocks, gaps.
static void ragged(struct lf_shapes *shapes) {
    static const uint32_t vocab[] = {1, 15, 16, 17, 63, 64, 65, 1000};
    for (uint32_t i = 0; i < sizeof vocab / sizeof *vocab; i++)
        add(shapes, "ragged", 64, vocab[i], vocab[i] + i % 3, i % 2 ? LF_LOGPROBS_MAX : 5);
}

static void fill_drawn(const struct lf_fill *fill, void *data, size_t n) {
    uint32_t *drawn = data;
    for (size_t i = 0; i < n; i++)
        drawn[i] = lf_check_below(fill->rng, ((const struct lf_logprobs_args *)fill->args)->vocab);
}

static void describe(const void *args, struct lf_operand *o) {
    const struct lf_logprobs_args *a = args;
    o[LOGITS] = lf_operand("logits", LF_IN, LF_F32, a->vocab);
    o[LOGITS].pitch = a->logits_stride, o[LOGITS].scale = 4.0f;
    o[DRAWN] = lf_operand("drawn", LF_RULE, LF_U32, 1);
    o[DRAWN].fill = fill_drawn;
    o[ROW] = lf_operand("row", LF_OUT, LF_F32, LF_LOGPROBS_F64_COLUMNS);
}

static void bind(const struct lf_call *call, void *args) {
    struct lf_logprobs_args *a = args;
    a->rows = call->rows, a->logits = call->data[LOGITS];
    a->drawn = call->data[DRAWN], a->row = call->data[ROW];
}

// Half a float32 spacing, and the sum and functions in float64.
static double error_of(const struct lf_logprobs_args *a, double value) {
    double size = fabs(value);
    int exponent = size < 0x1p-126 ? -126 : isfinite(size) ? ilogb(size) : 0;
    return ldexp(1.0, exponent - 24) + (a->vocab / 16.0 + 24 + 4 * size) * 0x1p-53;
}

static void judge(struct lf_call *call, const double *ref) {
    const struct lf_logprobs_args *a = (const void *)call->args;
    for (uint32_t row = 0; row < call->rows; row++, ref += LF_LOGPROBS_F64_COLUMNS) {
        lf_judge_element(call, ROW, row, WORD_DRAWN, ref[WORD_DRAWN],
                         error_of(a, ref[WORD_DRAWN]));
        lf_expect_bits(call, ROW, row, WORD_N, (uint64_t)ref[WORD_N], "alternatives");
        for (uint32_t i = 0; i < LF_LOGPROBS_MAX; i++) {
            double value = ref[WORD_VALUE + i];
            lf_expect_bits(call, ROW, row, WORD_ID + i, (uint64_t)ref[WORD_ID + i],
                           "the id by a full sort");
            // What lies past the alternatives is zero.
            lf_judge_element(call, ROW, row, WORD_VALUE + i, value,
                             i < ref[WORD_N] ? error_of(a, value) : -1.0);
        }
    }
}

// A row that repeats n logits, then others at the first and the last id; NULL: as it was filled.
static void run_row(struct lf_trial *trial, const struct lf_shape *shape, const float *logit,
                    uint32_t n, const float *end, uint32_t drawn) {
    struct lf_call *call = lf_call_open(trial, shape, 1, LF_STYLE_NORMAL);
    const struct lf_logprobs_args *a = (const void *)shape->args;
    for (uint32_t id = 0; id < a->vocab && logit; id++)
        *(float *)lf_call_at(call, LOGITS, 0, id) = logit[id % n];
    if (end) {
        *(float *)lf_call_at(call, LOGITS, 0, 0) = end[0];
        *(float *)lf_call_at(call, LOGITS, 0, a->vocab - 1) = end[1];
    }
    *(uint32_t *)lf_call_at(call, DRAWN, 0, 0) = drawn;
    lf_call_judge(call);
    lf_call_close(call);
}

// Flat rows, ties, both zeros, one finite logit, unusable rows, extremes, ids at and past the end.
static void edges(struct lf_trial *trial, const struct lf_shape *shape) {
    static const float flat[] = {2.5f}, zeros[] = {-0.0f, 0.0f, 0.0f}, none[] = {-INFINITY};
    static const float levels[] = {3, 1, 3, 2, -INFINITY}, wide[] = {FLT_MAX, -FLT_MAX, 0};
    static const float apart[] = {0, -700, -750, -80}, least[] = {-FLT_MAX, -FLT_MAX, 1e-45f};
    static const float end[][2] = {{30, -INFINITY},      {-INFINITY, 30}, {NAN, 0}, {0, -NAN},
                                   {INFINITY, -INFINITY}, {0, INFINITY}};
    uint32_t last = ((const struct lf_logprobs_args *)(const void *)shape->args)->vocab - 1;
    run_row(trial, shape, flat, 1, NULL, last);
    run_row(trial, shape, zeros, 3, NULL, 0);
    run_row(trial, shape, none, 1, NULL, 0);
    run_row(trial, shape, levels, 5, NULL, last);
    run_row(trial, shape, wide, 3, NULL, last);
    run_row(trial, shape, apart, 4, NULL, last / 2);
    run_row(trial, shape, least, 3, NULL, last);
    run_row(trial, shape, NULL, 0, NULL, last + 1);
    run_row(trial, shape, NULL, 0, NULL, UINT32_MAX);
    for (uint32_t i = 0; i < sizeof end / sizeof *end; i++) {
        run_row(trial, shape, i < 2 ? none : NULL, 1, end[i], 0);
        run_row(trial, shape, i < 2 ? none : NULL, 1, end[i], last);
    }
}

static uint32_t cuda_products(const void *args, uint32_t rows, struct lf_product *product) {
    const struct lf_logprobs_args *a = args;
    uint64_t parts = (a->vocab + 4095ull) / 4096;
    (void)rows;
    product[0] = (struct lf_product){"ids of the last part", parts * 4096 + 4096, 32};
    product[1] = (struct lf_product){"candidates of all parts", parts * a->top + 4096, 32};
    return 2;
}

static const struct lf_control controls[] = {
    {1, "the last id is not in the sum", LF_GATE_BOUND, 0},
    {2, "temperature 2 applied", LF_GATE_BOUND, 0},
    {3, "ties of alternatives reversed", LF_GATE_EDGES, 0},
    {4, "the sum in float32", LF_GATE_BOUND, 0},
    {5, "an id at minus infinity is an alternative", LF_GATE_EDGES, 0},
    {6, "a NaN is not seen", LF_GATE_EDGES, 0},
    {7, "what lies past the alternatives is left", LF_GATE_MEMORY, 0},
    {8, "the row at place 5 has its neighbour's id", LF_GATE_ROWS, 0},
    {9, "an id past the vocabulary has the last one's value", LF_GATE_EDGES, 0},
    {10, "the last id is no alternative", LF_GATE_EDGES, 0},
    {11, "the difference rounded to float32 before the logarithm is taken off", LF_GATE_BOUND, 0},
    {12, "the greatest logit is not taken off the drawn one", LF_GATE_BOUND, 0},
    {13, "+infinity is not seen", LF_GATE_EDGES, 0},
};

const struct lf_record lf_logprobs_record = {
    .name = "logprobs", .file = "src/kernel/logprobs/logprobs_cpu.c",
    .contract = LF_LOGPROBS_CONTRACT, .operands = OPERANDS,
    .shapes = shapes, .ragged = ragged, .describe = describe, .bind = bind, .judge = judge,
    .hostile = 31, .edges = edges,
    .cuda_products = cuda_products, .stack_bytes = 4096,
    .controls = controls, .n_controls = sizeof controls / sizeof *controls,
};
