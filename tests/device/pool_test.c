// The thread pool: every task once, own scratch, quiet workers, any number of threads.
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include "device/placement.h"
#include "device/pool.h"

static struct lf_pool *open_pool(uint32_t threads, size_t scratch_bytes) {
    struct lf_error err = LF_ERROR_INIT;
    struct lf_pool *pool;
    assert_int_equal(lf_pool_open(&pool, threads, scratch_bytes, &err), LF_OK);
    assert_int_equal(lf_pool_threads(pool), threads);
    return pool;
}

enum { TASKS_MAX = 1000 };
struct counts {
    struct lf_pool *pool;
    uint32_t runs[TASKS_MAX]; // plain: a task taken twice at once is a race that TSan sees
    atomic_uint workers_bad;
    uint64_t sum;
};

static void count_task(void *ctx, uint32_t i, uint32_t worker) {
    struct counts *counts = ctx;
    counts->runs[i]++;
    if (worker >= lf_pool_threads(counts->pool))
        atomic_fetch_add(&counts->workers_bad, 1);
}

static void every_task_runs_exactly_once_for_any_number_of_threads(void **state) {
    (void)state;
    static const uint32_t tasks[] = {0, 1, 2, 3, 7, 64, TASKS_MAX};
    struct counts *counts = calloc(1, sizeof *counts);
    for (uint32_t threads = 1; threads <= 5; threads++) {
        counts->pool = open_pool(threads, 64);
        for (uint32_t round = 0; round < 300; round++) {
            uint32_t n = tasks[round % 7];
            memset(counts->runs, 0, sizeof counts->runs);
            lf_pool_run(counts->pool, n, count_task, counts);
            for (uint32_t i = 0; i < TASKS_MAX; i++)
                assert_int_equal(counts->runs[i], i < n);
        }
        lf_pool_close(counts->pool);
    }
    assert_int_equal(atomic_load(&counts->workers_bad), 0);
    free(counts);
}

// One task waits until all others have run: its worker's other tasks must go elsewhere.
struct held {
    uint32_t tasks, waits; // waits: the task that waits
    atomic_uint done, late;
};

static void hold_task(void *ctx, uint32_t i, uint32_t worker) {
    struct held *held = ctx;
    (void)worker;
    for (uint32_t ms = 0; i == held->waits && atomic_load(&held->done) < held->tasks - 1; ms++) {
        if (ms == 20000) {
            atomic_fetch_add(&held->late, 1);
            return;
        }
        usleep(1000);
    }
    atomic_fetch_add(&held->done, 1);
}

static void others_take_the_tasks_of_a_worker_that_is_held_up(void **state) {
    (void)state;
    static const uint32_t tasks[] = {2, 3, 100, TASKS_MAX};
    for (uint32_t threads = 2; threads <= 5; threads++) {
        struct lf_pool *pool = open_pool(threads, 64);
        for (uint32_t t = 0; t < 4; t++)
            for (uint32_t waits = 0; waits < tasks[t]; waits += tasks[t] / 2) {
                struct held held = {.tasks = tasks[t], .waits = waits};
                lf_pool_run(pool, held.tasks, hold_task, &held);
                assert_int_equal(atomic_load(&held.late), 0);
                assert_int_equal(atomic_load(&held.done), held.tasks);
            }
        lf_pool_close(pool);
    }
}

struct order {
    uint32_t last[2], breaks[2]; // by worker
};

static void order_task(void *ctx, uint32_t i, uint32_t worker) {
    struct order *order = ctx;
    order->breaks[worker] += i != order->last[worker] + 1;
    order->last[worker] = i;
}

