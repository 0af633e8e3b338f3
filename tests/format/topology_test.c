#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "env.h"
#include "format/topology.h"

static json_t *load(const char *name) {
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", env_value("LF_SOURCE_ROOT"), name);
    json_t *root = json_load_file(path, 0, NULL);
    assert_non_null(root);
    return root;
}

static enum lf_status parse(struct lf_topology *t, const json_t *root, struct lf_error *err) {
    char *text = json_dumps(root, 0);
    assert_non_null(text);
    *err = (struct lf_error)LF_ERROR_INIT;
    enum lf_status status = lf_topology_parse(t, text, strlen(text), "config.json", err);
    free(text);
    return status;
}

// Sets (or with value NULL deletes) a field given as a dotted path.
static void change(json_t *root, const char *path, const char *value) {
    char part[64];
    json_t *object = root;
    for (const char *dot = strchr(path, '.'); dot; dot = strchr(path, '.')) {
        snprintf(part, sizeof part, "%.*s", (int)(dot - path), path);
        object = json_object_get(object, part);
        assert_non_null(object);
        path = dot + 1;
    }
    if (!value)
        assert_int_equal(json_object_del(object, path), 0);
    else
        assert_int_equal(
            json_object_set_new(object, path, json_loads(value, JSON_DECODE_ANY, NULL)), 0);
}

#define T "text_config."

