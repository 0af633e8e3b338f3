// Which processor does each worker get, and when is it bound? On topologies that hwloc makes up.
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>
#include "device/placement.h"

// Two packages of two nodes of eight cores of two hardware threads, numbered in that order.
static const char big[] = "package:2 numa:2 core:8 pu:2";

static struct lf_cpus machine(const char *made_up) {
    struct lf_error err = LF_ERROR_INIT;
    struct lf_cpus cpus;
    assert_int_equal(lf_cpus_read(&cpus, made_up, &err), LF_OK);
    cpus.here = true;
    return cpus;
}

static struct lf_placement make(const struct lf_cpus *cpus, uint32_t threads, enum lf_pin pin) {
    struct lf_error err = LF_ERROR_INIT;
    struct lf_placement p;
    assert_int_equal(lf_placement_make(&p, cpus, threads, pin, &err), LF_OK);
    return p;
}

static void check_why(const struct lf_cpus *cpus, uint32_t threads, const char *why) {
    struct lf_placement p = make(cpus, threads, LF_PIN_AUTO);
    assert_string_equal(p.why, why);
    assert_int_equal(p.bound, !*why);
}

static void does_each_worker_get_the_processor_that_shares_least(void **state) {
    (void)state;
    static const uint32_t first[] = {0, 32, 16, 48, 2, 34, 18, 50, 4, 36, 20, 52, 6, 38, 22, 54};
    static const uint32_t threads[] = {1, 4, 16};
    struct lf_cpus cpus = machine(big);
    for (uint32_t t = 0; t < 3; t++) {
        struct lf_placement p = make(&cpus, threads[t], LF_PIN_ON);
        assert_int_equal(p.threads, threads[t]);
        assert_true(p.bound);
        assert_memory_equal(p.cpu, first, threads[t] * sizeof *first);
    }
    lf_cpus_free(&cpus);
}

// Workers on each core and node of a machine like `big`.
static void count(const struct lf_placement *p, uint32_t core[32], uint32_t node[4]) {
    memset(core, 0, 32 * sizeof *core);
    memset(node, 0, 4 * sizeof *node);
    for (uint32_t i = 0; i < p->threads; i++) {
        core[p->cpu[i] / 2]++;
        node[p->cpu[i] / 16]++;
        for (uint32_t k = 0; k < i; k++)
            assert_int_not_equal(p->cpu[i], p->cpu[k]);
    }
}

static void are_siblings_taken_after_all_cores_and_nodes_evenly(void **state) {
    (void)state;
    struct lf_cpus cpus = machine(big);
    for (uint32_t threads = 1; threads <= 64; threads++) {
        uint32_t core[32], node[4];
        struct lf_placement p = make(&cpus, threads, LF_PIN_ON);
        count(&p, core, node);
        for (uint32_t i = 0; i < 32; i++)
            assert_in_range(core[i], threads / 32, (threads + 31) / 32);
        for (uint32_t i = 0; i < 4; i++)
            assert_in_range(node[i], threads / 4, (threads + 3) / 4);
    }
    lf_cpus_free(&cpus);
}

static void are_workers_spread_over_the_caches_of_one_node(void **state) {
    (void)state;
    static const uint32_t places[] = {0, 8, 16, 24, 2};
    struct lf_cpus cpus = machine("package:1 numa:1 l3:4 core:4 pu:2");
    struct lf_placement p = make(&cpus, 5, LF_PIN_ON);
    assert_memory_equal(p.cpu, places, sizeof places);
    assert_int_equal(p.node_mask, 0);
    lf_cpus_free(&cpus);
}

// Of node 1 three cores, of node 2 one hardware thread.
static void is_nothing_outside_the_mask_taken(void **state) {
    (void)state;
    static const uint32_t places[] = {16, 33, 18, 20, 17, 19, 21};
    struct lf_cpus cpus = machine(big);
    for (uint32_t i = 0; i < cpus.n; i++)
        cpus.cpu[i].allowed = (i >= 16 && i < 22) || i == 33;
    struct lf_placement p = make(&cpus, 7, LF_PIN_ON);
    assert_memory_equal(p.cpu, places, sizeof places);
    assert_int_equal(p.cores, 4);
    assert_int_equal(p.nodes, 2);
    assert_int_equal(p.node_mask, 1 << 1 | 1 << 2);
    assert_int_equal(make(&cpus, 0, LF_PIN_AUTO).threads, 4);
    struct lf_error err = LF_ERROR_INIT;
    assert_int_equal(lf_placement_make(&p, &cpus, 8, LF_PIN_ON, &err), LF_E_USAGE);
    assert_string_equal(err.text, "--pin on: 8 threads, this process may use 7 processors");
    lf_cpus_free(&cpus);
}

