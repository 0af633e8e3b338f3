// The prompt cache with a disk: what is evicted comes back, both caps hold (C-16, C-18 to C-20).
#include "cache_lane.h"

#include <unistd.h>
#include "gate.h"
#include "support/folder.h"

static struct folder folder;
static struct gate gate;

static int make_folder(void **state) {
    (void)state;
    folder = folder_empty();
    return 0;
}

static int remove_folder(void **state) {
    (void)state;
    folder_free(&folder);
    return 0;
}

static void open_disk(uint64_t cap_bytes, uint64_t disk_bytes, uint64_t rows_min, bool shared) {
    struct lf_error err = LF_ERROR_INIT;
    struct lf_cache_disk disk = {
        .spill = {.dir = folder.path, .fingerprint = "lf_test", .cap_bytes = disk_bytes,
                  .floor_bytes = 1},
        .rows_min = rows_min, .keep_shared = shared, .wait_s = 300};
    open_cache(cap_bytes);
    must(lf_cache_spill(cache, &disk, &err), &err);
}

// As an engine's turn, until the disk thread has nothing more to do.
static void let_disk_work(void) {
    while (lf_cache_disk(cache) || lf_cache_busy(cache)) {
        check_account();
        if (lf_cache_busy(cache))
            lf_spill_wait(cache->spill, 1);
    }
}

// Asks for a text until the line lets it go; the rows it resumed.
static uint64_t ask(uint32_t slot, uint64_t seed, uint64_t rows) {
    struct lf_cache_wait wait = {0};
    write_text(slot, 0, rows, seed);
    struct lf_rowkeys keys = keys_of(&lane[slot], rows);
    while (lf_cache_waits(cache, &keys, &wait, 0))
        let_disk_work();
    return begin(slot, rows, 0, 0, 0);
}

static uint64_t serve_one(uint64_t seed, uint64_t rows) {
    uint64_t resumed = ask(0, seed, rows);
    read_prompt(0);
    cancel(0);
    let_disk_work();
    return resumed;
}

static uint64_t bytes_of(uint64_t rows) {
    return lf_entry_bytes(rows, 0) +
           target->ops->save_bytes(target, rows, LF_SAVE_STATE) +
           target->ops->save_bytes(target, rows, LF_SAVE_LOGITS);
}

// Bytes of an entry of 2,000 rows, for caps that hold so many of them.
static uint64_t entry_bytes(void) {
    open_cache(NO_CAP);
    uint64_t bytes = bytes_of(2000);
    close_cache();
    return bytes;
}

// C-18
static void what_was_evicted_comes_back_from_the_disk(void **state) {
    uint64_t cap = 2 * entry_bytes() + 5000;
    (void)state;
    open_disk(cap, 1 << 30, 0, false);
    for (uint64_t seed = 1; seed <= 5; seed++)
        assert_int_equal(serve_one(seed, 2000), 0);
    assert_true(stats().evicted >= 3);
    assert_int_equal(stats().unspilled, 0);
    assert_true(stats().spilled >= 3);
    for (uint64_t seed = 1; seed <= 3; seed++)
        assert_int_equal(serve_one(seed, 2000), 2000);
    assert_true(stats().returned >= 3);
    assert_int_equal(stats().hits, 3);
    // Longer prompts go on from it.
    assert_int_equal(serve_one(1, 2500), 2000);
    close_cache();
}

static void short_states_and_those_too_large_for_the_disk_are_not_written(void **state) {
    (void)state;
    open_disk(NO_CAP, 30000, 0, false);
    assert_int_equal(serve_one(1, 1023), 0);
    assert_int_equal(serve_one(2, 9000), 0);
    lf_cache_flush(cache, 10);
    assert_int_equal(stats().spilled + stats().disk_files + stats().disk_held_bytes, 0);
    assert_int_equal(serve_one(3, 1024), 0);
    lf_cache_flush(cache, 10);
    assert_int_equal(stats().spilled, 1);
    close_cache();
}

