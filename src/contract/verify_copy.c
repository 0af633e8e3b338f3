#include <string.h>
#include "contract/verify_stage.h"

static enum lf_status copy(struct lf_arena *arena, const void **at, size_t bytes,
                           struct lf_error *err) {
    void *memory = lf_arena_alloc(arena, bytes, 1);
    if (!memory)
        return lf_fail(err, LF_E_MEM, "out of memory for a copy of %zu bytes of weights", bytes);
    memcpy(memory, *at, bytes);
    *at = memory;
    return LF_OK;
}

static enum lf_status copy_matrix(struct lf_matrix *m, struct lf_arena *arena,
                                  struct lf_error *err) {
    const void *data = m->data, *scale = m->scale;
    if (!m->data)
        return LF_OK;
    LF_TRY(copy(arena, &data, m->out * lf_matrix_row_bytes(m), err));
    if (scale)
        LF_TRY(copy(arena, &scale, lf_matrix_scale_bytes(m), err));
    m->data = data;
    m->scale = scale;
    return LF_OK;
}

static enum lf_status copy_matrices(struct lf_layer *l, const struct lf_topology *t,
                                    struct lf_arena *arena, struct lf_error *err) {
    struct lf_matrix *one[] = {&l->wq_a, &l->wq_b, &l->wkv, &l->wo_b, &l->gate, &l->shared.w1,
                               &l->shared.w2, &l->shared.w3, &l->comp_wkv, &l->comp_wgate,
                               &l->index_wk, &l->index_wq_b, &l->index_proj};
    for (size_t i = 0; i < sizeof one / sizeof *one; i++)
        LF_TRY(copy_matrix(one[i], arena, err));
    struct lf_matrix *wo_a = lf_arena_alloc(arena, t->o_groups, sizeof *wo_a);
    struct lf_expert *expert = lf_arena_alloc(arena, l->experts, sizeof *expert);
    if (!wo_a || !expert)
        return lf_fail(err, LF_E_MEM, "out of memory for a copy of a layer");
    memcpy(wo_a, l->wo_a, t->o_groups * sizeof *wo_a);
    memcpy(expert, l->expert, l->experts * sizeof *expert);
    for (uint32_t g = 0; g < t->o_groups; g++)
        LF_TRY(copy_matrix(&wo_a[g], arena, err));
    for (uint32_t e = 0; e < l->experts; e++) {
        LF_TRY(copy_matrix(&expert[e].w1, arena, err));
        LF_TRY(copy_matrix(&expert[e].w2, arena, err));
        LF_TRY(copy_matrix(&expert[e].w3, arena, err));
    }
    l->wo_a = wo_a;
    l->expert = expert;
    return LF_OK;
}

// Vectors; the mixes' are float32, the norms' bf16. Absent ones stay absent.
static enum lf_status copy_vectors(struct lf_layer *l, const struct lf_topology *t,
                                   struct lf_arena *arena, struct lf_error *err) {
    size_t mixes = (size_t)t->streams * (2 + t->streams), wide = (size_t)t->streams * t->hidden;
    const struct {
        const void *at; // of a pointer to const data
        size_t bytes;
    } vector[] = {
        {&l->attn_norm, 2 * (size_t)t->hidden}, {&l->ffn_norm, 2 * (size_t)t->hidden},
        {&l->q_norm, 2 * (size_t)t->q_lora}, {&l->kv_norm, 2 * (size_t)t->head_dim},
        {&l->attn_sink, 4 * (size_t)t->heads}, {&l->gate_bias, 4 * (size_t)l->experts},
        {&l->comp_norm, 2 * (size_t)t->head_dim}, {&l->index_k_norm, 2 * (size_t)t->index_dim},
        {&l->hc_attn.fn, 4 * mixes * wide}, {&l->hc_attn.base, 4 * mixes},
        {&l->hc_attn.scale, 12}, {&l->hc_ffn.fn, 4 * mixes * wide}, {&l->hc_ffn.base, 4 * mixes},
        {&l->hc_ffn.scale, 12},
    };
    for (size_t i = 0; i < sizeof vector / sizeof *vector; i++) {
        const void *data;
        memcpy(&data, vector[i].at, sizeof data);
        if (!data)
            continue;
        LF_TRY(copy(arena, &data, vector[i].bytes, err));
        memcpy((void *)(uintptr_t)vector[i].at, &data, sizeof data);
    }
    return LF_OK;
}

static enum lf_status copy_engram(struct lf_layer *l, const struct lf_topology *t,
                                  struct lf_arena *arena, struct lf_error *err) {
    size_t bytes = 2 * (size_t)t->streams * t->hidden;
    struct lf_engram_weights *e = lf_arena_alloc(arena, 1, sizeof *e);
    if (!e)
        return lf_fail(err, LF_E_MEM, "out of memory for a copy of a layer");
    *e = *l->engram;
    const void *q = e->q_weight, *k = e->k_weight;
    LF_TRY(copy(arena, &q, bytes, err));
    LF_TRY(copy(arena, &k, bytes, err));
    e->q_weight = q;
    e->k_weight = k;
    l->engram = e;
    // The table stays where it is: a release's takes 94 GiB and is read a row at a time.
    return copy_matrix(&e->wkv, arena, err);
}

enum lf_status lf_layer_copy(struct lf_layer *out, const struct lf_layer *layer,
                             const struct lf_topology *t, struct lf_arena *arena,
                             struct lf_error *err) {
    *out = *layer;
    LF_TRY(copy_matrices(out, t, arena, err));
    LF_TRY(copy_vectors(out, t, arena, err));
    return out->engram ? copy_engram(out, t, arena, err) : LF_OK;
}
