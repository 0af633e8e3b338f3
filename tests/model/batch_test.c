#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>
#include "golden.h"
#include "model/v41.h"

enum { CONTEXT = 512, LANES = 3 };

static struct lf_demo demo;
static struct lf_v41 *m;
static uint32_t ids[CONTEXT];

static int open_all(void **state) {
    (void)state;
    struct lf_model_options options = {.slots = LANES, .context = CONTEXT, .chunk_rows = CONTEXT};
    lf_demo_open(&demo);
    m = (struct lf_v41 *)lf_demo_target(&demo, &options);
    for (uint32_t i = 0; i < CONTEXT; i++)
        ids[i] = 3 + i;
    // A call's tables hold the addresses of its entries.
    struct lf_error err = LF_ERROR_INIT;
    for (uint32_t lane = 0; lane < LANES; lane++)
        assert_int_equal(m->target.ops->grow(&m->target, lane, CONTEXT, &err), LF_OK);
    return 0;
}

static int close_all(void **state) {
    (void)state;
    m->target.ops->close(&m->target);
    lf_demo_close(&demo);
    return 0;
}

// Rows of layer L that one boundary of model.md 12.3 needs in full, counted back from it.
static uint64_t full_rows(uint32_t layer, bool logits) {
    return (logits ? 1 : 0) + (uint64_t)(m->t->window - 1) * (m->t->layers - 1 - layer);
}

static bool is_needed(uint64_t position, uint32_t layer, uint64_t keys_more,
                      const struct lf_bound *plan, uint32_t n) {
    for (uint32_t b = 0; b < n; b++)
        if (position < plan[b].at &&
            plan[b].at - position <= full_rows(layer, plan[b].logits) + keys_more)
            return true;
    return false;
}

// depth > L: layer L in full; depth >= L: its window key (what attention_sublayer drops by).
static void check_plan(const struct lf_bound *plan, uint32_t n, uint64_t pos0, uint32_t rows) {
    lf_batch_begin(m);
    lf_batch_add(m, 0, pos0, ids, rows, plan, n);
    lf_batch_end(m);
    assert_int_equal(m->work.rows, rows);
    for (uint32_t r = 0; r < rows; r++) {
        const struct lf_row *row = &m->work.row[r];
        bool wants = false;
        assert_int_equal(row->position, pos0 + r);
        for (uint32_t b = 0; b < n; b++)
            wants = wants || (plan[b].logits && plan[b].at == row->position + 1);
        assert_int_equal(row->wants & LF_WANT_LOGITS, wants ? LF_WANT_LOGITS : 0);
        for (uint32_t l = m->last_source; l < m->t->layers; l++) {
            if ((row->depth > l) != is_needed(row->position, l, 0, plan, n))
                fail_msg("position %u: depth %u is wrong for layer %u", (uint32_t)row->position,
                         row->depth, l);
            if ((row->depth >= l) != is_needed(row->position, l, m->t->window - 1, plan, n))
                fail_msg("position %u: depth %u is wrong for layer %u's key",
                         (uint32_t)row->position, row->depth, l);
        }
    }
}

// model.md 12.3, against its own formula row by row and layer by layer
static void the_cone_is_the_formula_s(void **state) {
    static const struct lf_bound plans[][4] = {
        {{300, true}}, {{300, false}}, {{64, true}, {65, false}, {300, true}},
        {{1, true}, {2, false}, {150, false}, {260, true}}, {{299, false}, {300, true}}};
    static const uint32_t n[] = {1, 1, 3, 4, 2};
    (void)state;
    assert_int_equal(m->last_source, 5);
    for (size_t i = 0; i < sizeof n / sizeof *n; i++) {
        uint64_t end = plans[i][n[i] - 1].at;
        check_plan(plans[i], n[i], 0, (uint32_t)end);
        check_plan(plans[i], n[i], 130, (uint32_t)end - 130);
        check_plan(plans[i], n[i], end - 1, 1);
    }
}

// The demo: layer 7 one row, layer 5 the last 63, its window keys the last 94.
static void the_cone_has_the_size_of_the_specification_s_example(void **state) {
    const struct lf_bound end = {.at = 300, .logits = true};
    uint32_t full7 = 0, full5 = 0, key5 = 0;
    (void)state;
    lf_batch_begin(m);
    lf_batch_add(m, 0, 0, ids, 300, &end, 1);
    lf_batch_end(m);
    for (uint32_t r = 0; r < 300; r++) {
        full7 += m->work.row[r].depth > 7;
        full5 += m->work.row[r].depth > 5;
        key5 += m->work.row[r].depth >= 5;
    }
    assert_int_equal(full7, 1);
    assert_int_equal(full5, 63);
    assert_int_equal(key5, 94);
}

// Rows of decode windows run in full and want logits.
static void rows_without_a_plan_run_in_full(void **state) {
    (void)state;
    lf_batch_begin(m);
    lf_batch_add(m, 2, 77, ids, 5, NULL, 0);
    lf_batch_end(m);
    for (uint32_t r = 0; r < 5; r++) {
        assert_int_equal(m->work.row[r].depth, m->t->layers);
        assert_int_equal(m->work.row[r].wants, LF_WANT_LOGITS);
        assert_int_equal(m->work.row[r].lane, 2);
        assert_int_equal(m->state[2].history[77 + r], ids[r]);
    }
}

// model.md 8.4: which entries the rows of a call complete, in call order, rotated at their start
static void the_entries_of_a_call_are_those_it_completes(void **state) {
    static const uint32_t lane[] = {2, 0, 1}, pos0[] = {7, 0, 4}, rows[] = {4, 3, 1};
    (void)state;
    lf_batch_begin(m);
    for (int i = 0; i < 3; i++)
        lf_batch_add(m, lane[i], pos0[i], ids, rows[i], NULL, 0);
    lf_batch_end(m);
    for (uint32_t ratio = 1; ratio <= 2; ratio++) {
        const struct lf_entries *e = &m->work.entries[ratio - 1];
        uint32_t at = 0, pairs = m->rope[1].pairs;
        for (int i = 0; i < 3; i++)
            for (uint64_t p = pos0[i]; p < pos0[i] + rows[i]; p++) {
                float c[64], s[64];
                uint64_t first = p + 1 - ratio;
                if ((p + 1) % ratio)
                    continue;
                assert_true(at < e->n);
                assert_int_equal(e->lane[at], lane[i]);
                assert_int_equal(e->number[at], first / ratio);
                lf_rope_rows(&m->rope[1], &first, 1, c, s);
                assert_memory_equal(e->cos + (size_t)at * pairs, c, pairs * sizeof *c);
                assert_memory_equal(e->sin + (size_t)at * pairs, s, pairs * sizeof *s);
                at++;
            }
        assert_int_equal(e->n, at);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_cone_is_the_formula_s),
        cmocka_unit_test(the_cone_has_the_size_of_the_specification_s_example),
        cmocka_unit_test(rows_without_a_plan_run_in_full),
        cmocka_unit_test(the_entries_of_a_call_are_those_it_completes),
    };
    return cmocka_run_group_tests(tests, open_all, close_all);
}