// C-18: for a server that starts
static void shared_prefixes_are_written_at_once(void **state) {
    (void)state;
    for (int shared = 0; shared < 2; shared++) {
        open_disk(NO_CAP, 1 << 30, 0, shared);
        write_text(0, 0, 2000, 1);
        lane[0].shared[0] = 700;
        begin(0, 2000, 1990, 0, 1);
        read_prompt(0);
        let_disk_work();
        assert_int_equal(stats().spilled, shared);
        close_cache();
    }
    open_disk(NO_CAP, 1 << 30, 0, false);
    write_text(1, 700, 2000, 2);
    struct lf_cache_wait wait = {0};
    write_text(1, 0, 700, 1);
    struct lf_rowkeys keys = keys_of(&lane[1], 2000);
    while (lf_cache_waits(cache, &keys, &wait, 0))
        let_disk_work();
    assert_int_equal(begin(1, 2000, 0, 0, 0), 700);
    assert_int_equal(entry_of(700)->marks, LF_MARK_SHARED);
    close_cache();
}

static void a_flush_writes_the_most_recent_first_and_a_restart_finds_them(void **state) {
    (void)state;
    open_disk(NO_CAP, 1 << 30, 0, false);
    for (uint64_t seed = 1; seed <= 4; seed++)
        serve_one(seed, 1500 + seed);
    assert_int_equal(stats().spilled, 0);
    lf_cache_flush(cache, 0);
    assert_int_equal(stats().spilled, 0);
    lf_cache_flush(cache, 30);
    assert_int_equal(stats().spilled, 4);
    close_cache();
    open_disk(NO_CAP, 1 << 30, 0, false);
    assert_int_equal(stats().disk_files, 4);
    for (uint64_t seed = 1; seed <= 4; seed++)
        assert_int_equal(serve_one(seed, 1500 + seed), 1500 + seed);
    // All of it is on the disk already.
    lf_cache_flush(cache, 30);
    assert_int_equal(stats().spilled, 0);
    close_cache();
}

// C-18: logits that join an entry go to its file, too
static void logits_that_came_later_are_written_with_their_state(void **state) {
    (void)state;
    open_disk(NO_CAP, 1 << 30, 0, false);
    write_text(0, 0, 2000, 1);
    begin(0, 1200, 0, 0, 0);
    read_prompt(0);
    finish(0, 30);
    lf_cache_flush(cache, 10);
    assert_int_equal(stats().disk_files, 2);
    assert_int_equal(ask(1, 1, 1230), 1200);
    read_prompt(1);
    cancel(1);
    lf_cache_flush(cache, 10);
    assert_int_equal(stats().spilled, 3);
    assert_int_equal(stats().disk_files, 2);
    close_cache();
    open_disk(NO_CAP, 1 << 30, 0, false);
    assert_int_equal(ask(1, 1, 1230), 1230);
    close_cache();
}

// C-20
static void a_damaged_file_goes_and_the_prompt_is_read(void **state) {
    char name[256];
    size_t len;
    (void)state;
    open_disk(NO_CAP, 1 << 30, 0, false);
    serve_one(1, 2000);
    lf_cache_flush(cache, 10);
    close_cache();
    assert_int_equal(folder_files(&folder, name), 1);
    uint8_t *bytes = folder_read(&folder, name, &len);
    bytes[len / 2] ^= 4;
    folder_write(&folder, name, bytes, len);
    free(bytes);
    open_disk(NO_CAP, 1 << 30, 0, false);
    assert_int_equal(serve_one(1, 2000), 0);
    check_account();
    assert_int_equal(stats().damaged, 1);
    assert_int_equal(serve_one(1, 2000), 2000);
    close_cache();
}

