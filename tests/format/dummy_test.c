#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/number.h"
#include "env.h"
#include "folder.h"
#include "format/dummy.h"

static void demo_path(char path[4096]) {
    snprintf(path, 4096, "%s/models/demo", env_value("LF_SOURCE_ROOT"));
}

static struct lf_checkpoint *open_made_up(const char *folder, struct lf_dummy dummy) {
    struct lf_checkpoint *c;
    struct lf_error err = LF_ERROR_INIT;
    if (lf_checkpoint_open_dummy(&c, folder, &dummy, &err) != LF_OK)
        fail_msg("%s", err.text);
    return c;
}

static void refused(const char *folder, struct lf_dummy dummy, const char *words) {
    struct lf_checkpoint *c;
    struct lf_error err = LF_ERROR_INIT;
    assert_int_not_equal(lf_checkpoint_open_dummy(&c, folder, &dummy, &err), LF_OK);
    if (!strstr(err.text, words))
        fail_msg("%s: expected %s", err.text, words);
}

static void fill(struct lf_checkpoint *c, bool backwards) {
    uint32_t parts = lf_dummy_parts(c, true);
    for (uint32_t i = 0; i < parts; i++)
        lf_dummy_fill(c, backwards ? parts - 1 - i : i, 0);
}

// The demo has the release's layout: what is made up for its config must look like its files.
static void are_the_tensors_those_of_a_real_checkpoint(void **state) {
    (void)state;
    char path[4096];
    struct lf_checkpoint *real;
    struct lf_error err = LF_ERROR_INIT;
    uint64_t n;
    demo_path(path);
    assert_int_equal(lf_checkpoint_open(&real, path, &err), LF_OK);
    struct lf_checkpoint *c = open_made_up(path, (struct lf_dummy){.seed = 1});
    const struct lf_tensor *made = lf_dummy_tensors(c, &n);
    for (uint64_t i = 0; i < n; i++) {
        const struct lf_tensor *t = lf_checkpoint_find(real, made[i].name);
        if (!t || t->dtype != made[i].dtype || t->rank != made[i].rank ||
            memcmp(t->shape, made[i].shape, t->rank * sizeof *t->shape))
            fail_msg("%s differs from the file's", made[i].name);
        assert_int_equal(t->bytes, made[i].bytes);
    }
    struct lf_checkpoint_summary a, b;
    lf_checkpoint_summary(real, &a);
    lf_checkpoint_summary(c, &b);
    assert_int_equal(a.text_bytes, b.text_bytes);
    assert_int_equal(a.table_bytes, b.table_bytes);
    assert_int_equal(a.draft_bytes, b.draft_bytes);
    assert_true(b.has_drafts && b.has_engram_tables && !b.has_vision);
    lf_checkpoint_close(c);
    lf_checkpoint_close(real);
}

static void do_values_follow_from_seed_name_and_index_alone(void **state) {
    (void)state;
    char path[4096];
    uint64_t n, same = 0;
    uint32_t first[2] = {0, 1};
    demo_path(path);
    struct lf_checkpoint *a = open_made_up(path, (struct lf_dummy){.seed = 5});
    struct lf_checkpoint *b = open_made_up(path, (struct lf_dummy){5, first, 2, 0, false});
    struct lf_checkpoint *other = open_made_up(path, (struct lf_dummy){.seed = 6});
    fill(a, false);
    fill(b, true);
    fill(other, false);
    const struct lf_tensor *made = lf_dummy_tensors(b, &n);
    for (uint64_t i = 0; i < n; i++) {
        const struct lf_tensor *t = lf_checkpoint_find(a, made[i].name);
        assert_memory_equal(t->data, made[i].data, t->bytes);
        same += !memcmp(t->data, lf_checkpoint_find(other, made[i].name)->data, t->bytes);
    }
    assert_int_equal(same, 0);
    const struct lf_tensor *t = lf_checkpoint_find(a, "layers.0.ffn.experts.3.w1.scale");
    uint8_t part[40];
    lf_dummy_write(t, 5, 16, sizeof part, part);
    assert_memory_equal(part, t->data + 16, sizeof part);
    lf_checkpoint_close(a);
    lf_checkpoint_close(b);
    lf_checkpoint_close(other);
}

// Deviation of a matrix's values, all of which must be finite.
static double deviation(const struct lf_matrix *m) {
    double squares = 0;
    for (uint32_t o = 0; o < m->out; o++)
        for (uint32_t i = 0; i < m->in; i++) {
            size_t at = (size_t)o * m->in + i, group = m->in / 32;
            double v;
            if (m->format == LF_WEIGHT_BF16)
                v = (double)lf_bf16_to_f32(((const uint16_t *)(const void *)m->data)[at]);
            else if (m->format == LF_WEIGHT_FP8)
                v = (double)(lf_e4m3_to_f32(m->data[at]) *
                             lf_ue8m0_to_f32(m->scale[o / 32 * group + i / 32]));
            else
                v = (double)(lf_e2m1_to_f32(m->data[at / 2] >> at % 2 * 4) *
                             lf_ue8m0_to_f32(m->scale[o * group + i / 32]));
            assert_true(isfinite(v));
            squares += v * v;
        }
    return sqrt(squares / m->out / m->in);
}

