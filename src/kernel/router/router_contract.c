// What the gates know of router.
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "contract/record.h"
#include "kernel/reference.h"
#include "kernel/router/router.h"

enum { LOGITS, BIAS, ID, WEIGHT, OPERANDS };

static void add(struct lf_shapes *shapes, const char *model, uint32_t rows, uint32_t experts,
                uint32_t top, float route_scale) {
    struct lf_router_args args = {.experts = experts, .top = top, .route_scale = route_scale};
    if (experts)
        lf_shapes_add(shapes, rows, &args, sizeof args, "%s %u of %u", model, top, experts);
}

static void shapes(const struct lf_served *served, struct lf_shapes *shapes) {
    const struct lf_topology *t = served->t;
    add(shapes, served->name, served->chunk_rows, t->experts, t->experts_top, t->route_scale);
    add(shapes, served->name, served->launch_rows, t->draft_experts, t->draft_experts_top,
        t->route_scale);
}

static void ragged(struct lf_shapes *shapes) {
    add(shapes, "ragged", 64, 33, 1, 1.5f);
    add(shapes, "ragged", 64, 8, 8, 2.5f);
}

static void describe(const void *args, struct lf_operand *o) {
    const struct lf_router_args *a = args;
    o[LOGITS] = lf_operand("logits", LF_IN, LF_F32, a->experts);
    o[LOGITS].scale = 2.0f;
    o[BIAS] = lf_operand("bias", LF_WEIGHT, LF_F32, a->experts);
    o[BIAS].align = 1, o[BIAS].scale = 0.1f;
    o[ID] = lf_operand("id", LF_OUT, LF_U32, a->top);
    o[WEIGHT] = lf_operand("weight", LF_OUT, LF_F32, a->top);
}

static void bind(const struct lf_call *call, void *args) {
    struct lf_router_args *a = args;
    a->rows = call->rows, a->logits = call->data[LOGITS], a->bias = call->data[BIAS];
    a->id = call->data[ID], a->weight = call->data[WEIGHT];
}

// ids, weights, the key's margin to the first one not chosen
static size_t columns(const void *args) {
    return 2 * (size_t)((const struct lf_router_args *)args)->top + 1;
}

static double score_of(const struct lf_router_args *a, uint32_t row, uint32_t e) {
    double logit = lf_ref_f32(a->logits, (size_t)row * a->experts + e);
    return sqrt(logit > 20 ? logit : log1p(exp(logit)));
}

// Half of what the margin must pass before the float64 choice binds.
static double key_error(const struct lf_router_args *a, uint32_t row) {
    double most = 0;
    for (uint32_t e = 0; e < a->experts; e++) {
        double key = score_of(a, row, e) + fabs(lf_ref_f32(a->bias, e));
        most = isfinite(key) && key > most ? key : most;
    }
    return lf_check_gamma(3) * most;
}


// Where the margin is too small to bind, a swapped expert's key lies within it of the least chosen.
static bool may_swap(const struct lf_router_args *a, uint32_t row, uint32_t e, const double *ref) {
    double least = INFINITY, near = 2 * key_error(a, row);
    for (uint32_t k = 0; k < a->top; k++)
        least = fmin(least, score_of(a, row, (uint32_t)ref[k]) +
                                lf_ref_f32(a->bias, (uint32_t)ref[k]));
    return fabs(ref[2 * a->top]) <= near && ref[2 * a->top] != 0.0 &&
           fabs(score_of(a, row, e) + lf_ref_f32(a->bias, e) - least) <= near;
}

// Weights follow from the ids that were chosen. Below 2^-126 a softplus is off by 2^-150.
static void judge_weights(struct lf_call *call, uint32_t row) {
    const struct lf_router_args *a = (const void *)call->args;
    const uint32_t *id = lf_call_at(call, ID, row, 0);
    double sum = 1e-20, off = 0;
    for (uint32_t k = 0; k < a->top; k++) {
        double s = score_of(a, row, id[k]);
        sum += s;
        off += s < 0x1p-63 ? 0x1p-75 : 0.0;
    }
    for (uint32_t k = 0; k < a->top; k++) {
        double s = score_of(a, row, id[k]), scale = (double)a->route_scale;
        double want = s / sum * scale;
        double error = (lf_check_gamma(a->top + 7) + off / sum) * want + 0x1p-149;
        error += s < 0x1p-63 ? 0x1p-75 / sum * scale : 0.0;
        lf_judge_element(call, WEIGHT, row, k, want, isfinite(error) ? error : 0.0);
    }
}

