// A wrong kernel of each kind in a copy of the launch table: the tool turns red in the right gate.
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "contract/contract.h"

typedef void wrong_fn(struct lf_device *device, const struct lf_rms_norm_args *args);

// One element off by one spacing.
static void off_by_one(struct lf_device *device, const struct lf_rms_norm_args *a) {
    lf_rms_norm_portable(device, a);
    for (uint32_t row = 0; row < a->rows; row++)
        a->y[row * a->y_stride + 3] += 2;
}

// Later rows depend on the first.
static void sees_first_row(struct lf_device *device, const struct lf_rms_norm_args *a) {
    lf_rms_norm_portable(device, a);
    for (uint32_t row = 1; row < a->rows; row++)
        a->y[row * a->y_stride] ^= a->x[0] & 1;
}

static void counts_threads(struct lf_device *device, const struct lf_rms_norm_args *a) {
    lf_rms_norm_portable(device, a);
    if (a->rows && lf_pool_threads(device->pool) == 7)
        a->y[0] ^= 1;
}

static void counts_launches(struct lf_device *device, const struct lf_rms_norm_args *a) {
    static uint32_t launches;
    lf_rms_norm_portable(device, a);
    if (a->rows && ++launches % 16 == 0)
        a->y[0] ^= 1;
}

static void writes_past(struct lf_device *device, const struct lf_rms_norm_args *a) {
    lf_rms_norm_portable(device, a);
    if (a->rows)
        a->y[(a->rows - 1) * a->y_stride + a->dim] = 0;
}

static void writes_before(struct lf_device *device, const struct lf_rms_norm_args *a) {
    lf_rms_norm_portable(device, a);
    a->y[-1] = 0;
}

static void changes_its_weight(struct lf_device *device, const struct lf_rms_norm_args *a) {
    lf_rms_norm_portable(device, a);
    ((uint8_t *)(uintptr_t)a->w)[0] ^= 1;
}

static void leaves_an_output(struct lf_device *device, const struct lf_rms_norm_args *a) {
    uint16_t held = a->rows ? a->y[1] : 0;
    lf_rms_norm_portable(device, a);
    if (a->rows && a->y != a->x)
        a->y[1] = held;
}

static void hides_nan(struct lf_device *device, const struct lf_rms_norm_args *a) {
    lf_rms_norm_portable(device, a);
    for (uint32_t row = 0; row < a->rows; row++)
        for (uint32_t i = 0; i < a->dim; i++)
            if (a->y[row * a->y_stride + i] == 0x7FC0)
                a->y[row * a->y_stride + i] = 0;
}

// Another NaN than the house's.
static void other_nan(struct lf_device *device, const struct lf_rms_norm_args *a) {
    lf_rms_norm_portable(device, a);
    for (uint32_t row = 0; row < a->rows; row++)
        for (uint32_t i = 0; i < a->dim; i++)
            if (a->y[row * a->y_stride + i] == 0x7FC0)
                a->y[row * a->y_stride + i] = 0xFFC0;
}

// Sanitizers have frames of their own: stack is not measured there.
#ifndef __SANITIZE_ADDRESS__
static void takes_stack(struct lf_device *device, const struct lf_rms_norm_args *a) {
    volatile char deep[65536];
    deep[0] = deep[65535] = 1;
    lf_rms_norm_portable(device, a);
}
#endif

// gate 0: it ended before it could say.
static void check(const char *what, wrong_fn *wrong, enum lf_isa isa, uint32_t gate) {
    static const char *const only[] = {"rms_norm"};
    static struct lf_entry entry[LF_ENTRIES_MAX];
    struct lf_contract_table table;
    struct lf_contract_result result;
    struct lf_contract_options options = lf_contract_defaults();
    struct lf_error err = LF_ERROR_INIT;
    char *text;
    size_t bytes;
    lf_contract_table_fill(&table, entry);
    for (uint32_t i = 0; i < table.entries; i++)
        if (!strcmp(entry[i].name, "rms_norm"))
            entry[i].fn[isa] = (lf_any_fn *)wrong;
    options.only = only, options.n_only = 1;
    options.effort = LF_EFFORT_QUICK;
    options.out = open_memstream(&text, &bytes);
    options.sets = 1u << isa;
    assert_int_equal(lf_contract_run(&table, &options, &result, &err), LF_OK);
    fclose(options.out);
    if (result.failed != 1 || (result.record->outcome.failed & gate) != gate ||
        lf_contract_passed(&result) || !strstr(text, "FAIL rms_norm"))
        fail_msg("%s: gates %#x failed:\n%s", what, result.record->outcome.failed, text);
    lf_contract_free(&result);
    free(text);
}

#define CHECK(wrong, gate) check(#wrong, wrong, LF_ISA_PORTABLE, gate)

static void wrong_values_fail_gate_1(void **state) {
    (void)state;
    CHECK(off_by_one, LF_GATE_BOUND);
}

static void rows_threads_and_launches_that_matter_fail_gate_2(void **state) {
    (void)state;
    CHECK(sees_first_row, LF_GATE_ROWS);
    CHECK(counts_threads, LF_GATE_ROWS);
    CHECK(counts_launches, LF_GATE_ROWS);
}

static void stray_writes_and_outputs_that_stay_fail_gate_3(void **state) {
    (void)state;
    CHECK(writes_past, LF_GATE_MEMORY);
    CHECK(writes_before, LF_GATE_MEMORY);
    CHECK(changes_its_weight, LF_GATE_MEMORY);
    CHECK(leaves_an_output, LF_GATE_MEMORY);
#ifndef __SANITIZE_ADDRESS__
    CHECK(takes_stack, LF_GATE_MEMORY);
#endif
}

static void values_that_are_not_finite_and_do_not_show_fail_gate_4(void **state) {
    (void)state;
    CHECK(hides_nan, LF_GATE_EDGES);
    CHECK(other_nan, LF_GATE_EDGES);
}

// Gate 2 holds every set against portable.
static void a_set_with_other_bits_fails_gate_2(void **state) {
    (void)state;
    if (lf_isa_best() == LF_ISA_PORTABLE)
        skip();
    check("sees_first_row", sees_first_row, lf_isa_best(), LF_GATE_ROWS);
    check("off_by_one", off_by_one, lf_isa_best(), LF_GATE_ROWS);
}

static void crash(struct lf_device *device, const struct lf_rms_norm_args *a) {
    (void)device, (void)a;
    abort();
}

static void a_crash_of_a_served_kernel_is_a_failure_with_a_line(void **state) {
    (void)state;
    check("crash", crash, LF_ISA_PORTABLE, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wrong_values_fail_gate_1),
        cmocka_unit_test(rows_threads_and_launches_that_matter_fail_gate_2),
        cmocka_unit_test(stray_writes_and_outputs_that_stay_fail_gate_3),
        cmocka_unit_test(values_that_are_not_finite_and_do_not_show_fail_gate_4),
        cmocka_unit_test(a_set_with_other_bits_fails_gate_2),
        cmocka_unit_test(a_crash_of_a_served_kernel_is_a_failure_with_a_line),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
