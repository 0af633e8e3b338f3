#include "exact.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// ROUNDS of windows keep at most ROWS rows of a lane.
enum { SLOTS = 8, ROUNDS = 4, ROWS = 24 };

static struct lf_exact exact;
static struct lf_target *alone, *shared;
// What each lane reads: another part of the text, another length.
static const uint32_t offset_of[SLOTS] = {0, 500, 37, 800, 250, 1, 90, 301};
static const uint32_t rows_of[SLOTS] = {150, 66, 1, 33, 129, 2, 31, 258};
// Each lane by itself: its prompt, and every row after it in a round of one row.
static struct lf_outcome prompt_of[SLOTS];
static struct lf_outcome (*serial)[ROWS];

static const uint32_t *ids_of(uint32_t slot) {
    return exact.ids + offset_of[slot];
}

static int open_all(void **state) {
    (void)state;
    lf_exact_open(&exact);
    alone = lf_exact_target(&exact, &(struct lf_model_options){.slots = 1});
    shared = lf_exact_target(&exact, &(struct lf_model_options){.slots = SLOTS});
    serial = malloc(SLOTS * sizeof *serial);
    assert_non_null(serial);
    for (uint32_t s = 0; s < SLOTS; s++) {
        lf_exact_prefill(alone, 0, ids_of(s), rows_of[s], (struct lf_cut){.rows = rows_of[s]},
                         NULL, 0);
        lf_outcome_read(alone, 0, &prompt_of[s]);
        for (uint32_t i = 0; i < ROWS; i++) {
            lf_exact_round(alone, 0, rows_of[s] + i, ids_of(s)[rows_of[s] + i],
                           serial[s][i].logits);
            lf_outcome_state(alone, 0, &serial[s][i]);
        }
    }
    return 0;
}

static int close_all(void **state) {
    (void)state;
    free(serial);
    alone->ops->close(alone);
    shared->ops->close(shared);
    lf_exact_close(&exact);
    return 0;
}

static void reset_all(void) {
    struct lf_error err = LF_ERROR_INIT;
    for (uint32_t s = 0; s < SLOTS; s++) {
        lf_exact_must(shared->ops->reset(shared, s, &err), &err);
        lf_exact_must(shared->ops->grow(shared, s, LF_EXACT_CONTEXT, &err), &err);
    }
}

// The first n lanes in an order that changes with turn: forwards and backwards from any lane.
static void make_order(uint32_t order[SLOTS], uint32_t n, uint32_t turn) {
    for (uint32_t i = 0; i < n; i++)
        order[turn % 2 ? n - 1 - i : i] = (i + turn) % n;
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
    static struct lf_outcome got;
    char what[96];
    lf_outcome_read(shared, slot, &got);
    snprintf(what, sizeof what, "lane %u %s", slot, how);
    lf_outcome_same(what, &got, &prompt_of[slot]);
}

// engine.md X-1 concurrent == solo, L-30
static void prompts_of_one_to_all_lanes_have_the_bits_of_prompts_alone(void **state) {
    static const uint32_t zero[SLOTS] = {0};
    (void)state;
    for (uint32_t n = 1; n <= SLOTS; n++) {
        for (uint32_t turn = 0; turn < 3; turn++) {
            uint32_t order[SLOTS];
            make_order(order, n, turn);
            reset_all();
            prefill(order, n, zero, rows_of);
            for (uint32_t s = 0; s < n; s++)
                compare_with_alone(s, "beside the others");
        }
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

static void check_rows(const struct lf_window *w, uint32_t kept, uint32_t done) {
    for (uint32_t r = 0; r < kept; r++)
        if (memcmp(lf_model_logits(shared, w->slot, r), serial[w->slot][done + r].logits,
                   sizeof serial[0][0].logits))
            lf_exact_differ("logits", "lane %u: row %u and its round alone", w->slot, done + r);
}

// One launch with a window of the first n lanes; each row is held against a round alone.
static void shared_round(uint32_t turn, uint32_t n, uint32_t done[SLOTS]) {
    static const struct plan plan[5] = {{1, 1}, {8, 3}, {14, 1}, {5, 5}, {7, 6}};
    static struct lf_outcome got;
    struct lf_error err = LF_ERROR_INIT;
    struct lf_sampling greedy = {0};
    struct lf_window w[SLOTS];
    uint32_t drawn[LF_LAUNCH_ROWS], kept[SLOTS], tokens[SLOTS][LF_WINDOW_MAX], order[SLOTS];
    make_order(order, n, turn);
    for (uint32_t i = 0; i < n; i++) {
        uint32_t s = order[i];
        const struct plan *p = &plan[(turn + s) % 5];
        for (uint32_t r = 0; r < p->rows; r++)
            tokens[s][r] = r < p->kept ? ids_of(s)[rows_of[s] + done[s] + r] : 3 + r;
        w[i] = (struct lf_window){.slot = s, .rows = p->rows, .pos0 = rows_of[s] + done[s],
                                  .tok = tokens[s], .rule = &greedy};
        kept[i] = p->kept;
    }
    lf_exact_must(shared->ops->verify(shared, w, n, drawn, &err), &err);
    for (uint32_t i = 0; i < n; i++)
        check_rows(&w[i], kept[i], done[w[i].slot]);
    lf_exact_must(shared->ops->keep(shared, w, kept, n, &err), &err);
    for (uint32_t i = 0; i < n; i++) {
        uint32_t s = w[i].slot;
        done[s] += kept[i];
        memcpy(got.logits, serial[s][done[s] - 1].logits, sizeof got.logits);
        lf_outcome_state(shared, s, &got);
        lf_outcome_same("a lane's state after a shared round", &got, &serial[s][done[s] - 1]);
    }
}

// engine.md 9.3: windows of 1 to N lanes in one launch, in changing order, against rounds alone
static void windows_of_one_to_all_lanes_have_the_bits_of_rounds_alone(void **state) {
    static const uint32_t zero[SLOTS] = {0};
    (void)state;
    for (uint32_t n = 1; n <= SLOTS; n++) {
        uint32_t done[SLOTS] = {0}, order[SLOTS];
        make_order(order, n, 0);
        reset_all();
        prefill(order, n, zero, rows_of);
        for (uint32_t turn = 0; turn < ROUNDS; turn++)
            shared_round(n + turn, n, done);
    }
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

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(prompts_of_one_to_all_lanes_have_the_bits_of_prompts_alone),
        cmocka_unit_test(chunks_of_two_lanes_in_one_call_have_the_same_bits),
        cmocka_unit_test(windows_of_one_to_all_lanes_have_the_bits_of_rounds_alone),
        cmocka_unit_test(a_resting_lane_is_left_alone),
    };
    return lf_exact_main(argc, argv, tests, sizeof tests / sizeof *tests, open_all, close_all);
}
