#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "base/number.h"
#include "env.h"
#include "format/checkpoint.h"
#include "format/inventory.h"

static struct lf_checkpoint *open_demo(void) {
    char folder[4096];
    struct lf_checkpoint *checkpoint;
    struct lf_error err = LF_ERROR_INIT;
    snprintf(folder, sizeof folder, "%s/models/demo", env_value("LF_SOURCE_ROOT"));
    if (lf_checkpoint_open(&checkpoint, folder, &err) != LF_OK)
        fail_msg("%s", err.text);
    return checkpoint;
}

static void does_the_demo_open_with_its_topology(void **state) {
    (void)state;
    struct lf_checkpoint *c = open_demo();
    const struct lf_topology *t = lf_checkpoint_topology(c);
    static const int16_t kv[] = {-1, -1, 2, 2, 2, 5, 5, 5};
    static const int16_t index[] = {-1, -1, 2, 2, 2, 5, 5, 7};
    assert_int_equal(t->layers, 8);
    assert_int_equal(t->draft_layers, 3);
    assert_int_equal(t->hidden, 256);
    assert_int_equal(t->image_id, 2292);
    assert_int_equal(t->engram_rows[1], 20752);
    assert_true(t->norm_eps == 1e-20f && t->route_scale == 1.5f && t->hc_eps == 1e-6f);
    assert_true(t->rope_theta == 10000.0 && t->rope_scaling.present);
    assert_int_equal(t->rope_scaling.original_positions, 256);
    for (int i = 0; i < 8; i++) {
        assert_int_equal(t->kv_source[i], kv[i]);
        assert_int_equal(t->index_source[i], index[i]);
    }
    assert_int_equal(strlen(t->config_sha256), 64);
    lf_checkpoint_close(c);
}

// Through the list of wanted tensors: none may be left that no function fetches.
static void does_every_tensor_fetch(void **state) {
    (void)state;
    struct lf_checkpoint *c = open_demo();
    struct lf_arena arena = {0};
    struct lf_inventory inventory;
    struct lf_error err = LF_ERROR_INIT;
    size_t fetched = 0;
    enum lf_status built = lf_inventory_build(&inventory, &arena, lf_checkpoint_topology(c), &err);
    assert_int_equal(built, LF_OK);
    for (size_t i = 0; i < inventory.n; i++) {
        const struct lf_wanted *w = &inventory.wanted[i];
        const float *f32 = NULL;
        const uint16_t *bf16 = NULL;
        struct lf_matrix m = {0};
        struct lf_engram_table table = {0};
        uint32_t layer;
        if (w->kind == LF_WANT_F32)
            assert_int_equal(lf_checkpoint_f32(c, &f32, w->name, w->rank, w->shape, &err), LF_OK);
        else if (w->kind == LF_WANT_BF16)
            assert_int_equal(lf_checkpoint_bf16(c, &bf16, w->name, w->rank, w->shape, &err), LF_OK);
        else if (w->kind == LF_WANT_TABLE && sscanf(w->name, "layers.%u.", &layer) == 1)
            assert_int_equal(lf_checkpoint_engram(c, &table, layer, &err), LF_OK);
        else if (w->kind != LF_WANT_PRESENT)
            assert_int_equal(lf_checkpoint_matrix(c, &m, w->name, (uint32_t)w->shape[0],
                                                  (uint32_t)w->shape[1], &err),
                             LF_OK);
        assert_true((uintptr_t)f32 % 4 == 0 && (uintptr_t)bf16 % 2 == 0);
        assert_true(w->kind == LF_WANT_PRESENT || f32 || bf16 || m.data || table.value);
        fetched++;
    }
    // A scale is fetched with its weight.
    struct lf_checkpoint_summary s;
    lf_checkpoint_summary(c, &s);
    uint64_t scaled = s.linears[LF_WEIGHT_FP8] + s.linears[LF_WEIGHT_MXFP4];
    assert_int_equal(fetched + scaled + 2, s.tensors);
    lf_arena_free(&arena);
    lf_checkpoint_close(c);
}

