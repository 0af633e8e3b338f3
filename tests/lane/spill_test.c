// The folder of saved states: files that lie, disks that are full, caps and floors (C-18 to C-21).
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>
#include "lane/spill_dir.h"
#include "support/fake_saver.h"
#include "support/folder.h"

enum { CONTEXT = 4000, ROWS = 40 };

static struct folder parent, folder;
static struct lf_target *target;
static struct lf_spill_dir dir;
static uint32_t text[CONTEXT];
static struct lf_image_span image = {.start = 5, .rows = 9, .digest = {7}};

static int make_parent(void **state) {
    (void)state;
    parent = folder_empty();
    folder = folder_inside(&parent, "spill");
    target = lf_fake_saver_open(1, CONTEXT);
    for (uint32_t i = 0; i < CONTEXT; i++)
        text[i] = i * 17 % LF_SAVER_VOCAB;
    return 0;
}

static int remove_parent(void **state) {
    (void)state;
    target->ops->close(target);
    folder_free(&folder);
    folder_free(&parent);
    return 0;
}

static struct lf_spill_options roomy(void) {
    return (struct lf_spill_options){.dir = folder.path, .fingerprint = "lf_test", .floor_bytes = 1,
                                     .cap_bytes = 1 << 30};
}

static void open_dir(struct lf_spill_options options) {
    struct lf_error err = LF_ERROR_INIT;
    if (lf_spill_dir_open(&dir, &options, &err) != LF_OK)
        fail_msg("%s", err.text);
}

static struct lf_spill_stats stats(void) {
    struct lf_spill_stats s;
    lf_spill_dir_stats(&dir, &s);
    return s;
}

// File times move in steps of the kernel's clock.
static void let_time_pass(void) {
    usleep(30 * 1000);
}

static struct lf_rowkeys keys_of(uint64_t rows) {
    return (struct lf_rowkeys){.n = rows, .token = text, .image = &image, .n_images = 1};
}

static struct lf_spill_head head_of(uint64_t rows, bool logits) {
    struct lf_rowkeys keys = keys_of(rows);
    struct lf_rowkeys_hash hash = {0};
    lf_rowkeys_hash_to(&hash, &keys, rows);
    return (struct lf_spill_head){
        .fingerprint = "lf_test", .rows = rows, .hash = hash.value, .born = rows, .images = 1,
        .state_bytes = target->ops->file_bytes(target, rows, LF_SAVE_STATE),
        .logits_bytes = logits ? target->ops->file_bytes(target, rows, LF_SAVE_LOGITS) : 0};
}

static struct lf_saved *save(uint64_t rows, uint32_t what) {
    struct lf_error err = LF_ERROR_INIT;
    struct lf_bound end = {.at = rows, .logits = true};
    struct lf_chunk chunk = {.rows = (uint32_t)rows, .tok = text, .plan = &end, .n_plan = 1};
    struct lf_saved *saved;
    assert_int_equal(target->ops->reset(target, 0, &err), LF_OK);
    assert_int_equal(target->ops->prefill(target, &chunk, 1, &err), LF_OK);
    assert_int_equal(target->ops->save(target, 0, rows, what, &saved, &err), LF_OK);
    return saved;
}

static enum lf_status put(uint64_t rows, bool logits) {
    struct lf_error err = LF_ERROR_INIT;
    struct lf_spill_head head = head_of(rows, logits);
    struct lf_spill_parts parts = {.token = text, .image = &image,
                                   .state = save(rows, LF_SAVE_STATE),
                                   .logits = logits ? save(rows, LF_SAVE_LOGITS) : NULL};
    enum lf_status status = lf_spill_dir_write(&dir, target, &head, &parts, &err);
    target->ops->drop(target, parts.state);
    if (logits)
        target->ops->drop(target, parts.logits);
    return status;
}

