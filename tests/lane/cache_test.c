// The prompt cache over the fake target's saves: cap, keys, marks, eviction, failures.
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "cache_lane.h"

// C-12
static void the_longest_leading_entry_is_resumed(void **state) {
    (void)state;
    open_cache(NO_CAP);
    serve(0, 1, 300);
    serve(0, 2, 700);
    write_text(1, 0, 900, 1);
    begin(1, 900, 500, 0, 0);
    read_prompt(1);
    cancel(1);
    assert_int_equal(begin(2, 1, 0, 0, 0), 0);
    write_text(2, 0, 1000, 1);
    assert_int_equal(begin(2, 1000, 0, 0, 0), 900);
    write_text(3, 0, 600, 1);
    assert_int_equal(begin(3, 600, 0, 0, 0), 500);
    // Without logits an entry must leave a row to run.
    cancel(3);
    assert_int_equal(begin(3, 500, 0, 0, 0), 300);
    cancel(3);
    lane[3].text[299]++;
    assert_int_equal(begin(3, 600, 0, 0, 0), 0);
    assert_int_equal(stats().hits, 4);
    assert_int_equal(stats().restored_tokens, 300 + 900 + 500 + 300);
    assert_int_equal(stats().misses, 4);
    close_cache();
}

// C-2
static void an_equal_hash_decides_nothing(void **state) {
    struct lf_rowkeys_hash hash = {0};
    (void)state;
    open_cache(NO_CAP);
    serve(0, 1, 300);
    write_text(1, 0, 400, 2);
    struct lf_rowkeys keys = keys_of(&lane[1], 300);
    lf_rowkeys_hash_to(&hash, &keys, 300);
    entry_of(300)->hash = hash.value;
    assert_int_equal(begin(1, 400, 0, 0, 0), 0);
    close_cache();
}

// C-1
static void image_rows_match_by_digest_and_offset(void **state) {
    (void)state;
    open_cache(NO_CAP);
    for (uint32_t s = 0; s < SLOTS; s++)
        write_text(s, 0, 500, 1);
    put_image(0, 100, 40, 1);
    lane[0].shared[0] = 300;
    begin(0, 400, 120, 0, 1);
    assert_int_equal(lane[0].pass.n_plan, 2);
    read_prompt(0);
    cancel(0);
    put_image(1, 100, 40, 1);
    assert_int_equal(begin(1, 450, 0, 0, 0), 400);
    put_image(2, 100, 40, 2);
    assert_int_equal(begin(2, 450, 0, 0, 0), 0);
    read_prompt(2);
    cancel(2);
    // The same ids without any image, and with one that starts elsewhere.
    memcpy(lane[3].text, lane[1].text, sizeof lane[1].text);
    assert_int_equal(begin(3, 450, 0, 0, 0), 0);
    cancel(3);
    put_image(3, 101, 39, 1);
    assert_int_equal(begin(3, 450, 0, 0, 0), 0);
    struct lf_rowkeys a = keys_of(&lane[1], 450), b = keys_of(&lane[2], 450);
    assert_int_equal(lf_rowkeys_agree(&a, &b), 100);
    assert_true(lf_rowkeys_split_image(&a, 101) && lf_rowkeys_split_image(&a, 139));
    assert_false(lf_rowkeys_split_image(&a, 100) || lf_rowkeys_split_image(&a, 140));
    close_cache();
}

// C-13, and C-6 where logits join an entry
static void a_whole_prompt_is_a_hit_only_with_logits(void **state) {
    struct lf_error err = LF_ERROR_INIT;
    struct lf_sampling greedy = {0};
    uint32_t drawn;
    (void)state;
    open_cache(NO_CAP);
    write_text(0, 0, 600, 1);
    begin(0, 400, 0, 0, 0);
    read_prompt(0);
    finish(0, 30);
    check_account();
    assert_null(entry_of(430)->logits);
    for (uint32_t s = 1; s < 3; s++) {
        write_text(s, 0, 600, 1);
        assert_int_equal(begin(s, 400, 0, 0, 0), 400);
        assert_int_equal(lane[s].pass.n_plan, 0);
        struct lf_window w = {.slot = s, .pos0 = 400, .rule = &greedy};
        must(target->ops->draw_last(target, &w, &drawn, &err), &err);
        assert_int_equal(drawn, lf_fake_next(lane[s].text, 400, 0, 1000));
        cancel(s);
    }
    assert_int_equal(begin(1, 430, 0, 0, 0), 400);
    uint64_t kept = stats().kept;
    read_prompt(1);
    cancel(1);
    assert_int_equal(stats().kept, kept);
    assert_non_null(entry_of(430)->logits);
    assert_int_equal(begin(2, 430, 0, 0, 0), 430);
    check_account();
    close_cache();
}

