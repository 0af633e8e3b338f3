#include "model/v41.h"

// The least room for scores: shorter ones gain nothing.
enum { ROOM_MIN = 4096 };

static enum lf_candidate_mode mode_of(const struct lf_topology *t, uint32_t layer) {
    if (layer == t->candidate_source)
        return LF_CANDIDATES_PUBLISH;
    return layer > t->candidate_source ? LF_CANDIDATES_RESTRICT : LF_CANDIDATES_NONE;
}

// Queries rotated and QF4e-quantized, head weights plain (model.md 8.6).
static void queries(struct lf_v41 *m, const struct lf_layer *layer) {
    struct lf_work *w = &m->work;
    const struct lf_topology *t = m->t;
    uint32_t width = t->index_heads * t->index_dim;
    lf_project(m, &layer->index_wq_b, lf_linear_input(&layer->index_wq_b, w->qr, w->qr_q), w->iq,
               w->rows, 0);
    m->k.rope(&m->device, &(struct lf_rope_args){.rows = w->rows, .heads = t->index_heads,
                                                 .head_dim = t->index_dim, .rope_dim = t->rope_dim,
                                                 .x = w->iq, .x_stride = width,
                                                 .cos = w->seen.cos[1], .sin = w->seen.sin[1]});
    m->k.act_quant(&m->device, &(struct lf_act_quant_args){.format = LF_ACT_QF4E, .rows = w->rows,
                                                           .dim = width, .x = w->iq,
                                                           .x_stride = width, .y = w->iq,
                                                           .y_stride = width});
    lf_project(m, &layer->index_proj, lf_linear_input(&layer->index_proj, w->in, w->in_q), w->iw,
               w->rows, 0);
}

static void score_rows(struct lf_v41 *m, const struct lf_layer *layer, size_t stride,
                       uint32_t first, uint32_t rows) {
    struct lf_work *w = &m->work;
    const struct lf_topology *t = m->t;
    const uint32_t *visible = w->seen.visible[layer->ratio - 1] + first;
    struct lf_candidates candidates = {0};
    // No other entries can be chosen (model.md 8.7).
    if (mode_of(t, layer->id) == LF_CANDIDATES_RESTRICT)
        candidates = (struct lf_candidates){
            .blocks = w->blocks + (size_t)first * t->candidate_blocks,
            .n_blocks = w->n_blocks + first, .block_size = t->candidate_block_size,
            .topk_blocks = t->candidate_blocks};
    m->k.index_score(&m->device, &(struct lf_index_score_args){
                                  .rows = rows, .heads = t->index_heads, .dim = t->index_dim,
                                  .row = w->seen.row + first,
                                  .q = w->iq + (size_t)first * t->index_heads * t->index_dim,
                                  .head_weight = w->iw + (size_t)first * t->index_heads,
                                  .weight_scale = m->index_scale,
                                  .keys = lf_lane_keys(m, layer), .visible = visible,
                                  .score = w->score, .score_stride = stride,
                                  .candidates = candidates});
}

static void select_rows(struct lf_v41 *m, const struct lf_layer *layer, size_t stride,
                        uint32_t first, uint32_t rows) {
    struct lf_work *w = &m->work;
    const struct lf_topology *t = m->t;
    m->k.index_select(&m->device,
                      &(struct lf_index_select_args){
                          .rows = rows, .topk = t->index_topk, .mode = mode_of(t, layer->id),
                          .block_size = t->candidate_block_size,
                          .topk_blocks = t->candidate_blocks,
                          .visible = w->seen.visible[layer->ratio - 1] + first,
                          .score = w->score, .score_stride = stride,
                          .blocks = w->blocks + (size_t)first * t->candidate_blocks,
                          .n_blocks = w->n_blocks + first,
                          .selected = w->selected + (size_t)first * t->index_topk,
                          .n_selected = w->n_selected + first});
}

size_t lf_indexer_room(const struct lf_v41 *m, uint32_t ratio) {
    uint64_t most = 0;
    size_t room = ROOM_MIN;
    for (uint32_t r = 0; r < m->work.rows; r++) {
        uint64_t visible = (m->work.row[r].position + 1) / ratio;
        most = visible > most ? visible : most;
    }
    if (most <= m->t->index_topk)
        return 0;
    while (room < most)
        room *= 2;
    return room < m->shape.context ? room : m->shape.context;
}

size_t lf_indexer_stride(const struct lf_v41 *m, const struct lf_layer *layer) {
    size_t room = lf_indexer_room(m, layer->ratio);
    size_t inside = (size_t)m->t->candidate_blocks * m->t->candidate_block_size;
    return mode_of(m->t, layer->id) == LF_CANDIDATES_RESTRICT && inside < room ? inside : room;
}

void lf_indexer(struct lf_v41 *m, const struct lf_layer *layer) {
    const struct lf_work *w = &m->work;
    size_t stride = lf_indexer_stride(m, layer);
    size_t most = stride ? w->score_floats / stride : w->rows;
    if (stride)
        queries(m, layer);
    for (uint32_t first = 0, rows; first < w->rows; first += rows) {
        rows = w->rows - first < most ? w->rows - first : (uint32_t)most;
        if (stride)
            score_rows(m, layer, stride, first, rows);
        select_rows(m, layer, stride, first, rows);
    }
}