// Reads a file, checks that it is the state of the text, and lets it go.
static enum lf_status get(const struct lf_spill_head *head) {
    struct lf_error err = LF_ERROR_INIT;
    uint32_t token[CONTEXT];
    struct lf_image_span span[2];
    struct lf_spill_parts parts = {.token = token, .image = span};
    enum lf_status status = lf_spill_dir_read(&dir, target, head, &parts, &err);
    struct lf_saved *saved[2] = {parts.state, parts.logits};
    for (int i = 0; i < 2; i++)
        if (saved[i])
            target->ops->adopt(target, saved[i]);
    if (status == LF_OK) {
        assert_memory_equal(token, text, head->rows * sizeof *text);
        assert_int_equal(span[0].start, image.start);
        assert_int_equal(span[0].rows, image.rows);
        assert_memory_equal(span[0].digest, image.digest, sizeof image.digest);
        assert_int_equal(target->ops->restore(target, 0, parts.state, &err), LF_OK);
    }
    for (int i = 0; i < 2; i++)
        if (saved[i])
            target->ops->drop(target, saved[i]);
    assert_int_equal(target->ops->saved_total(target), 0);
    return status;
}

static bool find(uint64_t rows, uint64_t more_than, struct lf_spill_head *out) {
    struct lf_rowkeys keys = keys_of(rows);
    return lf_spill_dir_find(&dir, &keys, more_than, out);
}