static void are_linear_formats_those_of_the_tensors(void **state) {
    (void)state;
    struct lf_checkpoint *c = open_demo();
    struct lf_error err = LF_ERROR_INIT;
    struct lf_matrix m;
    assert_int_equal(lf_checkpoint_matrix(c, &m, "layers.0.attn.wq_a", 128, 256, &err), LF_OK);
    assert_int_equal(m.format, LF_WEIGHT_FP8);
    assert_ptr_equal(m.scale, lf_checkpoint_find(c, "layers.0.attn.wq_a.scale")->data);
    assert_int_equal(
        lf_checkpoint_matrix(c, &m, "layers.0.ffn.experts.15.w2", 256, 96, &err), LF_OK);
    assert_int_equal(m.format, LF_WEIGHT_MXFP4);
    assert_int_equal(lf_checkpoint_find(c, "layers.0.ffn.experts.15.w2.weight")->shape[1], 48);
    assert_int_equal(lf_checkpoint_matrix(c, &m, "head", 2304, 256, &err), LF_OK);
    assert_int_equal(m.format, LF_WEIGHT_BF16);
    assert_null(m.scale);
    lf_checkpoint_close(c);
}

static void does_a_wrong_shape_name_both_shapes(void **state) {
    (void)state;
    struct lf_checkpoint *c = open_demo();
    struct lf_error err = LF_ERROR_INIT;
    const float *values;
    const uint64_t shape[] = {17};
    assert_int_equal(lf_checkpoint_f32(c, &values, "layers.0.ffn.gate.bias", 1, shape, &err),
                     LF_E_FORMAT);
    assert_string_equal(err.text, "tensor layers.0.ffn.gate.bias: expected F32, BF16 or F16 [17], "
                                  "file model-00001-of-00005.safetensors has F32 [16]");
    lf_checkpoint_close(c);
}

// checkpoint.md 2.2: no partial tiles on the input side.
static void is_a_quantized_width_that_is_no_multiple_of_32_refused(void **state) {
    (void)state;
    struct lf_checkpoint *c = open_demo();
    static const char *const names[] = {"layers.0.attn.wq_a", "layers.0.ffn.experts.0.w1"};
    for (int i = 0; i < 2; i++) {
        struct lf_error err = LF_ERROR_INIT;
        struct lf_matrix m;
        assert_int_equal(lf_checkpoint_matrix(c, &m, names[i], 128, 250, &err), LF_E_VALUE);
        assert_non_null(strstr(err.text, "an input width of 250 is not a multiple of 32"));
    }
    lf_checkpoint_close(c);
}

static void does_the_summary_count_the_demo(void **state) {
    (void)state;
    struct lf_checkpoint *c = open_demo();
    struct lf_checkpoint_summary s;
    lf_checkpoint_summary(c, &s);
    assert_int_equal(s.tensors, 520 + 761 + 23 + 2 + 2);
    assert_int_equal(s.files, 5);
    assert_int_equal(s.files_missing, 0);
    assert_int_equal(s.ignored, 0);
    assert_int_equal(s.bias_vl_missing, 0);
    assert_int_equal(s.bias_rounded, 0);
    assert_true(s.indexed && s.has_drafts && s.has_vision && s.has_engram_tables);
    assert_int_equal(s.payload_bytes, s.total_claimed);
    uint64_t sum = 0;
    for (int i = 0; i < LF_DTYPES; i++)
        sum += s.dtype_bytes[i];
    assert_int_equal(sum, s.payload_bytes);
    assert_int_equal(s.linears[LF_WEIGHT_MXFP4], 8 * 16 * 3 + 3 * 8 * 3);
    lf_checkpoint_close(c);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(does_the_demo_open_with_its_topology),
        cmocka_unit_test(does_every_tensor_fetch),
        cmocka_unit_test(are_linear_formats_those_of_the_tensors),
        cmocka_unit_test(does_a_wrong_shape_name_both_shapes),
        cmocka_unit_test(is_a_quantized_width_that_is_no_multiple_of_32_refused),
        cmocka_unit_test(does_the_summary_count_the_demo),
    };
    return cmocka_run_group_tests_name("checkpoint", tests, NULL, NULL);
}
