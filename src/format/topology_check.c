#include "format/topology_check.h"

#include <inttypes.h>
#include "format/engram_layout.h"

enum { QUANT_GROUP = 32 };

// Every list of layer ids: strictly increasing, inside the backbone.
static enum lf_status check_layer_list(const struct lf_topology *t, const char *field,
                                       const uint32_t *id, uint32_t n, const char *origin,
                                       struct lf_error *err) {
    for (uint32_t i = 0; i < n; i++) {
        if (id[i] >= t->layers)
            return lf_fail(err, LF_E_VALUE,
                           "%s: text_config.%s[%u] is %u, but the layers are 0 to %u", origin,
                           field, i, id[i], t->layers - 1);
        if (i > 0 && id[i] <= id[i - 1])
            return lf_fail(err, LF_E_VALUE,
                           "%s: text_config.%s must be strictly increasing, found %u after %u",
                           origin, field, id[i], id[i - 1]);
    }
    return LF_OK;
}

static enum lf_status check_layer_lists(const struct lf_topology *t, const char *origin,
                                        struct lf_error *err) {
    LF_TRY(check_layer_list(t, "kv_source_layer_ids", t->kv_sources, t->n_kv_sources, origin,
                            err));
    LF_TRY(check_layer_list(t, "index_source_layer_ids", t->index_sources, t->n_index_sources,
                            origin, err));
    LF_TRY(check_layer_list(t, "engram_layer_ids", t->engram_layers, t->n_engram, origin, err));
    return check_layer_list(t, "dspark_target_layer_ids", t->draft_taps, t->n_draft_taps, origin,
                            err);
}

// The largest listed layer at or below layer, or -1.
static int16_t source_of(uint32_t layer, const uint32_t *list, uint32_t n) {
    int16_t source = -1;
    for (uint32_t i = 0; i < n && list[i] <= layer; i++)
        source = (int16_t)list[i];
    return source;
}

static enum lf_status check_sources(struct lf_topology *t, const char *origin,
                                    struct lf_error *err) {
    for (uint32_t i = 0; i < t->n_index_sources; i++)
        if (t->ratio[t->index_sources[i]] == 0)
            return lf_fail(err, LF_E_VALUE,
                           "%s: text_config.index_source_layer_ids names layer %u, whose "
                           "compress_ratios entry is 0",
                           origin, t->index_sources[i]);
    for (uint32_t i = 0; i < t->n_kv_sources; i++) {
        uint32_t source = t->kv_sources[i];
        if (t->ratio[source] == 0)
            return lf_fail(err, LF_E_VALUE,
                           "%s: text_config.kv_source_layer_ids names layer %u, whose "
                           "compress_ratios entry is 0",
                           origin, source);
        if (source_of(source, t->index_sources, t->n_index_sources) != (int16_t)source)
            return lf_fail(err, LF_E_VALUE,
                           "%s: text_config.kv_source_layer_ids names layer %u, which is not in "
                           "index_source_layer_ids",
                           origin, source);
    }
    return LF_OK;
}

// Fills the two source arrays; every compressed layer reads a cache of its own ratio.
static enum lf_status derive_sources(struct lf_topology *t, const char *origin,
                                     struct lf_error *err) {
    for (uint32_t layer = 0; layer < LF_LAYERS_MAX; layer++) {
        t->kv_source[layer] = t->index_source[layer] = -1;
        if (layer >= t->layers || t->ratio[layer] == 0)
            continue;
        int16_t kv = source_of(layer, t->kv_sources, t->n_kv_sources);
        int16_t index = source_of(layer, t->index_sources, t->n_index_sources);
        if (kv < 0 || t->ratio[kv] != t->ratio[layer])
            return lf_fail(err, LF_E_VALUE,
                           "%s: layer %u has compress_ratios %u, but text_config."
                           "kv_source_layer_ids has no source of that ratio at or below it",
                           origin, layer, t->ratio[layer]);
        if (index < 0)
            return lf_fail(err, LF_E_VALUE,
                           "%s: layer %u has compress_ratios %u, but text_config."
                           "index_source_layer_ids has no source at or below it",
                           origin, layer, t->ratio[layer]);
        t->kv_source[layer] = kv;
        t->index_source[layer] = index;
    }
    return LF_OK;
}

