#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/file.h"
#include "env.h"
#include "folder.h"
#include "lane/budget.h"
#include "model/model.h"

#define GIB (UINT64_C(1) << 30)

static struct lf_topology topology[2]; // the release, the demo

static int read_topologies(void **state) {
    static const char *const names[2] = {"tests/data/config.json", "models/demo/config.json"};
    (void)state;
    for (int i = 0; i < 2; i++) {
        struct lf_error err = LF_ERROR_INIT;
        struct lf_buffer text = {0};
        char path[4096];
        snprintf(path, sizeof path, "%s/%s", env_value("LF_SOURCE_ROOT"), names[i]);
        assert_int_equal(lf_file_read(&text, path, 1 << 20, &err), LF_OK);
        assert_int_equal(lf_topology_parse(&topology[i], text.data, text.len, path, &err), LF_OK);
        lf_buffer_free(&text);
    }
    return 0;
}

static uint64_t need(const struct lf_plan_ask *ask) {
    struct lf_plan plan;
    lf_plan_make(&plan, ask);
    return plan.need;
}

struct config {
    int topology;
    uint32_t slots, chunk_rows;
    uint64_t context, weight_bytes, cache_bytes, draft_bytes;
};

static const struct config configs[] = {
    {0, 4, 512, 1048576, 300 * GIB, 0, 0},       {0, 1, 2048, 1048576, 300 * GIB, 16 * GIB, 0},
    {0, 64, 512, 131072, 300 * GIB, 8 * GIB, 0}, {0, 8, 1024, 65536, 150 * GIB, GIB, 9 * GIB},
    {0, 2, 256, 1000, 300 * GIB, 0, 8 * GIB},    {1, 4, 512, 4096, 16 << 20, 0, 1 << 20},
    {1, 64, 2048, 4096, 16 << 20, 1 << 20, 0},   {1, 1, 300, 77, 16 << 20, 0, 1 << 20},
};
enum { CONFIGS = sizeof configs / sizeof *configs };

static struct lf_plan_ask ask_of(const struct config *c) {
    return (struct lf_plan_ask){.t = &topology[c->topology], .weight_bytes = c->weight_bytes,
                                .drafter = c->draft_bytes > 0, .draft_bytes = c->draft_bytes,
                                .context = c->context, .cache_bytes = c->cache_bytes,
                                .slots = c->slots, .chunk_rows = c->chunk_rows, .threads = 8};
}

// Every value of guidance fits, and the next larger one does not (M-4).
static void check_guidance(const struct lf_plan_ask *ask, uint64_t budget) {
    struct lf_plan_ask with = *ask;
    with.context = lf_budget_context(ask, budget);
    assert_true(with.context == 0 || need(&with) <= budget);
    if (with.context < ask->t->positions_max) {
        with.context++;
        assert_true(need(&with) > budget);
    }
    with = *ask;
    with.slots = lf_budget_parallel(ask, budget);
    assert_true(with.slots == 0 || need(&with) <= budget);
    if (with.slots < ask->slots) {
        with.slots++;
        assert_true(need(&with) > budget);
    }
    with = *ask;
    with.chunk_rows = lf_budget_chunk_rows(ask, budget);
    if (with.chunk_rows) {
        assert_true(with.chunk_rows >= LF_CHUNK_ROWS_MIN && need(&with) <= budget);
        with.chunk_rows *= 2;
        // Asked for as it was, the chunk may fit too.
        assert_true(with.chunk_rows >= ask->chunk_rows - 1 || need(&with) > budget);
    } else if (ask->chunk_rows >= 2 * LF_CHUNK_ROWS_MIN) {
        with.chunk_rows = LF_CHUNK_ROWS_MIN;
        assert_true(need(&with) > budget);
    }
    with = *ask;
    if (lf_budget_cache(&with.cache_bytes, ask, budget)) {
        assert_true(need(&with) <= budget && with.cache_bytes <= ask->cache_bytes);
        with.cache_bytes++;
        assert_true(with.cache_bytes > ask->cache_bytes || need(&with) > budget);
    } else {
        with.cache_bytes = 0;
        assert_true(need(&with) > budget);
    }
}

static void do_guided_values_fit_and_larger_ones_not(void **state) {
    (void)state;
    for (int i = 0; i < CONFIGS; i++) {
        struct lf_plan_ask ask = ask_of(&configs[i]), least = ask;
        least.slots = 1;
        least.context = 1;
        uint64_t whole = need(&ask), base = need(&least);
        for (int step = 0; step <= 20; step++)
            check_guidance(&ask, base + (whole - base) * (uint64_t)step / 20);
        check_guidance(&ask, whole - 1);
        check_guidance(&ask, 0);
        check_guidance(&ask, UINT64_MAX);
        assert_int_equal(lf_budget_context(&ask, UINT64_MAX), ask.t->positions_max);
        assert_int_equal(lf_budget_parallel(&ask, whole), ask.slots);
        assert_int_equal(lf_budget_parallel(&ask, 0), 0);
        assert_int_equal(lf_budget_context(&ask, 0), 0);
    }
}

