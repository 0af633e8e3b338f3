#include "exact.h"

#include <stdio.h>
#include <string.h>
#include "base/buffer.h"

enum { SLOTS = 3, MORE = 45, FAR = 300 };

static struct lf_exact exact;
static struct lf_target *target;
static const struct lf_target_ops *ops;
// Around the window (32), the budgets (64), pairs, and pages of ratio 1 and 2 (128, 256).
static const uint32_t lengths[] = {1,   2,   3,   31,  32,  33,  63,  64,  65,  126, 127, 128,
                                   129, 130, 131, 255, 256, 257, 258, 259, 511, 512, 513, 600};
enum { LENGTHS = sizeof lengths / sizeof *lengths };

static int open_all(void **state) {
    (void)state;
    lf_exact_open(&exact);
    target = lf_exact_target(&exact, &(struct lf_model_options){.slots = SLOTS});
    ops = target->ops;
    return 0;
}

static int close_all(void **state) {
    (void)state;
    target->ops->close(target);
    lf_exact_close(&exact);
    return 0;
}

// Every test leaves no saved state behind.
static int nothing_saved(void **state) {
    (void)state;
    return ops->saved_total(target) != 0;
}

static struct lf_saved *save(uint32_t slot, uint64_t at, uint32_t what) {
    struct lf_error err = LF_ERROR_INIT;
    struct lf_saved *saved;
    uint64_t before = ops->saved_total(target), need = ops->save_need(target, slot, at, what);
    lf_exact_must(ops->save(target, slot, at, what, &saved, &err), &err);
    assert_int_equal(ops->saved_total(target) - before, need);
    return saved;
}

static void restore(uint32_t slot, const struct lf_saved *saved) {
    struct lf_error err = LF_ERROR_INIT;
    lf_exact_must(ops->restore(target, slot, saved, &err), &err);
    lf_exact_must(ops->grow(target, slot, LF_EXACT_CONTEXT, &err), &err);
}

static void read_digest(uint32_t slot, uint8_t digest[32]) {
    struct lf_error err = LF_ERROR_INIT;
    lf_exact_must(ops->digest(target, slot, digest, &err), &err);
}

static void same_digest(const char *what, const uint8_t got[32], const uint8_t want[32]) {
    if (memcmp(got, want, 32))
        lf_exact_differ("state", "%s: the digests differ", what);
}

// Taps are not stored: the context rows made of them are, and the digest holds those.
static void same_but_taps(const char *what, struct lf_outcome *got,
                          const struct lf_outcome *want) {
    memcpy(got->tap, want->tap, sizeof got->tap);
    lf_outcome_same(what, got, want);
}

// Prefills from a length on, in chunks of at most cut rows, to a boundary with logits.
static void go_on(uint32_t slot, const uint32_t *ids, uint32_t from, uint32_t to, uint32_t cut) {
    struct lf_error err = LF_ERROR_INIT;
    struct lf_bound end = {.at = to, .logits = true};
    for (uint32_t at = from, n; at < to; at += n) {
        n = to - at < cut ? to - at : cut;
        struct lf_chunk chunk = {.slot = slot, .rows = n, .pos0 = at, .tok = ids + at,
                                 .plan = &end, .n_plan = 1};
        lf_exact_must(ops->prefill(target, &chunk, 1, &err), &err);
    }
}

// A pass over the first rows as on a new server.
static void fresh(uint32_t slot, const uint32_t *ids, uint32_t rows, const struct lf_bound *plan,
                  uint32_t n_plan) {
    lf_exact_prefill(target, slot, ids, rows, (struct lf_cut){.rows = rows}, plan, n_plan);
}

static void same_as_fresh(const char *what, uint32_t slot, const uint32_t *ids, uint32_t rows) {
    static struct lf_outcome got, want;
    lf_outcome_read(target, slot, &got);
    fresh(2, ids, rows, NULL, 0);
    lf_outcome_read(target, 2, &want);
    lf_outcome_same(what, &got, &want);
}

// engine.md X-1, C-14
static void a_resumed_prompt_has_the_bits_of_a_fresh_one_at_every_length(void **state) {
    (void)state;
    for (uint32_t i = 0; i < LENGTHS; i++) {
        uint32_t at = lengths[i], to = at + MORE;
        uint8_t saved_digest[32], digest[32];
        char what[64];
        struct lf_bound mark = {.at = at};
        fresh(0, exact.ids, at, &mark, 1);
        read_digest(0, saved_digest);
        struct lf_saved *saved = save(0, at, LF_SAVE_STATE);
        // The slot's next user writes over all that is not shared.
        fresh(0, exact.ids + FAR, at, NULL, 0);
        restore(1, saved);
        read_digest(1, digest);
        same_digest("restored", digest, saved_digest);
        go_on(1, exact.ids, at, to, i % 2 ? MORE : 7);
        snprintf(what, sizeof what, "%u rows resumed, %u in all", at, to);
        same_as_fresh(what, 1, exact.ids, to);
        ops->drop(target, saved);
    }
}