// C-18: what was written is found by what it leads, and comes back; also for the next server
static void a_state_comes_back_from_its_file(void **state) {
    struct lf_spill_head head;
    struct stat st;
    (void)state;
    open_dir(roomy());
    assert_int_equal(stat(folder.path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0700);
    assert_int_equal(put(ROWS, false), LF_OK);
    assert_int_equal(put(100, true), LF_OK);
    for (int again = 0; again < 2; again++) {
        assert_int_equal(stats().files, 2);
        assert_false(find(ROWS, 0, &head)); // leaves no row to run
        assert_true(find(ROWS + 1, 0, &head) && head.rows == ROWS);
        assert_true(find(100, 0, &head) && head.rows == 100 && head.logits_bytes);
        assert_false(find(400, 100, &head));
        assert_true(find(400, 99, &head));
        assert_int_equal(get(&head), LF_OK);
        assert_true(lf_spill_dir_holds(&dir, 100, head.hash, true));
        assert_true(find(99, 0, &head));
        assert_false(lf_spill_dir_holds(&dir, ROWS, head.hash, true));
        assert_int_equal(get(&head), LF_OK);
        text[3]++;
        assert_false(find(400, 0, &head));
        text[3]--;
        lf_spill_dir_close(&dir);
        open_dir(roomy());
    }
    lf_spill_dir_close(&dir);
}

// The bytes of the only file, and a server that starts with other bytes in their place.
static uint8_t good[4096];
static size_t good_bytes;
static char only[256];

static void write_one(void) {
    open_dir(roomy());
    assert_int_equal(put(ROWS, true), LF_OK);
    lf_spill_dir_close(&dir);
    assert_int_equal(folder_files(&folder, only), 1);
    uint8_t *bytes = folder_read(&folder, only, &good_bytes);
    struct lf_spill_head head = head_of(ROWS, true);
    assert_int_equal(good_bytes, lf_spill_file_bytes(&head));
    memcpy(good, bytes, good_bytes);
    free(bytes);
}

// Bytes that are not the file's: it goes at the scan or at the read, and nothing else happens.
static void expect_damaged(const uint8_t *bytes, size_t len) {
    char name[256];
    struct lf_spill_head head = head_of(ROWS, true);
    folder_write(&folder, only, bytes, len);
    open_dir(roomy());
    assert_int_equal(stats().damaged + stats().files, 1);
    if (stats().files)
        assert_int_not_equal(get(&head), LF_OK);
    assert_int_equal(stats().damaged, 1);
    assert_int_equal(stats().files, 0);
    assert_int_equal(stats().held_bytes, 0);
    assert_int_equal(folder_files(&folder, name), 0);
    lf_spill_dir_close(&dir);
}

// C-20
static void a_file_cut_at_any_length_is_removed(void **state) {
    (void)state;
    write_one();
    for (size_t len = 0; len < good_bytes; len++)
        expect_damaged(good, len);
    uint8_t longer[sizeof good + 1] = {0};
    memcpy(longer, good, good_bytes);
    expect_damaged(longer, good_bytes + 1);
}

static void a_file_with_a_flipped_bit_is_never_used(void **state) {
    (void)state;
    write_one();
    for (size_t at = 0; at < good_bytes; at++) {
        uint8_t bad[sizeof good];
        memcpy(bad, good, good_bytes);
        bad[at] ^= (uint8_t)(1u << at % 8);
        if (at >= 8 && at < 12)
            continue; // another version, see below
        expect_damaged(bad, good_bytes);
    }
}

// Sizes that lie under a right checksum, as a hostile file has them.
static void sizes_that_do_not_add_up_are_refused(void **state) {
    static const uint64_t lies[] = {0, 1, 41, UINT64_MAX, UINT64_MAX / 4, UINT64_MAX / 8 + 1,
                                    1ull << 32, 1ull << 62, 1ull << 63};
    struct lf_spill_head head, *h = &head;
    uint64_t *field[] = {&h->rows, &h->state_bytes, &h->logits_bytes};
    (void)state;
    write_one();
    for (size_t f = 0; f < 4; f++) {
        for (size_t i = 0; i < sizeof lies / sizeof *lies; i++) {
            struct lf_error err = LF_ERROR_INIT;
            uint8_t bytes[LF_SPILL_HEAD_BYTES];
            head = head_of(ROWS, true);
            if (f < 3)
                *field[f] = lies[i];
            else
                head.images = lies[i] == 1 ? 2 : (uint32_t)lies[i];
            lf_spill_head_pack(&head, bytes);
            struct lf_spill_head got;
            assert_int_equal(lf_spill_head_parse(&got, bytes, good_bytes, &err), LF_E_FORMAT);
            uint8_t bad[sizeof good];
            memcpy(bad, good, good_bytes);
            memcpy(bad, bytes, sizeof bytes);
            expect_damaged(bad, good_bytes);
        }
    }
}

// C-19: files of another model or version stay, uncounted as ours, until the cap needs their room
static void foreign_files_are_ignored_until_room_is_needed(void **state) {
    struct lf_spill_head head;
    char name[256];
    (void)state;
    write_one();
    good[8]++;
    folder_write(&folder, only, good, good_bytes);
    struct lf_spill_options options = roomy();
    options.fingerprint = "lf_other";
    open_dir(options);
    assert_int_equal(stats().files, 1);
    assert_int_equal(stats().held_bytes, good_bytes);
    assert_int_equal(stats().damaged, 0);
    assert_false(find(400, 0, &head));
    lf_spill_dir_close(&dir);
    good[8]--;
    folder_write(&folder, only, good, good_bytes);
    open_dir(options);
    assert_false(find(400, 0, &head));
    lf_spill_dir_close(&dir);
    options = roomy();
    options.fingerprint = "lf_other";
    options.cap_bytes = good_bytes + 100;
    open_dir(options);
    assert_int_equal(put(ROWS + 1, false), LF_OK);
    assert_int_equal(stats().files, 1);
    assert_int_equal(stats().removed, 1);
    assert_int_equal(folder_files(&folder, name), 1);
    assert_string_not_equal(name, only);
    lf_spill_dir_close(&dir);
}

// C-19, C-20: temporaries go, other people's files stay
static void a_start_deletes_temporary_files_and_nothing_that_is_not_ours(void **state) {
    char name[256];
    char inner[256];
    (void)state;
    write_one();
    snprintf(name, sizeof name, "%.100s.tmp", only);
    folder_write(&folder, name, good, 100);
    folder_write(&folder, "notes.lfstate", good, 3);
    snprintf(inner, sizeof inner, "%s/00000000000000000000000000000000-a.lfstate", folder.path);
    assert_int_equal(mkdir(inner, 0700), 0);
    assert_int_equal(folder_files(&folder, name), 4);
    open_dir(roomy());
    assert_int_equal(folder_files(&folder, name), 3);
    assert_int_equal(stats().files, 1);
    assert_int_equal(stats().held_bytes, good_bytes);
    lf_spill_dir_close(&dir);
    folder_remove(&folder, "notes.lfstate");
    assert_int_equal(rmdir(inner), 0);
    assert_int_equal(folder_files(&folder, name), 1);
    assert_string_equal(name, only);
}

// C-20: the least recently used goes, and what is too large alone removes nothing
static void the_cap_holds_and_the_oldest_go(void **state) {
    struct lf_spill_head head, forty = head_of(ROWS, false), sixty = head_of(60, false);
    struct lf_spill_options options = roomy();
    uint64_t least = lf_spill_file_bytes(&forty) + lf_spill_file_bytes(&sixty);
    (void)state;
    options.cap_bytes = least;
    open_dir(options);
    assert_int_equal(put(ROWS, false), LF_OK);
    assert_int_equal(put(60, false), LF_OK);
    assert_int_equal(stats().held_bytes, least);
    assert_int_equal(get(&forty), LF_OK);
    assert_int_equal(put(CONTEXT, false), LF_E_TOO_LARGE);
    assert_int_equal(stats().files, 2);
    assert_int_equal(put(ROWS + 1, false), LF_OK);
    assert_true(stats().held_bytes <= least);
    assert_false(find(70, ROWS + 1, &head)); // the one of 60 went
    assert_true(find(ROWS + 1, 0, &head) && head.rows == ROWS);
    // The order of use outlives the server.
    let_time_pass();
    assert_int_equal(get(&forty), LF_OK);
    lf_spill_dir_close(&dir);
    open_dir(options);
    assert_int_equal(put(ROWS + 2, false), LF_OK);
    assert_true(find(ROWS + 1, 0, &head) && head.rows == ROWS);
    assert_false(find(ROWS + 2, ROWS, &head));
    lf_spill_dir_close(&dir);
}

static void a_smaller_cap_at_the_start_removes_the_oldest(void **state) {
    struct lf_spill_head head, forty = head_of(ROWS, false);
    struct lf_spill_options options = roomy();
    (void)state;
    open_dir(options);
    assert_int_equal(put(60, false), LF_OK);
    let_time_pass();
    assert_int_equal(put(ROWS, false), LF_OK);
    lf_spill_dir_close(&dir);
    options.cap_bytes = lf_spill_file_bytes(&forty) + 10;
    open_dir(options);
    assert_int_equal(stats().files, 1);
    assert_int_equal(stats().held_bytes, lf_spill_file_bytes(&forty));
    assert_true(find(100, 0, &head) && head.rows == ROWS);
    lf_spill_dir_close(&dir);
}

static uint64_t free_now;
static uint64_t free_bytes(void *ctx) {
    (void)ctx;
    return free_now;
}

// C-20
static void below_the_floor_of_free_disk_writing_pauses_and_resumes(void **state) {
    struct lf_spill_options options = roomy();
    struct lf_spill_head head = head_of(ROWS, false);
    (void)state;
    options.floor_bytes = 10000;
    options.free_bytes = free_bytes;
    options.retry_s = 1e-9;
    open_dir(options);
    free_now = 10000 + lf_spill_file_bytes(&head) - 1;
    assert_int_equal(put(ROWS, false), LF_E_IO);
    assert_true(stats().paused);
    assert_int_equal(stats().files + stats().held_bytes, 0);
    free_now = 5;
    assert_int_equal(put(ROWS, false), LF_E_IO);
    free_now = 10000 + lf_spill_file_bytes(&head);
    assert_false(lf_spill_dir_paused(&dir)); // the time to try again has come
    assert_int_equal(put(ROWS, false), LF_OK);
    assert_false(stats().paused);
    lf_spill_dir_close(&dir);
    options.retry_s = 1000;
    options.floor_bytes = 1ull << 62;
    open_dir(options);
    assert_int_equal(put(60, false), LF_E_IO);
    assert_true(lf_spill_dir_paused(&dir));
    lf_spill_dir_close(&dir);
}

// C-20: a write that fails half-way leaves no file and no bytes counted
static void a_disk_that_fills_up_in_a_write_leaves_nothing(void **state) {
    struct rlimit before, small;
    char name[256];
    struct lf_spill_head head = head_of(CONTEXT, false);
    (void)state;
    open_dir(roomy());
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    signal(SIGXFSZ, SIG_IGN);
    for (uint64_t limit = 0; limit < lf_spill_file_bytes(&head); limit += 3000) {
        small = (struct rlimit){.rlim_cur = limit, .rlim_max = before.rlim_max};
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
        enum lf_status status = put(CONTEXT, false);
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
        assert_int_equal(status, LF_E_IO);
        assert_true(stats().paused);
        assert_int_equal(stats().files + stats().held_bytes, 0);
        assert_int_equal(folder_files(&folder, name), 0);
    }
    assert_int_equal(put(CONTEXT, false), LF_OK);
    assert_int_equal(get(&head), LF_OK);
    lf_spill_dir_close(&dir);
}

static void a_file_that_went_is_no_failure_of_the_folder(void **state) {
    struct lf_spill_head head = head_of(ROWS, true);
    (void)state;
    write_one();
    open_dir(roomy());
    folder_remove(&folder, only);
    assert_int_equal(get(&head), LF_E_NOT_FOUND);
    assert_int_equal(get(&head), LF_E_NOT_FOUND);
    assert_int_equal(stats().files + stats().damaged + stats().held_bytes, 0);
    lf_spill_dir_close(&dir);
}

// C-21, and one server at a time
static void folders_that_cannot_serve_are_refused(void **state) {
    struct lf_error err = LF_ERROR_INIT;
    struct lf_spill_options options = roomy();
    struct lf_spill_dir second;
    (void)state;
    open_dir(options);
    assert_int_equal(lf_spill_dir_open(&second, &options, &err), LF_E_IO);
    assert_non_null(strstr(err.text, "another server"));
    lf_spill_dir_close(&dir);
    static const char *const wrong[] = {"", "a/b", "..", "a b", "0123456789012345678901234"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        err = (struct lf_error)LF_ERROR_INIT;
        options.fingerprint = wrong[i];
        assert_int_equal(lf_spill_dir_open(&second, &options, &err), LF_E_VALUE);
    }
    options = roomy();
    folder_write(&parent, "file", "x", 1);
    struct folder file = folder_inside(&parent, "file"), deep = folder_inside(&parent, "a/b");
    const char *const paths[] = {file.path, deep.path};
    for (int i = 0; i < 2; i++) {
        err = (struct lf_error)LF_ERROR_INIT;
        options.dir = paths[i];
        assert_int_equal(lf_spill_dir_open(&second, &options, &err), LF_E_IO);
    }
    struct folder inside = folder_inside(&parent, "spill/../spill/new");
    struct folder beside = folder_inside(&parent, "spill2");
    const char *const in[] = {folder.path, inside.path, deep.path};
    for (int i = 0; i < 3; i++) {
        err = (struct lf_error)LF_ERROR_INIT;
        assert_int_equal(lf_spill_dir_check(in[i], folder.path, &err), LF_E_USAGE);
    }
    err = (struct lf_error)LF_ERROR_INIT;
    assert_int_equal(lf_spill_dir_check(beside.path, folder.path, &err), LF_OK);
    assert_int_equal(lf_spill_dir_check(parent.path, folder.path, &err), LF_OK);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, make_parent, remove_parent)
    const struct CMUnitTest tests[] = {
        TEST(a_state_comes_back_from_its_file),
        TEST(a_file_cut_at_any_length_is_removed),
        TEST(a_file_with_a_flipped_bit_is_never_used),
        TEST(sizes_that_do_not_add_up_are_refused),
        TEST(foreign_files_are_ignored_until_room_is_needed),
        TEST(a_start_deletes_temporary_files_and_nothing_that_is_not_ours),
        TEST(the_cap_holds_and_the_oldest_go),
        TEST(a_smaller_cap_at_the_start_removes_the_oldest),
        TEST(below_the_floor_of_free_disk_writing_pauses_and_resumes),
        TEST(a_disk_that_fills_up_in_a_write_leaves_nothing),
        TEST(a_file_that_went_is_no_failure_of_the_folder),
        TEST(folders_that_cannot_serve_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
