#include "exact.h"

#include <stdio.h>
#include <string.h>

static struct lf_exact exact;
static struct lf_target *cone, *full;

static int open_all(void **state) {
    (void)state;
    lf_exact_open(&exact);
    cone = lf_exact_target(&exact, &(struct lf_model_options){.slots = 1});
    full = lf_exact_target(&exact, &(struct lf_model_options){.slots = 1, .no_cone = true});
    return 0;
}

static int close_all(void **state) {
    (void)state;
    cone->ops->close(cone);
    full->ops->close(full);
    lf_exact_close(&exact);
    return 0;
}

// Every window row of the slot becomes NaN codes: a key that the cone owes and skips is seen.
static void poison_rings(struct lf_target *target) {
    struct lf_v41 *m = (struct lf_v41 *)target;
    for (uint32_t l = 0; l < m->t->layers; l++)
        lf_exact_spoil(target, m->state[0].ring[l],
                       (size_t)m->shape.ring_rows * m->shape.window_bytes);
}

// Rows that follow a boundary read all that the cone left there.
static void go_on(struct lf_target *target, uint32_t from, uint32_t rows, struct lf_outcome *out) {
    struct lf_error err = LF_ERROR_INIT;
    struct lf_sampling greedy = {0};
    uint32_t drawn[LF_WINDOW_MAX];
    for (uint32_t at = 0, n; at < rows; at += n) {
        n = rows - at < LF_WINDOW_MAX ? rows - at : LF_WINDOW_MAX;
        struct lf_window w = {.rows = n, .pos0 = from + at, .tok = exact.ids + from + at,
                              .rule = &greedy};
        lf_exact_must(target->ops->verify(target, &w, 1, drawn, &err), &err);
        memcpy(out->logits, lf_model_logits(target, 0, n - 1), sizeof out->logits);
        lf_exact_must(target->ops->keep(target, &w, &n, 1, &err), &err);
    }
    lf_outcome_state(target, 0, out);
}

static void compare(uint32_t rows, struct lf_cut cut) {
    struct lf_outcome a, b;
    char what[64];
    snprintf(what, sizeof what, "%u rows, the cone against all", rows);
    poison_rings(cone);
    lf_exact_prefill(cone, 0, exact.ids, rows, cut, NULL, 0);
    lf_exact_prefill(full, 0, exact.ids, rows, (struct lf_cut){.rows = rows}, NULL, 0);
    lf_outcome_read(cone, 0, &a);
    lf_outcome_read(full, 0, &b);
    lf_outcome_same(what, &a, &b);
    go_on(cone, rows, 34, &a);
    go_on(full, rows, 34, &b);
    lf_outcome_same(what, &a, &b);
}

// model.md 12.3: the demo's cone reaches 63 rows back at layer 5
static void the_cone_leaves_what_all_rows_leave(void **state) {
    static const uint32_t lengths[] = {1,  2,  31, 32, 33, 62, 63, 64, 65,
                                       66, 93, 94, 95, 96, 130, 131, 260};
    (void)state;
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        compare(lengths[i], (struct lf_cut){.rows = lengths[i]});
        compare(lengths[i], (struct lf_cut){.most = 40, .seed = lengths[i]});
    }
}

// Upper layers run fewer rows: without this the test above would compare nothing.
static void the_cone_runs_fewer_rows(void **state) {
    struct lf_v41 *m = (struct lf_v41 *)cone, *all = (struct lf_v41 *)full;
    (void)state;
    lf_exact_prefill(cone, 0, exact.ids, 400, (struct lf_cut){.rows = 400}, NULL, 0);
    lf_exact_prefill(full, 0, exact.ids, 400, (struct lf_cut){.rows = 400}, NULL, 0);
    assert_int_equal(m->work.rows, 1);
    assert_int_equal(all->work.rows, 400);
}

// One pass with several boundaries against passes that end at each of them.
static void compare_plan(const struct lf_bound *plan, uint32_t n, struct lf_cut cut) {
    struct lf_error err = LF_ERROR_INIT;
    struct lf_outcome mid, want;
    uint32_t at = 0;
    char what[64];
    poison_rings(cone);
    lf_exact_must(cone->ops->reset(cone, 0, &err), &err);
    lf_exact_must(cone->ops->grow(cone, 0, LF_EXACT_CONTEXT, &err), &err);
    for (uint32_t b = 0; b < n; b++) {
        uint32_t end = (uint32_t)plan[b].at;
        for (uint32_t rows; at < end; at += rows) {
            rows = end - at < cut.rows ? end - at : cut.rows;
            struct lf_chunk chunk = {.rows = rows, .pos0 = at, .tok = exact.ids + at,
                                     .plan = plan, .n_plan = n};
            lf_exact_must(cone->ops->prefill(cone, &chunk, 1, &err), &err);
        }
        lf_outcome_read(cone, 0, &mid);
        lf_exact_prefill(full, 0, exact.ids, end, (struct lf_cut){.rows = end}, NULL, 0);
        lf_outcome_read(full, 0, &want);
        if (!plan[b].logits)
            memcpy(mid.logits, want.logits, sizeof mid.logits);
        snprintf(what, sizeof what, "boundary %u at %u of %u", b, end, n);
        lf_outcome_same(what, &mid, &want);
    }
    go_on(cone, at, 3, &mid);
    go_on(full, at, 3, &want);
    lf_outcome_same("after the last boundary", &mid, &want);
}

static void every_boundary_of_a_pass_is_complete(void **state) {
    const struct lf_bound far[] = {{40, false}, {170, true}, {300, false}, {301, true}};
    const struct lf_bound near[] = {{1, true}, {2, false}, {35, false}, {64, true}, {97, true}};
    const struct lf_bound one[] = {{210, false}};
    (void)state;
    for (uint32_t rows = 11; rows <= 301; rows += 58) {
        compare_plan(far, 4, (struct lf_cut){.rows = rows});
        compare_plan(near, 5, (struct lf_cut){.rows = rows});
        compare_plan(one, 1, (struct lf_cut){.rows = rows});
    }
}

// A chunk that runs across a boundary leaves it behind: the pass's later boundaries stay complete.
static void a_chunk_may_run_across_a_boundary(void **state) {
    const struct lf_bound plan[] = {{50, true}, {120, false}, {260, true}};
    struct lf_outcome got, want;
    (void)state;
    lf_exact_prefill(full, 0, exact.ids, 260, (struct lf_cut){.rows = 260}, NULL, 0);
    lf_outcome_read(full, 0, &want);
    for (uint64_t seed = 1; seed <= 4; seed++) {
        poison_rings(cone);
        lf_exact_prefill(cone, 0, exact.ids, 260, (struct lf_cut){.most = 90, .seed = seed}, plan,
                         3);
        lf_outcome_read(cone, 0, &got);
        lf_outcome_same("a pass across its boundaries", &got, &want);
    }
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_cone_leaves_what_all_rows_leave),
        cmocka_unit_test(the_cone_runs_fewer_rows),
        cmocka_unit_test(every_boundary_of_a_pass_is_complete),
        cmocka_unit_test(a_chunk_may_run_across_a_boundary),
    };
    return lf_exact_main(argc, argv, tests, sizeof tests / sizeof *tests, open_all, close_all);
}