static int lines_of(const char *text) {
    int lines = 0;
    for (; *text; text++)
        lines += *text == '\n';
    return lines;
}

// The value after flag, 0 when the text does not name it.
static double way_of(const char *text, const char *flag) {
    const char *at = strstr(text, flag);
    return at ? strtod(at + strlen(flag), NULL) : 0;
}

static void are_there_three_ways_out_that_work(void **state) {
    (void)state;
    for (int i = 0; i < CONFIGS; i++) {
        struct lf_plan_ask ask = ask_of(&configs[i]);
        struct lf_buffer text = {0};
        uint64_t budget = need(&ask) - 1;
        lf_budget_print_ways(&text, &ask, budget);
        assert_true(lines_of(text.data) >= 3);
        struct lf_plan_ask with = ask;
        with.context = (uint64_t)way_of(text.data, "--context ");
        assert_int_equal(with.context, lf_budget_context(&ask, budget));
        double limit = way_of(text.data, "--memory-limit-gib ");
        assert_true(limit * (double)GIB >= (double)need(&ask));
        assert_true(limit * (double)GIB <= (double)need(&ask) + (1 << 20));
        with = ask;
        with.drafter = false;
        // One byte is missing: without its weights the drafter is always enough.
        assert_true(!ask.drafter || need(&with) <= budget);
        assert_true(!!strstr(text.data, "--no-drafts: ") == ask.drafter);
        if (strstr(text.data, "--prompt-cache-gib ")) {
            with = ask;
            with.cache_bytes = (uint64_t)(way_of(text.data, "--prompt-cache-gib ") * (double)GIB);
            assert_true(need(&with) <= budget);
        }
        lf_buffer_free(&text);
    }
}

static void is_hopelessness_said_with_what_is_missing(void **state) {
    (void)state;
    struct lf_plan_ask ask = ask_of(&configs[0]);
    struct lf_buffer text = {0};
    lf_budget_print_ways(&text, &ask, 8 * GIB);
    assert_non_null(strstr(text.data, "no smaller --context is enough alone: 29"));
    assert_non_null(strstr(text.data, "no smaller --parallel is enough alone"));
    assert_non_null(strstr(text.data, "no smaller --chunk-rows is enough alone"));
    assert_null(strstr(text.data, "--parallel 1 --chunk-rows"));
    lf_buffer_free(&text);
}

// 100 GiB, 90 of them available.
static const char meminfo[] = "MemTotal:       104857600 kB\nMemFree:         1000000 kB\n"
                              "MemAvailable:   94371840 kB\nBuffers:          512788 kB\n";

static void check_budget(const struct folder *root, const struct lf_budget_flags *flags,
                         uint64_t total, uint64_t available, uint64_t bytes) {
    struct lf_error err = LF_ERROR_INIT;
    struct lf_budget budget;
    assert_int_equal(lf_budget_read(&budget, root->path, flags, &err), LF_OK);
    assert_int_equal(budget.total, total);
    assert_int_equal(budget.available, available);
    assert_in_range(budget.bytes, bytes - 100, bytes); // 3 % is rounded down
}

static void is_the_budget_what_is_available_less_the_reserve(void **state) {
    (void)state;
    struct folder root = folder_empty();
    struct lf_budget_flags none = {0}, reserve = {.reserve_bytes = 10 * GIB},
                           limit = {.limit_bytes = 400 * GIB}, all = {.reserve_bytes = 95 * GIB};
    folder_write_below(&root, "proc/meminfo", meminfo);
    check_budget(&root, &none, 100 * GIB, 90 * GIB, 87 * GIB + 100); // 3 % is above 1 GiB
    check_budget(&root, &reserve, 100 * GIB, 90 * GIB, 80 * GIB);
    check_budget(&root, &limit, 100 * GIB, 90 * GIB, 400 * GIB); // absolute, whatever there is
    struct lf_error err = LF_ERROR_INIT;
    struct lf_budget budget;
    assert_int_equal(lf_budget_read(&budget, root.path, &all, &err), LF_OK);
    assert_int_equal(budget.bytes, 0);
    all.limit_bytes = GIB;
    assert_int_equal(lf_budget_read(&budget, root.path, &all, &err), LF_E_USAGE);
    // A small machine keeps 1 GiB.
    folder_write_below(&root, "proc/meminfo", "MemTotal: 8388608 kB\nMemAvailable: 4194304 kB\n");
    check_budget(&root, &none, 8 * GIB, 4 * GIB, 3 * GIB);
    folder_free_all(&root);
}

