#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "folder.h"
#include "format/checkpoint.h"

#define SHARD(n) "model-0000" #n "-of-00005.safetensors"
static const char index_file[] = "model.safetensors.index.json";

// Opens a folder that must be refused with a sentence holding all expected parts.
static void refuse(const struct folder *folder, enum lf_status status, const char *expected,
                   const char *also) {
    struct lf_checkpoint *c = NULL;
    struct lf_error err = LF_ERROR_INIT;
    enum lf_status found = lf_checkpoint_open(&c, folder->path, &err);
    if (found == LF_OK)
        fail_msg("opened, expected \"%s\"", expected);
    assert_null(c);
    if (!strstr(err.text, expected) || (also && !strstr(err.text, also)))
        fail_msg("expected \"%s\" and \"%s\", got \"%s\"", expected, also ? also : "", err.text);
    assert_int_equal(found, status);
}

static struct lf_checkpoint *accept(const struct folder *folder) {
    struct lf_checkpoint *c = NULL;
    struct lf_error err = LF_ERROR_INIT;
    if (lf_checkpoint_open(&c, folder->path, &err) != LF_OK)
        fail_msg("%s", err.text);
    return c;
}

// Files whose bytes were cut or grown: caught at open, not at first use.
static void is_a_shard_of_the_wrong_length_refused(void **state) {
    (void)state;
    static const struct {
        const char *file, *expected;
        long change;
    } cuts[] = {
        {SHARD(5), "the data, which has", -1},
        {SHARD(1), "the data, which has", -1},
        {SHARD(2), "the tensors end at byte", 1},
        {SHARD(4), "does not fit in the file's 100", 100},
        {SHARD(4), "too short for a safetensors file", 7},
    };
    for (size_t i = 0; i < sizeof cuts / sizeof *cuts; i++) {
        struct folder folder = folder_demo();
        size_t len;
        uint8_t *bytes = folder_read(&folder, cuts[i].file, &len);
        size_t cut = cuts[i].change > 1 ? (size_t)cuts[i].change : len + (size_t)cuts[i].change;
        folder_write(&folder, cuts[i].file, bytes, cut);
        refuse(&folder, LF_E_FORMAT, cuts[i].expected, cuts[i].file);
        free(bytes);
        folder_free(&folder);
    }
}

static void is_an_oversized_header_refused(void **state) {
    (void)state;
    static const uint64_t headers[] = {1ull << 63, UINT64_MAX - 7, 100000001, 99999999};
    struct folder folder = folder_demo();
    size_t len;
    uint8_t *bytes = folder_read(&folder, SHARD(3), &len);
    for (size_t i = 0; i < 4; i++) {
        memcpy(bytes, &headers[i], 8);
        folder_write(&folder, SHARD(3), bytes, len);
        refuse(&folder, LF_E_FORMAT, "a header of", SHARD(3));
    }
    free(bytes);
    folder_free(&folder);
}

