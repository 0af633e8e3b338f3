// The model over the CUDA column that the host plays, in memory that only launches may touch.
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include "apart.h"
#include "cuda/host/host_cuda.h"
#include "device/cuda.h"
#include "kernel/cuda_table.h"
#include "golden.h"
#include "told.h"

// More than a window, and more entries than are selected.
enum { PROMPT = 90 };

static struct lf_demo demo;

static int open_all(void **state) {
    (void)state;
    lf_demo_open(&demo);
    return 0;
}

static int close_all(void **state) {
    (void)state;
    lf_demo_close(&demo);
    return 0;
}

// What a launch does before it waits for those ahead faults where it reads what they may write.
static void does_the_column_tell_what_the_cpu_tells_where_its_own_sums_are_the_cpus(void **state) {
    static struct lf_told here, there;
    struct lf_model_options options = {.slots = 2, .context = LF_TOLD_CONTEXT, .chunk_rows = 128,
                                       .threads = 2};
    struct lf_error err = LF_ERROR_INIT;
    struct lf_target *cpu = lf_demo_target(&demo, &options);
    options.memory = lf_apart_open();
    struct lf_target *column = lf_demo_target(&demo, &options);
    struct lf_v41 *m = (struct lf_v41 *)column;
    (void)state;
    assert_int_equal(lf_cuda_open(&m->device.cuda, 0, &err), LF_OK);
    lf_apart_watch(m);
    lf_apart_wrap(&m->k);
    struct lf_kernels wrapped = m->k;
    m->k = lf_cuda_kernels;
    m->k.linear = wrapped.linear;
    m->k.attention = wrapped.attention;
    host_cuda.wait = lf_apart_enter, host_cuda.leave = lf_apart_leave;
    lf_tell(cpu, PROMPT, &here);
    lf_tell(column, PROMPT, &there);
    lf_told_same(&here, &there);
    host_cuda.wait = host_cuda.leave = NULL;
    lf_cuda_close(m->device.cuda);
    column->ops->close(column);
    cpu->ops->close(cpu);
    lf_apart_close();
}

static void must(enum lf_status status, const struct lf_error *err) {
    if (status != LF_OK)
        fail_msg("%s", err->text);
}

// Its own linear maps too, which read their weights there early: a prompt, rounds, and graphs.
static void does_the_column_leave_weights_to_its_launches(void **state) {
    static const struct lf_sampling rule = {0};
    static const uint32_t ids[3] = {5, 6, 7};
    struct lf_model_device device = {.kernels = &lf_cuda_kernels, .memory = lf_apart_open(),
                                     .arithmetic = LF_CUDA_ARITHMETIC, .name = "played"};
    struct lf_model_options options = {.slots = 1, .context = 64, .chunk_rows = 64, .threads = 1,
                                       .device = &device};
    struct lf_bound end = {.at = 3, .logits = true};
    struct lf_chunk chunk = {.rows = 3, .tok = ids, .plan = &end, .n_plan = 1};
    struct lf_error err = LF_ERROR_INIT;
    uint32_t drawn = 9, pending, kept = 1;
    (void)state;
    device.aside = device.memory;
    must(lf_cuda_open(&device.cuda, 0, &err), &err);
    struct lf_target *t = lf_demo_target(&demo, &options);
    lf_apart_watch((struct lf_v41 *)t);
    host_cuda.enter = lf_apart_enter, host_cuda.leave = lf_apart_leave;
    must(t->ops->grow(t, 0, 64, &err), &err);
    must(t->ops->prefill(t, &chunk, 1, &err), &err);
    for (uint64_t i = 0; i < 3; i++) {
        pending = drawn;
        struct lf_draft draft;
        struct lf_draft_ask ask = {.slot = 0, .pending = pending, .rule = &rule};
        struct lf_window w = {.rows = 1, .pos0 = 3 + i, .tok = &pending, .rule = &rule};
        must(t->drafter->propose(t, &ask, 1, &draft, &err), &err);
        must(t->ops->verify(t, &w, 1, &drawn, &err), &err);
        must(t->ops->keep(t, &w, &kept, 1, &err), &err);
    }
    assert_true(host_cuda.graphs > 0);
    host_cuda.enter = host_cuda.leave = NULL;
    t->ops->close(t);
    lf_cuda_close(device.cuda);
    lf_apart_close();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(does_the_column_leave_weights_to_its_launches),
        cmocka_unit_test(does_the_column_tell_what_the_cpu_tells_where_its_own_sums_are_the_cpus),
    };
    return cmocka_run_group_tests(tests, open_all, close_all);
}