static void do_maps_keep_the_size_of_what_they_get(void **state) {
    (void)state;
    static const struct {
        const char *name;
        uint32_t out, in;
    } map[] = {{"layers.0.attn.wq_a", 128, 256}, {"layers.1.engram.wkv", 1280, 384},
               {"layers.2.ffn.experts.1.w2", 256, 96}, {"layers.2.ffn.gate", 16, 256},
               {"head", 2304, 256}, {"mtp.1.attn.wo_b", 256, 128}};
    char path[4096];
    struct lf_error err = LF_ERROR_INIT;
    demo_path(path);
    struct lf_checkpoint *c = open_made_up(path, (struct lf_dummy){.seed = 9});
    fill(c, false);
    for (size_t i = 0; i < sizeof map / sizeof *map; i++) {
        struct lf_matrix m;
        assert_int_equal(lf_checkpoint_matrix(c, &m, map[i].name, map[i].out, map[i].in, &err),
                         LF_OK);
        double gain = deviation(&m) * sqrt(map[i].in);
        if (gain < 0.5 || gain > 2.5)
            fail_msg("%s has a gain of %g", map[i].name, gain);
    }
    lf_checkpoint_close(c);
}

static void does_a_cut_keep_sources_tables_and_candidates(void **state) {
    (void)state;
    char path[4096];
    uint32_t some[] = {1, 5, 6, 7}, orphan[] = {0, 3}, wild[] = {0, 8}, twice[] = {2, 2};
    demo_path(path);
    struct lf_checkpoint *c = open_made_up(path, (struct lf_dummy){1, some, 4, 4096, false});
    const struct lf_topology *t = lf_checkpoint_topology(c);
    assert_int_equal(t->layers, 4);
    assert_int_equal(t->ratio[0], 0);
    assert_int_equal(t->ratio[3], 1);
    assert_int_equal(t->kv_source[2], 1);
    assert_int_equal(t->index_source[3], 3);
    assert_int_equal(t->n_kv_sources, 1);
    assert_int_equal(t->candidate_source, 1);
    assert_int_equal(t->n_engram, 1);
    assert_in_range(t->engram_rows[0], 4096, 5000);
    assert_int_equal(t->draft_layers, 3);
    assert_int_equal(t->draft_taps[0], 1);
    lf_checkpoint_close(c);
    c = open_made_up(path, (struct lf_dummy){1, some, 1, 0, false});
    t = lf_checkpoint_topology(c);
    assert_int_equal(t->draft_layers, 0);
    assert_true(t->candidate_source >= t->layers);
    lf_checkpoint_close(c);
    refused(path, (struct lf_dummy){1, orphan, 2, 0, false}, "layer 3 reads the cache of layer 2");
    refused(path, (struct lf_dummy){1, wild, 2, 0, false},
            "layer 8: expected ascending ids of the 8");
    refused(path, (struct lf_dummy){1, twice, 2, 0, false}, "layer 2: expected ascending ids");
    refused(path, (struct lf_dummy){.table_rows = 23}, "expected at least 2 a column");
}

static void are_bad_configurations_refused(void **state) {
    (void)state;
    struct folder folder = folder_empty();
    refused(folder.path, (struct lf_dummy){0}, "has no config.json");
    folder_free(&folder);
    folder = folder_demo();
    json_t *root = folder_json(&folder, "config.json");
    json_t *text = json_object_get(root, "text_config");
    json_object_set_new(text, "vocab_size", json_integer(INT32_MAX));
    json_object_set_new(text, "hidden_size", json_integer(400000000));
    folder_write_json(&folder, "config.json", root);
    refused(folder.path, (struct lf_dummy){0}, "");
    root = folder_json(&folder, "config.json");
    json_object_set_new(json_object_get(root, "quantization_config"), "quant_method",
                        json_string("exl3"));
    folder_write_json(&folder, "config.json", root);
    refused(folder.path, (struct lf_dummy){0}, "config.json says exl3");
    folder_free(&folder);
}

// At the release's sizes: pages that nobody writes take no memory.
static void do_layers_of_a_kind_share_their_tensors_when_asked(void **state) {
    (void)state;
    char path[4096], name[128];
    uint64_t n, shared = 0, own_bytes = 0;
    snprintf(path, sizeof path, "%s/tests/data", env_value("LF_SOURCE_ROOT"));
    struct lf_checkpoint *c = open_made_up(path, (struct lf_dummy){.seed = 1, .table_rows = 4096,
                                                                   .shared = true});
    const struct lf_topology *t = lf_checkpoint_topology(c);
    const struct lf_tensor *made = lf_dummy_tensors(c, &n);
    for (uint64_t i = 0; i < n; i++) {
        uint32_t layer = 0, first = 0;
        bool of_layer = sscanf(made[i].name, "layers.%u.", &layer) == 1;
        while (lf_topology_kind(t, first) != lf_topology_kind(t, layer))
            first++;
        bool twin = of_layer && first != layer;
        assert_int_equal(twin, made[i].shares != NULL);
        own_bytes += twin ? 0 : made[i].bytes;
        if (!twin)
            continue;
        snprintf(name, sizeof name, "layers.%u%s", first, strchr(made[i].name + 7, '.'));
        assert_string_equal(made[i].shares->name, name);
        assert_ptr_equal(made[i].data, made[i].shares->data);
        assert_int_equal(made[i].bytes, made[i].shares->bytes);
        shared++;
    }
    struct lf_checkpoint_summary summary;
    lf_checkpoint_summary(c, &summary);
    assert_true(shared > 0);
    assert_int_equal(summary.payload_bytes, own_bytes);
    lf_checkpoint_close(c);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(are_the_tensors_those_of_a_real_checkpoint),
        cmocka_unit_test(do_values_follow_from_seed_name_and_index_alone),
        cmocka_unit_test(do_maps_keep_the_size_of_what_they_get),
        cmocka_unit_test(does_a_cut_keep_sources_tables_and_candidates),
        cmocka_unit_test(are_bad_configurations_refused),
        cmocka_unit_test(do_layers_of_a_kind_share_their_tensors_when_asked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
