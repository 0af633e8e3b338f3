// The kernel table: names, refusals, and one pointer of the asked set for every kernel.
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>
#include "kernel/table.h"

static void names_are_read_back_and_anything_else_is_refused(void **state) {
    (void)state;
    static const char *const names[] = {"auto", "portable", "avx2", "avx512", "neon"};
    static const char *const wrong[] = {"", "AVX2", "avx", "avx1024", "auto "};
    for (enum lf_isa isa = LF_ISA_AUTO; isa < LF_ISAS; isa++) {
        struct lf_error err = LF_ERROR_INIT;
        enum lf_isa parsed = LF_ISA_AVX2;
        assert_string_equal(lf_isa_name(isa), names[isa]);
        assert_int_equal(lf_isa_parse(&parsed, names[isa], &err), LF_OK);
        assert_int_equal(parsed, isa);
    }
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct lf_error err = LF_ERROR_INIT;
        enum lf_isa parsed;
        assert_int_equal(lf_isa_parse(&parsed, wrong[i], &err), LF_E_USAGE);
        assert_non_null(strstr(err.text, "expected auto, portable, avx2, avx512 or neon"));
    }
}

static void every_set_fills_every_pointer_with_its_own(void **state) {
    (void)state;
    struct lf_kernels kernels;
    struct lf_error err = LF_ERROR_INIT;
#define LF_KERNEL(name) assert_ptr_equal(kernels.name, lf_##name##_portable);
    memset(&kernels, 0, sizeof kernels);
    assert_int_equal(lf_kernels_init(&kernels, LF_ISA_PORTABLE, &err), LF_OK);
#include "kernel/registry.def"
#undef LF_KERNEL
#ifdef __x86_64__
#define LF_KERNEL(name) assert_ptr_equal(kernels.name, lf_##name##_avx2);
    if (lf_isa_present(LF_ISA_AVX2)) {
        assert_int_equal(lf_kernels_init(&kernels, LF_ISA_AVX2, &err), LF_OK);
#include "kernel/registry.def"
    }
#undef LF_KERNEL
#define LF_KERNEL(name) assert_ptr_equal(kernels.name, lf_##name##_avx512);
    if (lf_isa_present(LF_ISA_AVX512)) {
        assert_int_equal(lf_kernels_init(&kernels, LF_ISA_AVX512, &err), LF_OK);
#include "kernel/registry.def"
    }
#undef LF_KERNEL
#endif
}

static void auto_is_the_widest_set_and_a_set_the_processor_lacks_is_refused(void **state) {
    (void)state;
    struct lf_kernels best, other;
    struct lf_error err = LF_ERROR_INIT;
    assert_int_equal(lf_kernels_init(&best, LF_ISA_AUTO, &err), LF_OK);
    for (enum lf_isa isa = LF_ISA_PORTABLE; isa < LF_ISAS; isa++) {
        err = (struct lf_error)LF_ERROR_INIT;
        enum lf_status status = lf_kernels_init(&other, isa, &err);
        assert_int_equal(status, lf_isa_present(isa) ? LF_OK : LF_E_UNSUPPORTED);
        if (status == LF_OK && isa == lf_isa_best())
            assert_ptr_equal(other.linear, best.linear);
        else if (status != LF_OK)
            assert_non_null(strstr(err.text, lf_isa_name(isa)));
        if (lf_isa_present(isa))
            assert_true(lf_isa_best() >= isa);
    }
    assert_true(lf_isa_present(LF_ISA_PORTABLE));
    assert_false(lf_isa_present(LF_ISA_AUTO));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_are_read_back_and_anything_else_is_refused),
        cmocka_unit_test(every_set_fills_every_pointer_with_its_own),
        cmocka_unit_test(auto_is_the_widest_set_and_a_set_the_processor_lacks_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
