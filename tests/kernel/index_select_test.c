#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "base/number.h"
#include "kernel/index_select/index_select.h"
#include "kernel_check.h"
#include "vectors.h"

enum { ROWS = 24, STRIDE = 9000, TOPK = 64, BLOCKS = 16, SIZE = 8, PATTERN = 0xEE };

struct problem {
    struct lf_index_select_args args;
    struct lf_check_buffer score, blocks, n_blocks, selected, n_selected;
    uint32_t visible[ROWS];
};

static struct problem open_problem(uint32_t rows, enum lf_candidate_mode mode) {
    struct problem p = {.score = lf_check_open(rows * STRIDE * sizeof(float), 0),
                        .blocks = lf_check_open(rows * BLOCKS * sizeof(uint32_t), 0),
                        .n_blocks = lf_check_open(rows * sizeof(uint32_t), 0),
                        .selected = lf_check_open(rows * TOPK * sizeof(uint32_t), 0),
                        .n_selected = lf_check_open(rows * sizeof(uint32_t), 0)};
    lf_check_poison(&p.score, 0xFF);
    lf_check_poison(&p.blocks, PATTERN);
    lf_check_poison(&p.selected, PATTERN);
    p.args = (struct lf_index_select_args){
        .rows = rows, .topk = TOPK, .mode = mode, .block_size = SIZE, .topk_blocks = BLOCKS,
        .score = p.score.data, .score_stride = STRIDE, .blocks = p.blocks.data,
        .n_blocks = p.n_blocks.data, .selected = p.selected.data, .n_selected = p.n_selected.data};
    return p;
}

static void close_problem(struct problem *p) {
    lf_check_guards(&p->score, "score");
    lf_check_guards(&p->blocks, "blocks");
    lf_check_guards(&p->n_blocks, "n_blocks");
    lf_check_guards(&p->selected, "selected");
    lf_check_guards(&p->n_selected, "n_selected");
    lf_check_close(&p->score);
    lf_check_close(&p->blocks);
    lf_check_close(&p->n_blocks);
    lf_check_close(&p->selected);
    lf_check_close(&p->n_selected);
}

// Kinds: plain, many ties, all equal, NaN and infinities and both zeros, close neighbours.
static float draw(struct lf_check_rng *rng, uint32_t kind) {
    static const float odd[] = {NAN, INFINITY, -INFINITY, 0.0f, -0.0f, 1.0f, -1.0f, 0x1p-149f};
    switch (kind % 5) {
    case 1: return (float)lf_check_below(rng, 5) - 2.0f;
    case 2: return 0.25f;
    case 3: return odd[lf_check_below(rng, 8)];
    case 4: return lf_f32_from_bits(0x3F800000u + lf_check_below(rng, 2000));
    default: return (float)lf_check_normal(rng);
    }
}

static void fill(struct problem *p, uint64_t seed) {
    static const uint32_t lengths[ROWS] = {0,   1,   8,   63,  64,  65,   71,   72,
                                           73,  127, 128, 129, 130, 136,  137,  200,
                                           255, 256, 257, 511, 1000, 4096, 8999, 9000};
    struct lf_check_rng rng = {seed};
    for (uint32_t r = 0; r < p->args.rows; r++) {
        p->visible[r] = lengths[r];
        for (uint32_t i = 0; lengths[r] > TOPK && i < lengths[r]; i++)
            ((float *)p->score.data)[r * STRIDE + i] = draw(&rng, (uint32_t)seed + r);
    }
    p->args.visible = p->visible;
}

static void run(struct problem *p, struct lf_device *device) {
    lf_index_select_avx2(device, &p->args);
}

static void run_row(const struct problem *p, uint32_t row, struct lf_device *device) {
    struct lf_index_select_args a = p->args;
    a.rows = 1, a.visible += row, a.score += row * STRIDE;
    a.blocks += row * BLOCKS, a.n_blocks += row;
    a.selected += row * TOPK, a.n_selected += row;
    lf_index_select_avx2(device, &a);
}