// engine.md L-18a: the cone ran for every mark of the pass
static void every_mark_of_one_pass_resumes_like_a_fresh_prompt(void **state) {
    static const struct lf_bound plan[] = {{.at = 64}, {.at = 131}, {.at = 140}, {.at = 288},
                                           {.at = 410, .logits = true}};
    enum { MARKS = sizeof plan / sizeof *plan };
    struct lf_saved *saved[MARKS];
    struct lf_error err = LF_ERROR_INIT;
    (void)state;
    lf_exact_must(ops->reset(target, 0, &err), &err);
    lf_exact_must(ops->grow(target, 0, LF_EXACT_CONTEXT, &err), &err);
    for (uint32_t i = 0, from = 0; i < MARKS; from = (uint32_t)plan[i++].at) {
        struct lf_chunk chunk = {.rows = (uint32_t)plan[i].at - from, .pos0 = from,
                                 .tok = exact.ids + from, .plan = plan, .n_plan = MARKS};
        lf_exact_must(ops->prefill(target, &chunk, 1, &err), &err);
        saved[i] = save(0, plan[i].at, LF_SAVE_STATE);
    }
    for (uint32_t i = 0; i < MARKS; i++) {
        uint32_t at = (uint32_t)plan[i].at;
        restore(1, saved[i]);
        go_on(1, exact.ids, at, at + MORE, 16);
        same_as_fresh("a mark", 1, exact.ids, at + MORE);
        ops->drop(target, saved[i]);
    }
}

// engine.md C-4: decode rows and rejected drafts before the save change nothing
static void a_turn_after_a_saved_reply_has_the_bits_of_a_fresh_prompt(void **state) {
    static const uint32_t kept[] = {3, 1, 16, 7, 2, 11};
    struct lf_error err = LF_ERROR_INIT;
    (void)state;
    for (uint32_t prompt = 89; prompt <= 91; prompt++) {
        uint32_t at = prompt;
        fresh(0, exact.ids, prompt, NULL, 0);
        for (uint32_t i = 0; i < sizeof kept / sizeof *kept; at += kept[i++]) {
            struct lf_sampling greedy = {0};
            uint32_t token[LF_WINDOW_MAX], drawn[LF_WINDOW_MAX];
            for (uint32_t r = 0; r < LF_WINDOW_MAX; r++)
                token[r] = r < kept[i] ? exact.ids[at + r] : (at + 97 * r) % LF_EXACT_VOCAB;
            struct lf_window w = {.rows = LF_WINDOW_MAX, .pos0 = at, .tok = token,
                                  .rule = &greedy};
            lf_exact_must(ops->verify(target, &w, 1, drawn, &err), &err);
            lf_exact_must(ops->keep(target, &w, &kept[i], 1, &err), &err);
        }
        struct lf_saved *saved = save(0, at, LF_SAVE_STATE);
        fresh(0, exact.ids + FAR, at, NULL, 0);
        restore(1, saved);
        go_on(1, exact.ids, at, at + MORE, 20);
        same_as_fresh("a turn after a reply", 1, exact.ids, at + MORE);
        ops->drop(target, saved);
    }
}

// engine.md C-13
static void stored_logits_draw_as_the_prompt_did(void **state) {
    struct lf_error err = LF_ERROR_INIT;
    struct lf_sampling rule = {.temperature = 1, .top_p = 1, .seed = 11};
    struct lf_window w = {.slot = 0, .pos0 = 200, .rule = &rule};
    uint32_t want, got;
    static struct lf_outcome before, after;
    (void)state;
    fresh(0, exact.ids, 200, NULL, 0);
    lf_outcome_read(target, 0, &before);
    lf_exact_must(ops->draw_last(target, &w, &want, &err), &err);
    struct lf_saved *whole = save(0, 200, LF_SAVE_STATE | LF_SAVE_LOGITS);
    struct lf_saved *state_only = save(0, 200, LF_SAVE_STATE);
    struct lf_saved *logits = save(0, 200, LF_SAVE_LOGITS);
    fresh(0, exact.ids + FAR, 210, NULL, 0);
    for (int split = 0; split < 2; split++) {
        w.slot = 1;
        restore(1, split ? state_only : whole);
        if (split) {
            assert_int_equal(ops->draw_last(target, &w, &got, &err), LF_E_PLAN);
            err = (struct lf_error)LF_ERROR_INIT;
            restore(1, logits);
        }
        lf_outcome_read(target, 1, &after);
        same_but_taps("stored logits", &after, &before);
        lf_exact_must(ops->draw_last(target, &w, &got, &err), &err);
        assert_int_equal(got, want);
    }
    ops->drop(target, whole);
    ops->drop(target, state_only);
    ops->drop(target, logits);
}

