// Launch times kept between starts (engine.md D-8).
#include "kit.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include "lane/cost_file.h"
#include "support/folder.h"

static double launch_seconds[65];

static struct lf_target *target_of(const char *name, double slower) {
    struct lf_fake_options o = {.slots = 4, .vocab = 50, .chunk_rows = 16, .context = 100,
                                .launch_seconds = launch_seconds, .pass_seconds = 0.004,
                                .drafter = {.present = true}, .name = name};
    for (int r = 1; r <= 64; r++)
        launch_seconds[r] = slower * (0.010 + 0.001 * r);
    return lf_fake_target_open(&o);
}

// Launches of a start; the table it got.
static uint32_t start(const char *folder, const char *name, double slower, struct lf_cost *c) {
    struct lf_target *t = target_of(name, slower);
    lf_cost_start(c, t, folder, lf_fake_clock, t);
    uint32_t launches = lf_fake_launches(t);
    assert_true(c->measured);
    assert_true(fabs(c->rows[0][1] - launch_seconds[1]) <= 0.15 * launch_seconds[1]);
    t->ops->close(t);
    return launches;
}

static void path_in(const struct folder *f, const char *name, char path[LF_COST_PATH]) {
    struct lf_target *t = target_of(name, 1);
    assert_true(lf_cost_path(path, f->path, t->ops->info(t)));
    t->ops->close(t);
}

static void is_a_second_start_a_sample(void **state) {
    struct folder f = folder_empty();
    struct lf_cost first, second;
    (void)state;
    uint32_t all = start(f.path, "one", 1, &first), few = start(f.path, "one", 1, &second);
    assert_true(few < all / 2);
    assert_memory_equal(first.rows[0], second.rows[0], sizeof first.rows[0]);
    assert_memory_equal(first.pass, second.pass, sizeof first.pass);
    assert_true(first.window == second.window);
    folder_free(&f);
}

static void are_times_that_changed_measured_again(void **state) {
    struct folder f = folder_empty();
    struct lf_cost c;
    (void)state;
    uint32_t all = start(f.path, "one", 1, &c);
    assert_true(start(f.path, "one", 1.1, &c) < all / 2); // within 15 percent
    assert_true(fabs(c.rows[0][1] - 0.011) < 1e-8);       // the kept table
    assert_true(start(f.path, "one", 1.2, &c) >= all);
    assert_true(fabs(c.rows[0][1] - 1.2 * 0.011) < 1e-8);
    assert_true(start(f.path, "one", 1.2, &c) < all / 2); // and kept in its place
    folder_free(&f);
}

static void does_another_target_have_its_own_file(void **state) {
    char one[LF_COST_PATH], other[LF_COST_PATH];
    struct folder f = folder_empty();
    (void)state;
    path_in(&f, "one", one);
    path_in(&f, "other", other);
    assert_string_not_equal(one, other);
    struct lf_target *t = target_of("", 1);
    assert_false(lf_cost_path(one, f.path, t->ops->info(t))); // nameless
    t->ops->close(t);
    t = target_of("one", 1);
    assert_false(lf_cost_path(one, NULL, t->ops->info(t)));
    t->ops->close(t);
    folder_free(&f);
}

// Missing, cut at any byte, or with any byte changed: measured again, never an error.
static void is_a_damaged_file_no_table(void **state) {
    struct folder f = folder_empty();
    struct lf_cost c;
    char path[LF_COST_PATH];
    size_t len;
    (void)state;
    uint32_t all = start(f.path, "one", 1, &c);
    path_in(&f, "one", path);
    const char *name = path + strlen(f.path) + 1;
    uint8_t *bytes = folder_read(&f, name, &len);
    assert_true(lf_cost_read(&c, path));
    for (size_t i = 0; i < len; i += 1 + i / 90) {
        folder_write(&f, name, bytes, i);
        assert_false(lf_cost_read(&c, path));
        bytes[i] ^= 1;
        folder_write(&f, name, bytes, len);
        assert_false(lf_cost_read(&c, path));
        bytes[i] ^= 1;
    }
    folder_write(&f, name, "lanefold launch times 2\n", 24);
    assert_true(start(f.path, "one", 1, &c) == all);
    assert_true(lf_cost_read(&c, path)); // and mended
    free(bytes);
    folder_free(&f);
}

static void does_a_folder_that_cannot_be_made_change_nothing(void **state) {
    struct folder f = folder_empty();
    struct lf_cost c;
    char below[96];
    (void)state;
    folder_write(&f, "file", "x", 1);
    snprintf(below, sizeof below, "%s/file/cache", f.path);
    uint32_t all = start(NULL, "one", 1, &c);
    assert_int_equal(start(below, "one", 1, &c), all);
    assert_int_equal(start(below, "one", 1, &c), all);
    folder_free(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(is_a_second_start_a_sample),
        cmocka_unit_test(are_times_that_changed_measured_again),
        cmocka_unit_test(does_another_target_have_its_own_file),
        cmocka_unit_test(is_a_damaged_file_no_table),
        cmocka_unit_test(does_a_folder_that_cannot_be_made_change_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
