#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <string.h>
#include "base/number.h"
#include "folder.h"
#include "format/checkpoint.h"

#define SHARD1 "model-00001-of-00005.safetensors"

// Opens the demo with the changed parts of its first shard.
static struct lf_checkpoint *open_parts(struct folder *folder, struct parts *parts, size_t pad) {
    struct lf_checkpoint *c;
    struct lf_error err = LF_ERROR_INIT;
    parts_write(parts, folder, SHARD1, pad);
    parts_free(parts);
    if (lf_checkpoint_open(&c, folder->path, &err) != LF_OK)
        fail_msg("%s", err.text);
    return c;
}

static void close_parts(struct folder *folder, struct lf_checkpoint *c) {
    lf_checkpoint_close(c);
    folder_free(folder);
}

// The published bytes of checkpoint.md 5.2 in place of the demo's.
static void are_fp8_weights_the_published_values(void **state) {
    (void)state;
    static const uint8_t row[] = {0xd8, 0x71, 0xf2, 0x79, 0x70, 0x69, 0xf0, 0xe5};
    static const float expected[] = {-0.00390625f, 0.03515625f, -0.0390625f, 0.0703125f,
                                     0.03125f,     0.017578125f, -0.03125f, -0.0126953125f};
    struct folder folder = folder_demo();
    struct parts parts = parts_read(&folder, SHARD1);
    struct lf_error err = LF_ERROR_INIT;
    struct lf_matrix m;
    memcpy(parts_find(&parts, "layers.0.attn.wkv.weight")->data, row, sizeof row);
    parts_find(&parts, "layers.0.attn.wkv.scale")->data[0] = 0x73;
    struct lf_checkpoint *c = open_parts(&folder, &parts, 0);
    assert_int_equal(lf_checkpoint_matrix(c, &m, "layers.0.attn.wkv", 64, 256, &err), LF_OK);
    for (size_t i = 0; i < 8; i++)
        assert_true(lf_e4m3_to_f32(m.data[i]) * lf_ue8m0_to_f32(m.scale[0]) == expected[i]);
    close_parts(&folder, c);
}

// 5.3: the low nibble is the even input.
static void are_mxfp4_weights_the_published_values(void **state) {
    (void)state;
    static const uint8_t row[] = {0xa0, 0xa8, 0xec, 0x4a, 0xad, 0xaf, 0x42, 0xaa};
    static const float expected[] = {
        0,           -0.0078125f, -0.0f,       -0.0078125f, -0.015625f, -0.03125f,
        -0.0078125f, 0.015625f,   -0.0234375f, -0.0078125f, -0.046875f, -0.0078125f,
        0.0078125f,  0.015625f,   -0.0078125f, -0.0078125f};
    struct folder folder = folder_demo();
    struct parts parts = parts_read(&folder, SHARD1);
    struct lf_error err = LF_ERROR_INIT;
    struct lf_matrix m;
    memcpy(parts_find(&parts, "layers.0.ffn.experts.0.w1.weight")->data, row, sizeof row);
    parts_find(&parts, "layers.0.ffn.experts.0.w1.scale")->data[0] = 0x78;
    struct lf_checkpoint *c = open_parts(&folder, &parts, 0);
    assert_int_equal(lf_checkpoint_matrix(c, &m, "layers.0.ffn.experts.0.w1", 96, 256, &err),
                     LF_OK);
    for (size_t i = 0; i < 16; i++) {
        uint8_t code = i % 2 ? m.data[i / 2] >> 4 : m.data[i / 2] & 15;
        float value = lf_e2m1_to_f32(code) * lf_ue8m0_to_f32(m.scale[0]);
        assert_true(value == expected[i] && signbit(value) == signbit(expected[i]));
    }
    close_parts(&folder, c);
}