static void judge(struct lf_call *call, const double *ref) {
    const struct lf_router_args *a = (const void *)call->args;
    for (uint32_t row = 0; row < call->rows; row++, ref += 2 * a->top + 1) {
        const uint32_t *id = lf_call_at(call, ID, row, 0);
        bool known = true;
        for (uint32_t k = 0; k < a->top; k++) {
            char why[80];
            bool chosen = false;
            for (uint32_t j = 0; j < a->top; j++)
                chosen |= id[k] == (uint32_t)ref[j];
            snprintf(why, sizeof why, "float64 chooses %.0f here, margin %.3g", ref[k],
                     ref[2 * a->top]);
            lf_expect(call, (k == 0 || id[k] > id[k - 1]) && id[k] < a->experts, ID, row, k,
                      "ids are not ascending");
            known = known && id[k] < a->experts;
            if (known && !chosen)
                lf_expect(call, may_swap(a, row, id[k], ref), ID, row, k, why);
        }
        if (known)
            judge_weights(call, row);
    }
}

static void route(struct lf_trial *trial, const struct lf_shape *shape, const float *logit,
                  uint32_t n) {
    struct lf_call *call = lf_call_open(trial, shape, 2, LF_STYLE_NORMAL);
    const struct lf_router_args *a = (const void *)shape->args;
    for (uint32_t e = 0; e < a->experts; e++)
        *(float *)lf_call_at(call, LOGITS, 1, e) = logit[e % n];
    lf_call_judge(call);
    lf_call_close(call);
}

// Ties of keys: no bias, so that equal logits give equal keys.
static void route_ties(struct lf_trial *trial, const struct lf_shape *shape, float a_logit,
                       float other) {
    struct lf_call *call = lf_call_open(trial, shape, 1, LF_STYLE_NORMAL);
    const struct lf_router_args *a = (const void *)shape->args;
    for (uint32_t e = 0; e < a->experts; e++) {
        *(float *)lf_call_at(call, LOGITS, 0, e) = e % 3 == 1 ? a_logit : other;
        memset(lf_call_at(call, BIAS, 0, e), 0, sizeof(float));
    }
    lf_call_judge(call);
    lf_call_close(call);
}

// Ties, zeros, NaN before and after numbers, infinities, scores that vanish, the ends of the list.
static void edges(struct lf_trial *trial, const struct lf_shape *shape) {
    static const float some_nan[] = {NAN, -5, 1, NAN, 2}, infinite[] = {INFINITY, 1, -INFINITY};
    static const float first[] = {1, 1, 1, 1, 1}, vanish[] = {-INFINITY, -200};
    const struct lf_router_args *a = (const void *)shape->args;
    route_ties(trial, shape, 1.0f, 1.0f);
    route_ties(trial, shape, 2.0f, 1.0f);
    route_ties(trial, shape, -0.0f, 0.0f);
    route(trial, shape, some_nan, 5);
    route(trial, shape, infinite, 3);
    route(trial, shape, first, 5);
    route(trial, shape, vanish, 2);
    for (uint32_t end = 0; end < 2; end++) {
        struct lf_call *call = lf_call_open(trial, shape, 1, LF_STYLE_NORMAL);
        *(float *)lf_call_at(call, LOGITS, 0, end ? a->experts - 1 : 0) = 100.0f;
        lf_call_judge(call);
        lf_call_close(call);
    }
}

static const struct lf_control controls[] = {
    {1, "the bias is ignored in the choice", LF_GATE_BOUND, 0},
    {2, "ties to the higher id", LF_GATE_EDGES, 0},
    {3, "a NaN that came first stays before numbers", LF_GATE_EDGES, 0},
    {4, "no root of the softplus", LF_GATE_BOUND, 0},
    {5, "the last candidate is not offered", LF_GATE_EDGES, 0},
    {6, "the sixteenth row's list in the order of choice", LF_GATE_ROWS, 0},
    {7, "the bias in the weight as well", LF_GATE_BOUND, 0},
    {8, "weights are not normalised", LF_GATE_BOUND, 0},
    {9, "nothing is added to the sum", LF_GATE_EDGES, 0},
    {10, "a write past the row's weights", LF_GATE_MEMORY, 0},
    {11, "route_scale left out", LF_GATE_BOUND, 0},
};

const struct lf_record lf_router_record = {
    .name = "router", .file = "src/kernel/router/router_cpu.c", .contract = LF_ROUTER_CONTRACT,
    .operands = OPERANDS, .shapes = shapes, .ragged = ragged, .describe = describe, .bind = bind,
    .columns = columns, .judge = judge, .hostile = 31, .edges = edges, .stack_bytes = 4096,
    .controls = controls, .n_controls = sizeof controls / sizeof *controls,
};