static enum lf_status check_candidates(const struct lf_topology *t, const char *origin,
                                       struct lf_error *err) {
    uint32_t source = t->candidate_source;
    if (source >= t->layers || t->index_source[source] != (int16_t)source)
        return lf_fail(err, LF_E_VALUE,
                       "%s: text_config.candidate_source_layer_id is %u, which is not in "
                       "index_source_layer_ids",
                       origin, source);
    // Candidate blocks are numbered in one compressed cache; another cache's entries differ.
    for (uint32_t i = 0; i < t->n_index_sources; i++)
        if (t->index_sources[i] > source &&
            t->kv_source[t->index_sources[i]] != t->kv_source[source])
            return lf_fail(err, LF_E_VALUE,
                           "%s: text_config.candidate_source_layer_id is %u, but index source %u "
                           "above it reads another compressed cache",
                           origin, source, t->index_sources[i]);
    uint64_t candidates = (uint64_t)t->candidate_blocks * t->candidate_block_size;
    if (candidates < t->index_topk)
        return lf_fail(err, LF_E_VALUE,
                       "%s: text_config.candidate_topk_blocks x candidate_block_size is %" PRIu64
                       ", less than index_topk %u",
                       origin, candidates, t->index_topk);
    return LF_OK;
}

// Widths of linear maps that are products of fields must fit in 31 bits as the fields do.
static enum lf_status check_products(const struct lf_topology *t, const char *origin,
                                     struct lf_error *err) {
    uint64_t columns = (uint64_t)(t->engram_ngram - 1) * t->engram_heads;
    const struct {
        const char *fields;
        uint64_t a, b;
    } product[] = {
        {"num_attention_heads x head_dim", t->heads, t->head_dim},
        {"o_groups x o_lora_rank", t->o_groups, t->o_lora},
        {"index_n_heads x index_head_dim", t->index_heads, t->index_dim},
        {"(hc_mult + 1) x hidden_size", t->streams + 1, t->hidden},
        {"engram_n_heads x engram_head_dim x orders", columns, t->engram_dim},
        {"dspark_target_layer_ids x hidden_size", t->n_draft_taps, t->hidden},
        {"hidden_size + dspark_markov_rank", 1, (uint64_t)t->hidden + t->draft_markov_rank},
    };
    for (size_t i = 0; i < sizeof product / sizeof *product; i++)
        if (product[i].a && product[i].b > INT32_MAX / product[i].a)
            return lf_fail(err, LF_E_VALUE, "%s: text_config: %s is more than 31 bits", origin,
                           product[i].fields);
    return LF_OK;
}

static enum lf_status check_heads(const struct lf_topology *t, const char *origin,
                                  struct lf_error *err) {
    const struct {
        const char *field;
        uint32_t width;
    } grouped[] = {
        {"head_dim", t->head_dim},
        {"index_head_dim", t->index_dim},
        {"engram_head_dim", t->n_engram ? t->engram_dim : 0},
    };
    for (size_t i = 0; i < sizeof grouped / sizeof *grouped; i++)
        if (grouped[i].width % QUANT_GROUP)
            return lf_fail(err, LF_E_VALUE,
                           "%s: text_config.%s must be a multiple of %d, found %u", origin,
                           grouped[i].field, QUANT_GROUP, grouped[i].width);
    if (t->rope_dim % 2 || t->rope_dim > t->head_dim || t->rope_dim > t->index_dim)
        return lf_fail(err, LF_E_VALUE,
                       "%s: text_config.qk_rope_head_dim must be even and at most head_dim %u and "
                       "index_head_dim %u, found %u",
                       origin, t->head_dim, t->index_dim, t->rope_dim);
    if (t->rope_dim > LF_ROPE_DIM_MAX)
        return lf_fail(err, LF_E_UNSUPPORTED,
                       "%s: text_config.qk_rope_head_dim %u is not supported: at most %d", origin,
                       t->rope_dim, LF_ROPE_DIM_MAX);
    if ((uint64_t)t->heads * t->head_dim % t->o_groups)
        return lf_fail(err, LF_E_VALUE,
                       "%s: text_config.o_groups %u does not divide num_attention_heads x head_dim "
                       "%u",
                       origin, t->o_groups, t->heads * t->head_dim);
    return LF_OK;
}

