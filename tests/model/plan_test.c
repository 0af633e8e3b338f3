#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>
#include "base/file.h"
#include "base/process.h"
#include "env.h"
#include "format/inventory.h"
#include "golden.h"
#include "model/model.h"
#include "model/page.h"
#include "model/plan.h"
#include "model/v41.h"

enum { MIB = 1024 * 1024 };

static struct lf_topology release;

static int read_release(void **state) {
    (void)state;
    struct lf_error err = LF_ERROR_INIT;
    struct lf_buffer text = {0};
    char path[4096];
    snprintf(path, sizeof path, "%s/tests/data/config.json", env_value("LF_SOURCE_ROOT"));
    assert_int_equal(lf_file_read(&text, path, 1 << 20, &err), LF_OK);
    assert_int_equal(lf_topology_parse(&release, text.data, text.len, path, &err), LF_OK);
    lf_buffer_free(&text);
    return 0;
}

// Bytes of a tensor in the release's formats: FP8 maps, MXFP4 experts, bf16 and float32 vectors.
static uint64_t wanted_bytes(const struct lf_wanted *w) {
    uint64_t n = w->shape[0] * (w->rank > 1 ? w->shape[1] : 1);
    switch (w->kind) {
    case LF_WANT_F32:
        return 4 * n;
    case LF_WANT_BF16:
    case LF_WANT_PLAIN:
        return 2 * n;
    case LF_WANT_TABLE:
        return n + n / 32;
    case LF_WANT_LINEAR:
        return strstr(w->name, ".experts.") ? n / 2 + n / 32 : n + n / 1024;
    case LF_WANT_PRESENT:
        break;
    }
    return 0;
}

static struct lf_plan_ask release_ask(void) {
    struct lf_error err = LF_ERROR_INIT;
    struct lf_arena arena = {0};
    struct lf_inventory inventory;
    struct lf_plan_ask ask = {.t = &release, .context = release.positions_max, .slots = 4,
                              .chunk_rows = lf_model_chunk_rows(&release),
                              .threads = 16};
    assert_int_equal(lf_inventory_build(&inventory, &arena, &release, &err), LF_OK);
    for (size_t i = 0; i < inventory.n; i++) {
        const struct lf_wanted *w = &inventory.wanted[i];
        if (w->group == LF_GROUP_TEXT)
            ask.weight_bytes += wanted_bytes(w);
        if (w->group == LF_GROUP_ENGRAM)
            ask.table_bytes += wanted_bytes(w);
    }
    lf_arena_free(&arena);
    return ask;
}

static struct lf_plan make(const struct lf_plan_ask *ask) {
    struct lf_plan plan;
    lf_plan_make(&plan, ask);
    return plan;
}

// M-9's 2,048 rows where experts are many; a small model gains nothing from them.
static void is_a_chunk_as_large_as_the_experts_ask(void **state) {
    (void)state;
    static const struct {
        uint32_t experts, top, rows;
    } cases[] = {{384, 6, 2048}, {16, 2, 512}, {128, 2, 2048}, {64, 2, 1024}, {1, 1, 512}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct lf_topology t = release;
        t.experts = cases[i].experts;
        t.experts_top = cases[i].top;
        assert_int_equal(lf_model_chunk_rows(&t), cases[i].rows);
    }
}

static void is_a_position_890_bytes_at_release_size(void **state) {
    (void)state;
    struct lf_plan_ask ask = release_ask();
    struct lf_plan plan = make(&ask);
    assert_int_equal(plan.kv_position_bytes, 890);
    uint64_t counts = 2 * (lf_page_bytes(288) - 128 * 288), all = 3 * 4096 + 8192;
    assert_int_equal(plan.bytes[LF_PLAN_KV], 4 * (1048576ull * 890 + all * counts));
    // Whole pages: one position past them takes a page of each source that it completes a row of.
    ask.context = 1001;
    uint64_t pages = 3 * 4 + 8;
    assert_int_equal(make(&ask).kv_pages, 4 * pages);
    assert_int_equal(make(&ask).bytes[LF_PLAN_KV], 4 * pages * (128 * (288 + 68) + counts));
}

static void is_the_bounded_part_of_a_slot_about_6_mb(void **state) {
    (void)state;
    struct lf_plan_ask ask = release_ask();
    struct lf_plan four = make(&ask);
    uint64_t slot = four.bytes[LF_PLAN_STATE] / 4;
    assert_in_range(slot, 5900000, 6500000);
    // It is bounded: the context does not matter to it.
    ask.context = 4096;
    assert_int_equal(make(&ask).bytes[LF_PLAN_STATE], four.bytes[LF_PLAN_STATE]);
    ask.slots = 5;
    assert_int_equal(make(&ask).bytes[LF_PLAN_STATE], 5 * slot);
}