static void check_list(const char *what, uint32_t row, const uint32_t *got, uint32_t n,
                       uint32_t width, const double *want) {
    for (uint32_t i = 0; i < width; i++) {
        double have = i < n ? (double)got[i] : -1.0;
        if (have != want[i])
            fail_msg("%s, row %u, place %u: %g, expected %g", what, row, i, have, want[i]);
        if (i >= n)
            assert_int_equal(got[i], PATTERN * 0x01010101u);
    }
}

static void check_reference(const struct problem *p) {
    double *want = malloc(p->args.rows * (TOPK + BLOCKS) * sizeof *want);
    lf_index_select_f64(&p->args, want);
    for (uint32_t r = 0; r < p->args.rows; r++) {
        const double *row = want + r * (TOPK + BLOCKS);
        check_list("selected", r, p->args.selected + r * TOPK, p->args.n_selected[r], TOPK, row);
        if (p->args.mode == LF_CANDIDATES_PUBLISH)
            check_list("blocks", r, p->args.blocks + r * BLOCKS, p->args.n_blocks[r], BLOCKS,
                       row + TOPK);
    }
    free(want);
}

// model.md 8.7: blocks of one row's own scores restrict a later layer's other scores
static void a_restricted_choice_stays_inside_the_published_blocks(void **state) {
    (void)state;
    struct lf_device *device = lf_check_device(2);
    for (uint64_t seed = 0; seed < 10; seed++) {
        struct problem p = open_problem(ROWS, LF_CANDIDATES_PUBLISH);
        fill(&p, seed);
        run(&p, device);
        fill(&p, seed + 1);
        lf_check_poison(&p.selected, PATTERN);
        p.args.mode = LF_CANDIDATES_RESTRICT;
        run(&p, device);
        check_reference(&p);
        for (uint32_t r = 0; r < ROWS; r++)
            if (p.visible[r] > TOPK) {
                assert_int_equal(p.args.n_selected[r], TOPK);
                uint32_t newest = p.args.blocks[r * BLOCKS + p.args.n_blocks[r] - 1];
                assert_int_equal(newest, (p.visible[r] - 1) / SIZE);
            }
        close_problem(&p);
    }
    lf_check_device_close(device);
}

// topk_blocks * block_size = topk: a partial newest block leaves fewer than topk entries
static void few_eligible_entries_are_all_listed(void **state) {
    (void)state;
    struct lf_device *device = lf_check_device(1);
    struct problem p = open_problem(ROWS, LF_CANDIDATES_PUBLISH);
    p.args.topk_blocks = TOPK / SIZE;
    fill(&p, 0);
    run(&p, device);
    p.args.mode = LF_CANDIDATES_RESTRICT;
    run(&p, device);
    for (uint32_t r = 0; r < ROWS; r++) {
        uint32_t over = (SIZE - p.visible[r] % SIZE) % SIZE;
        uint32_t want = p.visible[r] <= TOPK ? p.visible[r] : TOPK - over;
        assert_int_equal(p.args.n_selected[r], want);
        if (p.visible[r])
            assert_int_equal(p.args.selected[r * TOPK + want - 1], p.visible[r] - 1);
    }
    close_problem(&p);
    lf_check_device_close(device);
}

// model.md 8.6: rows below the budget read no score; the score here is an unreadable page
static void rows_within_the_budget_read_no_score(void **state) {
    (void)state;
    struct lf_device *device = lf_check_device(1);
    struct lf_check_buffer none = lf_check_open(0, 0);
    for (enum lf_candidate_mode mode = 0; mode <= LF_CANDIDATES_RESTRICT; mode++) {
        struct problem p = open_problem(2, mode);
        p.visible[0] = 0;
        p.visible[1] = TOPK;
        p.args.visible = p.visible;
        p.args.score = none.data;
        if (mode == LF_CANDIDATES_RESTRICT)
            memset(p.n_blocks.data, 0, p.n_blocks.bytes);
        run(&p, device);
        assert_int_equal(p.args.n_selected[0], 0);
        assert_int_equal(p.args.n_selected[1], TOPK);
        for (uint32_t i = 0; i < TOPK; i++)
            assert_int_equal(p.args.selected[TOPK + i], i);
        if (mode == LF_CANDIDATES_PUBLISH) {
            assert_int_equal(p.args.n_blocks[0], 0);
            assert_int_equal(p.args.n_blocks[1], TOPK / SIZE);
        }
        close_problem(&p);
    }
    lf_check_close(&none);
    lf_check_device_close(device);
}

