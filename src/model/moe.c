#include "model/graphs.h"
#include "model/v41.h"

// The chosen (row, expert) pairs sorted by expert: each expert's rows become one run.
static void group_pairs(struct lf_v41 *m, const struct lf_layer *layer) {
    struct lf_work *w = &m->work;
    m->k.expert_group(&m->device, &(struct lf_expert_group_args){
                                   .rows = w->rows, .top = layer->top, .experts = layer->experts,
                                   .id = w->route_id, .weight = w->route_weight,
                                   .first = w->expert_first, .pair_row = w->pair_row,
                                   .pair_weight = w->pair_weight, .pair_of = w->pair_of});
}

// The launch of work.job up to end; how many rows an expert has is known to the device alone.
static void run_jobs(struct lf_v41 *m, const struct lf_linear_job *end, uint32_t pairs,
                     int groups_are_old) {
    struct lf_work *w = &m->work;
    m->k.linear(&m->device, &(struct lf_linear_args){.n_jobs = (uint32_t)(end - w->job),
                                                     .job = w->job, .room = w->job_room,
                                                     .groups_are_old = groups_are_old,
                                                     .group_rows = pairs});
}

// group NULL: the shared expert, which reads every row.
static struct lf_linear_job *up_job(struct lf_v41 *m, struct lf_linear_job *job,
                                    const struct lf_matrix *matrix, uint16_t *y,
                                    const uint32_t *group) {
    struct lf_work *w = &m->work;
    *job = (struct lf_linear_job){.w = matrix, .rows = w->rows,
                                  .x = lf_linear_input(matrix, w->in, w->in_q),
                                  .x_stride = m->t->hidden, .x_index = group ? w->pair_row : NULL,
                                  .group = group, .y = y, .y_stride = matrix->out};
    return job + 1;
}

static uint32_t pairs_of(const struct lf_v41 *m, const struct lf_layer *layer) {
    return m->work.rows * layer->top;
}

// On a device that keeps graphs the shared expert has launches of its own, beside the routing.
static bool is_apart(const struct lf_v41 *m) {
    return m->graphs != NULL;
}

static struct lf_linear_job *shared_up(struct lf_v41 *m, struct lf_linear_job *job,
                                       const struct lf_layer *layer) {
    size_t behind = (size_t)pairs_of(m, layer) * m->t->expert_dim;
    job = up_job(m, job, &layer->shared.w1, m->work.gate + behind, NULL);
    return up_job(m, job, &layer->shared.w3, m->work.up + behind, NULL);
}

static struct lf_linear_job *shared_down(struct lf_v41 *m, struct lf_linear_job *job,
                                         const struct lf_layer *layer) {
    struct lf_work *w = &m->work;
    const struct lf_matrix *w2 = &layer->shared.w2;
    size_t behind = (size_t)pairs_of(m, layer) * m->t->expert_dim;
    *job = (struct lf_linear_job){
        .w = w2, .rows = w->rows, .x = lf_linear_input(w2, w->gate + behind, w->up + behind),
        .x_stride = w2->in, .y = w->shared, .y_stride = m->t->hidden};
    return job + 1;
}

// Rows from `first` on of the pairs and, behind them, the shared ones; quantized into up's memory.
static void activate(struct lf_v41 *m, uint32_t first, uint32_t rows, uint32_t weighted) {
    struct lf_work *w = &m->work;
    size_t at = (size_t)first * m->t->expert_dim;
    const float *weight = w->pair_weight;
#if LF_FAULT == 1
    weight = w->route_weight; // 1: weights not sorted with their pairs
#endif
    m->k.swiglu(&m->device, &(struct lf_swiglu_args){
                             .rows = rows, .dim = m->t->expert_dim, .gate = w->gate + at,
                             .up = w->up + at, .limit = m->t->swiglu_limit, .weight = weight,
                             .weighted = weighted, .y = w->gate + at, .quantized = w->up + at});
}

// Gate and up projections of all experts in use, in one launch.
static void gate_up(struct lf_v41 *m, const struct lf_layer *layer) {
    struct lf_work *w = &m->work;
    struct lf_linear_job *job = w->job;
    for (uint32_t e = 0; e < layer->experts; e++) {
        job = up_job(m, job, &layer->expert[e].w1, w->gate, w->expert_first + e);
        job = up_job(m, job, &layer->expert[e].w3, w->up, w->expert_first + e);
    }
    run_jobs(m, is_apart(m) ? job : shared_up(m, job, layer), pairs_of(m, layer), 0);
}

// Down projections in one launch.
static void down(struct lf_v41 *m, const struct lf_layer *layer) {
    struct lf_work *w = &m->work;
    struct lf_linear_job *job = w->job;
    for (uint32_t e = 0; e < layer->experts; e++) {
        const struct lf_matrix *w2 = &layer->expert[e].w2;
        *job++ = (struct lf_linear_job){
            .w = w2, .rows = w->rows, .group = w->expert_first + e,
            .x = lf_linear_input(w2, w->gate, w->up), .x_stride = w2->in, .y = w->down,
            .y_stride = m->t->hidden};
    }
    run_jobs(m, is_apart(m) ? job : shared_down(m, job, layer), pairs_of(m, layer), 1);
}

void lf_moe_shared(struct lf_v41 *m, const struct lf_layer *layer) {
    struct lf_work *w = &m->work;
    if (!is_apart(m) || !w->rows)
        return;
    lf_graphs_aside(m, LF_BRANCH_EXPERT);
    run_jobs(m, shared_up(m, w->job, layer), 0, 0);
    activate(m, pairs_of(m, layer), w->rows * m->t->shared_experts, 0);
    run_jobs(m, shared_down(m, w->job, layer), 0, 0);
    lf_graphs_back(m);
}

void lf_moe(struct lf_v41 *m, const struct lf_layer *layer) {
    struct lf_work *w = &m->work;
    const struct lf_topology *t = m->t;
    uint32_t pairs = pairs_of(m, layer);
    if (!w->rows)
        return;
    lf_project(m, &layer->gate, w->in, w->route_logits, w->rows, 1);
    m->k.router(&m->device, &(struct lf_router_args){.rows = w->rows, .experts = layer->experts,
                                                     .top = layer->top,
                                                     .logits = w->route_logits,
                                                     .bias = layer->gate_bias,
                                                     .route_scale = t->route_scale,
                                                     .id = w->route_id, .weight = w->route_weight});
    group_pairs(m, layer);
    gate_up(m, layer);
    activate(m, 0, is_apart(m) ? pairs : pairs + w->rows * t->shared_experts, pairs);
    down(m, layer);
}