static void are_the_releases_weights_and_tables_apart(void **state) {
    (void)state;
    struct lf_plan_ask ask = release_ask();
    struct lf_plan plan = make(&ask);
    uint64_t counted = 0;
    for (int part = 0; part < LF_PLAN_PARTS; part++)
        counted += part == LF_PLAN_ENGRAM ? 0 : plan.bytes[part];
    assert_int_equal(plan.need, counted);
    assert_true(plan.bytes[LF_PLAN_WEIGHTS] > 200000000000);
    // Text and tables are nearly all of the release's 510,286,023,000 bytes.
    assert_in_range(plan.bytes[LF_PLAN_WEIGHTS] + plan.bytes[LF_PLAN_ENGRAM], 480000000000,
                    510286023000);
}

// The need never falls when a number grows: what guidance searches rests on it.
static void does_more_never_need_less(void **state) {
    (void)state;
    struct lf_plan_ask ask = release_ask();
    uint64_t before = 0;
    for (uint64_t context = 1; context <= 1048576; context += 1 + context / 37) {
        ask.context = context;
        uint64_t need = make(&ask).need;
        assert_true(need >= before);
        before = need;
    }
    for (ask.slots = 1, before = 0; ask.slots <= 64; ask.slots++) {
        uint64_t need = make(&ask).need;
        assert_true(need > before);
        before = need;
    }
    for (ask.chunk_rows = 1, before = 0; ask.chunk_rows <= 4096; ask.chunk_rows += 13) {
        uint64_t need = make(&ask).need;
        assert_true(need >= before);
        before = need;
    }
}

static void does_the_same_ask_give_the_same_plan(void **state) {
    (void)state;
    struct lf_plan_ask ask = release_ask();
    struct lf_plan first = make(&ask), again = make(&ask);
    assert_memory_equal(first.bytes, again.bytes, sizeof first.bytes);
    assert_int_equal(first.need, again.need);
}

static void near(uint64_t planned, uint64_t taken) {
    // An arena rounds its blocks: a little above the plan, never below.
    assert_true(taken >= planned && taken <= planned + planned / 50 + MIB);
}

static void does_a_loaded_model_take_what_was_planned(void **state) {
    (void)state;
    static const struct {
        uint32_t slots, chunk_rows;
        uint64_t context;
        bool no_drafts;
    } cases[] = {{1, 512, 4096, false}, {3, 64, 300, true}, {2, 16, 1, false},
                 {4, 2048, 4096, false}, {1, 512, 4096, true}};
    struct lf_demo demo;
    lf_demo_open(&demo);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct lf_model_options options = {.slots = cases[i].slots, .context = cases[i].context,
                                           .chunk_rows = cases[i].chunk_rows, .threads = 2,
                                           .no_drafts = cases[i].no_drafts};
        struct lf_plan_ask ask = {.t = lf_checkpoint_topology(demo.checkpoint),
                                  .drafter = !options.no_drafts,
                                  .slots = options.slots, .context = options.context,
                                  .chunk_rows = options.chunk_rows, .threads = 2};
        struct lf_plan plan = make(&ask);
        struct lf_target *target = lf_demo_target(&demo, &options);
        struct lf_model_memory taken;
        struct lf_error err = LF_ERROR_INIT;
        for (uint32_t slot = 0; slot < options.slots; slot++)
            assert_int_equal(target->ops->grow(target, slot, options.context, &err), LF_OK);
        lf_model_memory_read(target, &taken);
        assert_int_equal(taken.bounded, plan.bytes[LF_PLAN_STATE]);
        assert_int_equal(taken.history, plan.bytes[LF_PLAN_HISTORY]);
        assert_int_equal(taken.kv_bytes, plan.bytes[LF_PLAN_KV]);
        assert_int_equal(taken.kv_pages, plan.kv_pages);
        assert_int_equal(taken.scratch, plan.bytes[LF_PLAN_SCRATCH]);
        near(plan.bytes[LF_PLAN_WORK] + plan.bytes[LF_PLAN_LOGITS] + plan.bytes[LF_PLAN_ROTARY],
             taken.work);
        near(plan.bytes[LF_PLAN_INDEX], taken.weights);
        uint64_t lines[LF_PLAN_PARTS];
        lf_plan_measure(lines, &plan, &taken);
        near(plan.bytes[LF_PLAN_WORK], lines[LF_PLAN_WORK]);
        assert_int_equal(lines[LF_PLAN_KV], plan.bytes[LF_PLAN_KV]);
        assert_int_equal(lines[LF_PLAN_RUNTIME], 0);
        target->ops->close(target);
    }
    lf_demo_close(&demo);
}