// engine.md C-14, C-16
static void two_slots_resume_one_state_and_part_without_touching_it(void **state) {
    enum { AT = 333, TO = AT + 280 };
    static uint32_t left[TO], right[TO];
    uint8_t digest[32], again[32];
    struct lf_bound mark = {.at = AT};
    (void)state;
    for (uint32_t i = 0; i < TO; i++) {
        left[i] = exact.ids[i];
        right[i] = i < AT ? exact.ids[i] : exact.ids[i + 77];
    }
    fresh(0, exact.ids, AT, &mark, 1);
    read_digest(0, digest);
    struct lf_saved *saved = save(0, AT, LF_SAVE_STATE);
    restore(1, saved);
    // Slot 0 goes on where it was saved, slot 1 from the saved state, in turns.
    for (uint32_t at = AT; at < TO; at += 40) {
        go_on(0, left, at, at + 40, 40);
        go_on(1, right, at, at + 40, 9);
    }
    same_as_fresh("the slot that was saved", 0, left, TO);
    same_as_fresh("the slot that resumed", 1, right, TO);
    restore(0, saved);
    read_digest(0, again);
    same_digest("a state two slots resumed", again, digest);
    go_on(0, right, AT, TO, TO);
    same_as_fresh("resumed once more", 0, right, TO);
    ops->drop(target, saved);
}

// engine.md C-5: pages of several states are counted once, and all of them come back
static void bytes_are_exact_and_shared_pages_count_once(void **state) {
    static const struct lf_bound plan[] = {{.at = 300}, {.at = 520, .logits = true}};
    struct lf_error err = LF_ERROR_INIT;
    (void)state;
    assert_int_equal(ops->saved_total(target), 0);
    fresh(0, exact.ids, 300, plan, 2);
    struct lf_saved *first = save(0, 300, LF_SAVE_STATE);
    uint64_t alone = ops->save_bytes(target, 300, LF_SAVE_STATE);
    assert_int_equal(ops->saved_total(target), alone);
    struct lf_chunk chunk = {.rows = 220, .pos0 = 300, .tok = exact.ids + 300, .plan = plan,
                             .n_plan = 2};
    lf_exact_must(ops->prefill(target, &chunk, 1, &err), &err);
    uint32_t all = LF_SAVE_STATE | LF_SAVE_LOGITS;
    struct lf_saved *second = save(0, 520, all);
    uint64_t pages = ops->save_bytes(target, 300, LF_SAVE_PAGES);
    uint64_t longer = ops->save_bytes(target, 520, all);
    assert_true(pages > 0 && pages < ops->save_bytes(target, 520, LF_SAVE_PAGES));
    assert_int_equal(ops->saved_total(target), alone + longer - pages);
    ops->drop(target, first);
    assert_int_equal(ops->saved_total(target), longer);
    // A slot that resumed saves its own end: only what lies past the shared pages is new.
    restore(1, second);
    go_on(1, exact.ids, 520, 800, 300);
    struct lf_saved *third = save(1, 800, LF_SAVE_STATE);
    uint64_t third_alone = ops->save_bytes(target, 800, LF_SAVE_STATE);
    assert_int_equal(ops->saved_total(target),
                     longer + third_alone - ops->save_bytes(target, 520, LF_SAVE_PAGES));
    ops->drop(target, second);
    assert_int_equal(ops->saved_total(target), third_alone);
    ops->drop(target, third);
    ops->drop(target, NULL);
    assert_int_equal(ops->saved_total(target), 0);
}

// A file in memory: where a write went, and how far a read came.
struct file {
    struct lf_buffer bytes;
    uint64_t at;
};

static enum lf_status file_out(void *ctx, const void *bytes, uint64_t len, struct lf_error *err) {
    struct file *file = ctx;
    (void)err;
    lf_buffer_add(&file->bytes, bytes, len);
    assert_false(file->bytes.failed);
    return LF_OK;
}