static void are_the_default_threads_the_cores_within_the_quota(void **state) {
    (void)state;
    struct lf_cpus cpus = machine(big);
    assert_int_equal(make(&cpus, 0, LF_PIN_AUTO).threads, 32);
    assert_int_equal(make(&cpus, 5, LF_PIN_AUTO).threads, 5);
    cpus.quota = 6;
    assert_int_equal(make(&cpus, 0, LF_PIN_AUTO).threads, 6);
    assert_int_equal(make(&cpus, 40, LF_PIN_AUTO).threads, 40);
    cpus.quota = 100;
    assert_int_equal(make(&cpus, 0, LF_PIN_AUTO).threads, 32);
    lf_cpus_free(&cpus);
}

static void is_auto_bound_only_on_a_whole_machine_of_several_nodes(void **state) {
    (void)state;
    struct lf_cpus cpus = machine(big), one = machine("package:1 numa:1 core:8 pu:2");
    check_why(&cpus, 0, "");
    check_why(&cpus, 2, "");
    check_why(&cpus, 1, "one thread");
    check_why(&cpus, 33, "more threads than cores");
    check_why(&one, 0, "one node");
    cpus.quota = 100;
    check_why(&cpus, 0, "the control group limits processor time");
    cpus.quota = 0;
    cpus.cpu[63].allowed = false;
    check_why(&cpus, 0, "some processors are not for this process");
    cpus.cpu[63].allowed = true;
    cpus.here = false;
    check_why(&cpus, 0, "hwloc describes another machine");
    assert_int_equal(make(&cpus, 0, LF_PIN_AUTO).node_mask, 0);
    struct lf_error err = LF_ERROR_INIT;
    struct lf_placement p;
    assert_int_equal(lf_placement_make(&p, &cpus, 2, LF_PIN_ON, &err), LF_E_USAGE);
    lf_cpus_free(&cpus);
    lf_cpus_free(&one);
}

static void is_off_never_bound_and_memory_interleaved_all_the_same(void **state) {
    (void)state;
    struct lf_cpus cpus = machine(big);
    struct lf_placement p = make(&cpus, 4, LF_PIN_OFF);
    assert_false(p.bound);
    assert_int_equal(p.node_mask, 15);
    lf_cpus_free(&cpus);
}

static void does_a_line_say_what_was_chosen(void **state) {
    (void)state;
    struct lf_cpus cpus = machine(big), one = machine("package:1 numa:1 core:1 pu:1");
    struct lf_buffer text = {0};
    struct lf_placement p = make(&cpus, 16, LF_PIN_AUTO);
    lf_placement_print(&text, &p);
    assert_string_equal(text.data,
                        "16 threads, 32 cores, 4 NUMA nodes: bound, memory interleaved");
    lf_buffer_clear(&text);
    p = make(&one, 0, LF_PIN_OFF);
    lf_placement_print(&text, &p);
    assert_string_equal(text.data, "1 thread, 1 core, 1 NUMA node: not bound, as asked");
    lf_buffer_free(&text);
    lf_cpus_free(&cpus);
    lf_cpus_free(&one);
}

static void is_a_machine_without_a_processor_for_us_refused(void **state) {
    (void)state;
    struct lf_cpus cpus = machine("package:1 numa:1 core:2 pu:1");
    struct lf_error err = LF_ERROR_INIT;
    struct lf_placement p;
    cpus.cpu[0].allowed = cpus.cpu[1].allowed = false;
    assert_int_equal(lf_placement_make(&p, &cpus, 0, LF_PIN_AUTO, &err), LF_E_UNSUPPORTED);
    lf_cpus_free(&cpus);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(does_each_worker_get_the_processor_that_shares_least),
        cmocka_unit_test(are_siblings_taken_after_all_cores_and_nodes_evenly),
        cmocka_unit_test(are_workers_spread_over_the_caches_of_one_node),
        cmocka_unit_test(is_nothing_outside_the_mask_taken),
        cmocka_unit_test(are_the_default_threads_the_cores_within_the_quota),
        cmocka_unit_test(is_auto_bound_only_on_a_whole_machine_of_several_nodes),
        cmocka_unit_test(is_off_never_bound_and_memory_interleaved_all_the_same),
        cmocka_unit_test(does_a_line_say_what_was_chosen),
        cmocka_unit_test(is_a_machine_without_a_processor_for_us_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
