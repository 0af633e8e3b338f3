// Does a timed wait end when it should, and neither before nor never?
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include "base/clock.h"

struct gate {
    pthread_mutex_t lock;
    pthread_cond_t opened;
    bool open;
};

static void *open_gate(void *arg) {
    struct gate *gate = arg;
    pthread_mutex_lock(&gate->lock);
    gate->open = true;
    pthread_cond_signal(&gate->opened);
    pthread_mutex_unlock(&gate->lock);
    return NULL;
}

static void does_a_wait_end_at_its_time(void **state) {
    (void)state;
    struct gate gate = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, false};
    static const double waits[] = {-1e300, -5, 0, 0.001, 0.05, 0.9999999999};
    pthread_mutex_lock(&gate.lock);
    for (size_t i = 0; i < sizeof waits / sizeof *waits; i++) {
        double start = lf_clock_s(), until = start + waits[i];
        while (lf_clock_wait(&gate.opened, &gate.lock, until))
            assert_true(lf_clock_s() < start + 60);
        assert_true(lf_clock_s() >= until);
    }
    pthread_mutex_unlock(&gate.lock);
}

static void does_a_signal_end_a_wait_of_any_length(void **state) {
    (void)state;
    static const double waits[] = {60, 1e15, INFINITY};
    for (size_t i = 0; i < sizeof waits / sizeof *waits; i++) {
        struct gate gate = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, false};
        pthread_t thread;
        pthread_mutex_lock(&gate.lock);
        assert_int_equal(pthread_create(&thread, NULL, open_gate, &gate), 0);
        while (!gate.open)
            assert_true(lf_clock_wait(&gate.opened, &gate.lock, lf_clock_s() + waits[i]));
        pthread_mutex_unlock(&gate.lock);
        pthread_join(thread, NULL);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(does_a_wait_end_at_its_time),
        cmocka_unit_test(does_a_signal_end_a_wait_of_any_length),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