static enum lf_status file_in(void *ctx, void *bytes, uint64_t len, struct lf_error *err) {
    struct file *file = ctx;
    if (len > file->bytes.len - file->at)
        return lf_fail(err, LF_E_FORMAT, "the file is cut");
    memcpy(bytes, file->bytes.data + file->at, len);
    file->at += len;
    return LF_OK;
}

static struct file written(const struct lf_saved *saved, uint64_t at, uint32_t what) {
    struct lf_error err = LF_ERROR_INIT;
    struct file file = {0};
    lf_exact_must(ops->write(target, saved, file_out, &file, &err), &err);
    assert_int_equal(file.bytes.len, ops->file_bytes(target, at, what));
    return file;
}

// The state comes back from its bytes alone, at exactly the bytes that a save takes.
static struct lf_saved *read_back(struct file *file, uint64_t at, uint32_t what) {
    struct lf_error err = LF_ERROR_INIT;
    struct lf_saved *saved;
    uint64_t before = ops->saved_total(target);
    file->at = 0;
    lf_exact_must(ops->read(target, at, what, file_in, file, &saved, &err), &err);
    assert_int_equal(file->at, file->bytes.len);
    assert_int_equal(ops->saved_total(target), before);
    ops->adopt(target, saved);
    assert_int_equal(ops->saved_total(target) - before, ops->save_bytes(target, at, what));
    return saved;
}

// engine.md C-18
static void a_state_that_was_written_and_read_has_the_same_bits(void **state) {
    (void)state;
    for (uint32_t i = 0; i < LENGTHS; i++) {
        uint32_t at = lengths[i], to = at + MORE, parts[] = {LF_SAVE_STATE, LF_SAVE_LOGITS};
        uint8_t before[32], after[32];
        struct file file[2];
        static struct lf_outcome want, got;
        fresh(0, exact.ids, at, NULL, 0);
        lf_outcome_read(target, 0, &want);
        read_digest(0, before);
        for (int p = 0; p < 2; p++) {
            struct lf_saved *saved = save(0, at, parts[p]);
            file[p] = written(saved, at, parts[p]);
            ops->drop(target, saved);
        }
        fresh(0, exact.ids + FAR, at + 9, NULL, 0);
        for (int p = 0; p < 2; p++) {
            struct lf_saved *saved = read_back(&file[p], at, parts[p]);
            restore(1, saved);
            ops->drop(target, saved);
            lf_buffer_free(&file[p].bytes);
        }
        read_digest(1, after);
        assert_memory_equal(before, after, sizeof before);
        lf_outcome_read(target, 1, &got);
        same_but_taps("logits read back", &got, &want);
        go_on(1, exact.ids, at, to, 11);
        same_as_fresh("rows after a state read back", 1, exact.ids, to);
    }
}

// engine.md C-20: what no save writes is refused, and nothing is left of it
static void bytes_that_no_save_wrote_are_refused(void **state) {
    struct lf_error err = LF_ERROR_INIT;
    struct lf_saved *saved;
    enum { AT = 300 };
    (void)state;
    fresh(0, exact.ids, AT, NULL, 0);
    struct lf_saved *whole = save(0, AT, LF_SAVE_STATE);
    struct file file = written(whole, AT, LF_SAVE_STATE);
    ops->drop(target, whole);
    size_t len = file.bytes.len;
    for (size_t cut = 0; cut < len; cut += cut < 3000 || cut + 3000 > len ? 1 : 977) {
        err = (struct lf_error)LF_ERROR_INIT;
        file.at = 0;
        file.bytes.len = cut;
        assert_int_equal(ops->read(target, AT, LF_SAVE_STATE, file_in, &file, &saved, &err),
                         LF_E_FORMAT);
        assert_null(saved);
    }
    file.bytes.len = len;
    static const struct {
        uint64_t from_end; // 0: the first byte
        uint8_t byte;
    } wrong[] = {{0, 0xFF}, {1, 0x7F}};
    for (int i = 0; i < 2; i++) {
        char *byte = file.bytes.data + (wrong[i].from_end ? len - wrong[i].from_end : 2);
        char good = *byte;
        *byte = (char)wrong[i].byte;
        err = (struct lf_error)LF_ERROR_INIT;
        file.at = 0;
        assert_int_equal(ops->read(target, AT, LF_SAVE_STATE, file_in, &file, &saved, &err),
                         LF_E_FORMAT);
        *byte = good;
    }
    static const uint64_t lengths_refused[] = {0, LF_EXACT_CONTEXT + 1, UINT64_MAX};
    for (int i = 0; i < 3; i++) {
        err = (struct lf_error)LF_ERROR_INIT;
        assert_int_equal(ops->read(target, lengths_refused[i], LF_SAVE_STATE, file_in, &file,
                                   &saved, &err), LF_E_POS);
    }
    lf_buffer_free(&file.bytes);
}

