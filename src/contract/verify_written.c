#include <stdlib.h>
#include <string.h>
#include "contract/verify_stage.h"

static void add(struct lf_written *out, void *data) {
    LF_ASSERT(out->n < LF_STAGE_OUTPUTS);
    out->data[out->n++] = data;
}

static void one(struct lf_written *out, uint32_t rows, void *data) {
    out->rows = rows;
    add(out, data);
}

static void embed(struct lf_written *out, const struct lf_embed_args *a) {
    one(out, a->rows, a->streams_out);
    out->columns[0] = (size_t)a->streams * a->table->in;
    out->pitch[0] = a->out_stride;
    if (a->pre) {
        add(out, a->pre);
        out->columns[1] = a->streams;
    }
}

// Rows of dim elements and, where they are wanted, their quantized values.
static void quantized(struct lf_written *out, uint32_t rows, uint32_t dim, void *y,
                      void *quantized_y, size_t pitch) {
    one(out, rows, y);
    if (!quantized_y)
        return;
    out->columns[out->n] = dim;
    out->pitch[out->n] = pitch;
    add(out, quantized_y);
}

// A record's packed rows are one operand: those of a call lie wherever their pages are.
static void cache_pack(struct lf_written *out, const struct lf_cache_pack_args *a) {
    uint32_t bytes = a->format == LF_CACHE_QA8    ? lf_qa8_row_bytes(a->dim)
                     : a->format == LF_CACHE_QF4S ? lf_qf4s_row_bytes(a->dim)
                                                  : lf_qf4e_row_bytes(a->dim);
    out->gathered = malloc((size_t)a->rows * bytes + 1);
    LF_ASSERT(out->gathered);
    for (uint32_t r = 0; r < a->rows; r++)
        memcpy(out->gathered + (size_t)r * bytes, a->dst[r], bytes);
    one(out, a->rows, a->x);
    out->pitch[out->n] = bytes;
    add(out, out->gathered);
}

static void rms_norm(struct lf_written *out, const struct lf_rms_norm_args *a) {
    quantized(out, a->rows, a->dim, a->y, a->quantized, a->y_stride);
}

static void hc_expand(struct lf_written *out, const struct lf_hc_expand_args *a) {
    one(out, a->rows, a->x);
    if (!a->pre)
        return;
    out->columns[out->n] = a->dim;
    add(out, a->y);
    out->columns[out->n] = a->quantized ? a->dim : 0;
    if (a->quantized)
        add(out, a->quantized);
}

static void hc_collapse(struct lf_written *out, const struct lf_hc_collapse_args *a) {
    quantized(out, a->rows, a->dim, a->y, a->quantized, a->dim);
}

static void swiglu(struct lf_written *out, const struct lf_swiglu_args *a) {
    quantized(out, a->rows, a->dim, a->y, a->quantized, a->dim);
}

static void hc_mix(struct lf_written *out, const struct lf_hc_mix_args *a) {
    one(out, a->rows, a->pre);
    add(out, a->post);
    add(out, a->comb);
    out->named = a->post;
}

static void index_score(struct lf_written *out, const struct lf_index_score_args *a) {
    one(out, a->rows, a->score);
    for (uint32_t r = 0; r < a->rows; r++) {
        uint32_t items = lf_items_of(&a->candidates, r, a->visible[r]).n;
        if (items > out->columns[0])
            out->columns[0] = items;
    }
    out->pitch[0] = a->score_stride;
}

static void index_select(struct lf_written *out, const struct lf_index_select_args *a) {
    out->rows = a->rows;
    if (a->mode == LF_CANDIDATES_PUBLISH) {
        add(out, a->blocks);
        add(out, a->n_blocks);
    }
    add(out, a->selected);
    add(out, a->n_selected);
    out->named = a->selected;
}

static void router(struct lf_written *out, const struct lf_router_args *a) {
    one(out, a->rows, a->id);
    add(out, a->weight);
}

// Its record takes a launch for a row.
static void expert_group(struct lf_written *out, const struct lf_expert_group_args *a) {
    one(out, 1, a->first);
    add(out, a->pair_row);
    add(out, a->pair_weight);
    add(out, a->pair_of);
    out->named = a->pair_row;
}

// The drawn ids lie wherever the caller wants them: the logits name the stage.
static void sample(struct lf_written *out, const struct lf_sample_args *a) {
    one(out, a->rows, a->drawn);
    out->named = a->logits;
}

#define CASE(name_) if (!strcmp(kernel, #name_))
#define ARGS(name_) ((const struct lf_##name_##_args *)args)

void lf_written_fill(struct lf_written *out, const char *kernel, const void *args) {
    *out = (struct lf_written){0};
    CASE(embed) embed(out, args);
    CASE(cache_pack) cache_pack(out, args);
    CASE(hc_mix) hc_mix(out, args);
    CASE(index_score) index_score(out, args);
    CASE(index_select) index_select(out, args);
    CASE(router) router(out, args);
    CASE(expert_group) expert_group(out, args);
    CASE(sample) sample(out, args);
    CASE(draft_join) one(out, ARGS(draft_join)->rows, ARGS(draft_join)->logits);
    CASE(rms_norm) rms_norm(out, args);
    CASE(act_quant) one(out, ARGS(act_quant)->rows, ARGS(act_quant)->y);
    CASE(rope) one(out, ARGS(rope)->rows, ARGS(rope)->x);
    CASE(hc_collapse) hc_collapse(out, args);
    CASE(hc_expand) hc_expand(out, args);
    CASE(stream_mean) one(out, ARGS(stream_mean)->rows, ARGS(stream_mean)->y);
    CASE(compress_pool) one(out, ARGS(compress_pool)->entries, ARGS(compress_pool)->y);
    CASE(attention) one(out, ARGS(attention)->rows, ARGS(attention)->o);
    CASE(swiglu) swiglu(out, args);
    CASE(engram_gather) one(out, ARGS(engram_gather)->rows, ARGS(engram_gather)->y);
    CASE(engram_gate) one(out, ARGS(engram_gate)->rows, ARGS(engram_gate)->x);
    CASE(linear) out->named = ARGS(linear)->job[0].y;
    if (!out->named && out->n)
        out->named = out->data[0];
}