static void does_a_control_group_bind(void **state) {
    (void)state;
    struct folder root = folder_empty();
    struct lf_budget_flags none = {0};
    folder_write_below(&root, "proc/meminfo", meminfo);
    folder_write_below(&root, "proc/self/cgroup", "1:name=systemd:/x\n0::/pod/box\n");
    folder_write_below(&root, "sys/fs/cgroup/pod/box/memory.max", "max\n");
    folder_write_below(&root, "sys/fs/cgroup/pod/box/memory.current", "1073741824\n");
    check_budget(&root, &none, 100 * GIB, 90 * GIB, 87 * GIB + 100);
    // A group above limits to 20 GiB; of its 6 GiB in use, 4 are pages of files.
    folder_write_below(&root, "sys/fs/cgroup/pod/memory.max", "21474836480\n");
    folder_write_below(&root, "sys/fs/cgroup/pod/memory.current", "6442450944\n");
    check_budget(&root, &none, 20 * GIB, 14 * GIB, 13 * GIB);
    folder_write_below(&root, "sys/fs/cgroup/pod/memory.stat",
                       "anon 2147483648\nfile 4294967296\n");
    check_budget(&root, &none, 20 * GIB, 18 * GIB, 17 * GIB);
    // The folder of the process binds more than the one above; the top's own limit counts too.
    folder_write_below(&root, "sys/fs/cgroup/pod/box/memory.max", "10737418240\n");
    check_budget(&root, &none, 10 * GIB, 9 * GIB, 8 * GIB);
    folder_write_below(&root, "proc/self/cgroup", "0::/\n");
    folder_write_below(&root, "sys/fs/cgroup/memory.max", "5368709120\n");
    folder_write_below(&root, "sys/fs/cgroup/memory.current", "6368709120\n");
    struct lf_error err = LF_ERROR_INIT;
    struct lf_budget budget;
    assert_int_equal(lf_budget_read(&budget, root.path, &none, &err), LF_OK);
    assert_int_equal(budget.available, 0);
    assert_int_equal(budget.bytes, 0);
    folder_free_all(&root);
}

static void does_an_unreadable_machine_ask_for_a_limit(void **state) {
    (void)state;
    struct folder root = folder_empty();
    struct lf_error err = LF_ERROR_INIT;
    struct lf_budget budget;
    struct lf_budget_flags none = {0}, limit = {.limit_bytes = GIB};
    assert_int_equal(lf_budget_read(&budget, root.path, &none, &err), LF_E_IO);
    assert_non_null(strstr(err.text, "--memory-limit-gib"));
    folder_write_below(&root, "proc/meminfo", "MemTotal: lots\nMemAvailable: 1 kB\n");
    err = (struct lf_error)LF_ERROR_INIT;
    assert_int_equal(lf_budget_read(&budget, root.path, &none, &err), LF_E_IO);
    err = (struct lf_error)LF_ERROR_INIT;
    assert_int_equal(lf_budget_read(&budget, root.path, &limit, &err), LF_OK);
    assert_int_equal(budget.bytes, GIB);
    folder_free_all(&root);
    // This machine can be read.
    assert_int_equal(lf_budget_read(&budget, "", &none, &err), LF_OK);
    assert_true(budget.available && budget.available <= budget.total);
}

// M-2: the same reserve and flags, of what a device has.
static void does_a_devices_budget_keep_the_same_reserve(void **state) {
    struct lf_error err = LF_ERROR_INIT;
    struct lf_budget_flags none = {0}, limit = {.limit_bytes = 20 * GIB},
                           reserve = {.reserve_bytes = 5 * GIB}, both = limit;
    struct lf_budget budget;
    (void)state;
    both.reserve_bytes = GIB;
    assert_int_equal(lf_budget_of_device(&budget, 100 * GIB, 90 * GIB, &none, &err), LF_OK);
    assert_int_equal(budget.bytes, 90 * GIB - 100 * GIB / 100 * 3);
    assert_int_equal(lf_budget_of_device(&budget, 10 * GIB, GIB / 2, &none, &err), LF_OK);
    assert_int_equal(budget.bytes, 0);
    assert_int_equal(lf_budget_of_device(&budget, 100 * GIB, 90 * GIB, &reserve, &err), LF_OK);
    assert_int_equal(budget.bytes, 85 * GIB);
    assert_int_equal(lf_budget_of_device(&budget, 100 * GIB, 90 * GIB, &limit, &err), LF_OK);
    assert_int_equal(budget.bytes, 20 * GIB);
    assert_int_equal(lf_budget_of_device(&budget, 100 * GIB, 90 * GIB, &both, &err), LF_E_USAGE);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(do_guided_values_fit_and_larger_ones_not),
        cmocka_unit_test(are_there_three_ways_out_that_work),
        cmocka_unit_test(is_hopelessness_said_with_what_is_missing),
        cmocka_unit_test(is_the_budget_what_is_available_less_the_reserve),
        cmocka_unit_test(does_a_control_group_bind),
        cmocka_unit_test(does_an_unreadable_machine_ask_for_a_limit),
        cmocka_unit_test(does_a_devices_budget_keep_the_same_reserve),
    };
    return cmocka_run_group_tests(tests, read_topologies, NULL);
}
