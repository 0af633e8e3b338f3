#include "format/topology.h"

#include <inttypes.h>
#include <string.h>
#include "base/sha256.h"
#include "format/fields.h"
#include "format/topology_check.h"

enum { CONFIG_BYTES_MAX = 1 << 20, COUNT_MAX = INT32_MAX };

// When a field must be there: always, with draft layers, or with Engram layers.
enum when { ALWAYS, DRAFTS, ENGRAM };

#define AT(member) offsetof(struct lf_topology, member)

static const struct count_field {
    const char *name;
    size_t at;
    uint32_t min, max;
    enum when when;
} count_fields[] = {
    {"vocab_size", AT(vocab), 1, COUNT_MAX, ALWAYS},
    {"hidden_size", AT(hidden), 1, COUNT_MAX, ALWAYS},
    {"moe_intermediate_size", AT(expert_dim), 1, COUNT_MAX, ALWAYS},
    {"num_attention_heads", AT(heads), 1, COUNT_MAX, ALWAYS},
    {"head_dim", AT(head_dim), 1, COUNT_MAX, ALWAYS},
    {"qk_rope_head_dim", AT(rope_dim), 1, COUNT_MAX, ALWAYS},
    {"q_lora_rank", AT(q_lora), 1, COUNT_MAX, ALWAYS},
    {"o_lora_rank", AT(o_lora), 1, COUNT_MAX, ALWAYS},
    {"o_groups", AT(o_groups), 1, COUNT_MAX, ALWAYS},
    {"sliding_window", AT(window), 1, COUNT_MAX, ALWAYS},
    {"max_position_embeddings", AT(positions_max), 1, COUNT_MAX, ALWAYS},
    {"n_routed_experts", AT(experts), 1, COUNT_MAX, ALWAYS},
    {"n_shared_experts", AT(shared_experts), 0, COUNT_MAX, ALWAYS},
    {"num_experts_per_tok", AT(experts_top), 1, COUNT_MAX, ALWAYS},
    {"index_n_heads", AT(index_heads), 1, COUNT_MAX, ALWAYS},
    {"index_head_dim", AT(index_dim), 1, COUNT_MAX, ALWAYS},
    {"index_topk", AT(index_topk), 1, COUNT_MAX, ALWAYS},
    {"candidate_source_layer_id", AT(candidate_source), 0, COUNT_MAX, ALWAYS},
    {"candidate_topk_blocks", AT(candidate_blocks), 1, COUNT_MAX, ALWAYS},
    {"candidate_block_size", AT(candidate_block_size), 1, COUNT_MAX, ALWAYS},
    {"hc_mult", AT(streams), 1, LF_STREAMS_MAX, ALWAYS},
    {"hc_sinkhorn_iters", AT(sinkhorn_iters), 1, COUNT_MAX, ALWAYS},
    {"engram_max_ngram_size", AT(engram_ngram), 2, LF_NGRAM_MAX, ENGRAM},
    {"engram_n_heads", AT(engram_heads), 1, COUNT_MAX, ENGRAM},
    {"engram_head_dim", AT(engram_dim), 1, COUNT_MAX, ENGRAM},
    {"engram_pad_token_id", AT(engram_pad_id), 0, COUNT_MAX, ENGRAM},
    {"engram_compressed_vocab_size", AT(engram_classes), 1, COUNT_MAX, ENGRAM},
    {"dspark_block_size", AT(draft_block), 1, COUNT_MAX, DRAFTS},
    {"dspark_noise_token_id", AT(draft_noise_id), 0, COUNT_MAX, DRAFTS},
    {"dspark_markov_rank", AT(draft_markov_rank), 1, COUNT_MAX, DRAFTS},
    {"dspark_n_routed_experts", AT(draft_experts), 1, COUNT_MAX, DRAFTS},
    {"dspark_num_experts_per_tok", AT(draft_experts_top), 1, COUNT_MAX, DRAFTS},
};