static enum lf_status check_experts(const struct lf_topology *t, const char *origin,
                                    struct lf_error *err) {
    if (t->shared_experts != 1)
        return lf_fail(err, LF_E_UNSUPPORTED,
                       "%s: text_config.n_shared_experts %u is not supported, only 1", origin,
                       t->shared_experts);
    if (t->experts_top > t->experts)
        return lf_fail(err, LF_E_VALUE,
                       "%s: text_config.num_experts_per_tok is %u, more than n_routed_experts %u",
                       origin, t->experts_top, t->experts);
    if (t->draft_experts_top > t->draft_experts)
        return lf_fail(err, LF_E_VALUE,
                       "%s: text_config.dspark_num_experts_per_tok is %u, more than "
                       "dspark_n_routed_experts %u",
                       origin, t->draft_experts_top, t->draft_experts);
    return LF_OK;
}

static enum lf_status check_tokens(const struct lf_topology *t, const char *origin,
                                   struct lf_error *err) {
    const struct {
        const char *field;
        uint32_t id;
        bool present;
    } token[] = {
        {"bos_token_id", t->bos_id, true},
        {"eos_token_id", t->eos_id, true},
        {"image_token_id", t->image_id, t->image_id != UINT32_MAX},
        {"text_config.engram_pad_token_id", t->engram_pad_id, t->n_engram > 0},
        {"text_config.dspark_noise_token_id", t->draft_noise_id, t->draft_layers > 0},
    };
    for (size_t i = 0; i < sizeof token / sizeof *token; i++)
        if (token[i].present && token[i].id >= t->vocab)
            return lf_fail(err, LF_E_VALUE, "%s: %s is %u, not below text_config.vocab_size %u",
                           origin, token[i].field, token[i].id, t->vocab);
    return LF_OK;
}

static enum lf_status check_engram(const struct lf_topology *t, const char *origin,
                                   struct lf_error *err) {
    struct lf_engram_layout layout;
    struct lf_error inner = LF_ERROR_INIT;
    if (lf_engram_layout_build(&layout, t, &inner) != LF_OK)
        return lf_fail(err, inner.status, "%s: text_config.%s", origin, inner.text);
    lf_engram_layout_free(&layout);
    return LF_OK;
}

enum lf_status lf_topology_check(struct lf_topology *t, const char *origin, struct lf_error *err) {
    if (t->layers + t->draft_layers > LF_LAYERS_MAX)
        return lf_fail(err, LF_E_VALUE,
                       "%s: text_config.num_hidden_layers + num_nextn_predict_layers is %u, at "
                       "most %d are supported",
                       origin, t->layers + t->draft_layers, LF_LAYERS_MAX);
    if (t->draft_layers > 0 && t->n_draft_taps == 0)
        return lf_fail(err, LF_E_VALUE,
                       "%s: text_config.dspark_target_layer_ids is empty, but "
                       "num_nextn_predict_layers is %u",
                       origin, t->draft_layers);
    LF_TRY(check_layer_lists(t, origin, err));
    LF_TRY(check_sources(t, origin, err));
    LF_TRY(derive_sources(t, origin, err));
    LF_TRY(check_candidates(t, origin, err));
    LF_TRY(check_products(t, origin, err));
    LF_TRY(check_heads(t, origin, err));
    LF_TRY(check_experts(t, origin, err));
    LF_TRY(check_tokens(t, origin, err));
    return check_engram(t, origin, err);
}