// One field of the demo's configuration changed; the message must name it.
static const struct mutation {
    const char *path, *value, *expected;
} mutations[] = {
    // 1.1 rules 1 and 2, section 9.
    {"model_type", "\"deepseek_v4\"", "not a DeepSeek-V4.1 checkpoint: model_type is deepseek_v4"},
    {"model_type", "\"a\\nb\"", "model_type is a?b"},
    {"model_type", NULL, "model_type is missing"},
    {"text_config", NULL, "text_config is missing"},
    {"text_config", "[]", "text_config must be an object"},
    {T "model_type", "\"llama\"", "text_config.model_type is llama"},
    {"architectures", "[\"DeepseekV4ForCausalLM\"]", "architectures"},
    {"quantization", "{}", "MLX"},
    {"quantization_config", "7", "quantization_config must be an object"},
    {"quantization_config.quant_method", NULL, "quantization_config.quant_method is missing"},
    {"quantization_config.quant_method", "\"modelopt\"", "quant_method modelopt"},
    {"quantization_config.quant_method", "\"nvfp4\"", "quant_method nvfp4"},
    {"quantization_config.quant_method", "\"auto-round\"", "quant_method auto-round"},
    {"quantization_config.quant_method", "\"gptq\"", "quant_method gptq"},
    {"quantization_config.quant_method", "\"awq\"", "quant_method awq"},
    {"quantization_config.quant_method", "\"compressed-tensors\"", "compressed-tensors"},
    {"quantization_config.quant_method", "\"bitsandbytes\"", "quant_method bitsandbytes"},
    {"quantization_config.weight_block_size", "[32.0, 32]", "weight_block_size[0]"},
    {"quantization_config.scale_fmt", "1", "scale_fmt must be a string"},
    // 2.2: types and limits of counts.
    {T "hidden_size", "true", "hidden_size must be an integer, found true"},
    {T "hidden_size", "\"256\"", "hidden_size must be an integer, found a string"},
    {T "hidden_size", "256.0", "hidden_size must be an integer"},
    {T "hidden_size", "2.56e2", "hidden_size must be an integer"},
    {T "hidden_size", "-256", "hidden_size must be 1 to 2147483647, found -256"},
    {T "hidden_size", "2147483648", "hidden_size must be 1 to 2147483647"},
    {T "hidden_size", "null", "hidden_size must be an integer, found null"},
    {T "num_hidden_layers", "257", "num_hidden_layers"},
    {T "num_hidden_layers", "0", "num_hidden_layers"},
    {T "num_hidden_layers", "254", "compress_ratios"},
    {T "num_nextn_predict_layers", "249", "num_nextn_predict_layers"},
    {T "sliding_window", "0", "sliding_window"},
    {T "index_topk", "0", "index_topk"},
    {T "num_experts_per_tok", "0", "num_experts_per_tok"},
    {T "candidate_topk_blocks", "0", "candidate_topk_blocks"},
    {T "candidate_block_size", "0", "candidate_block_size"},
    {T "num_attention_heads", "0", "num_attention_heads"},
    {T "hc_mult", "9", "hc_mult must be 1 to 8"},
    {T "engram_num_embeddings", "[19590, 1099511627776]", "engram_num_embeddings[1]"},
    {"bos_token_id", "-1", "bos_token_id"},
    {"vision_config.num_hidden_layers", "\"2\"", "vision_config.num_hidden_layers"},
    // Reals.
    {T "rms_norm_eps", "\"1e-20\"", "rms_norm_eps must be a number, found a string"},
    {T "rms_norm_eps", "0", "rms_norm_eps"},
    {T "swiglu_limit", "-10.0", "swiglu_limit"},
    {T "routed_scaling_factor", "1e39", "routed_scaling_factor"},
    {T "rope_theta", "true", "rope_theta must be a number, found true"},
    // Layer lists.
    {T "compress_ratios", "[0, 0, 2, 2, 2, 1, 1]", "compress_ratios has 7 entries"},
    {T "compress_ratios", "[0, 0, 3, 2, 2, 1, 1, 1]", "compress_ratios[2]"},
    {T "compress_ratios", "[0, 0, 2, 2, 2, 1, 1, 1, 0, 1, 0]", "compress_ratios[9]"},
    {T "kv_source_layer_ids", "[5, 2]", "kv_source_layer_ids must be strictly increasing"},
    {T "kv_source_layer_ids", "[2, 2]", "kv_source_layer_ids must be strictly increasing"},
    {T "kv_source_layer_ids", "[2, 5, 8]", "kv_source_layer_ids[2] is 8"},
    {T "kv_source_layer_ids", "[2, 3, 5]", "layer 3, which is not in index_source_layer_ids"},
    {T "kv_source_layer_ids", "[5]", "kv_source_layer_ids has no source of that ratio"},
    {T "kv_source_layer_ids", "[2]", "kv_source_layer_ids has no source of that ratio"},
    {T "kv_source_layer_ids", "[true]", "kv_source_layer_ids[0]"},
    {T "index_source_layer_ids", "[2, 5, 9]", "index_source_layer_ids[2] is 9"},
    {T "index_source_layer_ids", "[0, 2, 5, 7]", "index_source_layer_ids names layer 0"},
    {T "index_source_layer_ids", "[5, 7]", "kv_source_layer_ids names layer 2"},
    {T "engram_layer_ids", "[4, 1]", "engram_layer_ids must be strictly increasing"},
    {T "engram_layer_ids", "[1]", "engram_num_embeddings has 2 entries, engram_layer_ids has 1"},
    {T "dspark_target_layer_ids", "[5, 6, 8]", "dspark_target_layer_ids[2] is 8"},
    {T "dspark_target_layer_ids", "[]", "dspark_target_layer_ids is empty"},
    {T "candidate_source_layer_id", "6", "candidate_source_layer_id is 6"},
    {T "candidate_source_layer_id", "2", "candidate_source_layer_id is 2"},
    {T "candidate_source_layer_id", "2000000000", "candidate_source_layer_id"},
    // Sizes against each other.
    {T "o_groups", "3", "o_groups 3 does not divide"},
    {T "num_key_value_heads", "2", "num_key_value_heads 2 is not supported"},
    {T "qk_rope_head_dim", "15", "qk_rope_head_dim must be even"},
    {T "qk_rope_head_dim", "66", "qk_rope_head_dim"},
    {T "qk_rope_head_dim", "34", "qk_rope_head_dim"},
    {T "head_dim", "80", "head_dim must be a multiple of 32"},
    {T "index_head_dim", "48", "index_head_dim must be a multiple of 32"},
    {T "engram_head_dim", "33", "engram_head_dim must be a multiple of 32"},
    {T "candidate_topk_blocks", "7", "candidate_topk_blocks x candidate_block_size is 56"},
    {T "num_attention_heads", "2147483647", "num_attention_heads x head_dim is more than 31 bits"},
    {T "num_experts_per_tok", "17", "num_experts_per_tok is 17"},
    {T "dspark_num_experts_per_tok", "9", "dspark_num_experts_per_tok is 9"},
    {T "n_shared_experts", "2", "n_shared_experts 2 is not supported"},
    {"bos_token_id", "2304", "bos_token_id is 2304, not below text_config.vocab_size 2304"},
    {"eos_token_id", "2304", "eos_token_id is 2304"},
    {"image_token_id", "2304", "image_token_id is 2304"},
    {T "engram_pad_token_id", "2304", "engram_pad_token_id is 2304"},
    {T "dspark_noise_token_id", "2304", "dspark_noise_token_id is 2304"},
    // Variants.
    {T "scoring_func", "\"softmax\"", "scoring_func softmax is not supported"},
    {T "topk_method", "\"greedy\"", "topk_method greedy is not supported"},
    {T "hidden_act", "\"gelu\"", "hidden_act gelu is not supported"},
    {T "norm_topk_prob", "false", "norm_topk_prob false is not supported"},
    {T "attention_bias", "true", "attention_bias true is not supported"},
    {T "tie_word_embeddings", "true", "tie_word_embeddings true is not supported"},
    {T "tie_word_embeddings", "0", "tie_word_embeddings must be true or false"},
    {T "rope_scaling", "7", "rope_scaling must be an object"},
    {T "rope_scaling.rope_type", "\"linear\"", "rope_scaling.rope_type linear is not supported"},
    {T "rope_scaling.factor", "0", "rope_scaling.factor"},
    {T "rope_scaling.beta_slow", NULL, "rope_scaling.beta_slow is missing"},
    {T "rope_scaling.original_max_position_embeddings", "0", "original_max_position_embeddings"},
    // Engram rows against the primes (model.md 6.2).
    {T "engram_num_embeddings", "[19591, 20752]", "engram_num_embeddings[0] is 19591"},
    {T "engram_num_embeddings", "[19590, 20751]", "engram_num_embeddings[1] is 20751"},
    {T "engram_vocab_size", "1700", "engram_vocab_size 1700"},
    {T "engram_n_heads", "8", "engram_num_embeddings[0]"},
    {T "engram_n_heads", "100", "engram_n_heads must be 1 to 85"},
    {T "engram_max_ngram_size", "3", "engram_num_embeddings[0]"},
    {T "engram_max_ngram_size", "9", "engram_max_ngram_size must be 2 to 8"},
    {T "engram_compressed_vocab_size", "1073741824", "engram_compressed_vocab_size"},
};