static const struct real_field {
    const char *name;
    size_t at;
    bool single; // float32 in the topology
} real_fields[] = {
    {"swiglu_limit", AT(swiglu_limit), true},
    {"rms_norm_eps", AT(norm_eps), true},
    {"routed_scaling_factor", AT(route_scale), true},
    {"hc_eps", AT(hc_eps), true},
    {"rope_theta", AT(rope_theta), false},
    {"compress_rope_theta", AT(compress_rope_theta), false},
};

static const struct list_field {
    const char *name;
    size_t at, n_at;
    enum when when;
} list_fields[] = {
    {"kv_source_layer_ids", AT(kv_sources), AT(n_kv_sources), ALWAYS},
    {"index_source_layer_ids", AT(index_sources), AT(n_index_sources), ALWAYS},
    {"engram_layer_ids", AT(engram_layers), AT(n_engram), ALWAYS},
    {"dspark_target_layer_ids", AT(draft_taps), AT(n_draft_taps), DRAFTS},
};

// Variants of the arithmetic that this program does not have.
static const struct fixed_field {
    const char *name, *text; // text NULL: a boolean
    bool truth;
} fixed_fields[] = {
    {"hidden_act", "silu", false},         {"scoring_func", "sqrtsoftplus", false},
    {"topk_method", "noaux_tc", false},    {"norm_topk_prob", NULL, true},
    {"attention_bias", NULL, false},       {"tie_word_embeddings", NULL, false},
};

static bool wanted(const struct lf_topology *t, enum when when) {
    return when == ALWAYS || (when == DRAFTS && t->draft_layers > 0) ||
           (when == ENGRAM && t->n_engram > 0);
}

static enum lf_status read_count(const struct lf_fields *fields, const char *name, uint32_t min,
                                 uint32_t max, uint32_t *out, struct lf_error *err) {
    uint64_t value;
    LF_TRY(lf_fields_count(fields, name, min, max, &value, err));
    *out = (uint32_t)value;
    return LF_OK;
}

static enum lf_status read_lists(struct lf_topology *t, const struct lf_fields *text,
                                 struct lf_error *err) {
    uint64_t value[LF_LAYERS_MAX];
    size_t n;
    for (size_t f = 0; f < sizeof list_fields / sizeof *list_fields; f++) {
        const struct list_field *field = &list_fields[f];
        if (!wanted(t, field->when))
            continue;
        LF_TRY(lf_fields_list(text, field->name, COUNT_MAX, value, LF_LIST_MAX, &n, err));
        uint32_t *list = (uint32_t *)((char *)t + field->at);
        for (size_t i = 0; i < n; i++)
            list[i] = (uint32_t)value[i];
        *(uint32_t *)((char *)t + field->n_at) = (uint32_t)n;
    }
    LF_TRY(lf_fields_list(text, "engram_num_embeddings", (1ull << 40) - 1, t->engram_rows,
                          LF_LIST_MAX, &n, err));
    if (n != t->n_engram)
        return lf_fail(err, LF_E_VALUE,
                       "%s: text_config.engram_num_embeddings has %zu entries, engram_layer_ids "
                       "has %u",
                       text->origin, n, t->n_engram);
    LF_TRY(lf_fields_list(text, "compress_ratios", 2, value, LF_LAYERS_MAX, &n, err));
    if (n < t->layers)
        return lf_fail(err, LF_E_VALUE,
                       "%s: text_config.compress_ratios has %zu entries, fewer than "
                       "num_hidden_layers %u",
                       text->origin, n, t->layers);
    for (size_t i = 0; i < n; i++) {
        if (i >= t->layers && value[i] != 0)
            return lf_fail(err, LF_E_VALUE,
                           "%s: text_config.compress_ratios[%zu] belongs to a draft block and must "
                           "be 0, found %" PRIu64,
                           text->origin, i, value[i]);
        t->ratio[i] = (uint8_t)value[i];
    }
    return LF_OK;
}

