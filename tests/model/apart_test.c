// The model with all numbers in memory that only kernels and device/memory.h may touch.
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>
#include "apart.h"
#include "golden.h"
#include "told.h"

enum { PROMPT = 300 };

static struct lf_demo demo;
static struct lf_target *target[2]; // the host's memory, and apart

static int open_all(void **state) {
    struct lf_model_options options = {.slots = 2, .context = LF_TOLD_CONTEXT, .chunk_rows = 128,
                                       .threads = 2};
    (void)state;
    lf_demo_open(&demo);
    target[0] = lf_demo_target(&demo, &options);
    options.memory = lf_apart_open();
    target[1] = lf_demo_target(&demo, &options);
    lf_apart_watch((struct lf_v41 *)target[1]);
    lf_apart_wrap(&((struct lf_v41 *)target[1])->k);
    return 0;
}

static int close_all(void **state) {
    (void)state;
    target[0]->ops->close(target[0]);
    target[1]->ops->close(target[1]);
    lf_apart_close();
    lf_demo_close(&demo);
    return 0;
}

static void a_model_in_memory_apart_tells_the_same(void **state) {
    static struct lf_told here, there;
    (void)state;
    lf_tell(target[0], PROMPT, &here);
    lf_tell(target[1], PROMPT, &there);
    lf_told_same(&here, &there);
}

// Without this the test above would show nothing.
static void the_host_faults_where_it_touches_a_number(void **state) {
    int status;
    (void)state;
    pid_t child = fork();
    assert_true(child >= 0);
    if (!child) {
        signal(SIGSEGV, SIG_DFL);
        _exit(((struct lf_v41 *)target[1])->state[0].last[0] == 0.0f);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_model_in_memory_apart_tells_the_same),
        cmocka_unit_test(the_host_faults_where_it_touches_a_number),
    };
    return cmocka_run_group_tests(tests, open_all, close_all);
}