// What fetches ahead of task i fetches for task i + 1.
static void a_worker_mostly_runs_tasks_that_follow_each_other(void **state) {
    (void)state;
    struct lf_pool *pool = open_pool(2, 64);
    for (uint32_t round = 0; round < 300; round++) {
        struct order order = {.last = {TASKS_MAX, TASKS_MAX}};
        lf_pool_run(pool, TASKS_MAX, order_task, &order);
        // Each time a worker runs out it takes half of what the other has: ten halvings a worker.
        assert_true(order.breaks[0] + order.breaks[1] <= 22);
    }
    lf_pool_close(pool);
}

static void scratch_task(void *ctx, uint32_t i, uint32_t worker) {
    struct counts *counts = ctx;
    uint32_t *scratch = lf_pool_scratch(counts->pool, worker, 4096);
    for (uint32_t k = 0; k < 1024; k++)
        scratch[k] = i;
    for (uint32_t k = 0; k < 1024; k++)
        if (scratch[k] != i || (uintptr_t)scratch % 64)
            atomic_fetch_add(&counts->workers_bad, 1);
}

static void each_worker_has_aligned_scratch_of_its_own(void **state) {
    (void)state;
    struct counts *counts = calloc(1, sizeof *counts);
    counts->pool = open_pool(4, 4096);
    lf_pool_run(counts->pool, 500, scratch_task, counts);
    assert_int_equal(atomic_load(&counts->workers_bad), 0);
    lf_pool_close(counts->pool);
    free(counts);
}

static void results_are_visible_to_the_caller_after_run(void **state) {
    (void)state;
    struct counts *counts = calloc(1, sizeof *counts);
    counts->pool = open_pool(3, 64);
    for (uint32_t round = 1; round <= 2000; round++) {
        lf_pool_run(counts->pool, 5, count_task, counts);
        for (uint32_t i = 0; i < 5; i++)
            assert_int_equal(counts->runs[i], round);
    }
    lf_pool_close(counts->pool);
    free(counts);
}

static void sleeping_workers_wake_for_the_next_job(void **state) {
    (void)state;
    struct counts *counts = calloc(1, sizeof *counts);
    counts->pool = open_pool(3, 64);
    for (uint32_t round = 1; round <= 5; round++) {
        usleep(20000);
        lf_pool_run(counts->pool, 100, count_task, counts);
        for (uint32_t i = 0; i < 100; i++)
            assert_int_equal(counts->runs[i], round);
    }
    lf_pool_close(counts->pool);
    free(counts);
}

static double process_seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void idle_workers_use_no_processor_time(void **state) {
    (void)state;
    struct counts *counts = calloc(1, sizeof *counts);
    counts->pool = open_pool(4, 64);
    lf_pool_run(counts->pool, 100, count_task, counts);
    usleep(100000);
    double before = process_seconds();
    usleep(300000);
    assert_true(process_seconds() - before < 0.05);
    lf_pool_close(counts->pool);
    free(counts);
}

enum { BUSY_US = 300 };

static void busy_task(void *ctx, uint32_t i, uint32_t worker) {
    struct timespec t;
    int64_t began = -1, now;
    (void)ctx, (void)i, (void)worker;
    do {
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
        now = t.tv_sec * 1000000000LL + t.tv_nsec;
        began = began < 0 ? now : began;
    } while (now - began < BUSY_US * 1000LL);
}

static void processor_time_of_all_workers_is_known_as_soon_as_a_job_ends(void **state) {
    (void)state;
    for (uint32_t threads = 1; threads <= 4; threads++) {
        struct lf_pool *pool = open_pool(threads, 64);
        for (uint32_t round = 0; round < 50; round++) {
            double before = lf_pool_busy_seconds(pool);
            lf_pool_run(pool, 2 * threads, busy_task, NULL);
            double took = lf_pool_busy_seconds(pool) - before;
            assert_true(took >= 2e-6 * threads * BUSY_US);
        }
        lf_pool_close(pool);
    }
}

static void a_pool_closes_whether_used_or_not(void **state) {
    (void)state;
    lf_pool_close(NULL);
    for (uint32_t threads = 1; threads <= 4; threads++)
        lf_pool_close(open_pool(threads, 1));
}

