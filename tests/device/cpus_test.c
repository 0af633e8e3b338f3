// What this process may use: the thread's mask, the quota of control groups, made-up machines.
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <sched.h>
#include <string.h>
#include "device/cpus.h"
#include "folder.h"

static struct lf_cpus read_cpus(const char *made_up) {
    struct lf_error err = LF_ERROR_INIT;
    struct lf_cpus cpus;
    assert_int_equal(lf_cpus_read(&cpus, made_up, &err), LF_OK);
    return cpus;
}

static void do_hardware_threads_say_what_they_share(void **state) {
    (void)state;
    struct lf_cpus cpus = read_cpus("package:2 numa:2 l3:2 core:4 pu:2");
    assert_int_equal(cpus.n, 64);
    assert_false(cpus.here);
    assert_int_equal(cpus.quota, 0);
    for (uint32_t i = 0; i < cpus.n; i++) {
        assert_int_equal(cpus.cpu[i].os, i);
        assert_int_equal(cpus.cpu[i].core, i / 2);
        assert_int_equal(cpus.cpu[i].cache, i / 8);
        assert_int_equal(cpus.cpu[i].node, i / 16);
        assert_int_equal(cpus.cpu[i].package, i / 32);
        assert_true(cpus.cpu[i].allowed);
    }
    lf_cpus_free(&cpus);
}

static void are_processors_outside_the_mask_not_allowed(void **state) {
    (void)state;
    cpu_set_t before, one;
    assert_int_equal(sched_getaffinity(0, sizeof before, &before), 0);
    int first = 0;
    while (!CPU_ISSET(first, &before))
        first++;
    CPU_ZERO(&one);
    CPU_SET(first, &one);
    assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
    struct lf_cpus cpus = read_cpus(NULL);
    assert_int_equal(sched_setaffinity(0, sizeof before, &before), 0);
    assert_true(cpus.here);
    for (uint32_t i = 0; i < cpus.n; i++)
        assert_int_equal(cpus.cpu[i].allowed, cpus.cpu[i].os == (uint32_t)first);
    lf_cpus_free(&cpus);
}

static void is_a_topology_that_hwloc_does_not_know_refused(void **state) {
    (void)state;
    struct lf_error err = LF_ERROR_INIT;
    struct lf_cpus cpus;
    assert_int_equal(lf_cpus_read(&cpus, "package:two", &err), LF_E_VALUE);
    assert_non_null(strstr(err.text, "package:two"));
    assert_null(cpus.cpu);
}

static void does_the_least_quota_of_the_groups_bind(void **state) {
    (void)state;
    struct folder root = folder_empty();
    assert_int_equal(lf_cpus_quota(root.path), 0);
    folder_write_below(&root, "proc/self/cgroup", "0::/pod/box\n");
    assert_int_equal(lf_cpus_quota(root.path), 0);
    folder_write_below(&root, "sys/fs/cgroup/pod/box/cpu.max", "max 100000\n");
    assert_int_equal(lf_cpus_quota(root.path), 0);
    folder_write_below(&root, "sys/fs/cgroup/pod/cpu.max", "650000 100000\n");
    assert_int_equal(lf_cpus_quota(root.path), 6);
    folder_write_below(&root, "sys/fs/cgroup/pod/box/cpu.max", "399999 100000\n");
    assert_int_equal(lf_cpus_quota(root.path), 3);
    folder_write_below(&root, "sys/fs/cgroup/cpu.max", "50000 100000\n");
    assert_int_equal(lf_cpus_quota(root.path), 1);
    // What is no pair of numbers limits nothing.
    folder_write_below(&root, "sys/fs/cgroup/cpu.max", "50000\n");
    assert_int_equal(lf_cpus_quota(root.path), 3);
    folder_write_below(&root, "sys/fs/cgroup/cpu.max", "50000 0\n");
    assert_int_equal(lf_cpus_quota(root.path), 3);
    folder_free_all(&root);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(do_hardware_threads_say_what_they_share),
        cmocka_unit_test(are_processors_outside_the_mask_not_allowed),
        cmocka_unit_test(is_a_topology_that_hwloc_does_not_know_refused),
        cmocka_unit_test(does_the_least_quota_of_the_groups_bind),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
