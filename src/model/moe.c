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
static void run_jobs(struct lf_v41 *m, const struct lf_linear_job *end) {
    struct lf_work *w = &m->work;
    m->k.linear(&m->device, &(struct lf_linear_args){.n_jobs = (uint32_t)(end - w->job),
                                                     .job = w->job, .room = w->job_room});
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

// Gate and up projections of all experts in use and of the shared one, in one launch.
static void gate_up(struct lf_v41 *m, const struct lf_layer *layer, uint16_t *gate_shared,
                    uint16_t *up_shared) {
    struct lf_work *w = &m->work;
    struct lf_linear_job *job = w->job;
    for (uint32_t e = 0; e < layer->experts; e++) {
        job = up_job(m, job, &layer->expert[e].w1, w->gate, w->expert_first + e);
        job = up_job(m, job, &layer->expert[e].w3, w->up, w->expert_first + e);
    }
    job = up_job(m, job, &layer->shared.w1, gate_shared, NULL);
    job = up_job(m, job, &layer->shared.w3, up_shared, NULL);
    run_jobs(m, job);
}

// Of the pairs and behind them the shared rows; quantized into the memory of up.
static void activate(struct lf_v41 *m, uint32_t pairs) {
    struct lf_work *w = &m->work;
    const float *weight = w->pair_weight;
#if LF_FAULT == 1
    weight = w->route_weight; // 1: weights not sorted with their pairs
#endif
    m->k.swiglu(&m->device, &(struct lf_swiglu_args){
                             .rows = pairs + w->rows * m->t->shared_experts,
                             .dim = m->t->expert_dim, .gate = w->gate, .up = w->up,
                             .limit = m->t->swiglu_limit, .weight = weight, .weighted = pairs,
                             .y = w->gate, .quantized = w->up});
}

// Down projections in one launch.
static void down(struct lf_v41 *m, const struct lf_layer *layer, uint16_t *gate_shared,
                 uint16_t *up_shared) {
    struct lf_work *w = &m->work;
    const struct lf_topology *t = m->t;
    uint32_t dim = t->expert_dim, shared_dim = dim * t->shared_experts;
    struct lf_linear_job *job = w->job;
    for (uint32_t e = 0; e < layer->experts; e++) {
        const struct lf_matrix *w2 = &layer->expert[e].w2;
        *job++ = (struct lf_linear_job){
            .w = w2, .rows = w->rows, .group = w->expert_first + e,
            .x = lf_linear_input(w2, w->gate, w->up), .x_stride = dim, .y = w->down,
            .y_stride = t->hidden};
    }
    *job++ = (struct lf_linear_job){
        .w = &layer->shared.w2, .rows = w->rows,
        .x = lf_linear_input(&layer->shared.w2, gate_shared, up_shared), .x_stride = shared_dim,
        .y = w->shared, .y_stride = t->hidden};
    run_jobs(m, job);
}

void lf_moe(struct lf_v41 *m, const struct lf_layer *layer) {
    struct lf_work *w = &m->work;
    const struct lf_topology *t = m->t;
    uint32_t pairs = w->rows * layer->top;
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
    uint16_t *gate_shared = w->gate + (size_t)pairs * t->expert_dim;
    uint16_t *up_shared = w->up + (size_t)pairs * t->expert_dim;
    gate_up(m, layer, gate_shared, up_shared);
    activate(m, pairs);
    down(m, layer, gate_shared, up_shared);
    m->k.expert_join(&m->device, &(struct lf_expert_join_args){
                                  .rows = w->rows, .top = layer->top, .dim = t->hidden,
                                  .expert = w->down, .pair = w->pair_of, .shared = w->shared,
                                  .y = w->out});
}