static void does_every_bad_field_name_itself(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof mutations / sizeof *mutations; i++) {
        const struct mutation *m = &mutations[i];
        struct lf_topology t;
        struct lf_error err;
        json_t *root = load("models/demo/config.json");
        change(root, m->path, m->value);
        if (parse(&t, root, &err) == LF_OK || !strstr(err.text, m->expected))
            fail_msg("%s = %s: expected \"%s\", got \"%s\"", m->path, m->value, m->expected,
                     err.text);
        assert_int_equal(strncmp(err.text, "config.json: ", 13), 0);
        json_decref(root);
    }
}

// The rotation tables hold so many pairs; a wider rotation needs wider heads first.
static void is_a_rotation_past_the_tables_refused(void **state) {
    (void)state;
    struct lf_topology t;
    struct lf_error err;
    json_t *root = load("models/demo/config.json");
    change(root, T "head_dim", "4096");
    change(root, T "index_head_dim", "4096");
    change(root, T "qk_rope_head_dim", "2048");
    assert_int_equal(parse(&t, root, &err), LF_OK);
    change(root, T "qk_rope_head_dim", "2050");
    assert_int_equal(parse(&t, root, &err), LF_E_UNSUPPORTED);
    assert_non_null(strstr(err.text, "qk_rope_head_dim 2050"));
    json_decref(root);
}

// 2.2: a missing required field; these are the ones that nothing here uses.
static void does_every_missing_field_name_itself(void **state) {
    (void)state;
    static const char *const unused[] = {
        "attention_dropout", "initializer_range", "use_cache", "rope_scaling"};
    json_t *whole = load("models/demo/config.json");
    const char *key;
    json_t *value;
    size_t checked = 0;
    json_object_foreach(json_object_get(whole, "text_config"), key, value) {
        bool skip = false;
        for (size_t i = 0; i < sizeof unused / sizeof *unused; i++)
            skip |= strcmp(unused[i], key) == 0;
        struct lf_topology t;
        struct lf_error err;
        char expected[128];
        json_t *root = json_deep_copy(whole);
        json_object_del(json_object_get(root, "text_config"), key);
        snprintf(expected, sizeof expected, "config.json: text_config.%s is missing", key);
        enum lf_status status = parse(&t, root, &err);
        assert_int_equal(status, skip ? LF_OK : LF_E_MISSING);
        if (!skip)
            assert_string_equal(err.text, expected);
        checked += !skip;
        json_decref(root);
    }
    assert_int_equal(checked, 55);
    json_decref(whole);
}

static void does_the_release_configuration_parse(void **state) {
    (void)state;
    struct lf_topology t;
    struct lf_error err = LF_ERROR_INIT;
    json_t *root = load("tests/data/config.json");
    if (parse(&t, root, &err) != LF_OK)
        fail_msg("%s", err.text);
    assert_int_equal(t.layers, 40);
    assert_int_equal(t.experts, 384);
    assert_int_equal(t.engram_rows[1], 384016682);
    assert_int_equal(t.n_index_sources, 8);
    // The sharing table of model.md 1.
    assert_int_equal(t.kv_source[1], -1);
    assert_int_equal(t.kv_source[13], 8);
    assert_int_equal(t.kv_source[39], 20);
    assert_int_equal(t.index_source[23], 20);
    assert_int_equal(t.index_source[31], 28);
    assert_int_equal(t.index_source[39], 36);
    assert_true(t.has_quantization && t.has_vision && t.vision_layers == 32);
    json_decref(root);
}