static enum lf_status read_fixed(const struct lf_fields *text, struct lf_error *err) {
    for (size_t f = 0; f < sizeof fixed_fields / sizeof *fixed_fields; f++) {
        const struct fixed_field *field = &fixed_fields[f];
        const char *found;
        char shown[LF_SHOWN_BYTES];
        bool truth;
        if (field->text) {
            LF_TRY(lf_fields_text(text, field->name, &found, err));
            if (strcmp(found, field->text) != 0)
                return lf_fail(err, LF_E_UNSUPPORTED,
                               "%s: %s%s %s is not supported, only %s",
                               text->origin, text->prefix, field->name,
                               lf_fields_shown(shown, found), field->text);
        } else {
            LF_TRY(lf_fields_bool(text, field->name, &truth, err));
            if (truth != field->truth)
                return lf_fail(err, LF_E_UNSUPPORTED, "%s: %s%s %s is not supported, only %s",
                               text->origin, text->prefix, field->name, truth ? "true" : "false",
                               field->truth ? "true" : "false");
        }
    }
    uint64_t kv_heads;
    LF_TRY(lf_fields_count(text, "num_key_value_heads", 0, COUNT_MAX, &kv_heads, err));
    if (kv_heads != 1)
        return lf_fail(err, LF_E_UNSUPPORTED,
                       "%s: %snum_key_value_heads %" PRIu64 " is not supported, only 1",
                       text->origin, text->prefix, kv_heads);
    return LF_OK;
}

static enum lf_status read_positive(const struct lf_fields *fields, const char *name, double *out,
                                    struct lf_error *err) {
    LF_TRY(lf_fields_real(fields, name, out, err));
    if (*out <= 0)
        return lf_fail(err, LF_E_VALUE, "%s: %s%s must be above 0, found %g", fields->origin,
                       fields->prefix, name, *out);
    return LF_OK;
}

static enum lf_status read_scaling(struct lf_rope_scaling *scaling, const struct lf_fields *text,
                                   struct lf_error *err) {
    struct lf_fields rope = {.origin = text->origin, .prefix = "text_config.rope_scaling."};
    const char *type;
    char shown[LF_SHOWN_BYTES];
    if (!lf_fields_optional(text, "rope_scaling"))
        return LF_OK;
    LF_TRY(lf_fields_object(text, "rope_scaling", &rope.object, err));
    LF_TRY(lf_fields_text(&rope, "rope_type", &type, err));
    if (strcmp(type, "yarn") != 0)
        return lf_fail(err, LF_E_UNSUPPORTED,
                       "%s: text_config.rope_scaling.rope_type %s is not supported, only yarn",
                       text->origin, lf_fields_shown(shown, type));
    LF_TRY(read_positive(&rope, "factor", &scaling->factor, err));
    LF_TRY(read_positive(&rope, "beta_fast", &scaling->beta_fast, err));
    LF_TRY(read_positive(&rope, "beta_slow", &scaling->beta_slow, err));
    LF_TRY(read_count(&rope, "original_max_position_embeddings", 1, COUNT_MAX,
                      &scaling->original_positions, err));
    scaling->present = true;
    return LF_OK;
}