// C-12, C-18: the disk is asked only where it is longer, and reading has to be worth it
static void memory_is_better_where_it_is_as_long_or_reading_is_slow(void **state) {
    (void)state;
    open_disk(NO_CAP, 1 << 30, 0, false);
    serve_one(1, 1500);
    lf_cache_flush(cache, 10);
    assert_int_equal(serve_one(1, 1500), 1500);
    assert_int_equal(stats().returned, 0);
    lf_cache_drop(cache, entry_of(1500));
    assert_int_equal(serve_one(1, 1500), 1500);
    assert_int_equal(stats().returned, 1);
    // A row that takes no time at all is not waited for.
    lf_cache_drop(cache, entry_of(1500));
    struct lf_cache_wait wait = {0};
    struct lf_rowkeys keys = keys_of(&lane[0], 1500);
    assert_false(lf_cache_waits(cache, &keys, &wait, 1e-15));
    assert_true(lf_cache_waits(cache, &keys, &wait, 1));
    let_disk_work();
    close_cache();
}

// C-16: what is read once serves all that wait for it
static void several_prompts_wait_for_one_file(void **state) {
    struct lf_cache_wait wait[SLOTS] = {{0}};
    struct lf_rowkeys keys[SLOTS];
    (void)state;
    open_disk(NO_CAP, 1 << 30, 0, false);
    serve_one(1, 1500);
    lf_cache_flush(cache, 10);
    lf_cache_drop(cache, entry_of(1500));
    for (uint32_t s = 0; s < SLOTS; s++) {
        write_text(s, 0, 1500, 1);
        write_text(s, 1500, 1600, 10 + s);
        keys[s] = keys_of(&lane[s], 1600);
        assert_true(lf_cache_waits(cache, &keys[s], &wait[s], 0));
    }
    let_disk_work();
    for (uint32_t s = 0; s < SLOTS; s++) {
        assert_false(lf_cache_waits(cache, &keys[s], &wait[s], 0));
        assert_int_equal(begin(s, 1600, 0, 0, 0), 1500);
    }
    assert_int_equal(stats().returned, 1);
    close_cache();
}

static enum lf_status read_behind_gate(struct lf_target *t, uint64_t at, uint32_t what,
                                       lf_bytes_in *in, void *ctx, struct lf_saved **saved,
                                       struct lf_error *err) {
    gate_wait(&gate);
    return gate.passed.read(t, at, what, in, ctx, saved, err);
}

// F-4: who waited for it and who comes later go on with what is in memory
static void a_prompt_gives_up_a_file_that_the_disk_does_not_give(void **state) {
    struct lf_cache_wait wait = {0}, later = {0};
    (void)state;
    open_disk(NO_CAP, 1 << 30, 0, false);
    serve_one(1, 1500);
    lf_cache_flush(cache, 10);
    lf_cache_drop(cache, entry_of(1500));
    gate_shut(&gate, target);
    gate.ops.read = read_behind_gate;
    cache->disk_wait_s = 0.2;
    struct lf_rowkeys keys = keys_of(&lane[0], 1500);
    assert_true(lf_cache_waits(cache, &keys, &wait, 0));
    assert_true(lf_cache_waits(cache, &keys, &wait, 0));
    usleep(250000);
    assert_false(lf_cache_waits(cache, &keys, &wait, 0));
    assert_false(lf_cache_waits(cache, &keys, &later, 0));
    assert_int_equal(begin(0, 1500, 0, 0, 0), 0);
    cancel(0);
    gate_open(&gate);
    let_disk_work();
    check_account();
    assert_int_equal(ask(0, 1, 1500), 1500);
    close_cache();
}

// C-15, C-20: an entry that fails while it is written goes when the disk thread is done with it
static void an_entry_that_does_not_restore_while_it_is_written_goes_afterwards(void **state) {
    (void)state;
    open_disk(entry_bytes() * 3 / 2, 1 << 30, 0, false);
    write_text(0, 0, 2000, 1);
    begin(0, 2000, 0, 0, 0);
    read_prompt(0);
    cancel(0);
    lf_cache_disk(cache);
    assert_int_equal(cache->writing, 1);
    saves->fail_restores = 1;
    write_text(1, 0, 2000, 1);
    assert_int_equal(begin(1, 2000, 0, 0, 0), 0);
    assert_int_equal(stats().entries, 1);
    // Nobody resumes it meanwhile.
    write_text(2, 0, 2000, 1);
    assert_int_equal(begin(2, 2000, 0, 0, 0), 0);
    assert_false(lf_cache_evict(cache));
    cancel(1);
    cancel(2);
    let_disk_work();
    check_account();
    assert_int_equal(stats().entries, 0);
    assert_int_equal(ask(1, 1, 2000), 2000); // the file is as good as before
    close_cache();
}

