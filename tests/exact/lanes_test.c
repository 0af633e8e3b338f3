#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>
#include "exact.h"

enum { SLOTS = 3, STEPS = 6 };

static struct lf_exact exact;
static struct lf_target *alone, *shared;
// What each lane reads: another part of the prompt, another length.
static const uint32_t offset_of[SLOTS] = {0, 500, 37}, rows_of[SLOTS] = {150, 66, 1};

static int open_all(void **state) {
    (void)state;
    lf_exact_open(&exact);
    alone = lf_exact_target(&exact, &(struct lf_model_options){.slots = 1});
    shared = lf_exact_target(&exact, &(struct lf_model_options){.slots = SLOTS});
    return 0;
}

static int close_all(void **state) {
    (void)state;
    alone->ops->close(alone);
    shared->ops->close(shared);
    lf_exact_close(&exact);
    return 0;
}

static const uint32_t *ids_of(uint32_t slot) {
    return exact.ids + offset_of[slot];
}

static void reset_all(void) {
    struct lf_error err = LF_ERROR_INIT;
    for (uint32_t s = 0; s < SLOTS; s++) {
        lf_exact_must(shared->ops->reset(shared, s, &err), &err);
        lf_exact_must(shared->ops->grow(shared, s, LF_EXACT_CONTEXT, &err), &err);
    }
}

// One call with rows [from, to) of the lanes in order, which are n.
static void prefill(const uint32_t *order, uint32_t n, const uint32_t from[SLOTS],
                    const uint32_t to[SLOTS]) {
    struct lf_error err = LF_ERROR_INIT;
    struct lf_bound end[SLOTS];
    struct lf_chunk chunk[SLOTS];
    for (uint32_t i = 0; i < n; i++) {
        uint32_t s = order[i];
        end[i] = (struct lf_bound){.at = rows_of[s], .logits = true};
        chunk[i] = (struct lf_chunk){.slot = s, .rows = to[s] - from[s], .pos0 = from[s],
                                     .tok = ids_of(s) + from[s], .plan = &end[i], .n_plan = 1};
    }
    lf_exact_must(shared->ops->prefill(shared, chunk, n, &err), &err);
}

static void compare_with_alone(uint32_t slot, const char *how) {
    struct lf_outcome got, want;
    char what[96];
    lf_exact_prefill(alone, 0, ids_of(slot), rows_of[slot], (struct lf_cut){.rows = rows_of[slot]},
                     NULL, 0);
    lf_outcome_read(alone, 0, &want);
    lf_outcome_read(shared, slot, &got);
    snprintf(what, sizeof what, "lane %u %s", slot, how);
    lf_outcome_same(what, &got, &want);
}

// engine.md X-1 concurrent == solo, L-30
static void prompts_in_one_call_have_the_bits_of_prompts_alone(void **state) {
    static const uint32_t orders[][SLOTS] = {{0, 1, 2}, {2, 1, 0}, {1, 2, 0}};
    static const uint32_t zero[SLOTS] = {0};
    (void)state;
    for (size_t i = 0; i < sizeof orders / sizeof *orders; i++) {
        reset_all();
        prefill(orders[i], SLOTS, zero, rows_of);
        for (uint32_t s = 0; s < SLOTS; s++)
            compare_with_alone(s, "beside the others");
    }
}

// Chunks of two lanes, cut at other places, the later lane first.
static void chunks_of_two_lanes_in_one_call_have_the_same_bits(void **state) {
    static const uint32_t first[2] = {1, 0};
    static const uint32_t a[SLOTS] = {0}, b[SLOTS] = {77, 31, 0};
    (void)state;
    reset_all();
    prefill(first, 2, a, b);
    prefill(first, 2, b, rows_of);
    compare_with_alone(0, "in two shared chunks");
    compare_with_alone(1, "in two shared chunks");
}

// A window of rows of one lane in a shared launch: the first kept of them stay.
struct plan {
    uint32_t rows, kept;
};

