// Problems of kernels that choose: the router, the sampler and its log-probabilities.
#include <math.h>
#include "cuda/check.h"

#define MIRROR(c, args, field) ((args).field = check_mirror(c, (args).field))

// Rows of logits: spread, nearly flat, few values with many ties, one finite, and not numbers.
enum logits_kind { LOGITS_SPREAD, LOGITS_FLAT, LOGITS_TIES, LOGITS_LONE, LOGITS_BAD, LOGITS_KINDS };

static void fill_row(struct check *c, float *logits, uint32_t n, enum logits_kind kind) {
    for (uint32_t i = 0; i < n; i++) {
        float unit = (float)check_random(c, 1u << 24) * 0x1p-24f;
        float value = 30.0f * unit - 20.0f;
        if (kind == LOGITS_FLAT)
            value = 1.0f + 1e-3f * unit;
        else if (kind == LOGITS_TIES)
            value = (float)(int)(6.0f * unit) - 3.0f;
        else if (kind == LOGITS_LONE)
            value = -INFINITY;
        logits[i] = value;
    }
    if (kind == LOGITS_TIES)
        logits[check_random(c, n)] = -0.0f;
    if (kind == LOGITS_LONE)
        logits[check_random(c, n)] = 3.0f;
    if (kind == LOGITS_BAD)
        logits[check_random(c, n)] = check_random(c, 2) ? INFINITY : NAN;
}

// Every kind of row in turn, from a random one on.
static float *new_logits(struct check *c, uint32_t rows, size_t stride, uint32_t vocab) {
    float *logits = check_new_f32(c, "logits", rows * stride, STYLE_ANY);
    uint32_t first = check_random(c, LOGITS_KINDS);
    for (uint32_t r = 0; r < rows; r++)
        fill_row(c, logits + r * stride, vocab, (first + r) % LOGITS_KINDS);
    return logits;
}

static void check_router_of(struct check *c, const struct sizes *s, uint32_t n, uint32_t top) {
    for (uint32_t i = 0; i < 4 && s->rows[i]; i++)
        for (int style = 0; style < STYLES + 1; style++) {
            uint32_t rows = s->rows[i];
            check_start(c, "%s: %u rows, style %d, %u of %u", s->name, rows, style, top, n);
            struct lf_router_args a = {.rows = rows, .experts = n, .top = top,
                                       .route_scale = 1.5f};
            a.logits = style < STYLES ? check_new_f32(c, "logits", (size_t)rows * n, style)
                                      : new_logits(c, rows, n, n);
            float *bias = check_new_f32(c, "bias", n, STYLE_NORMAL);
            for (uint32_t e = 0; style == STYLES && e < n; e++)
                bias[e] = 0.25f;
            a.bias = bias;
            a.id = check_new(c, "id", sizeof *a.id * rows * top);
            a.weight = check_new(c, "weight", sizeof *a.weight * rows * top);
            struct lf_router_args d = a;
            MIRROR(c, d, logits), MIRROR(c, d, bias), MIRROR(c, d, id), MIRROR(c, d, weight);
            CHECK_KERNEL(c, router, &a, &d);
        }
}

void check_router(struct check *c, const struct sizes *s) {
    check_router_of(c, s, s->experts, s->top);
    check_router_of(c, s, 1000, 64);
    check_router_of(c, s, 5, 5);
}

void check_expert_group(struct check *c, const struct sizes *s) {
    for (uint32_t i = 0; i < 4 && s->rows[i]; i++)
        for (int turn = 0; turn < 3; turn++) {
            // The second turn is longer than what the kernel holds near, the third has one expert.
            uint32_t rows = turn == 1 ? s->rows[i] * 150 : s->rows[i], choices = rows * s->top;
            check_start(c, "%s: %u rows, turn %d", s->name, rows, turn);
            struct lf_expert_group_args a = {.rows = rows, .top = s->top, .experts = s->experts};
            uint32_t *id = check_new(c, "id", choices * sizeof *id);
            for (uint32_t k = 0; k < choices; k++)
                id[k] = turn == 2 ? s->experts - 1 : check_random(c, s->experts);
            a.id = id;
            a.weight = check_new_f32(c, "weight", choices, STYLE_NORMAL);
            a.first = check_new(c, "first", sizeof *a.first * (s->experts + 1));
            a.pair_row = check_new(c, "pair_row", sizeof *a.pair_row * choices);
            a.pair_weight = check_new(c, "pair_weight", sizeof *a.pair_weight * choices);
            a.pair_of = check_new(c, "pair_of", sizeof *a.pair_of * choices);
            struct lf_expert_group_args d = a;
            MIRROR(c, d, id), MIRROR(c, d, weight), MIRROR(c, d, first), MIRROR(c, d, pair_row);
            MIRROR(c, d, pair_weight), MIRROR(c, d, pair_of);
            CHECK_KERNEL(c, expert_group, &a, &d);
        }
}