static enum lf_status read_text(struct lf_topology *t, const struct lf_fields *text,
                                struct lf_error *err) {
    // These two decide which other fields must be there.
    LF_TRY(read_count(text, "num_hidden_layers", 1, LF_LAYERS_MAX, &t->layers, err));
    LF_TRY(read_count(text, "num_nextn_predict_layers", 0, LF_LAYERS_MAX, &t->draft_layers, err));
    LF_TRY(read_lists(t, text, err));
    for (size_t f = 0; f < sizeof count_fields / sizeof *count_fields; f++) {
        const struct count_field *field = &count_fields[f];
        uint32_t *at = (uint32_t *)((char *)t + field->at);
        if (wanted(t, field->when))
            LF_TRY(read_count(text, field->name, field->min, field->max, at, err));
    }
    if (t->n_engram)
        LF_TRY(lf_fields_count(text, "engram_vocab_size", 1, COUNT_MAX, &t->engram_vocab, err));
    for (size_t f = 0; f < sizeof real_fields / sizeof *real_fields; f++) {
        const struct real_field *field = &real_fields[f];
        double value;
        LF_TRY(read_positive(text, field->name, &value, err));
        if (field->single)
            *(float *)((char *)t + field->at) = (float)value;
        else
            *(double *)((char *)t + field->at) = value;
    }
    LF_TRY(read_fixed(text, err));
    return read_scaling(&t->rope_scaling, text, err);
}

static enum lf_status read_quantization(struct lf_topology *t, const struct lf_fields *root,
                                        struct lf_error *err) {
    struct lf_fields quant = {.origin = root->origin, .prefix = "quantization_config."};
    struct lf_quantization *q = &t->quantization;
    const char *text;
    char shown[LF_SHOWN_BYTES];
    if (lf_fields_optional(root, "quantization"))
        return lf_fail(err, LF_E_UNSUPPORTED,
                       "%s: a quantization object marks an MLX conversion, which is not "
                       "supported; use the release, deepseek-ai/DeepSeek-V4.1-Flash",
                       root->origin);
    if (!lf_fields_optional(root, "quantization_config"))
        return LF_OK;
    LF_TRY(lf_fields_object(root, "quantization_config", &quant.object, err));
    LF_TRY(lf_fields_text(&quant, "quant_method", &text, err));
    q->exl3 = strcmp(text, "exl3") == 0;
    if (!q->exl3 && strcmp(text, "fp8") != 0)
        return lf_fail(err, LF_E_UNSUPPORTED,
                       "%s: quantization_config.quant_method %s is not supported; use the "
                       "release, deepseek-ai/DeepSeek-V4.1-Flash",
                       root->origin, lf_fields_shown(shown, text));
    t->has_quantization = true;
    // An EXL3 pack describes its other linears in ways of its own; their tensors decide.
    if (q->exl3)
        return LF_OK;
    if (lf_fields_optional(&quant, "weight_block_size")) {
        uint64_t block[2];
        size_t n;
        LF_TRY(lf_fields_list(&quant, "weight_block_size", COUNT_MAX, block, 2, &n, err));
        q->n_block = (uint32_t)n;
        for (size_t i = 0; i < n; i++)
            q->block[i] = (uint32_t)block[i];
    }
    if (lf_fields_optional(&quant, "scale_fmt")) {
        LF_TRY(lf_fields_text(&quant, "scale_fmt", &text, err));
        q->scale_ue8m0 = strcmp(text, "ue8m0") == 0;
    }
    if (lf_fields_optional(&quant, "expert_dtype")) {
        LF_TRY(lf_fields_text(&quant, "expert_dtype", &text, err));
        q->expert_fp4 = strcmp(text, "fp4") == 0;
    }
    return LF_OK;
}

static enum lf_status read_root(struct lf_topology *t, const struct lf_fields *root,
                                bool text_only, struct lf_error *err) {
    LF_TRY(read_count(root, "bos_token_id", 0, COUNT_MAX, &t->bos_id, err));
    LF_TRY(read_count(root, "eos_token_id", 0, COUNT_MAX, &t->eos_id, err));
    LF_TRY(read_count(root, "pad_token_id", 0, COUNT_MAX, &t->pad_id, err));
    t->image_id = UINT32_MAX;
    if (!text_only || lf_fields_optional(root, "image_token_id"))
        LF_TRY(read_count(root, "image_token_id", 0, COUNT_MAX, &t->image_id, err));
    if (lf_fields_optional(root, "vision_config")) {
        struct lf_fields vision = {.origin = root->origin, .prefix = "vision_config."};
        LF_TRY(lf_fields_object(root, "vision_config", &vision.object, err));
        LF_TRY(read_count(&vision, "num_hidden_layers", 1, LF_LAYERS_MAX, &t->vision_layers, err));
        t->has_vision = true;
    }
    char shown[LF_SHOWN_BYTES];
    const json_t *list = lf_fields_optional(root, "architectures");
    const char *name = json_string_value(json_array_get(list, 0));
    if (list && (!name || strcmp(name, "DeepseekV41ForCausalLM") != 0))
        return lf_fail(err, LF_E_UNSUPPORTED,
                       "%s: architectures must be [\"DeepseekV41ForCausalLM\"], found %s",
                       root->origin, name ? lf_fields_shown(shown, name) : "something else");
    return LF_OK;
}