// One row's entries shared by several tasks: the lists of a row that one task reads.
static void the_tasks_of_a_row_choose_as_one(void **state) {
    (void)state;
    for (uint32_t threads = 2; threads < 8; threads++) {
        struct lf_device *device = lf_check_device(threads);
        for (enum lf_candidate_mode mode = 0; mode <= LF_CANDIDATES_RESTRICT; mode++)
            for (uint64_t seed = 0; seed < 5; seed++) {
                struct problem p = open_problem(ROWS, LF_CANDIDATES_PUBLISH);
                fill(&p, seed);
                run(&p, device);
                p.args.mode = mode;
                fill(&p, seed + 1);
                lf_check_poison(&p.selected, PATTERN);
                for (uint32_t r = 0; r < ROWS; r++)
                    run_row(&p, r, device);
                check_reference(&p);
                close_problem(&p);
            }
        lf_check_device_close(device);
    }
}

static void expect(const json_t *want, const uint32_t *got, uint32_t n) {
    assert_int_equal(json_array_size(want), n);
    for (uint32_t i = 0; i < n; i++)
        assert_int_equal(got[i], (uint32_t)vectors_number(want, i));
}

static void read_scores(const json_t *array, float *score) {
    for (size_t i = 0; i < json_array_size(array); i++)
        score[i] = (float)vectors_number(array, i);
}

static void the_vectors_come_out(void **state) {
    (void)state;
    struct lf_device *device = lf_check_device(1);
    json_t *file = vectors_load("blocks"), *v = vectors_get(file, "index");
    const json_t *candidates = vectors_get(v, "candidates"), *ties = vectors_get(v, "ties");
    float score[10], own[10];
    uint32_t blocks[3], n_blocks, selected[4], n_selected, visible = 9;
    struct lf_index_select_args args = {
        .rows = 1, .topk = 4, .mode = LF_CANDIDATES_PUBLISH, .block_size = 2, .topk_blocks = 3,
        .visible = &visible, .score = score, .score_stride = 10, .blocks = blocks,
        .n_blocks = &n_blocks, .selected = selected, .n_selected = &n_selected};
    read_scores(vectors_get(v, "scores"), score);
    lf_index_select_avx2(device, &args);
    expect(vectors_get(v, "top4"), selected, n_selected);
    expect(vectors_get(candidates, "kept_blocks"), blocks, n_blocks);
    v = vectors_get(v, "second_level");
    read_scores(vectors_get(v, "own_scores"), own);
    for (uint32_t i = 0; i < 2 * n_blocks; i++)
        score[i] = own[2 * blocks[i / 2] + i % 2];
    args.mode = LF_CANDIDATES_RESTRICT;
    lf_index_select_avx2(device, &args);
    expect(vectors_get(v, "top4_inside_candidates"), selected, n_selected);
    read_scores(vectors_get(ties, "scores"), score);
    args.mode = LF_CANDIDATES_NONE;
    args.topk = 2;
    visible = 5;
    lf_index_select_avx2(device, &args);
    expect(vectors_get(ties, "picked"), selected, n_selected);
    json_decref(file);
    lf_check_device_close(device);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_vectors_come_out),
        cmocka_unit_test(a_restricted_choice_stays_inside_the_published_blocks),
        cmocka_unit_test(few_eligible_entries_are_all_listed),
        cmocka_unit_test(rows_within_the_budget_read_no_score),
        cmocka_unit_test(the_tasks_of_a_row_choose_as_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