static void expect_marks(uint32_t slot, const uint64_t *at, uint32_t n) {
    const struct lf_cache_pass *p = &lane[slot].pass;
    uint32_t marks = 0;
    for (uint32_t i = 0; i < p->n_plan; i++) {
        assert_int_equal(p->plan[i].logits, p->plan[i].at == lane[slot].rows);
        if (!p->kind[i])
            continue;
        assert_true(marks < n);
        assert_int_equal(p->plan[i].at, at[marks++]);
    }
    assert_int_equal(marks, n);
    assert_int_equal(p->plan[p->n_plan - 1].at, lane[slot].rows);
}
#define MARKS(slot, ...)                                                                           \
    expect_marks((slot), (const uint64_t[]){__VA_ARGS__},                                          \
                 sizeof((const uint64_t[]){__VA_ARGS__}) / sizeof(uint64_t))

// C-8
static void marks_stand_where_the_rules_put_them(void **state) {
    (void)state;
    open_cache(NO_CAP);
    write_text(0, 0, 40000, 1);
    lane[0].shared[0] = 1000;
    lane[0].shared[1] = 1255;
    begin(0, 39000, 38990, 38000, 2);
    MARKS(0, 1000, 16384, 32768, 38000, 38990, 39000);
    read_prompt(0);
    cancel(0);
    // Past the resume point only, and not close to it; 1 to 3 may be close.
    write_text(1, 0, 40000, 1);
    lane[1].shared[0] = 39100;
    lane[1].shared[1] = 39300;
    assert_int_equal(begin(1, 39900, 39001, 100, 2), 39000);
    MARKS(1, 39001, 39300, 39900);
    cancel(1);
    lane[2].shared[0] = 300;
    write_text(2, 0, 200, 2);
    begin(2, 200, 190, 0, 0);
    MARKS(2, 190, 200);
    cancel(2);
    // The first token alone is not worth an entry, and a new conversation is cold.
    lane[2].shared[0] = 1;
    begin(2, 200, 190, 1, 1);
    MARKS(2, 190, 200);
    cancel(2);
    // A short prompt's end is kept only while half the cache is free.
    uint64_t held = cache->held_bytes;
    cache->cap_bytes = 2 * held - 1;
    begin(2, 200, 190, 0, 0);
    MARKS(2, 190);
    cancel(2);
    cache->cap_bytes = NO_CAP;
    close_cache();
}

// C-8, the fifth mark
static void what_two_prompts_after_one_entry_share_is_saved(void **state) {
    (void)state;
    open_cache(NO_CAP);
    write_text(0, 0, 4000, 1);
    begin(0, 500, 0, 0, 0);
    read_prompt(0);
    cancel(0);
    assert_int_equal(begin(0, 3000, 0, 0, 0), 500);
    read_prompt(0);
    cancel(0);
    write_text(1, 0, 4000, 1);
    write_text(1, 2500, 4000, 2);
    assert_int_equal(begin(1, 3500, 3400, 0, 0), 500);
    MARKS(1, 2500, 3400, 3500);
    cancel(1);
    // Less than half of the history is no stable prefix.
    write_text(1, 1600, 4000, 3);
    assert_int_equal(begin(1, 3500, 3400, 0, 0), 500);
    MARKS(1, 3400, 3500);
    close_cache();
}