static enum lf_status read_config(struct lf_topology *t, const struct lf_fields *root,
                                  struct lf_error *err) {
    struct lf_fields text = {root->object, root->origin, ""};
    const char *type;
    char shown[LF_SHOWN_BYTES];
    LF_TRY(lf_fields_text(root, "model_type", &type, err));
    bool text_only = strcmp(type, "deepseek_v41_text") == 0;
    if (!text_only && strcmp(type, "deepseek_v41") != 0)
        return lf_fail(err, LF_E_UNSUPPORTED,
                       "%s: not a DeepSeek-V4.1 checkpoint: model_type is %s", root->origin,
                       lf_fields_shown(shown, type));
    if (!text_only) {
        text.prefix = "text_config.";
        LF_TRY(lf_fields_object(root, "text_config", &text.object, err));
        LF_TRY(lf_fields_text(&text, "model_type", &type, err));
        if (strcmp(type, "deepseek_v41_text") != 0)
            return lf_fail(err, LF_E_UNSUPPORTED,
                           "%s: not a DeepSeek-V4.1 checkpoint: text_config.model_type is %s",
                           root->origin, lf_fields_shown(shown, type));
    }
    LF_TRY(read_quantization(t, root, err));
    LF_TRY(read_text(t, &text, err));
    LF_TRY(read_root(t, root, text_only, err));
    return lf_topology_check(t, root->origin, err);
}

enum lf_status lf_topology_parse(struct lf_topology *out, const char *json, size_t len,
                                 const char *origin, struct lf_error *err) {
    struct lf_sha256 sha;
    uint8_t digest[32];
    json_t *object;
    memset(out, 0, sizeof *out);
    if (len > CONFIG_BYTES_MAX)
        return lf_fail(err, LF_E_TOO_LARGE, "%s has %zu bytes, the limit is %d", origin, len,
                       CONFIG_BYTES_MAX);
    LF_TRY(lf_fields_load(&object, json, len, origin, err));
    struct lf_fields root = {object, origin, ""};
    enum lf_status status = read_config(out, &root, err);
    json_decref(object);
    LF_TRY(status);
    lf_sha256_init(&sha);
    lf_sha256_add(&sha, json, len);
    lf_sha256_finish(&sha, digest);
    lf_sha256_hex(digest, out->config_sha256);
    return LF_OK;
}

uint32_t lf_topology_kind(const struct lf_topology *t, uint32_t layer) {
    uint32_t kind = t->ratio[layer];
    if (t->ratio[layer] && t->kv_source[layer] == (int)layer)
        kind |= LF_KIND_KV_SOURCE;
    if (t->ratio[layer] && t->index_source[layer] == (int)layer)
        kind |= LF_KIND_INDEX_SOURCE;
    for (uint32_t i = 0; i < t->n_engram; i++)
        if (t->engram_layers[i] == layer)
            kind |= LF_KIND_ENGRAM;
    if (layer > t->candidate_source)
        kind |= LF_KIND_RESTRICTED;
    if (layer == t->candidate_source)
        kind |= LF_KIND_CANDIDATES;
    return kind;
}