// One launch with a window of every lane, in this order; each row is held against a round alone.
static void shared_round(uint32_t step, const uint32_t *order, const struct plan *plan,
                         uint32_t done[SLOTS], struct lf_outcome want[SLOTS][STEPS * 8]) {
    struct lf_error err = LF_ERROR_INIT;
    struct lf_sampling greedy = {0};
    struct lf_window w[SLOTS];
    uint32_t drawn[SLOTS * LF_WINDOW_MAX], kept[SLOTS], tokens[SLOTS][LF_WINDOW_MAX];
    for (uint32_t i = 0; i < SLOTS; i++) {
        uint32_t s = order[i];
        const struct plan *p = &plan[(step + s) % 5];
        for (uint32_t r = 0; r < p->rows; r++)
            tokens[s][r] = r < p->kept ? ids_of(s)[rows_of[s] + done[s] + r] : 3 + r;
        w[i] = (struct lf_window){.slot = s, .rows = p->rows, .pos0 = rows_of[s] + done[s],
                                  .tok = tokens[s], .rule = &greedy};
        kept[i] = p->kept;
    }
    lf_exact_must(shared->ops->verify(shared, w, SLOTS, drawn, &err), &err);
    for (uint32_t i = 0; i < SLOTS; i++)
        for (uint32_t r = 0; r < kept[i]; r++)
            if (memcmp(lf_model_logits(shared, w[i].slot, r),
                       want[w[i].slot][done[w[i].slot] + r].logits, sizeof want[0][0].logits))
                fail_msg("step %u: lane %u row %u differs from its round alone", step, w[i].slot,
                         r);
    lf_exact_must(shared->ops->keep(shared, w, kept, SLOTS, &err), &err);
    for (uint32_t i = 0; i < SLOTS; i++) {
        uint8_t digest[32];
        done[w[i].slot] += kept[i];
        lf_exact_must(shared->ops->digest(shared, w[i].slot, digest, &err), &err);
        assert_memory_equal(digest, want[w[i].slot][done[w[i].slot] - 1].digest, sizeof digest);
    }
}

// engine.md 9.3: windows of several lanes in one launch, in changing order, against rounds alone
static void windows_of_several_lanes_have_the_bits_of_rounds_alone(void **state) {
    static const uint32_t orders[][SLOTS] = {{0, 1, 2}, {2, 0, 1}, {1, 2, 0}, {2, 1, 0}};
    static const struct plan plan[5] = {{1, 1}, {8, 3}, {16, 1}, {5, 5}, {7, 6}};
    static const uint32_t zero[SLOTS] = {0};
    static struct lf_outcome want[SLOTS][STEPS * 8];
    struct lf_error err = LF_ERROR_INIT;
    uint32_t done[SLOTS] = {0};
    (void)state;
    for (uint32_t s = 0; s < SLOTS; s++) {
        lf_exact_prefill(alone, 0, ids_of(s), rows_of[s], (struct lf_cut){.rows = rows_of[s]},
                         NULL, 0);
        for (uint32_t i = 0; i < STEPS * 8; i++) {
            lf_exact_round(alone, 0, rows_of[s] + i, ids_of(s)[rows_of[s] + i], want[s][i].logits);
            lf_exact_must(alone->ops->digest(alone, 0, want[s][i].digest, &err), &err);
        }
    }
    reset_all();
    prefill(orders[0], SLOTS, zero, rows_of);
    for (uint32_t step = 0; step < STEPS; step++)
        shared_round(step, orders[step % 4], plan, done, want);
}

// A lane that never runs again must not feel a neighbour's rounds.
static void a_resting_lane_is_left_alone(void **state) {
    static const uint32_t order[2] = {0, 1};
    static const uint32_t zero[SLOTS] = {0};
    float logits[LF_EXACT_VOCAB];
    (void)state;
    reset_all();
    prefill(order, 2, zero, rows_of);
    for (uint32_t i = 0; i < 40; i++)
        lf_exact_round(shared, 1, rows_of[1] + i, ids_of(1)[rows_of[1] + i], logits);
    compare_with_alone(0, "resting beside a busy one");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(prompts_in_one_call_have_the_bits_of_prompts_alone),
        cmocka_unit_test(chunks_of_two_lanes_in_one_call_have_the_same_bits),
        cmocka_unit_test(windows_of_several_lanes_have_the_bits_of_rounds_alone),
        cmocka_unit_test(a_resting_lane_is_left_alone),
    };
    return cmocka_run_group_tests(tests, open_all, close_all);
}