// C-8, the fifth mark: the next edit of the same message resumes where this one parts
static void where_an_edit_parts_from_the_prompt_before_is_saved(void **state) {
    (void)state;
    open_cache(NO_CAP);
    write_text(0, 0, 4000, 1);
    begin(0, 3000, 2990, 300, 0);
    read_prompt(0);
    cancel(0);
    write_text(1, 0, 4000, 1);
    for (uint32_t edit = 2; edit < 4; edit++) {
        write_text(1, 2900, 4000, edit);
        assert_int_equal(begin(1, 3000, 2990, 300, 0), edit == 2 ? 300 : 2900);
        read_prompt(1);
        cancel(1);
    }
    close_cache();
}

// C-8, C-9: by priority within the budget, and the room is there before the pass starts
static void marks_share_a_small_budget_by_priority(void **state) {
    (void)state;
    open_cache(NO_CAP);
    write_text(0, 0, 2000, 1);
    lane[0].shared[0] = 500;
    begin(0, 1000, 900, 700, 1);
    MARKS(0, 500, 700, 900, 1000);
    uint64_t all = cache->promised_bytes;
    assert_true(all > 0);
    read_prompt(0);
    // Each mark's promise was exactly what its save took.
    assert_int_equal(cache->promised_bytes, 0);
    assert_int_equal(cache->held_bytes, all);
    close_cache();
    uint64_t caps[] = {all, all - 1};
    for (int i = 0; i < 2; i++) {
        open_cache(caps[i]);
        for (uint64_t seed = 10; seed < 20; seed++)
            serve(1, seed, 100);
        write_text(0, 0, 2000, 1);
        lane[0].shared[0] = 500;
        begin(0, 1000, 900, 700, 1);
        check_account();
        if (i)
            MARKS(0, 700, 900, 1000);
        else
            MARKS(0, 500, 700, 900, 1000);
        // Another pass cannot take what was promised.
        serve(2, 30, 300);
        read_prompt(0);
        assert_int_equal(entry_of(1000)->marks, LF_MARK_END);
        assert_non_null(entry_of(700));
        assert_non_null(entry_of(900));
        check_account();
        close_cache();
    }
}

static void expect_victim(uint64_t rows) {
    struct lf_entry *victim = lf_cache_victim(cache);
    assert_non_null(victim);
    assert_int_equal(victim->keys.n, rows);
    assert_true(lf_cache_evict(cache));
    assert_null(entry_of(rows));
    check_account();
}

// C-10
static void superseded_entries_go_first_and_the_live_rewind_point_last(void **state) {
    (void)state;
    open_cache(NO_CAP);
    serve(1, 7, 310); // another conversation, used longest ago
    write_text(0, 0, 3000, 1);
    lane[0].shared[0] = 320;
    begin(0, 1000, 900, 600, 1);
    read_prompt(0);
    finish(0, 50);
    serve(1, 8, 330);
    // The next turn of the first conversation goes on from its history's end.
    write_text(0, 900, 3000, 2);
    assert_int_equal(begin(0, 1500, 1400, 1200, 0), 900);
    read_prompt(0);
    assert_int_equal(entry_of(1500)->conversation, entry_of(1000)->conversation);
    struct lf_entry *pinned = entry_of(1500);
    pinned->pins++;
    // Superseded, by use: 600 (an earlier rewind point), 1000, 900, 1400; 1200 is the live one.
    expect_victim(600);
    expect_victim(1000);
    expect_victim(900);
    expect_victim(1400);
    expect_victim(310);
    expect_victim(320);
    expect_victim(1050);
    expect_victim(330);
    expect_victim(1200);
    assert_null(lf_cache_victim(cache));
    assert_false(lf_cache_evict(cache));
    pinned->pins--;
    expect_victim(1500);
    assert_int_equal(stats().evicted, 10);
    close_cache();
}

// C-6, C-11
static void nothing_goes_for_what_could_never_fit(void **state) {
    (void)state;
    open_cache(40000);
    serve(0, 1, 300);
    uint64_t held = stats().held_bytes, refused = stats().refused;
    serve(1, 2, 5000);
    assert_int_equal(stats().held_bytes, held);
    assert_int_equal(stats().evicted, 0);
    assert_true(stats().refused > refused);
    assert_int_equal(serve(2, 1, 310), 300);
    close_cache();
}

