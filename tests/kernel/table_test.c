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
    static const char *const names[] = {"auto", "portable", "avx2"};
    static const char *const wrong[] = {"", "AVX2", "avx", "avx512", "auto "};
    for (enum lf_isa isa = LF_ISA_AUTO; isa <= LF_ISA_AVX2; isa++) {
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
        assert_non_null(strstr(err.text, "expected auto, portable or avx2"));
    }
}

static void portable_fills_every_pointer(void **state) {
    (void)state;
    struct lf_kernels kernels;
    struct lf_error err = LF_ERROR_INIT;
    memset(&kernels, 0, sizeof kernels);
    assert_int_equal(lf_kernels_init(&kernels, LF_ISA_PORTABLE, &err), LF_OK);
#define LF_KERNEL(name) assert_ptr_equal(kernels.name, lf_##name##_portable);
#include "kernel/registry.def"
#undef LF_KERNEL
}

static void auto_is_the_best_set_and_a_set_the_processor_lacks_is_refused(void **state) {
    (void)state;
    struct lf_kernels best, avx2;
    struct lf_error err = LF_ERROR_INIT;
    assert_int_equal(lf_kernels_init(&best, LF_ISA_AUTO, &err), LF_OK);
    enum lf_status status = lf_kernels_init(&avx2, LF_ISA_AVX2, &err);
    if (lf_isa_best() < LF_ISA_AVX2) {
        assert_int_equal(status, LF_E_UNSUPPORTED);
        assert_non_null(strstr(err.text, "avx2"));
        assert_ptr_equal(best.linear, lf_linear_portable);
        return;
    }
    assert_int_equal(status, LF_OK);
#ifdef __x86_64__
#define LF_KERNEL(name)                                                                            \
    assert_ptr_equal(avx2.name, lf_##name##_avx2);                                                 \
    assert_ptr_equal(best.name, lf_##name##_avx2);
#include "kernel/registry.def"
#undef LF_KERNEL
#endif
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_are_read_back_and_anything_else_is_refused),
        cmocka_unit_test(portable_fills_every_pointer),
        cmocka_unit_test(auto_is_the_best_set_and_a_set_the_processor_lacks_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
