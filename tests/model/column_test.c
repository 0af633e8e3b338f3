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

// A launch's host code runs before enter: it faults where it reads what is the device's.
static void does_the_column_tell_what_the_cpu_tells_where_linear_is_the_cpus(void **state) {
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
    host_cuda.enter = lf_apart_enter, host_cuda.leave = lf_apart_leave;
    lf_tell(cpu, PROMPT, &here);
    lf_tell(column, PROMPT, &there);
    lf_told_same(&here, &there);
    host_cuda.enter = host_cuda.leave = NULL;
    lf_cuda_close(m->device.cuda);
    column->ops->close(column);
    cpu->ops->close(cpu);
    lf_apart_close();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(does_the_column_tell_what_the_cpu_tells_where_linear_is_the_cpus),
    };
    return cmocka_run_group_tests(tests, open_all, close_all);
}
