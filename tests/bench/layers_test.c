// What does `bench layers` take for a kind, and are its counts and made-up caches right?
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "base/buffer.h"
#include "base/file.h"
#include "bench/kernel_times.h"
#include "bench/layer_kinds.h"
#include "bench/made_up_state.h"
#include "env.h"
#include "kernel/cache_row.h"
#include "lane/session.h"

static void release(struct lf_topology *t) {
    char path[4096];
    struct lf_buffer text = {0};
    struct lf_error err = LF_ERROR_INIT;
    snprintf(path, sizeof path, "%s/tests/data/config.json", env_value("LF_SOURCE_ROOT"));
    assert_int_equal(lf_file_read(&text, path, 1 << 20, &err), LF_OK);
    assert_int_equal(lf_topology_parse(t, text.data, text.len, path, &err), LF_OK);
    lf_buffer_free(&text);
}

static void which_kinds_has_the_release_and_how_many_of_each(void **state) {
    (void)state;
    static const struct {
        const char *name;
        uint32_t first, layers;
    } expected[] = {
        {"window", 0, 1}, {"window-engram", 1, 1}, {"ratio2-source", 2, 2}, {"ratio2", 3, 15},
        {"ratio2-source-engram", 14, 1}, {"ratio1-source-candidates", 20, 1}, {"ratio1", 21, 15},
        {"ratio1-index-restricted", 24, 4},
    };
    struct lf_topology t;
    struct lf_layer_kind kind[LF_KINDS];
    release(&t);
    assert_int_equal(lf_layer_kinds(&t, kind), sizeof expected / sizeof *expected);
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++) {
        char name[48];
        lf_layer_kind_name(kind[i].kind, name, sizeof name);
        assert_string_equal(name, expected[i].name);
        assert_int_equal(kind[i].first, expected[i].first);
        assert_int_equal(kind[i].layers, expected[i].layers);
    }
}

static void which_layers_does_a_layer_read(void **state) {
    (void)state;
    static const uint32_t expected[][4] = {{0, 0, 0, 0}, {3, 2, 3, 3}, {20, 20, 20, 20},
                                           {21, 20, 21, 21}, {24, 20, 24, 24}, {27, 20, 24, 27}};
    struct lf_topology t;
    release(&t);
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++) {
        bool needed[LF_LAYERS_MAX] = {false}, wanted[LF_LAYERS_MAX] = {false};
        lf_layer_needs(&t, expected[i][0], needed);
        for (int j = 0; j < 4; j++)
            wanted[expected[i][j]] = true;
        assert_memory_equal(needed, wanted, sizeof needed);
    }
}

static void does_a_timed_table_count_calls_operations_and_bytes(void **state) {
    (void)state;
    enum { ROWS = 3, OUT = 64, IN = 32 };
    static uint8_t weights[OUT * IN], scales[OUT / 32];
    static uint16_t x[ROWS * IN], y[ROWS * OUT];
    struct lf_matrix w = {LF_WEIGHT_FP8, OUT, IN, weights, scales, false};
    struct lf_linear_job job[2] = {
        {.w = &w, .rows = ROWS, .x = x, .x_stride = IN, .y = y, .y_stride = OUT},
        {.w = &w, .rows = 0, .x = x, .x_stride = IN, .y = y, .y_stride = OUT},
    };
    struct lf_linear_args args = {.n_jobs = 2, .job = job};
    struct lf_kernels kernels;
    struct lf_kernel_times times = {.wall = true};
    struct lf_error err = LF_ERROR_INIT;
    struct lf_device device = {0};
    assert_int_equal(lf_kernels_init(&kernels, LF_ISA_PORTABLE, &err), LF_OK);
    assert_int_equal(lf_pool_open(&device.pool, 1, LF_LINEAR_SCRATCH_BYTES, &err), LF_OK);
    struct lf_kernels plain = kernels;
    lf_kernel_times_begin(&times, &kernels);
    kernels.linear(&device, &args);
    kernels.linear(&device, &args);
    lf_kernel_times_end(&times);
    kernels.linear(&device, &args);
    lf_pool_close(device.pool);
    const struct lf_kernel_time *linear = &times.kernel[LF_TIMED_linear];
    assert_int_equal(linear->calls, 2);
    assert_true(linear->seconds > 0);
    assert_true(linear->operations == 2 * 2.0 * ROWS * OUT * IN);
    assert_true(linear->bytes == 2 * (OUT * IN + OUT / 32 + ROWS * (2 * IN + 2 * OUT)));
    assert_int_equal(times.kernel[LF_TIMED_attention].calls, 0);
    assert_memory_equal(&plain, &kernels, sizeof plain);
}

static bool all_finite(const float *value, uint32_t n) {
    for (uint32_t i = 0; i < n; i++)
        if (!isfinite(value[i]))
            return false;
    return true;
}

static void are_made_up_caches_full_of_valid_rows(void **state) {
    (void)state;
    enum { POSITIONS = 701, DIM_MAX = 512 };
    struct lf_error err = LF_ERROR_INIT;
    struct lf_session session = {0};
    struct lf_engine_options options = {.parallel = 1, .context = 1024, .threads = 1};
    struct lf_target *target;
    float value[DIM_MAX];
    char demo[4096];
    snprintf(demo, sizeof demo, "%s/models/demo", env_value("LF_SOURCE_ROOT"));
    assert_int_equal(lf_session_plan(&session, demo, &options, &err), LF_OK);
    assert_int_equal(lf_session_load(&session, "auto", &target, &err), LF_OK);
    struct lf_v41 *m = (struct lf_v41 *)target;
    const struct lf_topology *t = m->t;
    assert_int_equal(lf_state_make_up(m, POSITIONS, 1, &err), LF_OK);
    for (uint32_t s = 0; s < t->n_kv_sources; s++) {
        const uint8_t *before = NULL;
        for (uint64_t j = 0; j < POSITIONS / t->ratio[t->kv_sources[s]]; j++) {
            const uint8_t *row = lf_paged_row(&m->state[0].entry[s], j, m->shape.entry_bytes);
            lf_qf4s_widen(value, row, t->head_dim);
            assert_true(all_finite(value, t->head_dim));
            assert_true(!before || memcmp(before, row, m->shape.entry_bytes));
            before = row;
            lf_qf4e_widen(value, lf_paged_row(&m->state[0].key[s], j, m->shape.key_bytes),
                          t->index_dim);
            assert_true(all_finite(value, t->index_dim));
        }
    }
    for (uint32_t l = 0; l < m->shape.rings; l++)
        for (uint32_t r = 0; r < m->shape.ring_rows; r++) {
            lf_qa8_widen(value, m->state[0].ring[l] + (size_t)r * m->shape.window_bytes,
                         t->head_dim);
            assert_true(all_finite(value, t->head_dim) && value[0] != 0.0f);
        }
    target->ops->close(target);
    lf_session_close(&session);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(which_kinds_has_the_release_and_how_many_of_each),
        cmocka_unit_test(which_layers_does_a_layer_read),
        cmocka_unit_test(does_a_timed_table_count_calls_operations_and_bytes),
        cmocka_unit_test(are_made_up_caches_full_of_valid_rows),
    };
    return cmocka_run_group_tests_name("layers", tests, NULL, NULL);
}