static struct lf_check_rng rng = {7};

static uint32_t below(uint32_t n) {
    return lf_check_below(&rng, n);
}

static bool live[SLOTS];

static void operate(void) {
    uint32_t slot = below(SLOTS), rows = 1 + below(300);
    if (below(50) == 0)
        saves->fail_saves = 1;
    if (below(50) == 0)
        saves->fail_restores = 1;
    if (below(20) == 0)
        lf_cache_evict(cache);
    if (below(3))
        lf_cache_disk(cache);
    if (below(10) == 0)
        let_disk_work();
    check_account();
    if (live[slot] && lane[slot].at < lane[slot].rows && below(8)) {
        step(slot);
    } else if (live[slot]) {
        uint32_t reply = below(2) && lane[slot].at == lane[slot].rows ? below(REPLY_MAX) : 0;
        if (reply)
            write_text(slot, lane[slot].rows, lane[slot].rows + reply, below(3));
        finish(slot, lane[slot].at == lane[slot].rows ? reply : 0);
        live[slot] = false;
    } else {
        struct lf_cache_wait wait = {0};
        uint32_t own = below(2) ? rows : below(rows + 1);
        write_text(slot, 0, own, below(8));
        write_text(slot, own, rows, 100 + below(1000));
        struct lf_rowkeys keys = keys_of(&lane[slot], rows);
        for (int tries = 0; tries < 20 && lf_cache_waits(cache, &keys, &wait, 0); tries++)
            let_disk_work();
        lane[slot].shared[0] = below(rows + 1);
        begin(slot, rows, below(rows + 1), below(rows + 1), below(2));
        live[slot] = true;
    }
}

// C-5 to C-7, C-20, with restarts
static void both_caps_hold_over_random_operations(void **state) {
    uint64_t spilled = 0, returned = 0, removed = 0, evicted = 0;
    (void)state;
    for (uint32_t i = 0; i < 8; i++) {
        uint64_t disk = 4000 + i * 6000;
        open_disk(15000 + i * 20000, disk, 1 + i * 5, i % 2);
        memset(live, 0, sizeof live);
        for (uint32_t n = 0; n < 1500; n++) {
            operate();
            check_account();
            struct lf_cache_stats s = stats();
            assert_true(s.disk_held_bytes <= disk && s.held_bytes <= s.cap_bytes);
        }
        if (i % 3)
            lf_cache_flush(cache, 5);
        struct lf_cache_stats s = stats();
        assert_int_equal(s.damaged, 0);
        spilled += s.spilled;
        returned += s.returned;
        removed += s.disk_removed;
        evicted += s.evicted;
        close_cache();
    }
    assert_true(spilled > 1000 && returned > 300 && removed > 1000 && evicted > 3000);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, make_folder, remove_folder)
    const struct CMUnitTest tests[] = {
        TEST(what_was_evicted_comes_back_from_the_disk),
        TEST(short_states_and_those_too_large_for_the_disk_are_not_written),
        TEST(shared_prefixes_are_written_at_once),
        TEST(a_flush_writes_the_most_recent_first_and_a_restart_finds_them),
        TEST(logits_that_came_later_are_written_with_their_state),
        TEST(a_damaged_file_goes_and_the_prompt_is_read),
        TEST(memory_is_better_where_it_is_as_long_or_reading_is_slow),
        TEST(several_prompts_wait_for_one_file),
        TEST(a_prompt_gives_up_a_file_that_the_disk_does_not_give),
        TEST(an_entry_that_does_not_restore_while_it_is_written_goes_afterwards),
        TEST(both_caps_hold_over_random_operations),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