// 5.1 and 5.3: U8 for E8M0, U8 or F4 for I8.
static void are_the_other_dtypes_of_mxfp4_taken(void **state) {
    (void)state;
    struct folder folder = folder_demo();
    struct parts parts = parts_read(&folder, SHARD1);
    struct lf_error err = LF_ERROR_INIT;
    struct lf_matrix m;
    const char *names[] = {"layers.0.ffn.experts.0.w1", "layers.0.ffn.experts.1.w1"};
    uint8_t first[2];
    const uint64_t packed[] = {96, 128}, whole[] = {96, 256}, scale[] = {96, 8};
    struct parts_tensor *t = parts_find(&parts, "layers.0.ffn.experts.0.w1.weight");
    uint8_t bytes[96 * 128];
    memcpy(bytes, t->data, sizeof bytes);
    first[0] = first[1] = bytes[0];
    parts_set(&parts, "layers.0.ffn.experts.0.w1.weight", "U8", 2, packed, bytes, sizeof bytes);
    parts_set(&parts, "layers.0.ffn.experts.1.w1.weight", "F4", 2, whole, bytes, sizeof bytes);
    parts_set(&parts, "layers.0.ffn.experts.1.w1.scale", "U8", 2, scale, NULL, 96 * 8);
    struct lf_checkpoint *c = open_parts(&folder, &parts, 0);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(lf_checkpoint_matrix(c, &m, names[i], 96, 256, &err), LF_OK);
        assert_int_equal(m.format, LF_WEIGHT_MXFP4);
        assert_int_equal(m.data[0], first[i]);
    }
    close_parts(&folder, c);
}

// 4.2 and 6.1: BF16 and F16 are widened, and the rounded biases are listed.
static void are_values_widened_exactly(void **state) {
    (void)state;
    struct folder folder = folder_demo();
    struct parts parts = parts_read(&folder, SHARD1);
    struct lf_error err = LF_ERROR_INIT;
    struct lf_checkpoint_summary s;
    const uint64_t shape[] = {16}, sink[] = {4}, norm[] = {256};
    uint16_t half[16], narrow[4], norm_half[256];
    float norm_wide[256];
    const float *f32;
    const uint16_t *bf16;
    for (int i = 0; i < 16; i++)
        half[i] = lf_f16_from_f32(0.25f * (float)i - 1);
    for (int i = 0; i < 4; i++)
        narrow[i] = lf_bf16_from_f32(3.0f - (float)i);
    for (int i = 0; i < 256; i++) {
        norm_wide[i] = 1.0f + (float)i / 256;
        norm_wide[i] = lf_bf16_to_f32(lf_bf16_from_f32(norm_wide[i]));
        norm_half[i] = lf_f16_from_f32(norm_wide[i]);
    }
    parts_set(&parts, "layers.0.ffn.gate.bias", "F16", 1, shape, half, sizeof half);
    parts_set(&parts, "layers.0.attn.attn_sink", "BF16", 1, sink, narrow, sizeof narrow);
    parts_set(&parts, "layers.0.attn_norm.weight", "F32", 1, norm, norm_wide, sizeof norm_wide);
    parts_set(&parts, "layers.0.ffn_norm.weight", "F16", 1, norm, norm_half, sizeof norm_half);
    struct lf_checkpoint *c = open_parts(&folder, &parts, 0);
    assert_int_equal(lf_checkpoint_f32(c, &f32, "layers.0.ffn.gate.bias", 1, shape, &err), LF_OK);
    for (int i = 0; i < 16; i++)
        assert_true(f32[i] == 0.25f * (float)i - 1);
    assert_int_equal(lf_checkpoint_f32(c, &f32, "layers.0.attn.attn_sink", 1, sink, &err), LF_OK);
    assert_true(f32[0] == 3 && f32[3] == 0);
    assert_int_equal(lf_checkpoint_bf16(c, &bf16, "layers.0.attn_norm.weight", 1, norm, &err),
                     LF_OK);
    for (int i = 0; i < 256; i++)
        assert_true(lf_bf16_to_f32(bf16[i]) == norm_wide[i]);
    assert_int_equal(lf_checkpoint_bf16(c, &bf16, "layers.0.ffn_norm.weight", 1, norm, &err),
                     LF_OK);
    for (int i = 0; i < 256; i++)
        assert_true(lf_bf16_to_f32(bf16[i]) == norm_wide[i]);
    lf_checkpoint_summary(c, &s);
    assert_int_equal(s.bias_rounded, 1);
    assert_string_equal(s.bias_rounded_name[0], "layers.0.ffn.gate.bias");
    close_parts(&folder, c);
}

