// Do arena, buffer and ids keep what they are given and survive impossible sizes?
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>
#include "base/arena.h"
#include "base/buffer.h"

static void arena_memory_is_zeroed_aligned_and_apart(void **state) {
    struct lf_arena arena = {0};
    unsigned char *piece[300];
    size_t size[300];
    (void)state;
    for (size_t i = 0; i < 300; i++) {
        size[i] = i % 50 == 49 ? 200000 + i : 1 + i * 7;
        piece[i] = lf_arena_alloc(&arena, size[i], 1);
        assert_non_null(piece[i]);
        assert_int_equal((uintptr_t)piece[i] % 64, 0);
        for (size_t k = 0; k < size[i]; k++)
            assert_int_equal(piece[i][k], 0);
        memset(piece[i], (int)(i % 255) + 1, size[i]);
    }
    for (size_t i = 0; i < 300; i++)
        for (size_t k = 0; k < size[i]; k++)
            assert_int_equal(piece[i][k], i % 255 + 1);
    lf_arena_free(&arena);
    assert_null(arena.last);
}

static void arena_refuses_sizes_that_overflow(void **state) {
    struct lf_arena arena = {0};
    (void)state;
    assert_null(lf_arena_alloc(&arena, SIZE_MAX, 1));
    assert_null(lf_arena_alloc(&arena, SIZE_MAX / 2, 3));
    assert_null(lf_arena_alloc(&arena, (size_t)1 << 33, (size_t)1 << 33));
    assert_null(lf_arena_copy(&arena, "x", SIZE_MAX));
    assert_null(arena.last);
}

static void arena_copies_end_with_a_zero(void **state) {
    struct lf_arena arena = {0};
    (void)state;
    assert_string_equal(lf_arena_copy(&arena, "abcdef", 3), "abc");
    assert_string_equal(lf_arena_copy(&arena, NULL, 0), "");
    lf_arena_free(&arena);
}

static void buffer_holds_all_bytes_and_a_zero_after_them(void **state) {
    struct lf_buffer buffer = {0};
    (void)state;
    for (int i = 0; i < 5000; i++) {
        char c = (char)i;
        lf_buffer_add(&buffer, &c, 1);
        assert_int_equal(buffer.data[buffer.len], 0);
    }
    assert_int_equal(buffer.len, 5000);
    for (int i = 0; i < 5000; i++)
        assert_int_equal(buffer.data[i], (char)i);
    lf_buffer_clear(&buffer);
    lf_buffer_printf(&buffer, "%d-%s", 12, "ab");
    lf_buffer_add_text(&buffer, "!");
    assert_string_equal(buffer.data, "12-ab!");
    lf_buffer_printf(&buffer, "%0500d", 7);
    assert_int_equal(buffer.len, 506);
    lf_buffer_free(&buffer);
    assert_null(buffer.data);
}

static void failed_growth_is_remembered_and_keeps_the_content(void **state) {
    struct lf_buffer buffer = {0};
    struct lf_ids ids = {0};
    uint32_t one = 1;
    (void)state;
    lf_buffer_add_text(&buffer, "kept");
    lf_buffer_add(&buffer, "", SIZE_MAX);
    assert_true(buffer.failed);
    lf_buffer_add_text(&buffer, "lost");
    assert_string_equal(buffer.data, "kept");
    lf_buffer_clear(&buffer);
    assert_false(buffer.failed);
    lf_ids_add(&ids, 5);
    lf_ids_add_all(&ids, &one, SIZE_MAX);
    assert_true(ids.failed);
    lf_ids_add(&ids, 6);
    assert_int_equal(ids.len, 1);
    lf_ids_clear(&ids);
    assert_false(ids.failed);
    lf_ids_add_all(&ids, NULL, 0);
    assert_int_equal(ids.len, 0);
    lf_buffer_free(&buffer);
    lf_ids_free(&ids);
}

static void ids_are_kept_in_order(void **state) {
    struct lf_ids ids = {0};
    uint32_t three[] = {7, 8, 9};
    (void)state;
    for (uint32_t i = 0; i < 1000; i++)
        lf_ids_add(&ids, i);
    lf_ids_add_all(&ids, three, 3);
    assert_int_equal(ids.len, 1003);
    for (uint32_t i = 0; i < 1000; i++)
        assert_int_equal(ids.id[i], i);
    assert_memory_equal(ids.id + 1000, three, sizeof three);
    lf_ids_free(&ids);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(arena_memory_is_zeroed_aligned_and_apart),
        cmocka_unit_test(arena_refuses_sizes_that_overflow),
        cmocka_unit_test(arena_copies_end_with_a_zero),
        cmocka_unit_test(buffer_holds_all_bytes_and_a_zero_after_them),
        cmocka_unit_test(failed_growth_is_remembered_and_keeps_the_content),
        cmocka_unit_test(ids_are_kept_in_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
