#include "model/v41.h"

#include <string.h>

// Sorts the chosen (row, expert) pairs by expert: each expert's rows become one run.
static void group_pairs(struct lf_v41 *m, const struct lf_layer *layer) {
    struct lf_work *w = &m->work;
    uint32_t experts = layer->experts, top = layer->top, choices = w->rows * top;
    memset(w->expert_first, 0, sizeof *w->expert_first * (experts + 1));
    for (uint32_t i = 0; i < choices; i++)
        w->expert_first[w->route_id[i] + 1]++;
    for (uint32_t e = 0; e < experts; e++)
        w->expert_first[e + 1] += w->expert_first[e];
    for (uint32_t i = 0; i < choices; i++) {
        uint32_t pair = w->expert_first[w->route_id[i]]++;
        w->pair_row[pair] = i / top;
#if LF_FAULT == 1
        w->pair_weight[i] = w->route_weight[i]; // 1: weights not sorted with their pairs
#else
        w->pair_weight[pair] = w->route_weight[i];
#endif
        w->pair_of[i] = pair;
    }
    // Filling moved every start to the next expert's: shift them back.
    memmove(w->expert_first + 1, w->expert_first, sizeof *w->expert_first * experts);
    w->expert_first[0] = 0;
}

static struct lf_linear_job *up_job(struct lf_v41 *m, struct lf_linear_job *job,
                                    const struct lf_matrix *matrix, uint16_t *y, uint32_t first,
                                    uint32_t rows, const uint32_t *index) {
    struct lf_work *w = &m->work;
    *job = (struct lf_linear_job){.w = matrix, .rows = rows,
                                  .x = lf_linear_input(matrix, w->in, w->in_q),
                                  .x_stride = m->t->hidden, .x_index = index,
                                  .y = y + (size_t)first * matrix->out, .y_stride = matrix->out};
    return job + 1;
}

// Gate and up projections of all experts in use and of the shared one, in one launch.
static void gate_up(struct lf_v41 *m, const struct lf_layer *layer, uint16_t *gate_shared,
                    uint16_t *up_shared) {
    struct lf_work *w = &m->work;
    struct lf_linear_job *job = w->job;
    for (uint32_t e = 0; e < layer->experts; e++) {
        uint32_t first = w->expert_first[e], rows = w->expert_first[e + 1] - first;
        if (!rows)
            continue;
        job = up_job(m, job, &layer->expert[e].w1, w->gate, first, rows, w->pair_row + first);
        job = up_job(m, job, &layer->expert[e].w3, w->up, first, rows, w->pair_row + first);
    }
    job = up_job(m, job, &layer->shared.w1, gate_shared, 0, w->rows, NULL);
    job = up_job(m, job, &layer->shared.w3, up_shared, 0, w->rows, NULL);
    m->k.linear(m->pool, &(struct lf_linear_args){.n_jobs = (uint32_t)(job - w->job),
                                                  .job = w->job});
}

static void activate(struct lf_v41 *m, uint16_t *gate, const uint16_t *up, const float *weight,
                     uint32_t rows, uint32_t dim) {
    m->k.swiglu(m->pool, &(struct lf_swiglu_args){.rows = rows, .dim = dim, .gate = gate, .up = up,
                                                  .limit = m->t->swiglu_limit, .weight = weight,
                                                  .y = gate});
}

// Down projections in one launch; the hidden is quantized into the memory of up.
static void down(struct lf_v41 *m, const struct lf_layer *layer, uint16_t *gate_shared,
                 uint16_t *up_shared) {
    struct lf_work *w = &m->work;
    const struct lf_topology *t = m->t;
    uint32_t dim = t->expert_dim, shared_dim = dim * t->shared_experts;
    lf_quantize(m, w->gate, w->up, w->rows * layer->top, dim);
    lf_quantize(m, gate_shared, up_shared, w->rows, shared_dim);
    struct lf_linear_job *job = w->job;
    for (uint32_t e = 0; e < layer->experts; e++) {
        size_t first = w->expert_first[e];
        uint32_t rows = w->expert_first[e + 1] - (uint32_t)first;
        const struct lf_matrix *w2 = &layer->expert[e].w2;
        if (rows)
            *job++ = (struct lf_linear_job){
                .w = w2, .rows = rows, .x = lf_linear_input(w2, w->gate, w->up) + first * dim,
                .x_stride = dim, .y = w->down + first * t->hidden, .y_stride = t->hidden};
    }
    *job++ = (struct lf_linear_job){
        .w = &layer->shared.w2, .rows = w->rows,
        .x = lf_linear_input(&layer->shared.w2, gate_shared, up_shared), .x_stride = shared_dim,
        .y = w->shared, .y_stride = t->hidden};
    m->k.linear(m->pool, &(struct lf_linear_args){.n_jobs = (uint32_t)(job - w->job),
                                                  .job = w->job});
}

void lf_moe(struct lf_v41 *m, const struct lf_layer *layer) {
    struct lf_work *w = &m->work;
    const struct lf_topology *t = m->t;
    uint32_t pairs = w->rows * layer->top;
    if (!w->rows)
        return;
    lf_project(m, &layer->gate, w->in, w->route_logits, w->rows, 1);
    m->k.router(m->pool, &(struct lf_router_args){.rows = w->rows, .experts = layer->experts,
                                                  .top = layer->top,
                                                  .logits = w->route_logits,
                                                  .bias = layer->gate_bias,
                                                  .route_scale = t->route_scale,
                                                  .id = w->route_id, .weight = w->route_weight});
    group_pairs(m, layer);
    uint16_t *gate_shared = w->gate + (size_t)pairs * t->expert_dim;
    uint16_t *up_shared = w->up + (size_t)pairs * t->expert_dim;
    lf_quantize(m, w->in, w->in_q, w->rows, t->hidden);
    gate_up(m, layer, gate_shared, up_shared);
    activate(m, w->gate, w->up, w->pair_weight, pairs, t->expert_dim);
    activate(m, gate_shared, up_shared, NULL, w->rows, t->expert_dim * t->shared_experts);
    down(m, layer, gate_shared, up_shared);
    m->k.expert_join(m->pool, &(struct lf_expert_join_args){
                                  .rows = w->rows, .top = layer->top, .dim = t->hidden,
                                  .expert = w->down, .pair = w->pair_of, .shared = w->shared,
                                  .y = w->out});
}