static void is_a_value_that_bf16_cannot_hold_refused(void **state) {
    (void)state;
    struct folder folder = folder_demo();
    struct parts parts = parts_read(&folder, SHARD1);
    struct lf_error err = LF_ERROR_INIT;
    const uint64_t norm[] = {256};
    float values[256] = {[200] = 1.001f};
    const uint16_t *bf16;
    parts_set(&parts, "layers.0.attn_norm.weight", "F32", 1, norm, values, sizeof values);
    struct lf_checkpoint *c = open_parts(&folder, &parts, 0);
    assert_int_equal(lf_checkpoint_bf16(c, &bf16, "layers.0.attn_norm.weight", 1, norm, &err),
                     LF_E_VALUE);
    assert_non_null(strstr(err.text, "layers.0.attn_norm.weight: value 200 of file " SHARD1));
    close_parts(&folder, c);
}

// A header of any length: data may start on an odd byte, callers get aligned numbers.
static void are_odd_offsets_copied_to_aligned_numbers(void **state) {
    (void)state;
    const uint64_t sink[] = {4}, norm[] = {256};
    float expected_sink[4];
    uint16_t expected_norm[256];
    for (size_t pad = 0; pad < 5; pad++) {
        struct folder folder = folder_demo();
        struct parts parts = parts_read(&folder, SHARD1);
        struct lf_error err = LF_ERROR_INIT;
        const float *f32;
        const uint16_t *bf16;
        memcpy(expected_sink, parts_find(&parts, "layers.0.attn.attn_sink")->data, 16);
        memcpy(expected_norm, parts_find(&parts, "layers.0.attn_norm.weight")->data, 512);
        struct lf_checkpoint *c = open_parts(&folder, &parts, pad);
        assert_int_equal(lf_checkpoint_f32(c, &f32, "layers.0.attn.attn_sink", 1, sink, &err),
                         LF_OK);
        assert_int_equal(lf_checkpoint_bf16(c, &bf16, "layers.0.attn_norm.weight", 1, norm, &err),
                         LF_OK);
        assert_true((uintptr_t)f32 % 4 == 0 && (uintptr_t)bf16 % 2 == 0);
        assert_memory_equal(f32, expected_sink, 16);
        assert_memory_equal(bf16, expected_norm, 512);
        close_parts(&folder, c);
    }
}

static void do_rows_of_a_matrix_keep_their_scales(void **state) {
    (void)state;
    struct folder folder = folder_demo();
    struct parts parts = parts_read(&folder, SHARD1);
    struct lf_error err = LF_ERROR_INIT;
    struct lf_matrix m;
    struct lf_checkpoint *c = open_parts(&folder, &parts, 0);
    assert_int_equal(lf_checkpoint_matrix(c, &m, "layers.0.attn.wo_a", 128, 128, &err), LF_OK);
    struct lf_matrix part = lf_matrix_rows(&m, 64, 64);
    assert_ptr_equal(part.data, m.data + 64 * 128);
    assert_ptr_equal(part.scale, m.scale + 2 * 4);
    assert_int_equal(part.out, 64);
    assert_int_equal(lf_checkpoint_matrix(c, &m, "layers.0.ffn.experts.0.w1", 96, 256, &err),
                     LF_OK);
    part = lf_matrix_rows(&m, 3, 5);
    assert_ptr_equal(part.data, m.data + 3 * 128);
    assert_ptr_equal(part.scale, m.scale + 3 * 8);
    close_parts(&folder, c);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(are_fp8_weights_the_published_values),
        cmocka_unit_test(are_mxfp4_weights_the_published_values),
        cmocka_unit_test(are_the_other_dtypes_of_mxfp4_taken),
        cmocka_unit_test(are_values_widened_exactly),
        cmocka_unit_test(is_a_value_that_bf16_cannot_hold_refused),
        cmocka_unit_test(are_odd_offsets_copied_to_aligned_numbers),
        cmocka_unit_test(do_rows_of_a_matrix_keep_their_scales),
    };
    return cmocka_run_group_tests_name("fetch", tests, NULL, NULL);
}