// C-15
static void a_failed_save_keeps_nothing_and_a_failed_restore_reads_the_prompt(void **state) {
    (void)state;
    open_cache(NO_CAP);
    saves->fail_saves = 1;
    serve(0, 1, 300);
    assert_int_equal(stats().entries, 0);
    assert_int_equal(stats().held_bytes, 0);
    assert_int_equal(stats().failed, 1);
    serve(0, 1, 300);
    write_text(1, 0, 400, 1);
    saves->fail_restores = 1;
    assert_int_equal(begin(1, 400, 0, 0, 0), 0);
    MARKS(1, 400);
    assert_null(entry_of(300));
    read_prompt(1);
    cancel(1);
    assert_int_equal(stats().failed, 2);
    write_text(2, 0, 400, 1);
    assert_int_equal(begin(2, 400, 0, 0, 0), 400);
    cancel(2);
    check_account();
    close_cache();
}

// C-14, C-16
static void several_requests_resume_one_entry_at_once(void **state) {
    (void)state;
    open_cache(NO_CAP);
    serve(0, 1, 320);
    uint64_t one = saves->total_bytes;
    for (uint32_t s = 0; s < SLOTS; s++) {
        write_text(s, 0, 320, 1);
        write_text(s, 320, 700, 50 + s);
        assert_int_equal(begin(s, 600, 0, 0, 0), 320);
    }
    for (uint32_t s = 0; s < SLOTS; s++)
        read_prompt(s);
    uint64_t more = target->ops->save_bytes(target, 600, LF_SAVE_STATE | LF_SAVE_LOGITS);
    assert_int_equal(saves->total_bytes,
                     one + SLOTS * (more - target->ops->save_bytes(target, 320, LF_SAVE_PAGES)));
    // The entry goes while four streams live on its pages.
    lf_cache_drop(cache, entry_of(320));
    for (uint32_t s = 0; s < SLOTS; s++)
        finish(s, 20);
    check_account();
    assert_int_equal(stats().entries, 2 * SLOTS);
    for (uint32_t s = 0; s < SLOTS; s++)
        assert_int_equal(begin(s, 700, 0, 0, 0), 620);
    close_cache();
}

static void without_a_cache_the_plan_is_the_prompts_end(void **state) {
    struct lf_cache_pass pass;
    uint32_t text[20] = {0};
    struct lf_cache_stats none;
    (void)state;
    struct lf_cache_prompt prompt = {.keys = {.n = 20, .token = text}, .history_len = 10};
    lf_cache_begin(NULL, &pass, 0, &prompt);
    assert_int_equal(pass.resumed, 0);
    assert_int_equal(pass.n_plan, 1);
    assert_int_equal(pass.plan[0].at, 20);
    assert_true(pass.plan[0].logits);
    assert_int_equal(lf_cache_next(&pass, 0), 20);
    lf_cache_mark(NULL, &pass, 20);
    lf_cache_end(NULL, &pass, &prompt.keys);
    assert_false(lf_cache_evict(NULL));
    lf_cache_stats_read(NULL, &none);
    assert_int_equal(none.held_bytes + none.cap_bytes + none.misses, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_longest_leading_entry_is_resumed),
        cmocka_unit_test(an_equal_hash_decides_nothing),
        cmocka_unit_test(image_rows_match_by_digest_and_offset),
        cmocka_unit_test(a_whole_prompt_is_a_hit_only_with_logits),
        cmocka_unit_test(marks_stand_where_the_rules_put_them),
        cmocka_unit_test(what_two_prompts_after_one_entry_share_is_saved),
        cmocka_unit_test(where_an_edit_parts_from_the_prompt_before_is_saved),
        cmocka_unit_test(marks_share_a_small_budget_by_priority),
        cmocka_unit_test(superseded_entries_go_first_and_the_live_rewind_point_last),
        cmocka_unit_test(nothing_goes_for_what_could_never_fit),
        cmocka_unit_test(a_failed_save_keeps_nothing_and_a_failed_restore_reads_the_prompt),
        cmocka_unit_test(several_requests_resume_one_entry_at_once),
        cmocka_unit_test(without_a_cache_the_plan_is_the_prompts_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