// checkpoint.md 10: the file's own hash.
static void is_the_hash_that_of_the_file(void **state) {
    (void)state;
    char path[4096], text[4096];
    snprintf(path, sizeof path, "%s/tests/data/config.json", env_value("LF_SOURCE_ROOT"));
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    size_t len = fread(text, 1, sizeof text, file);
    fclose(file);
    assert_int_equal(len, 3311);
    struct lf_topology t;
    struct lf_error err = LF_ERROR_INIT;
    assert_int_equal(lf_topology_parse(&t, text, len, "config.json", &err), LF_OK);
    assert_string_equal(t.config_sha256,
                        "8be45ce0476004a3f529fd896115a4a2e800a129ad2d3ec05b16050f52e21879");
}

static void do_legal_variants_parse(void **state) {
    (void)state;
    struct lf_topology t;
    struct lf_error err;
    json_t *root = load("models/demo/config.json");
    // Integers where reals are expected, and unknown fields.
    change(root, T "swiglu_limit", "10");
    change(root, T "rope_theta", "10000.5");
    change(root, T "unknown", "{}");
    // No drafter: its fields may be missing.
    change(root, T "num_nextn_predict_layers", "0");
    change(root, T "dspark_block_size", NULL);
    change(root, T "dspark_target_layer_ids", NULL);
    // Only the backbone's ratios, no scaling, no tower, no quantization.
    change(root, T "compress_ratios", "[0, 0, 2, 2, 2, 1, 1, 1]");
    change(root, T "rope_scaling", "null");
    change(root, "vision_config", NULL);
    change(root, "quantization_config", NULL);
    if (parse(&t, root, &err) != LF_OK)
        fail_msg("%s", err.text);
    assert_true(t.swiglu_limit == 10.0f && t.rope_theta == 10000.5);
    assert_true(!t.rope_scaling.present && !t.has_vision && !t.has_quantization);
    assert_int_equal(t.draft_layers, 0);
    json_decref(root);
}

// 1.1 rule 1: the top level itself may be the text configuration.
static void does_a_text_only_configuration_parse(void **state) {
    (void)state;
    struct lf_topology t;
    struct lf_error err;
    json_t *whole = load("models/demo/config.json");
    json_t *root = json_deep_copy(json_object_get(whole, "text_config"));
    static const char *const ids[] = {"bos_token_id", "eos_token_id", "pad_token_id"};
    for (int i = 0; i < 3; i++)
        json_object_set(root, ids[i], json_object_get(whole, ids[i]));
    if (parse(&t, root, &err) != LF_OK)
        fail_msg("%s", err.text);
    assert_int_equal(t.image_id, UINT32_MAX);
    json_decref(root);
    json_decref(whole);
}

static void is_bad_json_refused_with_its_byte(void **state) {
    (void)state;
    static const struct {
        const char *text, *expected;
        enum lf_status status;
    } bad[] = {
        {"", "not JSON", LF_E_JSON},
        {"{\"a\":1,\"a\":2}", "duplicate", LF_E_JSON},
        {"{\"a\":1} x", "not JSON at byte", LF_E_JSON},
        {"[1]", "expected a JSON object", LF_E_JSON},
        {"{\"a\":\"\xc3\"}", "byte 6 is not UTF-8", LF_E_JSON},
        {"{\"model_type\":[\n\"}", "not JSON", LF_E_JSON},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct lf_topology t;
        struct lf_error err = LF_ERROR_INIT;
        assert_int_equal(lf_topology_parse(&t, bad[i].text, strlen(bad[i].text), "c", &err),
                         bad[i].status);
        assert_non_null(strstr(err.text, bad[i].expected));
        assert_null(strchr(err.text, '\n'));
    }
    char *large = calloc(1, (1 << 20) + 1);
    struct lf_topology t;
    struct lf_error err = LF_ERROR_INIT;
    assert_int_equal(lf_topology_parse(&t, large, (1 << 20) + 1, "c", &err), LF_E_TOO_LARGE);
    free(large);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(does_every_bad_field_name_itself),
        cmocka_unit_test(is_a_rotation_past_the_tables_refused),
        cmocka_unit_test(does_every_missing_field_name_itself),
        cmocka_unit_test(does_the_release_configuration_parse),
        cmocka_unit_test(is_the_hash_that_of_the_file),
        cmocka_unit_test(do_legal_variants_parse),
        cmocka_unit_test(does_a_text_only_configuration_parse),
        cmocka_unit_test(is_bad_json_refused_with_its_byte),
    };
    return cmocka_run_group_tests_name("topology", tests, NULL, NULL);
}