// M-8: pages come with the positions that are used, and are counted once.
static void do_pages_come_as_positions_are_used(void **state) {
    (void)state;
    struct lf_demo demo;
    struct lf_error err = LF_ERROR_INIT;
    struct lf_model_memory taken;
    struct lf_model_options options = {.slots = 2, .context = 4096, .threads = 1};
    lf_demo_open(&demo);
    struct lf_target *target = lf_demo_target(&demo, &options);
    const struct lf_state_shape *shape = &((struct lf_v41 *)target)->shape;
    lf_model_memory_read(target, &taken);
    assert_int_equal(taken.kv_pages, 0);
    assert_int_equal(target->ops->grow(target, 0, 1000, &err), LF_OK);
    assert_int_equal(target->ops->grow(target, 1, 300, &err), LF_OK);
    assert_int_equal(target->ops->grow(target, 0, 900, &err), LF_OK);
    lf_model_memory_read(target, &taken);
    assert_int_equal(taken.kv_pages, lf_state_pages(shape, 1000) + lf_state_pages(shape, 300));
    assert_int_equal(taken.kv_pages_used, 0);
    assert_int_equal(target->ops->grow_bytes(target, 1000) + target->ops->grow_bytes(target, 300),
                     taken.kv_bytes);
    uint32_t ids[200] = {0};
    struct lf_bound end = {.at = 200};
    struct lf_chunk chunk = {.slot = 1, .rows = 200, .tok = ids, .plan = &end, .n_plan = 1};
    assert_int_equal(target->ops->prefill(target, &chunk, 1, &err), LF_OK);
    lf_model_memory_read(target, &taken);
    assert_int_equal(taken.kv_pages_used, lf_state_pages(shape, 200));
    // A slot that is released gives its pages back.
    assert_int_equal(target->ops->reset(target, 0, &err), LF_OK);
    lf_model_memory_read(target, &taken);
    assert_int_equal(taken.kv_pages, lf_state_pages(shape, 300));
    assert_int_equal(target->ops->reset(target, 1, &err), LF_OK);
    lf_model_memory_read(target, &taken);
    assert_int_equal(taken.kv_pages + taken.kv_pages_used, 0);
    target->ops->close(target);
    lf_demo_close(&demo);
}

static uint64_t resident(void) {
    struct lf_process_memory process;
    lf_process_memory_read(&process);
    return process.anonymous;
}

// Memory is resident only after a chunk of that many rows has used it.
static void touch_work(struct lf_target *target, uint32_t rows) {
    static const uint32_t ids[4096];
    struct lf_error err = LF_ERROR_INIT;
    struct lf_bound end = {.at = rows};
    struct lf_chunk chunk = {.rows = rows, .tok = ids, .plan = &end, .n_plan = 1};
    assert_int_equal(target->ops->grow(target, 0, rows, &err), LF_OK);
    assert_int_equal(target->ops->prefill(target, &chunk, 1, &err), LF_OK);
}

// M-9: a smaller chunk's workspace leaves the rest of the memory to others.
static void does_a_trim_give_memory_back(void **state) {
    (void)state;
    struct lf_demo demo;
    struct lf_model_options options = {.context = 4096, .chunk_rows = 4096, .threads = 1};
    lf_demo_open(&demo);
    struct lf_target *target = lf_demo_target(&demo, &options);
    const struct lf_target_ops *ops = target->ops;
    struct lf_plan_ask ask = {.t = lf_checkpoint_topology(demo.checkpoint), .slots = 1,
                              .drafter = true, .context = 4096, .chunk_rows = 4096, .threads = 1};
    struct lf_plan plan = make(&ask);
    uint64_t whole = plan.bytes[LF_PLAN_WORK] + plan.bytes[LF_PLAN_LOGITS] +
                     plan.bytes[LF_PLAN_ROTARY];
    assert_int_equal(ops->chunk_bytes(target, 4096), whole);
    touch_work(target, 4096);
    uint64_t before = resident(), less = whole - ops->chunk_bytes(target, 256);
    assert_true(less > 32 * MIB);
    ops->chunk_trim(target, 256);
    uint64_t after = resident();
    // Pages that a buffer shares with its neighbour stay.
    assert_true(!before || after + less < before + MIB);
    target->ops->close(target);
    lf_demo_close(&demo);
}

static void is_excess_two_percent_and_256_mib(void **state) {
    (void)state;
    uint64_t gib = 1024ull * MIB;
    assert_false(lf_plan_exceeded(gib, gib));
    assert_false(lf_plan_exceeded(gib, gib + 256 * MIB)); // 25 %, but not above 256 MiB
    assert_true(lf_plan_exceeded(gib, gib + 257 * MIB));
    assert_false(lf_plan_exceeded(100 * gib, 102 * gib)); // above 256 MiB, but not above 2 %
    assert_true(lf_plan_exceeded(100 * gib, 103 * gib));
    assert_false(lf_plan_exceeded(gib, 0));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(is_a_chunk_as_large_as_the_experts_ask),
        cmocka_unit_test(is_a_position_890_bytes_at_release_size),
        cmocka_unit_test(is_the_bounded_part_of_a_slot_about_6_mb),
        cmocka_unit_test(are_the_releases_weights_and_tables_apart),
        cmocka_unit_test(does_more_never_need_less),
        cmocka_unit_test(does_the_same_ask_give_the_same_plan),
        cmocka_unit_test(does_a_loaded_model_take_what_was_planned),
        cmocka_unit_test(do_pages_come_as_positions_are_used),
        cmocka_unit_test(does_a_trim_give_memory_back),
        cmocka_unit_test(is_excess_two_percent_and_256_mib),
    };
    return cmocka_run_group_tests(tests, read_release, NULL);
}