// One tensor set, replaced or removed in one shard of the demo.
static const struct edit {
    const char *file, *name, *dtype; // dtype NULL: removed
    size_t rank;
    uint64_t shape[2];
    size_t bytes;
    const char *expected, *also;
    enum lf_status status;
} edits[] = {
    {SHARD(1), "layers.0.attn.attn_sink", NULL, 0, {0}, 0,
     "tensor layers.0.attn.attn_sink: the index places it in", "does not have it", LF_E_MISSING},
    {SHARD(1), "layers.0.attn.attn_sink", "F64", 1, {4}, 32,
     "tensor layers.0.attn.attn_sink: expected F32, BF16 or F16 [4]", "has F64 [4]", LF_E_FORMAT},
    {SHARD(1), "layers.0.attn.attn_sink", "F32", 1, {8}, 32, "[4], file " SHARD(1), "has F32 [8]",
     LF_E_FORMAT},
    {SHARD(1), "layers.0.attn_norm.weight", "I16", 1, {256}, 512,
     "layers.0.attn_norm.weight: expected BF16, F16 or F32 [256]", "has I16", LF_E_FORMAT},
    {SHARD(1), "layers.0.attn.wq_a.weight", "F8_E4M3", 2, {128, 255}, 128 * 255,
     "layers.0.attn.wq_a.weight: expected F8_E4M3 [128, 256]", "[128, 255]", LF_E_FORMAT},
    {SHARD(1), "layers.0.attn.wq_a.weight", "I16", 2, {128, 256}, 65536,
     "layers.0.attn.wq_a.weight: expected F8_E4M3, I8, BF16, F16 or F32", "has I16",
     LF_E_UNSUPPORTED},
    {SHARD(1), "layers.0.attn.wq_a.weight", "BF16", 2, {128, 256}, 65536,
     "layers.0.attn.wq_a.scale: a scale beside a weight of BF16", NULL, LF_E_FORMAT},
    {SHARD(1), "layers.0.attn.wq_a.scale", NULL, 0, {0}, 0,
     "layers.0.attn.wq_a.scale: the index places it in", NULL, LF_E_MISSING},
    {SHARD(1), "layers.0.attn.wq_b.scale", "F8_E8M0", 2, {2, 1}, 2,
     "layers.0.attn.wq_b.scale", "of 128 x 128 blocks, expected 32 x 32: [8, 4]", LF_E_FORMAT},
    {SHARD(1), "layers.0.attn.wq_a.scale", "F8_E8M0", 2, {4, 7}, 28,
     "layers.0.attn.wq_a.scale: expected F8_E8M0 or U8 [4, 8]", "[4, 7]", LF_E_FORMAT},
    {SHARD(1), "layers.0.attn.wq_a.scale", "F32", 2, {4, 8}, 128,
     "layers.0.attn.wq_a.scale: expected F8_E8M0 or U8", "has F32", LF_E_FORMAT},
    {SHARD(1), "layers.0.ffn.experts.3.w2.scale", NULL, 0, {0}, 0,
     "layers.0.ffn.experts.3.w2.scale: the index places it in", NULL, LF_E_MISSING},
    {SHARD(1), "layers.0.ffn.experts.3.w2.scale", "F8_E8M0", 2, {8, 3}, 24,
     "layers.0.ffn.experts.3.w2.scale: expected F8_E8M0 or U8 [256, 3]", "[8, 3]", LF_E_FORMAT},
    {SHARD(1), "layers.0.ffn.experts.3.w2.weight", "I8", 2, {256, 96}, 256 * 96,
     "layers.0.ffn.experts.3.w2.weight: expected I8 [256, 48]", "[256, 96]", LF_E_FORMAT},
    {SHARD(1), "layers.0.ffn.gate.weight", "F8_E4M3", 2, {16, 256}, 4096,
     "tensor layers.0.ffn.gate.scale is missing from", NULL, LF_E_MISSING},
    {SHARD(1), "layers.3.attn.wq_a.bias", "BF16", 1, {128}, 256,
     "tensor layers.3.attn.wq_a.bias", "would change its result", LF_E_FORMAT},
    {SHARD(1), "model.layers.0.self_attn.q_proj.weight", "BF16", 1, {1}, 2,
     "tensor model.layers.0.self_attn.q_proj.weight", "Transformers", LF_E_UNSUPPORTED},
    {SHARD(1), "layers.0.attn.wq_a.trellis", "I16", 1, {1}, 2, "tensor layers.0.attn.wq_a.trellis",
     "EXL3 format, which is not supported yet", LF_E_UNSUPPORTED},
    {SHARD(4), "layers.1.engram.embed.weight", "F8_E4M3", 2, {19589, 32}, 19589 * 32,
     "layers.1.engram.embed.weight: expected F8_E4M3 [19590, 32]", "[19589, 32]", LF_E_FORMAT},
    {SHARD(4), "layers.1.engram.embed.scale", "F8_E8M0", 2, {613, 1}, 613,
     "layers.1.engram.embed.scale: expected F8_E8M0 or U8 [19590, 1]", "[613, 1]", LF_E_FORMAT},
    {SHARD(4), "layers.1.engram.embed.scale", NULL, 0, {0}, 0,
     "layers.1.engram.embed.scale: the index places it in", NULL, LF_E_MISSING},
    {SHARD(2), "mtp.1.ffn.gate.weight", NULL, 0, {0}, 0, "draft tensors (mtp.*)",
     "mtp.1.ffn.gate first", LF_E_MISSING},
    {SHARD(3), "vision.norm.weight", NULL, 0, {0}, 0, "image tensors (vision.*",
     "vision.norm.weight first", LF_E_MISSING},
};

