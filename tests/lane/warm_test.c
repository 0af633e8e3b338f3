#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>
#include "fake_target.h"
#include "golden.h"
#include "lane/warm.h"
#include "model/model.h"

// The fake target aborts on a breach of the rules; its slots must be free afterwards.
static void does_warming_keep_the_rules(void **state) {
    (void)state;
    static const struct lf_fake_options cases[] = {
        {.slots = 4, .vocab = 100, .chunk_rows = 64, .context = 256},
        {.slots = 1, .vocab = 100, .chunk_rows = 512, .context = 40},
        {.slots = 3, .vocab = 100, .chunk_rows = 16, .context = 2},
        {.slots = 2, .vocab = 100, .chunk_rows = 16, .context = 1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct lf_error err = LF_ERROR_INIT;
        struct lf_target *t = lf_fake_target_open(&cases[i]);
        assert_int_equal(lf_target_warm(t, &err), LF_OK);
        uint32_t one = 0;
        struct lf_bound end = {.at = 1};
        for (uint32_t s = 0; s < cases[i].slots; s++) {
            struct lf_chunk chunk = {.slot = s, .rows = 1, .tok = &one, .plan = &end, .n_plan = 1};
            assert_int_equal(t->ops->grow(t, s, 1, &err), LF_OK);
            assert_int_equal(t->ops->prefill(t, &chunk, 1, &err), LF_OK);
        }
        t->ops->close(t);
    }
}

static void does_a_failed_launch_end_warming(void **state) {
    (void)state;
    for (uint32_t launch = 1; launch <= 4; launch++) {
        struct lf_fake_options options = {.slots = 2, .vocab = 100, .chunk_rows = 64,
                                          .context = 256, .fail_launch = launch};
        struct lf_error err = LF_ERROR_INIT;
        struct lf_target *t = lf_fake_target_open(&options);
        assert_int_equal(lf_target_warm(t, &err), LF_E_DEVICE);
        t->ops->close(t);
    }
}

// What a warmed model answers is what a fresh one answers.
static void does_warming_leave_no_trace(void **state) {
    (void)state;
    struct lf_demo demo;
    float logits[2][2304];
    uint8_t digest[2][32];
    lf_demo_open(&demo);
    for (int warm = 0; warm < 2; warm++) {
        struct lf_error err = LF_ERROR_INIT;
        struct lf_model_options options = {.slots = 2, .context = 200, .threads = 2};
        struct lf_target *t = lf_demo_target(&demo, &options);
        uint32_t ids[90];
        for (uint32_t i = 0; i < 90; i++)
            ids[i] = 7 + i * 31 % 2000;
        struct lf_bound end = {.at = 90, .logits = true};
        struct lf_chunk chunk = {.slot = 1, .rows = 90, .tok = ids, .plan = &end, .n_plan = 1};
        if (warm)
            assert_int_equal(lf_target_warm(t, &err), LF_OK);
        assert_int_equal(t->ops->grow(t, 1, 90, &err), LF_OK);
        assert_int_equal(t->ops->prefill(t, &chunk, 1, &err), LF_OK);
        assert_int_equal(t->ops->digest(t, 1, digest[warm], &err), LF_OK);
        memcpy(logits[warm], lf_model_logits(t, 1, 0), sizeof logits[warm]);
        t->ops->close(t);
    }
    assert_memory_equal(digest[0], digest[1], sizeof digest[0]);
    assert_memory_equal(logits[0], logits[1], sizeof logits[0]);
    lf_demo_close(&demo);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(does_warming_keep_the_rules),
        cmocka_unit_test(does_a_failed_launch_end_warming),
        cmocka_unit_test(does_warming_leave_no_trace),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