static void scratch_that_memory_cannot_hold_is_refused(void **state) {
    (void)state;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    skip(); // the sanitizers' own allocators end the process instead
#endif
    struct lf_error err = LF_ERROR_INIT;
    struct lf_pool *pool;
    assert_int_equal(lf_pool_open(&pool, 2, (size_t)1 << 60, &err), LF_E_MEM);
    assert_null(pool);
    assert_non_null(strstr(err.text, "scratch"));
}

// Where tasks ran: by worker, the processor and how many its thread may use.
struct seen {
    pthread_t caller;
    atomic_uint wrong, bound;
    const struct lf_placement *at;
};

static void look_task(void *ctx, uint32_t i, uint32_t worker) {
    struct seen *seen = ctx;
    cpu_set_t mask;
    (void)i;
    if (pthread_equal(pthread_self(), seen->caller)) {
        usleep(100); // the others get some
        return;
    }
    atomic_fetch_add(&seen->bound, 1);
    if (sched_getaffinity(0, sizeof mask, &mask) || CPU_COUNT(&mask) != 1 ||
        !CPU_ISSET(seen->at->cpu[worker], &mask))
        atomic_fetch_add(&seen->wrong, 1);
}

static void bound_workers_stay_on_their_processor_and_the_caller_is_free(void **state) {
    (void)state;
    struct lf_error err = LF_ERROR_INIT;
    struct lf_placement one, at;
    struct lf_pool *pool;
    cpu_set_t before, after;
    assert_int_equal(sched_getaffinity(0, sizeof before, &before), 0);
    assert_int_equal(lf_placement_read(&one, 1, LF_PIN_ON, &err), LF_OK);
    // Three on one processor: a machine of one core is enough.
    at = one;
    at.threads = 3;
    at.cpu[1] = at.cpu[2] = one.cpu[0];
    assert_int_equal(lf_pool_open_at(&pool, &at, 64, &err), LF_OK);
    struct seen seen = {.caller = pthread_self(), .at = &at};
    for (uint32_t round = 0; round < 100; round++)
        lf_pool_run(pool, 30, look_task, &seen);
    assert_int_equal(atomic_load(&seen.wrong), 0);
    assert_true(atomic_load(&seen.bound) > 0);
    assert_int_equal(sched_getaffinity(0, sizeof after, &after), 0);
    assert_true(CPU_EQUAL(&before, &after));
    lf_pool_close(pool);
}

static void scratch_holds_nan_before_the_first_job(void **state) {
    (void)state;
    struct lf_pool *pool = open_pool(3, 4096);
    for (uint32_t worker = 0; worker < 3; worker++) {
        const uint8_t *scratch = lf_pool_scratch(pool, worker, 4096);
        for (uint32_t i = 0; i < 4096; i++)
            assert_int_equal(scratch[i], 0xFF);
    }
    lf_pool_close(pool);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_task_runs_exactly_once_for_any_number_of_threads),
        cmocka_unit_test(others_take_the_tasks_of_a_worker_that_is_held_up),
        cmocka_unit_test(a_worker_mostly_runs_tasks_that_follow_each_other),
        cmocka_unit_test(each_worker_has_aligned_scratch_of_its_own),
        cmocka_unit_test(results_are_visible_to_the_caller_after_run),
        cmocka_unit_test(sleeping_workers_wake_for_the_next_job),
        cmocka_unit_test(idle_workers_use_no_processor_time),
        cmocka_unit_test(processor_time_of_all_workers_is_known_as_soon_as_a_job_ends),
        cmocka_unit_test(a_pool_closes_whether_used_or_not),
        cmocka_unit_test(scratch_that_memory_cannot_hold_is_refused),
        cmocka_unit_test(bound_workers_stay_on_their_processor_and_the_caller_is_free),
        cmocka_unit_test(scratch_holds_nan_before_the_first_job),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