static void is_every_bad_tensor_refused_by_name(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof edits / sizeof *edits; i++) {
        const struct edit *e = &edits[i];
        struct folder folder = folder_demo();
        struct parts parts = parts_read(&folder, e->file);
        if (e->dtype)
            parts_set(&parts, e->name, e->dtype, e->rank, e->shape, NULL, e->bytes);
        else
            parts_remove(&parts, e->name);
        parts_write(&parts, &folder, e->file, 0);
        refuse(&folder, e->status, e->expected, e->also);
        parts_free(&parts);
        folder_free(&folder);
    }
}

// 1.1 rule 6.
static void is_a_configuration_that_denies_its_tensors_refused(void **state) {
    (void)state;
    static const struct {
        const char *field, *value, *expected;
    } changes[] = {
        {"weight_block_size", "[128, 128]", "quantization_config.weight_block_size must be [32"},
        {"weight_block_size", "[32]", "quantization_config.weight_block_size must be [32, 32]"},
        {"weight_block_size", NULL, "quantization_config.weight_block_size must be [32, 32]"},
        {"scale_fmt", "\"float\"", "quantization_config.scale_fmt must be ue8m0"},
        {"expert_dtype", "\"fp8\"", "quantization_config.expert_dtype must be fp4"},
    };
    for (size_t i = 0; i <= sizeof changes / sizeof *changes; i++) {
        struct folder folder = folder_demo();
        json_t *config = folder_json(&folder, "config.json");
        json_t *quant = json_object_get(config, "quantization_config");
        bool all = i == sizeof changes / sizeof *changes;
        if (all)
            json_object_del(config, "quantization_config");
        else if (!changes[i].value)
            json_object_del(quant, changes[i].field);
        else
            json_object_set_new(quant, changes[i].field, json_loads(changes[i].value, 0, NULL));
        if (!all && changes[i].value && changes[i].value[0] == '"')
            json_object_set_new(quant, changes[i].field,
                                json_loads(changes[i].value, JSON_DECODE_ANY, NULL));
        folder_write_json(&folder, "config.json", config);
        refuse(&folder, all ? LF_E_MISSING : LF_E_VALUE,
               all ? "quantization_config is missing" : changes[i].expected, NULL);
        folder_free(&folder);
    }
}

// The output groups are cut out of wo_a: their rows must start on a tile.
static void is_an_fp8_group_of_broken_tiles_refused(void **state) {
    (void)state;
    struct folder folder = folder_demo();
    json_t *config = folder_json(&folder, "config.json");
    json_object_set_new(json_object_get(config, "text_config"), "o_lora_rank", json_integer(48));
    folder_write_json(&folder, "config.json", config);
    struct parts parts = parts_read(&folder, SHARD(1));
    const uint64_t weight[] = {96, 128}, scale[] = {3, 4};
    parts_set(&parts, "layers.0.attn.wo_a.weight", "F8_E4M3", 2, weight, NULL, 96 * 128);
    parts_set(&parts, "layers.0.attn.wo_a.scale", "F8_E8M0", 2, scale, NULL, 12);
    parts_write(&parts, &folder, SHARD(1), 0);
    refuse(&folder, LF_E_VALUE, "o_lora_rank 48 is not a multiple of 32", "layers.0.attn.wo_a");
    parts_free(&parts);
    folder_free(&folder);
}

static void is_a_missing_shard_reported_with_its_tensors(void **state) {
    (void)state;
    struct folder folder = folder_demo();
    char expected[256];
    folder_remove(&folder, SHARD(2));
    snprintf(expected, sizeof expected, "run: hf download REPOSITORY %s --local-dir %s", SHARD(2),
             folder.path);
    refuse(&folder, LF_E_MISSING, SHARD(2) " is missing (1 of 5 files, 761 tensors lost)",
           expected);
    folder_remove(&folder, SHARD(1));
    refuse(&folder, LF_E_MISSING, SHARD(1) " is missing (2 of 5 files, 1281 tensors lost)", NULL);
    folder_free(&folder);
}