// engine.md C-3, C-19: a state with draft rings is none of a server without
static void the_fingerprint_tells_whether_states_hold_a_drafter(void **state) {
    (void)state;
    struct lf_model_options plain = {.no_drafts = true};
    struct lf_target *other = lf_exact_target(&exact, &plain);
    struct lf_target *same = lf_exact_target(&exact, &(struct lf_model_options){.threads = 1});
    assert_string_equal(target->fingerprint, same->fingerprint);
    assert_string_not_equal(target->fingerprint, other->fingerprint);
    other->ops->close(other);
    same->ops->close(same);
}

static void refuses(uint32_t slot, uint64_t at, uint32_t what, enum lf_status status) {
    struct lf_error err = LF_ERROR_INIT;
    struct lf_saved *saved;
    assert_int_equal(ops->save(target, slot, at, what, &saved, &err), status);
    assert_null(saved);
    assert_int_equal(ops->saved_total(target), 0);
}

// engine.md 1.2: refusals leave the state alone
static void a_state_is_saved_only_where_it_is_complete(void **state) {
    static const struct lf_bound plan[] = {{.at = 100}, {.at = 200, .logits = true}};
    struct lf_saved *saved;
    uint8_t before[32], after[32];
    uint32_t token = exact.ids[100], drawn, kept = 1;
    struct lf_sampling greedy = {0};
    (void)state;
    struct lf_window w = {.rows = 1, .pos0 = 100, .tok = &token, .rule = &greedy};
    fresh(0, exact.ids, 99, plan, 2);
    refuses(0, 99, LF_SAVE_STATE, LF_E_PLAN);
    fresh(0, exact.ids, 100, plan, 2);
    read_digest(0, before);
    refuses(0, 99, LF_SAVE_STATE, LF_E_PLAN);
    refuses(0, 100, LF_SAVE_STATE | LF_SAVE_LOGITS, LF_E_PLAN);
    refuses(0, 100, 0, LF_E_VALUE);
    refuses(0, 100, LF_SAVE_PAGES, LF_E_VALUE);
    refuses(SLOTS, 100, LF_SAVE_STATE, LF_E_SLOT);
    read_digest(0, after);
    assert_memory_equal(before, after, sizeof before);
    struct lf_error err = LF_ERROR_INIT;
    lf_exact_must(ops->verify(target, &w, 1, &drawn, &err), &err);
    refuses(0, 100, LF_SAVE_STATE, LF_E_KEEP);
    lf_exact_must(ops->keep(target, &w, &kept, 1, &err), &err);
    saved = save(0, 101, LF_SAVE_STATE);
    assert_int_equal(ops->restore(target, SLOTS, saved, &err), LF_E_SLOT);
    ops->drop(target, saved);
    fresh(0, exact.ids, 100, NULL, 0);
    saved = save(0, 100, LF_SAVE_LOGITS);
    fresh(1, exact.ids, 101, NULL, 0);
    err = (struct lf_error)LF_ERROR_INIT;
    assert_int_equal(ops->restore(target, 1, saved, &err), LF_E_POS);
    ops->drop(target, saved);
}

int main(int argc, char **argv) {
#define TEST(name) cmocka_unit_test_teardown(name, nothing_saved)
    const struct CMUnitTest tests[] = {
        TEST(a_resumed_prompt_has_the_bits_of_a_fresh_one_at_every_length),
        TEST(every_mark_of_one_pass_resumes_like_a_fresh_prompt),
        TEST(a_turn_after_a_saved_reply_has_the_bits_of_a_fresh_prompt),
        TEST(stored_logits_draw_as_the_prompt_did),
        TEST(two_slots_resume_one_state_and_part_without_touching_it),
        TEST(bytes_are_exact_and_shared_pages_count_once),
        TEST(a_state_is_saved_only_where_it_is_complete),
        TEST(a_state_that_was_written_and_read_has_the_same_bits),
        TEST(bytes_that_no_save_wrote_are_refused),
        TEST(the_fingerprint_tells_whether_states_hold_a_drafter),
    };
    return lf_exact_main(argc, argv, tests, sizeof tests / sizeof *tests, open_all, close_all);
}