static struct lf_sampling rule_of(struct check *c) {
    static const double temperature[] = {0, 0.7, 1, 1e-310, 2.5};
    static const double top_p[] = {1, 0.95, 0.5, 0, 0.999999}, min_p[] = {0, 0.05, 0, 1.5};
    static const int64_t top_k[] = {0, 1, 20, 1000000, 40};
    return (struct lf_sampling){
        .temperature = temperature[check_random(c, 5)], .top_p = top_p[check_random(c, 5)],
        .min_p = min_p[check_random(c, 4)], .top_k = top_k[check_random(c, 5)],
        .seed = (uint64_t)check_random(c, UINT32_MAX) << 32 | check_random(c, UINT32_MAX)};
}

static void sample_problem(struct check *c, const struct sizes *s, uint32_t rows, int turn) {
    enum { ROWS_MAX = 512 };
    static struct lf_sampling rule[ROWS_MAX];
    static struct lf_sample_row row[ROWS_MAX], row_at[ROWS_MAX];
    LF_ASSERT(rows <= ROWS_MAX);
    size_t words = (s->vocab + 31) / 32;
    check_start(c, "%s: %u rows, turn %d", s->name, rows, turn);
    struct lf_sample_args a = {.rows = rows, .vocab = s->vocab, .logits_stride = s->vocab + 5};
    a.logits = new_logits(c, rows, a.logits_stride, s->vocab);
    uint32_t *mask = check_new(c, "mask", words * sizeof *mask);
    check_bytes(c, mask, words * sizeof *mask);
    for (uint32_t r = 0; r < rows; r++) {
        rule[r] = rule_of(c);
        row[r] = (struct lf_sample_row){&rule[r], (uint64_t)check_random(c, 1 << 20) << 20,
                                        check_random(c, 3) ? NULL : mask};
        row_at[r] = row[r];
        MIRROR(c, row_at[r], mask);
    }
    a.row = row;
    a.drawn = check_new(c, "drawn", sizeof *a.drawn * rows);
    a.kept = turn % 2 ? NULL : check_new(c, "kept", sizeof *a.kept * rows);
    struct lf_sample_args d = a;
    d.row = row_at;
    MIRROR(c, d, logits), MIRROR(c, d, drawn), MIRROR(c, d, kept);
    CHECK_KERNEL(c, sample, &a, &d);
}

void check_sample(struct check *c, const struct sizes *s) {
    for (uint32_t i = 0; i < 4 && s->rows[i]; i++)
        for (int turn = 0; turn < 4; turn++)
            sample_problem(c, s, s->rows[i] < 512 ? s->rows[i] : 512, turn);
}

void check_logprobs(struct check *c, const struct sizes *s) {
    static const uint32_t top[] = {LF_LOGPROBS_MAX, 0, 5};
    for (uint32_t i = 0; i < 4 && s->rows[i]; i++)
        for (int turn = 0; turn < 3; turn++) {
            uint32_t rows = s->rows[i] < 64 ? s->rows[i] : 64;
            check_start(c, "%s: %u rows, top %u", s->name, rows, top[turn]);
            struct lf_logprobs_args a = {.rows = rows, .vocab = s->vocab, .top = top[turn],
                                         .logits_stride = s->vocab + 1};
            a.logits = new_logits(c, rows, a.logits_stride, s->vocab);
            uint32_t *drawn = check_new(c, "drawn", sizeof *drawn * rows);
            for (uint32_t r = 0; r < rows; r++)
                drawn[r] = check_random(c, s->vocab + s->vocab / 4);
            a.drawn = drawn;
            a.row = check_new(c, "row", sizeof *a.row * rows);
            struct lf_logprobs_args d = a;
            MIRROR(c, d, logits), MIRROR(c, d, drawn), MIRROR(c, d, row);
            CHECK_KERNEL(c, logprobs, &a, &d);
        }
}