// Partial folders: 4.2 (tables from elsewhere) and 7.2 (only the tables).
static void may_tables_and_the_tower_live_elsewhere(void **state) {
    (void)state;
    struct folder folder = folder_demo();
    struct lf_checkpoint_summary s;
    struct lf_engram_table table;
    struct lf_error err = LF_ERROR_INIT;
    folder_remove(&folder, SHARD(4));
    struct lf_checkpoint *c = accept(&folder);
    lf_checkpoint_summary(c, &s);
    assert_true(!s.has_engram_tables && s.files_missing == 1);
    assert_int_equal(lf_checkpoint_engram(c, &table, 4, &err), LF_OK);
    assert_int_equal(lf_checkpoint_engram(c, &table, 1, &err), LF_E_MISSING);
    assert_non_null(strstr(err.text, SHARD(4) ", which is missing"));
    lf_checkpoint_close(c);
    folder_free(&folder);

    folder = folder_demo();
    folder_remove(&folder, SHARD(1));
    folder_remove(&folder, SHARD(2));
    folder_remove(&folder, SHARD(3));
    err = (struct lf_error)LF_ERROR_INIT;
    if (lf_checkpoint_open_tables(&c, folder.path, &err) != LF_OK)
        fail_msg("%s", err.text);
    assert_int_equal(lf_checkpoint_engram(c, &table, 1, &err), LF_OK);
    assert_int_equal(table.rows, 19590);
    lf_checkpoint_close(c);
    folder_remove(&folder, SHARD(5));
    assert_int_equal(lf_checkpoint_open_tables(&c, folder.path, &err), LF_E_MISSING);
    folder_free(&folder);
}

static void does_an_index_need_every_wanted_tensor(void **state) {
    (void)state;
    struct folder folder = folder_demo();
    // Not in the map, but in a file that is open: taken from there (8.2).
    json_t *index = folder_json(&folder, index_file);
    json_object_del(json_object_get(index, "weight_map"), "norm.weight");
    folder_write_json(&folder, index_file, index);
    lf_checkpoint_close(accept(&folder));
    // In the map, but in another file.
    index = folder_json(&folder, index_file);
    json_object_set_new(json_object_get(index, "weight_map"), "norm.weight",
                        json_string(SHARD(4)));
    folder_write_json(&folder, index_file, index);
    refuse(&folder, LF_E_MISSING, "tensor norm.weight: the index places it in " SHARD(4), NULL);
    index = folder_json(&folder, index_file);
    json_object_set_new(json_object_get(index, "weight_map"), "norm.weight",
                        json_string("../" SHARD(1)));
    folder_write_json(&folder, index_file, index);
    refuse(&folder, LF_E_FORMAT, "norm.weight in a path, not a plain file name", index_file);
    folder_free(&folder);
}

static void does_a_folder_without_index_open_all_files(void **state) {
    (void)state;
    struct folder folder = folder_demo();
    struct lf_checkpoint_summary s;
    folder_remove(&folder, index_file);
    struct lf_checkpoint *c = accept(&folder);
    lf_checkpoint_summary(c, &s);
    assert_true(!s.indexed && s.tensors == 1308 && s.files == 5);
    lf_checkpoint_close(c);
    // Without a map a tensor in two files is an error.
    size_t len;
    uint8_t *bytes = folder_read(&folder, SHARD(4), &len);
    folder_write(&folder, "more.safetensors", bytes, len);
    refuse(&folder, LF_E_FORMAT, "is in both " SHARD(4) " and more.safetensors", NULL);
    free(bytes);
    folder_remove(&folder, "more.safetensors");
    folder_remove(&folder, SHARD(2));
    refuse(&folder, LF_E_MISSING, "tensor head.weight is missing from ", NULL);
    folder_free(&folder);
}

static void does_one_file_hold_a_whole_checkpoint(void **state) {
    (void)state;
    struct folder folder = folder_demo();
    struct parts all = {0};
    struct lf_checkpoint_summary s;
    for (int i = 1; i <= 5; i++) {
        char name[64];
        snprintf(name, sizeof name, "model-0000%d-of-00005.safetensors", i);
        struct parts parts = parts_read(&folder, name);
        for (size_t k = 0; k < parts.n; k++) {
            const struct parts_tensor *t = &parts.tensor[k];
            parts_set(&all, t->name, t->dtype, t->rank, t->shape, t->data, t->bytes);
        }
        parts_free(&parts);
    }
    folder_remove(&folder, index_file);
    parts_write(&all, &folder, "model.safetensors", 0);
    parts_free(&all);
    struct lf_checkpoint *c = accept(&folder);
    lf_checkpoint_summary(c, &s);
    assert_true(s.files == 1 && s.tensors == 1308 && s.has_vision);
    lf_checkpoint_close(c);
    folder_free(&folder);
}

static void do_drafts_and_the_tower_go_as_a_whole(void **state) {
    (void)state;
    struct folder folder = folder_demo();
    struct lf_checkpoint_summary s;
    folder_remove(&folder, index_file);
    for (int i = 1; i <= 3; i++) {
        char name[64];
        snprintf(name, sizeof name, "model-0000%d-of-00005.safetensors", i);
        struct parts parts = parts_read(&folder, name);
        for (size_t k = parts.n; k-- > 0;) {
            const char *t = parts.tensor[k].name;
            if (strncmp(t, "mtp.", 4) == 0 || strncmp(t, "vision.", 7) == 0 ||
                strncmp(t, "aligner.", 8) == 0 || strncmp(t, "image_", 6) == 0 ||
                strstr(t, ".bias_vl"))
                parts_remove(&parts, t);
        }
        uint64_t shape[1] = {3};
        parts_set(&parts, i == 1 ? "extra.thing" : i == 2 ? "extra.other" : "x", "U8", 1, shape,
                  NULL, 3);
        parts_write(&parts, &folder, name, 0);
        parts_free(&parts);
    }
    struct lf_checkpoint *c = accept(&folder);
    lf_checkpoint_summary(c, &s);
    assert_true(!s.has_drafts && !s.has_vision && s.has_engram_tables);
    assert_int_equal(s.bias_vl_missing, 8);
    assert_string_equal(s.bias_vl_missing_name[7], "layers.7.ffn.gate.bias_vl");
    assert_int_equal(s.ignored, 3);
    assert_string_equal(s.ignored_name[0], "extra.other");
    assert_string_equal(s.ignored_name[2], "x");
    lf_checkpoint_close(c);
    folder_free(&folder);
}

static void are_other_formats_refused_by_name(void **state) {
    (void)state;
    struct folder folder = folder_empty();
    refuse(&folder, LF_E_MISSING, "has no config.json", NULL);
    folder_write(&folder, "model.gguf", "GGUF", 4);
    refuse(&folder, LF_E_UNSUPPORTED, "GGUF", "deepseek-ai/DeepSeek-V4.1-Flash");
    folder_free(&folder);
    folder = folder_demo();
    for (int i = 1; i <= 5; i++) {
        char name[64];
        snprintf(name, sizeof name, "model-0000%d-of-00005.safetensors", i);
        folder_remove(&folder, name);
    }
    refuse(&folder, LF_E_MISSING, "5 of 5 files", NULL);
    folder_remove(&folder, index_file);
    refuse(&folder, LF_E_MISSING, "has neither model.safetensors.index.json nor any", NULL);
    folder_write(&folder, "model.gguf", "GGUF", 4);
    refuse(&folder, LF_E_UNSUPPORTED, "GGUF", NULL);
    folder_free(&folder);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(is_a_shard_of_the_wrong_length_refused),
        cmocka_unit_test(is_an_oversized_header_refused),
        cmocka_unit_test(is_every_bad_tensor_refused_by_name),
        cmocka_unit_test(is_a_configuration_that_denies_its_tensors_refused),
        cmocka_unit_test(is_an_fp8_group_of_broken_tiles_refused),
        cmocka_unit_test(is_a_missing_shard_reported_with_its_tensors),
        cmocka_unit_test(may_tables_and_the_tower_live_elsewhere),
        cmocka_unit_test(does_an_index_need_every_wanted_tensor),
        cmocka_unit_test(does_a_folder_without_index_open_all_files),
        cmocka_unit_test(does_one_file_hold_a_whole_checkpoint),
        cmocka_unit_test(do_drafts_and_the_tower_go_as_a_whole),
        cmocka_unit_test(are_other_formats_refused_by_name),
    };
    return cmocka_run_group_tests_name("folder", tests, NULL, NULL);
}
